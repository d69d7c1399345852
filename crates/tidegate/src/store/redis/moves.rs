//! A cluster whose slots move: a request follows its key to the node that is named.

use std::time::Duration;

use redis::aio::ConnectionLike;
use redis::cluster_async::ClusterConnection;
use redis::cluster_routing::{RoutingInfo, SingleNodeRoutingInfo};
use redis::{Cmd, ErrorKind, Pipeline, RedisError, ServerErrorKind, Value};

use super::link::told;
use super::newcomers::Newcomers;

/// How often a request follows a cluster whose slots move, before it is told that it can not.
const MOVES: usize = 8;

/// A slot lives on another node.
const MOVED: ErrorKind = ErrorKind::Server(ServerErrorKind::Moved);

/// Sends a command about keys, and follows them.
///
/// # Errors
/// What the last node answered, or that there was none.
pub(super) async fn send(
    connection: &mut ClusterConnection,
    newcomers: &Newcomers,
    command: &Cmd,
) -> Result<Value, RedisError> {
    let mut answer = told(connection.req_packed_command(command).await);
    for _ in 0..MOVES {
        let Err(error) = &answer else { return answer };
        match Elsewhere::of(error) {
            Some(Elsewhere::Moved(to)) => answer = moved(connection, command, to).await,
            Some(Elsewhere::Asks(to)) => {
                answer = asking(connection, newcomers, command, to).await;
            }
            Some(Elsewhere::Soon) => {
                tokio::time::sleep(Duration::from_millis(1)).await;
                answer = told(connection.req_packed_command(command).await);
            }
            None => return answer,
        }
    }
    answer
}

/// Where a cluster sends a request that was not run.
enum Elsewhere {
    /// The slot lives on another node, which is named where that is known.
    Moved(Option<(String, u16)>),
    /// The slot is on its way, and this key there already.
    Asks((String, u16)),
    /// Some of the keys are there already, others not.
    Soon,
}

impl Elsewhere {
    fn of(error: &RedisError) -> Option<Self> {
        use redis::{ErrorKind::Server, ServerErrorKind as Kind};
        match error.kind() {
            Server(Kind::Moved) => Some(Self::Moved(node_of(error))),
            // A primary that became a replica refused before anything was written.
            Server(Kind::ReadOnly) => Some(Self::Moved(None)),
            Server(Kind::Ask) => node_of(error).map(Self::Asks),
            Server(Kind::TryAgain) => Some(Self::Soon),
            _ => None,
        }
    }
}

/// The node that an error names.
fn node_of(error: &RedisError) -> Option<(String, u16)> {
    let (node, _) = error.redirect_node()?;
    let (host, port) = node.rsplit_once(':')?;
    Some((host.to_owned(), port.parse().ok()?))
}

/// Sends a command to the node that has its slot now. The map of slots may still say otherwise: it is asked
/// of any node, and some hear of a move later than others.
async fn moved(
    connection: &mut ClusterConnection,
    command: &Cmd,
    to: Option<(String, u16)>,
) -> Result<Value, RedisError> {
    if let Some((host, port)) = to {
        let node = RoutingInfo::SingleNode(SingleNodeRoutingInfo::ByAddress { host, port });
        let answer = told(connection.route_command(command.clone(), node).await);
        if !is_unknown(&answer) {
            return answer;
        }
        // It may be new, and the map that is asked for now knows it; or it is dead, and nobody else may
        // answer in its place.
        return match told(connection.req_packed_command(command).await) {
            Err(error) if error.kind() == MOVED => answer,
            answer => answer,
        };
    }
    told(connection.req_packed_command(command).await)
}

/// Whether there was no connection to the node, so that nothing was sent.
fn is_unknown<T>(answer: &Result<T, RedisError>) -> bool {
    matches!(answer, Err(error) if error.kind() == ErrorKind::ClusterConnectionNotFound)
}

/// Sends a command to the node that a slot is moving to, which wants to be told so. One that holds no slot
/// yet is in no map, so that the client crate has no connection to it.
async fn asking(
    connection: &mut ClusterConnection,
    newcomers: &Newcomers,
    command: &Cmd,
    to: (String, u16),
) -> Result<Value, RedisError> {
    let mut both = Pipeline::with_capacity(2);
    both.cmd("ASKING").add_command(command.clone());
    let (host, port) = to.clone();
    let node = SingleNodeRoutingInfo::ByAddress { host, port };
    let mut answers = connection.route_pipeline(both.clone(), 0, both.len(), node).await;
    if is_unknown(&answers) {
        answers = newcomers.send(to, &both).await;
    }
    told(Ok(answers?.pop().unwrap_or_default()))
}
