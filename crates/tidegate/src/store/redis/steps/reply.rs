//! The reply of a script as the reply to a step.

use crate::inline_list::InlineList;
use crate::step::Standing;
use crate::store::redis::Route;
use crate::store::redis::script::Decided;
use crate::store::{LimiterReply, StepReply};

/// The result of a step, and the connection that brought it if the store was asked.
pub(super) type RoutedReply = (Decided, Option<Route>);

/// Returns the reply to a step.
pub(super) fn reply_of((done, route): RoutedReply) -> StepReply {
    let replies = done.decisions.into_iter().zip(done.seen);
    let replies: InlineList<_> = replies
        .map(|(decision, seen)| {
            Some(LimiterReply { decided: seen.reply(decision), seen: Some(seen) })
        })
        .collect();
    let Decided { allowed, now, repeated, .. } = done;
    let standing = Standing::Exact;
    let mut reply = StepReply { allowed, now, repeated, standing, replies, route };
    reply.standing = reply.standing_by_replies();
    reply
}
