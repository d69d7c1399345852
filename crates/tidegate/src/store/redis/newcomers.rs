//! Nodes of a cluster that hold no slot yet, and are asked for keys that have come to them before the rest
//! of their slot. The client crate knows only nodes that hold one, so these are connected to here.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use redis::aio::MultiplexedConnection;
use redis::{ErrorKind, Pipeline, RedisError, Value};
use tokio::sync::watch;

use super::link::{Access, to_node};
use crate::store::settings::StoreSettings;

/// Where a node is.
type Node = (String, u16);

/// A connection, or why there is none; nothing while it is made.
type Made = Option<Result<MultiplexedConnection, RedisError>>;

/// Connections to nodes that others have named.
pub(super) struct Newcomers {
    reached: Arc<(StoreSettings, Access)>,
    known: Mutex<HashMap<Node, watch::Receiver<Made>>>,
}

impl Newcomers {
    /// None yet; how they are connected to.
    pub(super) fn new(settings: StoreSettings, access: Access) -> Self {
        Self { reached: Arc::new((settings, access)), known: Mutex::default() }
    }

    /// Sends a pipeline to a node, over the connection to it, which is made first if there is none.
    ///
    /// # Errors
    /// It can not be reached, or was lost; what it refuses is among the answers.
    pub(super) async fn send(&self, to: Node, both: &Pipeline) -> Result<Vec<Value>, RedisError> {
        let mut connection = self.connection(to.clone()).await?;
        let answers = connection.send_packed_commands(both, 0, both.len()).await;
        if matches!(&answers, Err(error) if error.is_unrecoverable_error()) {
            self.known().remove(&to);
        }
        answers
    }

    /// All who ask at once wait for the same one, and it is made although they may leave.
    async fn connection(&self, to: Node) -> Result<MultiplexedConnection, RedisError> {
        let mut made = self.making(&to);
        let told = made.wait_for(Option::is_some).await.map(|made| made.clone());
        let told = told.ok().flatten().unwrap_or_else(|| {
            Err(RedisError::from((ErrorKind::Io, "nobody connects to the node any more")))
        });
        if told.is_err() {
            self.known().remove(&to);
        }
        told
    }

    fn making(&self, to: &Node) -> watch::Receiver<Made> {
        let mut known = self.known();
        let made = known.entry(to.clone()).or_insert_with(|| {
            let (making, made) = watch::channel(None);
            let (reached, to) = (Arc::clone(&self.reached), to.clone());
            tokio::spawn(async move {
                making.send_replace(Some(to_node(&reached.0, &reached.1, to).await));
            });
            made
        });
        made.clone()
    }

    fn known(&self) -> MutexGuard<'_, HashMap<Node, watch::Receiver<Made>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Newcomers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Not how they are reached: that holds a password.
        f.debug_struct("Newcomers").field("known", &self.known().len()).finish_non_exhaustive()
    }
}
