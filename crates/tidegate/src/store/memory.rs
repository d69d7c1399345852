//! The memory store: every limiter of every rule in this process, decided by atomic steps.
//!
//! Each variant of a rule has a table of its own. When it is built, the table chooses how it keeps states: packed
//! into a word each, if the algorithm can do that and the clock never steps back, else unpacked in shards. A table
//! runs a step over one limiter by itself. A step over several locks all of them in one fixed order, then reads the
//! clock, and runs the core's verbs over all: nothing can happen between what is decided and what is taken.

mod alone;
mod budget;
mod build;
mod cell;
mod entry;
mod fixed;
mod generation;
mod known;
mod leaving;
mod locked;
mod migration;
#[cfg(all(test, loom))]
mod models;
mod newest;
mod overflow;
mod packed;
mod parameters;
mod per_key;
mod preset;
mod preview;
mod replace;
mod replacement;
mod ruled;
mod saved;
mod sharded;
mod spin;
mod succession;
mod sync;
mod table;
mod unlimited;

use std::sync::Arc;

use tidegate_core::{Timestamp, decide_all, look_at_all};

use crate::clock::{Clock, Reading};
use crate::inline_list::{InlineList, StepList, with_room_for};
use crate::rules::{Policy, PolicyErrors};
use crate::step::{Ask, Decided, Done, One, Step};
pub(crate) use alone::Limiters;
use budget::Budget;
pub(crate) use cell::{Cell, cell_of};
pub(crate) use generation::Generation;
pub use generation::KeptOfRule;
pub(crate) use newest::{Kept, Newest};
pub(crate) use per_key::PerKey;
#[cfg(feature = "redis")]
pub(crate) use preview::preview_of_reply;
pub(crate) use preview::{Forecast, Preview};
use replace::Lineages;
pub(crate) use replacement::Replacement;
pub(crate) use saved::{Loading, Target};
pub(crate) use succession::Moved;
use sync::{AtomicUsize, Mutex, Ordering::Relaxed};
pub(crate) use table::Part;
use table::{LockedLimiter, LockedLimiters};

/// All limiters of a gate, through all its policies.
#[derive(Debug)]
pub(crate) struct MemoryStore {
    newest: Newest<Generation>,
    /// Locked while a policy is put in force, until all limiters are moved.
    changing: Mutex<Lineages>,
    /// The budget of all rules together.
    whole: Arc<Budget>,
    per_key: PerKey,
    /// The base of packed times; `None` if the clock may step back.
    base: Option<Timestamp>,
    /// The table that is swept next when room is short.
    hand: AtomicUsize,
}

impl MemoryStore {
    pub(crate) fn new(policy: Policy, clock: &dyn Clock) -> Self {
        Self::with_rules_per_key(policy, clock, PerKey::FromRequests)
    }

    /// Creates the limiters of a policy, with a rule for each limiter of the rules in `per_key`.
    pub(crate) fn with_rules_per_key(policy: Policy, clock: &dyn Clock, per_key: PerKey) -> Self {
        let base = clock.never_steps_back().then(|| clock.now());
        let store = Self {
            newest: Newest::new(Generation::none_yet()),
            changing: Mutex::new(Lineages::default()),
            whole: Arc::new(Budget::new(usize::MAX)),
            per_key,
            base,
            hand: AtomicUsize::new(0),
        };
        // There are no limiters yet that could lack room.
        let at = base.unwrap_or(Timestamp::EPOCH);
        let _ = store.change(|| at, |_| Ok::<_, PolicyErrors>(policy), |_| ());
        store
    }

    /// The generation that is in force.
    #[inline]
    pub(crate) fn newest(&self) -> Kept<Generation> {
        self.newest.read()
    }

    /// Asks in the newest generation, and again in a newer one if the step reports that there is one; returns the
    /// reply with its generation.
    #[inline]
    pub(crate) fn ask<T>(
        &self,
        ask: impl Fn(&Generation) -> Result<T, Moved>,
    ) -> (Kept<Generation>, T) {
        loop {
            let generation = self.newest.read();
            if let Ok(told) = ask(&generation) {
                return (generation, told);
            }
            self.newest.wait_for_newer();
        }
    }

    /// Waits until the generation that a step reported is published.
    pub(crate) fn wait_for_newer(&self) {
        self.newest.wait_for_newer();
    }

    /// Limiters in existence, over all rules.
    pub(crate) fn keys(&self) -> usize {
        self.whole.keys()
    }

    /// Runs one step over all limiters of `met`, which has each limiter once.
    pub(crate) fn step(
        &self,
        generation: &Generation,
        met: &[Ask],
        clock: &impl Clock,
        step: Step,
    ) -> Result<Done, Moved> {
        match met {
            [] => Ok(Done {
                allowed: true,
                at: clock.now(),
                repeated: false,
                decisions: InlineList::new(),
            }),
            [one] => self.step_with_one(generation, one, clock, step),
            several => self.step_with_all(generation, several, clock, |_| step),
        }
    }

