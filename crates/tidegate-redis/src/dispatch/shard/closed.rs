//! Writes that got no replies, and connections that were closed.

use std::time::Duration;

use super::{FlushToSend, ShardHealth, ShardState, StoreShard};
use crate::counts::RequestCounts;
use crate::dispatch::flush::Sent;
use crate::dispatch::redirect::Redirected;
use crate::error::of_single_server;
use crate::store::StoreError;

/// The time without a reply after which the end of a connection may have come.
pub(super) const QUIET: Duration = Duration::from_micros(100);

/// An answered write, and the actions that follow.
#[derive(Default)]
pub(in crate::dispatch) struct Answered {
    pub(in crate::dispatch) redirected: Vec<Redirected>,
    /// Why the shard is unavailable from now on.
    pub(in crate::dispatch) lost: Option<StoreError>,
    /// The error of its connection, which was closed.
    pub(in crate::dispatch) closed: Option<StoreError>,
    /// Calls that failed: they are answered once the shard is known to be unavailable.
    pub(super) failed: Vec<(Sent, StoreError)>,
}

impl Answered {
    /// Reports their errors to the callers of calls that failed.
    pub(in crate::dispatch) fn fail(&self) {
        for (call, error) in &self.failed {
            call.fail(error);
        }
    }
}

/// Why a write got no replies.
pub(in crate::dispatch) struct NoReplies {
    pub(in crate::dispatch) error: StoreError,
    /// True if the server may have received it.
    pub(in crate::dispatch) was_sent: bool,
}

impl StoreShard {
    /// An error of its server, with the kind of store that the URL should name.
    pub(in crate::dispatch) fn named(&self, error: StoreError) -> StoreError {
        if self.node.is_none() { of_single_server(error) } else { error }
    }

    /// Notes a write without replies. Calls that were never sent wait for another connection. The others fail, because
    /// the server may have run them.
    pub(super) fn without_replies(
        &self,
        state: &mut ShardState,
        calls: Vec<Sent>,
        why: NoReplies,
        is_latest: bool,
    ) -> Answered {
        let NoReplies { error, was_sent } = why;
        let mut answered = Answered::default();
        let is_closed = matches!(error, StoreError::Unreachable(_));
        if is_latest && state.health == ShardHealth::Fit {
            // A connection that was closed is opened again before the shard counts as unavailable.
            let found = if is_closed { &mut answered.closed } else { &mut answered.lost };
            *found = Some(error.clone());
        }
        if is_closed && !was_sent && !matches!(state.health, ShardHealth::Lost(_)) {
            calls.iter().for_each(|call| state.again(call));
            return answered;
        }
        RequestCounts::add(&self.shared.counts.failed, calls.len());
        answered.failed.extend(calls.into_iter().map(|call| (call, error.clone())));
        answered
    }

    /// Notes that a write over a connection that was quiet is sent now, and others may follow.
    pub(in crate::dispatch) fn lets_writes_follow(&self, sending: &FlushToSend) {
        let mut state = self.state.borrow_mut();
        if let Some(link) = state.link.as_mut().filter(|link| link.number == sending.link) {
            link.holds_writes = false;
        }
    }
}
