//! The reply of a script as the reply to a step.

use crate::inline_list::InlineList;
use crate::step::{self, Lack, Standing};
use crate::store::redis::Route;
use crate::store::redis::script::Decided;
use crate::store::{LimiterReply, StepReply};

/// The result of a step, and the connection that brought it if the store was asked.
pub(super) type Told = (Decided, Option<Route>);

/// Returns the reply to a step.
pub(super) fn reply_of((done, route): Told) -> StepReply {
    let replies = done.decisions.into_iter().zip(done.seen);
    let replies: InlineList<_> = replies
        .map(|(decision, seen)| {
            Some(LimiterReply { decided: seen.reply(decision), seen: Some(seen) })
        })
        .collect();
    let is_opened = replies.iter().flatten().any(|one| is_opened(&one.decided));
    let standing = if is_opened { Standing::Degraded(Lack::Unavailable) } else { Standing::Exact };
    let Decided { allowed, now, repeated, .. } = done;
    StepReply { allowed, now, repeated, standing, replies, route }
}

/// Returns whether a reply stands for a key that its rule admitted because the store has no memory for its limiter:
/// nothing else is without room and without a limit.
const fn is_opened(decided: &step::Decided) -> bool {
    decided.overflow && decided.decision.is_unlimited()
}
