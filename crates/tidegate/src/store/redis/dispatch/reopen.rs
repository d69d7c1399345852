//! Opens a connection again that was closed, before the shard counts as unavailable.
//!
//! Servers, proxies and operators close connections that work. So the first check of the shard begins at once, has
//! one deadline, and requests wait for it; nothing is reported if it succeeds.

use std::rc::Rc;

use tokio::task::spawn_local;
use tokio::time::timeout;

use super::Dispatcher;
use super::look::{LOOK, look, report_findings};
use super::shard::{Answered, StoreShard};
use crate::store::StoreError;

impl Dispatcher {
    /// Opens the connection of a shard again, which was closed with this error. Calls that failed by it are
    /// answered afterwards, when an outage has been reported.
    pub(super) fn reopen(
        self: &Rc<Self>,
        shard: &Rc<StoreShard>,
        closed: StoreError,
        answered: Answered,
    ) {
        shard.closed();
        spawn_local(Rc::clone(self).until_reopened(Rc::clone(shard), closed, answered));
    }

    async fn until_reopened(
        self: Rc<Self>,
        shard: Rc<StoreShard>,
        closed: StoreError,
        answered: Answered,
    ) {
        let patience = self.shared.deadline.min(LOOK);
        match timeout(patience, look(&shard)).await {
            Ok(Ok(connection)) => {
                shard.found_fit(Some(connection));
                self.looked();
                spawn_local(report_findings(Rc::clone(&self)));
            }
            Ok(Err(error @ StoreError::Unreachable(_))) => self.give_up(&shard, error),
            // Another reason is reported when the next check finds it too.
            Ok(Err(_)) | Err(_) => self.give_up(&shard, closed),
        }
        answered.fail();
        self.send(&shard);
    }
}
