//! The reply of a script as the reply to a step.

use crate::inline_list::InlineList;
use crate::step::Standing;
use crate::store::redis::Route;
use crate::store::redis::script::{DecidedStep, NewerValues, SeenLimiter};
use crate::store::{LimiterReply, Receipt, StepReply};

/// The result of a step, and the connection that the reply came over if the store was asked.
pub(super) type RoutedReply = (DecidedStep, Option<Route>);

/// The data for undoing a step.
#[derive(Clone, Debug, Default)]
pub(super) struct OfStep {
    /// The connection that the reply came over, where its units can be given back.
    pub(super) route: Option<Route>,
    /// The values that decided in place of the node's own, for each limiter.
    pub(super) newer: NewerValues,
}

/// Returns the reply to a step.
pub(super) fn reply_of((done, route): RoutedReply) -> StepReply {
    let newer = NewerValues::seen(done.seen.iter());
    let replies = done.decisions.into_iter().zip(done.seen);
    let replies: InlineList<_> = replies
        .map(|(decision, seen)| {
            let decided = seen.reply(decision);
            let SeenLimiter { reply, tried, .. } = seen;
            // The store does not report the values in force until the request is admitted.
            let state = (!tried).then_some(reply);
            Some(LimiterReply { state, ..LimiterReply::of_store(decided) })
        })
        .collect();
    let mut reply = StepReply {
        allowed: done.allowed,
        now: done.now,
        repeated: done.repeated,
        first: done.first,
        standing: Standing::Exact,
        replies,
        receipt: Some(Receipt::new(OfStep { route, newer })),
    };
    reply.standing = reply.standing_by_replies();
    reply
}
