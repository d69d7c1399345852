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
pub(crate) use resolve::{Fingerprints, keep_limited};
#[cfg(feature = "redis")]
pub use settle::RecordedReservation;
pub(crate) use settle::Settling;
pub use settle::Taken;
#[cfg(feature = "redis")]
pub(crate) use settle::again;
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
pub(crate) fn answer<'g, K, D: MayDecide>(
    rules: Rules<'g>,
    asks: &[Ask<K>],
    mut done: Done<D>,
    standing: Standing,
) -> Answer<'g> {
    let Done { allowed, at, repeated, .. } = done;
    let replies = with_space_for(asks.len());
    let mut answer =
        Answer { rules, allowed, at, standing, repeated, first: None, replies, unreached: None };
    // Decisions are read where they are, and replies are put where they stay: a list of this size is moved by a call, which
    // waits for the bytes that were just written.
    let is_report = asks.iter().any(Ask::is_report);
    for (ask, decided) in asks.iter().zip(&mut done.decisions) {
        if let Some(reply) = decided.decided().and_then(|decided| reply(ask, is_report, decided)) {
            answer.replies.push(reply);
        }
    }
    answer
}

/// A decision, or the place of a limiter that had none.
pub(crate) trait MayDecide {
    fn decided(&mut self) -> Option<&mut Decided>;
}

impl MayDecide for Decided {
    #[inline]
    fn decided(&mut self) -> Option<&mut Decided> {
        Some(self)
    }
}

impl MayDecide for Option<Decided> {
    #[inline]
    fn decided(&mut self) -> Option<&mut Decided> {
        self.as_mut()
    }
}

#[inline]
fn reply<K>(ask: &Ask<K>, is_report: bool, decided: &mut Decided) -> Option<Reply> {
    // A rule without a limit takes no part in an answer.
    if decided.decision.is_unlimited() {
        return None;
    }
    let values = decided.values.take().or_else(|| ask.values.own.clone());
    Some(Reply {
        number: u32::try_from(ask.rule).ok()?,
        variant: u32::try_from(ask.values.variant).ok()?,
        cost: ask.cost,
        is_look: ask.asks() > ask.cost,
        report: is_report,
        enforced: ask.enforced,
        by: ask.by,
        reserves: ask.reserves,
        decided: Decided { values, ..*decided },
    })
}