    /// Settles a reservation with all limiters of `met`, each for its own `actual` units.
    pub(crate) fn settle(
        &self,
        generation: &Generation,
        met: &[Ask],
        actual: &[u64],
        clock: &impl Clock,
    ) -> Result<Done, Moved> {
        let settle = |place: usize| Step::Settle {
            actual: actual.get(place).copied().unwrap_or(0),
            token: met.get(place).and_then(|one| one.token),
        };
        match met {
            [one] => self.step_with_one(generation, one, clock, settle(0)),
            all => self.step_with_all(generation, all, clock, settle),
        }
    }

    /// Renews the permits of `met`; allowed if all are still out.
    pub(crate) fn renew(
        &self,
        generation: &Generation,
        met: &[Ask],
        clock: &impl Clock,
    ) -> Result<Done, Moved> {
        let renew = |place: usize| Step::Renew { token: met.get(place).and_then(|one| one.token) };
        match met {
            [one] => self.step_with_one(generation, one, clock, renew(0)),
            all => self.step_with_all(generation, all, clock, renew),
        }
    }

    fn step_with_one(
        &self,
        generation: &Generation,
        met: &Ask,
        clock: &impl Clock,
        step: Step,
    ) -> Result<Done, Moved> {
        let Some(table) = generation.table(met) else {
            let one = One::unlimited(clock.now());
            return Ok(done_by(met, one, step));
        };
        let one = table.one(&generation.part(0, met, step), Reading::of(clock))?;
        self.tidy_if(generation, one.overflow, one.at);
        Ok(done_by(met, one, step))
    }

    /// Runs one step over limiters, with `step` for their indices in `met`.
    fn step_with_all(
        &self,
        generation: &Generation,
        met: &[Ask],
        clock: &impl Clock,
        step: impl Fn(usize) -> Step,
    ) -> Result<Done, Moved> {
        let mut locked = StepList::new();
        generation.lock_all(met, &step, clock, &mut locked)?;
        let (done, short) = run(&mut locked, met, clock, &step);
        self.tidy_if(generation, short, done.at);
        Ok(done)
    }

    /// If a key found no room, sweeps one table after another: tables share caps, and a table that is not asked any
    /// more would keep its limiters for ever.
    fn tidy_if(&self, generation: &Generation, short: bool, now: Timestamp) {
        if !short {
            return;
        }
        let count = generation.tables().count();
        if let Some(next) = self.hand.fetch_add(1, Relaxed).checked_rem(count) {
            generation.tables().nth(next).into_iter().for_each(|table| table.tidy(now));
        }
    }

    /// Resets every limiter of `met`, in one step: nothing counts as used.
    pub(crate) fn reset(
        &self,
        generation: &Generation,
        met: &[Ask],
        clock: &impl Clock,
    ) -> Result<(), Moved> {
        if !met.iter().any(|met| met.begins_in_use(&generation.policy)) {
            let mut locked = StepList::new();
            generation.lock_all(met, &|_| Step::Refund, &clock.now(), &mut locked)?;
            locked.into_iter().rev().for_each(|hold| hold.forget());
            return Ok(());
        }
        // A limiter that is forgotten would begin with units in use; so each exists, and everything is given back.
        let begins = met.iter().filter(|met| met.begins_in_use(&generation.policy));
        let begins: Vec<_> = begins.map(|met| met.costing(0)).collect();
        self.step(generation, &begins, clock, Step::Ask)?;
        let all: Vec<_> = met.iter().map(|met| met.costing(u64::MAX)).collect();
        self.settle(generation, &all, &[], clock).map(drop)
    }
}

impl Generation {
    /// The generation before the first policy.
    fn none_yet() -> Self {
        Self { number: 0, policy: Arc::default(), rules: Vec::new(), removed: Vec::new() }
    }

    /// Creates a preview of a limiter; `None` if there is none.
    pub(crate) fn preview(
        &self,
        met: &Ask,
        clock: &impl Clock,
    ) -> Result<Option<Box<dyn Preview>>, Moved> {
        let part = self.part(0, met, Step::Peek);
        self.table(met).map(|table| table.preview(&part, Reading::of(clock))).transpose()
    }

