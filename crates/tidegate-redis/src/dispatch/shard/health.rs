//! The health of a shard: if requests are sent to it, and to which server calls may be sent without the store's thread.

use std::rc::Rc;
use std::sync::atomic::Ordering::Relaxed;

use super::{ShardHealth, StoreShard};
use crate::dispatch::link::{FoundServer, Link};
use crate::dispatch::pending::Pending;
use crate::store::StoreError;

impl StoreShard {
    pub(in crate::dispatch) fn health(&self) -> ShardHealth {
        self.state.borrow().health.clone()
    }

    pub(in crate::dispatch) fn is_fit(&self) -> bool {
        self.state.borrow().health == ShardHealth::Fit
    }

    /// Gives the shard up: nothing is sent until it is found fit. Returns the requests that will
    /// get no answer, each with the reason.
    pub(in crate::dispatch) fn lose(&self, error: &StoreError) -> Vec<(Rc<Pending>, StoreError)> {
        let mut state = self.state.borrow_mut();
        state.health = ShardHealth::Lost(error.clone());
        self.set_fit_server(0);
        // A silent connection may answer after all; a broken one cannot.
        if *error != StoreError::Timeout {
            state.link = None;
        }
        state.queue.clear();
        let due = std::mem::take(&mut state.due).into_iter().map(|(_, request)| request);
        let awaited = due.filter(|request| self.is_awaited(request));
        awaited.map(|request| (Rc::clone(&request), request.unanswered(error))).collect()
    }

    /// Notes that the shard is fit, over its connection or a new connection.
    pub(in crate::dispatch) fn found_fit(&self, found: Option<FoundServer>) {
        let mut state = self.state.borrow_mut();
        if let Some(FoundServer { connection, run_id }) = found {
            state.links += 1;
            let tells_id = run_id.is_some();
            let server = self.shared.server_of(run_id);
            let mut link = Link::new(connection, state.links, server);
            link.tells_id = tells_id;
            state.link = Some(link);
        }
        state.health = ShardHealth::Fit;
        self.set_fit_server(
            state.link.as_ref().filter(|link| link.tells_id).map_or(0, |link| link.route.server()),
        );
        state.heard_at = self.clock.now();
        state.window.found_fit();
    }

    /// Says to which server calls may be sent without the store's thread. A node of a cluster may move a slot.
    fn set_fit_server(&self, server: u64) {
        if self.node.is_none() {
            self.shared.fit_server.store(server, Relaxed);
        }
    }

    /// Notes that its connection was closed: requests wait for the next connection, until their time is over.
    pub(in crate::dispatch) fn closed(&self) {
        let mut state = self.state.borrow_mut();
        state.health = ShardHealth::New;
        state.link = None;
        self.set_fit_server(0);
    }
}
