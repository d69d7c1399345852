//! A step over several limiters: all are locked in one order, decide, take or not, and are unlocked.

use tidegate_core::{Settled, Timestamp, decide_all, look_at_all};

use super::generation::Generation;
use super::succession::Moved;
use super::table::{LockedLimiter, LockedLimiters, Part};
use crate::clock::Clock;
use crate::inline_list::{StepList, with_space_for};
use crate::step::{Ask, Decided, Done, Step};

/// The limiters of a step, table by table in the order in which they were locked.
pub(super) type Locked<'a> = StepList<Box<dyn LockedLimiters + 'a>>;

impl Generation {
    /// Locks the limiters of a step, table by table in one fixed order, and adds them to the empty list `locked`. If the
    /// step has to ask again, none stays locked.
    pub(super) fn lock_all<'a>(
        &'a self,
        asks: &'a [Ask],
        step: &impl Fn(usize) -> Step,
        clock: &dyn Clock,
        locked: &mut Locked<'a>,
    ) -> Result<(), Moved> {
        let part = |place: usize, ask: &'a Ask| self.part(place, ask, step(place));
        let mut lock = |ask: &'a Ask, parts: &[Part<'a>]| {
            let Some(table) = self.table(ask) else { return Ok(()) };
            match table.hold(parts, clock) {
                Ok(hold) => locked.push(hold),
                Err(Moved) => {
                    unlock(locked, clock.now());
                    return Err(Moved);
                }
            }
            Ok(())
        };
        // Usually they are in the order of the rules, and each is in a table of its own.
        if asks.is_sorted_by(|a, b| self.table_number(a) < self.table_number(b)) {
            for (place, ask) in asks.iter().enumerate() {
                lock(ask, std::slice::from_ref(&part(place, ask)))?;
            }
            return Ok(());
        }
        let mut order: StepList<_> = asks.iter().enumerate().collect();
        order.sort_by_key(|(_, ask)| self.table_number(ask));
        for of_one in order.chunk_by(|a, b| self.table_number(a.1) == self.table_number(b.1)) {
            let parts: StepList<_> = of_one.iter().map(|(place, ask)| part(*place, ask)).collect();
            of_one.first().map_or(Ok(()), |(_, ask)| lock(ask, &parts))?;
        }
        Ok(())
    }
}

/// Runs a step over locked limiters, and unlocks them; also returns whether one had no room.
pub(super) fn run(
    locked: &mut Locked<'_>,
    asks: &[Ask],
    clock: &impl Clock,
    step: &impl Fn(usize) -> Step,
) -> (Done, bool) {
    let at = clock.now();
    locked.iter_mut().for_each(|hold| hold.begin(at));
    let mut held = StepList::new();
    locked.iter_mut().for_each(|hold| hold.held(&mut held));
    held.sort_unstable_by_key(|one| one.place);
    let mut settled = StepList::new();
    let allowed = match step(0) {
        Step::Decide | Step::Ask | Step::Reserve => ask_all(&mut held, asks, at, &mut settled),
        Step::Peek | Step::AskReported | Step::Report => look_at_all(&mut held, at),
        Step::Refund => {
            look_at_all(&mut held, at);
            held.iter_mut().for_each(|one| one.give_back());
            look_at_all(&mut held, at)
        }
        Step::Settle { .. } => {
            settled = settle_all(&mut held, asks, at, step);
            look_at_all(&mut held, at)
        }
        Step::Reset { .. } => {
            held.iter_mut().for_each(|one| one.reset(at));
            true
        }
        Step::Renew { .. } => {
            let are_out = renew_all(&mut held, at, step);
            look_at_all(&mut held, at);
            are_out
        }
    };
    let short = held.iter().any(|one| one.is_overflow());
    let answered = if step(0).wants_values() { held.as_slice() } else { &[] };
    let mut decisions = with_space_for(answered.len());
    for (number, one) in answered.iter().enumerate() {
        let decided = Decided::of(one.report(), one.is_overflow(), one.is_elsewhere());
        let (token, since) = (one.token(), Some(one.at()));
        let settled = settled.get(number).copied().unwrap_or_default();
        decisions.push(Decided { token, since, settled, ..decided });
    }
    drop(held);
    unlock(locked, at);
    (Done { allowed, at, repeated: false, decisions }, short)
}

/// Stores the changes of a step, if any, and unlocks.
fn unlock(locked: &mut Locked<'_>, at: Timestamp) {
    // In reverse order: a table that grows when it is unlocked waits for one of its chains, whose lock another step
    // may hold while it waits for a later table.
    while let Some(hold) = locked.pop() {
        hold.release(at);
    }
}

/// Takes from all limiters if all that are enforced admit, else from none; but reported usage is always taken. Adds the
/// results of a report.
fn ask_all(
    held: &mut [LockedLimiter<'_>],
    asks: &[Ask],
    at: Timestamp,
    settled: &mut StepList<Settled>,
) -> bool {
    if asks.iter().all(|ask| ask.asks == ask.cost && !ask.report) {
        let goes_on = decide_all(held, at);
        open_all(held, asks);
        return goes_on;
    }
    let part = |one: &LockedLimiter<'_>| asks.get(one.place).map(|ask| ask.part(Step::Ask).1);
    for one in held.iter_mut() {
        let is_report = part(one) == Some(Step::Report);
        settled.push(if is_report { one.take_reported(at) } else { Settled::Whole });
    }
    let goes_on = look_at_all(held, at);
    for one in held.iter_mut().filter(|_| goes_on) {
        if matches!(part(one), Some(Step::Ask | Step::Reserve)) && one.verdict().is_allowed() {
            one.take();
        }
    }
    open_all(held, asks);
    goes_on
}

/// Notes which of the costs that were taken are reserved.
fn open_all(held: &mut [LockedLimiter<'_>], asks: &[Ask]) {
    for one in held {
        if asks.get(one.place).is_some_and(|ask| ask.reserves) {
            one.open();
        }
    }
}

/// Settles each limiter for the units at its index in the request; returns the result of each.
fn settle_all(
    held: &mut [LockedLimiter<'_>],
    asks: &[Ask],
    at: Timestamp,
    step: impl Fn(usize) -> Step,
) -> StepList<Settled> {
    let settle = |one: &mut LockedLimiter<'_>| {
        let ask = asks.get(one.place);
        ask.map_or(Settled::Whole, |ask| one.settle_by(step(one.place), ask.cost, at))
    };
    held.iter_mut().map(settle).collect()
}

/// Renews a permit of each limiter for which a token is given; returns whether the permits of all enforced limiters are
/// still out.
fn renew_all(held: &mut [LockedLimiter<'_>], at: Timestamp, step: impl Fn(usize) -> Step) -> bool {
    let renew = |one: &mut LockedLimiter<'_>| match step(one.place) {
        Step::Renew { token: Some(token) } => one.renew(at, token) | !one.is_enforced(),
        _ => true,
    };
    held.iter_mut().fold(true, |all, one| all & renew(one))
}