    /// Locks the limiters of a step, table by table in one fixed order, and adds them to the empty list `locked`. If the
    /// step has to ask again, none stays locked.
    fn lock_all<'a>(
        &'a self,
        met: &'a [Ask],
        step: &impl Fn(usize) -> Step,
        clock: &dyn Clock,
        locked: &mut Locked<'a>,
    ) -> Result<(), Moved> {
        let part = |place: usize, met: &'a Ask| self.part(place, met, step(place));
        let mut lock = |met: &'a Ask, parts: &[Part<'a>]| {
            let Some(table) = self.table(met) else { return Ok(()) };
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
        if met.is_sorted_by(|a, b| self.table_number(a) < self.table_number(b)) {
            for (place, met) in met.iter().enumerate() {
                lock(met, std::slice::from_ref(&part(place, met)))?;
            }
            return Ok(());
        }
        let mut order: StepList<_> = met.iter().enumerate().collect();
        order.sort_by_key(|(_, met)| self.table_number(met));
        for of_one in order.chunk_by(|a, b| self.table_number(a.1) == self.table_number(b.1)) {
            let parts: StepList<_> = of_one.iter().map(|(place, met)| part(*place, met)).collect();
            of_one.first().map_or(Ok(()), |(_, met)| lock(met, &parts))?;
        }
        Ok(())
    }
}

/// The limiters of a step, table by table in the order in which they were locked.
type Locked<'a> = StepList<Box<dyn LockedLimiters + 'a>>;

/// Turns the reply of one limiter into that of a step.
fn done_by(met: &Ask, one: One, step: Step) -> Done {
    let (allowed, at) = (one.verdict.is_allowed() || !met.enforced, one.at);
    Done { allowed, at, repeated: false, decisions: Decided::by(one, step).into_iter().collect() }
}

/// Runs a step over locked limiters, and unlocks them; also returns whether one had no room.
fn run(
    locked: &mut Locked<'_>,
    met: &[Ask],
    clock: &impl Clock,
    step: &impl Fn(usize) -> Step,
) -> (Done, bool) {
    let at = clock.now();
    locked.iter_mut().for_each(|hold| hold.begin(at));
    let mut held = StepList::new();
    locked.iter_mut().for_each(|hold| hold.held(&mut held));
    held.sort_unstable_by_key(|one| one.place);
    let allowed = match step(0) {
        Step::Decide | Step::Ask => ask_all(&mut held, met, at),
        Step::Peek | Step::AskReported | Step::Report => look_at_all(&mut held, at),
        Step::Refund => {
            look_at_all(&mut held, at);
            held.iter_mut().for_each(|one| one.give_back());
            look_at_all(&mut held, at)
        }
        Step::Settle { .. } => {
            settle_all(&mut held, met, at, step);
            look_at_all(&mut held, at)
        }
        Step::Renew { .. } => {
            let are_out = renew_all(&mut held, at, step);
            look_at_all(&mut held, at);
            are_out
        }
    };
    let short = held.iter().any(|one| one.is_overflow());
    let told = if step(0).wants_values() { held.as_slice() } else { &[] };
    let mut decisions = with_room_for(told.len());
    for one in told {
        let decided = Decided::of(one.report(), one.is_overflow(), one.is_elsewhere());
        decisions.push(Decided { token: one.token(), ..decided });
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

/// Takes from all limiters if all that are enforced admit, else from none; but reported usage is always taken.
fn ask_all(held: &mut [LockedLimiter<'_>], met: &[Ask], at: Timestamp) -> bool {
    if met.iter().all(|met| met.asks == met.cost && !met.report) {
        return decide_all(held, at);
    }
    let part = |one: &LockedLimiter<'_>| met.get(one.place).map(|met| met.part(Step::Ask).1);
    for one in held.iter_mut() {
        if part(one) == Some(Step::Report) {
            one.take_reported(at);
        }
    }
    let goes_on = look_at_all(held, at);
    for one in held.iter_mut().filter(|_| goes_on) {
        if part(one) == Some(Step::Ask) && one.verdict().is_allowed() {
            one.take();
        }
    }
    goes_on
}

/// Settles each limiter for the units at its index in the request.
fn settle_all(
    held: &mut [LockedLimiter<'_>],
    met: &[Ask],
    at: Timestamp,
    step: impl Fn(usize) -> Step,
) {
    for one in held {
        if let (Step::Settle { actual, token }, Some(met)) = (step(one.place), met.get(one.place)) {
            one.settle(at, token, met.cost, actual);
        }
    }
}

/// Renews a permit of each limiter that is named one; returns whether all that are enforced are still out.
fn renew_all(held: &mut [LockedLimiter<'_>], at: Timestamp, step: impl Fn(usize) -> Step) -> bool {
    let renew = |one: &mut LockedLimiter<'_>| match step(one.place) {
        Step::Renew { token: Some(token) } => one.renew(at, token) | !one.is_enforced(),
        _ => true,
    };
    held.iter_mut().fold(true, |all, one| all & renew(one))
}
