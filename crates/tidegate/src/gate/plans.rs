//! Plans: values that are looked up for each key, in place of a rule's own.

use super::Gate;
use crate::clock::Clock;
use crate::request::Request;

impl<C: Clock> Gate<C> {
    /// Wakes the requests that wait for a limiter of this request, because its plan has changed. Without this call
    /// they ask again only when their current wait is over. Other requests need no call.
    pub fn plan_changed<'r>(&self, request: impl Into<Request<'r>>) {
        self.wake(&self.all_asks(&self.memory.newest(), &request.into()));
    }
}
