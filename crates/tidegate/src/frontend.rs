//! The part of a gate around its store: a request becomes limiters before it, and replies become an answer
//! after it.

mod charge;
mod of_rules;
mod queues;
mod resolve;
mod settle;
mod setup;

use crate::answer::{Answer, Reply, Rules};
use crate::inline_list::with_space_for;
use crate::observe::Observers;
use crate::step::{Ask, Decided, Done, Standing};
pub use charge::Charge;
pub(crate) use of_rules::deny;
use of_rules::{Bans, Plans};
pub(crate) use queues::{GateQueue, GateQueues, delay_of, may_wait, queue_of, stops_of};
#[cfg(feature = "redis")]
pub use settle::RecordedReservation;
pub(crate) use settle::Settling;
pub use settle::Taken;
#[cfg(feature = "redis")]
pub(crate) use settle::{again, known_by};
pub use setup::Setup;

/// The parts that gates over every store have: plans, bans by the clock `C`, and observers.
#[derive(Debug)]
pub(crate) struct Frontend<C> {
    pub(crate) plans: Plans,
    pub(crate) bans: Bans<C>,
    pub(crate) observers: Observers,
}

/// Makes the answer from the replies of the limiters that matched under `rules`. A limiter without a reply is
/// left out.
#[inline]
pub(crate) fn answer<'g, K, D: Into<Option<Decided>>>(
    rules: Rules<'g>,
    asks: &[Ask<K>],
    done: Done<D>,
    standing: Standing,
) -> Answer<'g> {
    let Done { allowed, at, repeated, decisions } = done;
    let mut replies = with_space_for(asks.len());
    let all = asks.iter().zip(decisions);
    replies.extend(all.filter_map(|(ask, decided)| reply(ask, decided.into()?)));
    Answer { rules, allowed, at, standing, repeated, first: None, replies, unreached: None }
}

fn reply<K>(ask: &Ask<K>, mut decided: Decided) -> Option<Reply> {
    // A rule without a limit takes no part in an answer.
    if decided.decision.is_unlimited() {
        return None;
    }
    if decided.values.is_none() {
        decided.values.clone_from(&ask.values);
    }
    Some(Reply {
        lineage: ask.lineage,
        number: ask.rule,
        variant: ask.variant,
        cost: ask.cost,
        asks: ask.asks,
        report: ask.report,
        enforced: ask.enforced,
        by: ask.by,
        reserves: ask.reserves,
        decided,
    })
}
