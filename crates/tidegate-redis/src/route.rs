//! The connection that a reply came over. Units that the reply took are given back over it, or nowhere.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::{Cmd, ServerErrorKind, Value};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::error::of_client;
use super::script::{Call, RedisReply};
use crate::store::StoreError;

/// The maximum number of calls of routes that are under way on one connection, so that they do not hold up requests.
const MOST_UNDER_WAY: usize = 32;
/// The longest wait for the reply to a call.
const LATEST: Duration = Duration::from_secs(10);

/// The way back to the server that sent a reply: its connection, and no other connection to the same address. After a
/// failover another server serves the same slots, and it may never have run the call of the reply.
///
/// The connection stays open as long as a route needs it, even if its shard has a newer connection.
#[derive(Clone, Debug)]
pub(crate) struct Route {
    line: Arc<SharedConnection>,
    /// The number of the server.
    server: u64,
    /// The slots of the server, for scripts that count keys.
    part: Arc<[u8]>,
}

#[derive(Debug)]
struct SharedConnection {
    connection: MultiplexedConnection,
    turns: Semaphore,
}

impl Route {
    pub(super) fn new(connection: MultiplexedConnection, server: u64) -> Self {
        let turns = Semaphore::new(MOST_UNDER_WAY);
        let line = Arc::new(SharedConnection { connection, turns });
        Self { line, server, part: Arc::default() }
    }

    pub(crate) const fn server(&self) -> u64 {
        self.server
    }

    pub(super) fn connection(&self) -> MultiplexedConnection {
        self.line.connection.clone()
    }

    /// Returns this route to a server that serves `part` of the slots.
    pub(super) fn of_part(&self, part: &Arc<[u8]>) -> Self {
        Self { line: Arc::clone(&self.line), part: Arc::clone(part), ..*self }
    }

    /// Runs a call at the end of this route. It is never sent to another server: a redirection is an error.
    ///
    /// # Errors
    /// The connection is gone, the server did not run the call, or it did not reply for long.
    pub(crate) async fn run(&self, call: &Call) -> Result<RedisReply, StoreError> {
        let turn = self.line.turns.acquire().await;
        let _turn = turn.map_err(|error| StoreError::Unreachable(error.to_string()))?;
        let value = match self.send("EVALSHA", &call.script.sha1, call).await? {
            // The server has lost its scripts since, and runs the text.
            Value::ServerError(error) if error.kind() == Some(ServerErrorKind::NoScript) => {
                self.send("EVAL", &call.script.text, call).await?
            }
            value => value,
        };
        reply_of(value.extract_error().map_err(of_client)?)
    }

    async fn send(&self, verb: &str, script: &str, call: &Call) -> Result<Value, StoreError> {
        let args = with_part(&call.args, call.counts(), &self.part);
        let (command, mut connection) =
            (command(verb, script, &call.keys, &args), self.connection());
        let replied = timeout(LATEST, connection.req_packed_command(&command)).await;
        replied.map_err(|_| StoreError::Timeout)?.map_err(of_client)
    }
}

/// The command that runs a script.
pub(super) fn command(name: &str, script: &str, keys: &[Vec<u8>], args: &[Vec<u8>]) -> Cmd {
    let mut command = redis::cmd(name);
    command.arg(script).arg(keys.len()).arg(keys).arg(args);
    command
}

/// Adds the part of the node that runs it to the arguments of a call that counts keys.
pub(super) fn with_part<'a>(args: &'a [Vec<u8>], counts: bool, part: &[u8]) -> Cow<'a, [Vec<u8>]> {
    let mut args = Cow::Borrowed(args);
    if counts
        && !part.is_empty()
        // The last argument of such a call is empty until then.
        && let Some(last) = args.to_mut().last_mut()
    {
        *last = part.to_vec();
    }
    args
}

/// A reply, and the connection that it came over.
#[derive(Clone, Debug)]
pub(crate) struct Delivered {
    pub(crate) reply: RedisReply,
    pub(crate) route: Route,
}

/// Returns a script's reply, as one of the few kinds that scripts return.
pub(super) fn reply_of(value: Value) -> Result<RedisReply, StoreError> {
    match value {
        Value::Nil => Ok(RedisReply::Nil),
        Value::Int(number) => Ok(RedisReply::Int(number)),
        Value::BulkString(bytes) => Ok(RedisReply::Bytes(bytes)),
        Value::Array(parts) => {
            Ok(RedisReply::Array(parts.into_iter().map(reply_of).collect::<Result<_, _>>()?))
        }
        other => Err(StoreError::Answer(format!("{other:?}"))),
    }
}
