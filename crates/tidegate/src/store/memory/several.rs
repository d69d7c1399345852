//! A step over several limiters: all are locked in one order, decide, take or not, and are unlocked.
//!
//! The store comes here with every request that has more than one limiter. Most steps replace no more than the
//! words of packed states: all limiters are in their tables, and stay there. Such a step is run on the words alone,
//! and any other step in full.

use tidegate_core::Timestamp;

use super::generation::MemoryGeneration;
use super::locked_words::LockedWords;
use super::succession::Moved;
use super::table::LockedLimiters;
use crate::clock::Clock;
use crate::inline_list::{StepList, with_space_for};
use crate::step::{Ask, Done, Step};

/// The limiters of a step, locked.
#[derive(Default)]
pub(super) struct Locked<'a> {
    /// Table by table, in the order in which they were locked.
    tables: StepList<Box<dyn LockedLimiters + 'a>>,
    /// In the order of the request.
    limiters: StepList<Limiter>,
}

/// One of the locked limiters.
#[derive(Clone, Copy)]
struct Limiter {
    /// Its index in the request.
    place: usize,
    /// The index of its table.
    table: usize,
    /// Its index among the limiters of the table.
    number: usize,
    admits: bool,
}

impl MemoryGeneration {
    /// Locks the limiters of a step, table by table in one fixed order, and adds them to the empty list `locked`. If the
    /// step has to ask again, none stays locked.
    pub(super) fn lock_all<'a>(
        &'a self,
        asks: &'a [Ask],
        clock: &dyn Clock,
        step: &impl Fn(usize) -> Step,
        locked: &mut Locked<'a>,
    ) -> Result<(), Moved> {
        // All steps lock tables in this order, so that no two of them wait for each other.
        let mut order: StepList<_> = asks.iter().enumerate().collect();
        order.sort_by_key(|(_, ask)| self.table_number(ask));
        for of_one in order.chunk_by(|a, b| self.table_number(a.1) == self.table_number(b.1)) {
            let Some(table) = of_one.first().and_then(|(_, ask)| self.table(ask)) else { continue };
            let parts: StepList<_> = of_one
                .iter()
                .map(|(place, ask)| table.part_of(self.part(ask, step(*place))))
                .collect();
            // For sweeps and new limiters. The time of the step is read when all are locked.
            match table.hold(&parts, clock.now()) {
                Ok(limiters) => locked.add(limiters, of_one.iter().map(|(place, _)| *place)),
                Err(Moved) => {
                    // The newer generation may have other tables, so none of these locks is of use.
                    locked.unlock(clock.now());
                    return Err(Moved);
                }
            }
        }
        // Decided in the order of the request, which is the order of the decisions.
        locked.limiters.sort_unstable_by_key(|limiter| limiter.place);
        Ok(())
    }

    /// Runs a step over limiters, with `step` for their indices in `asks`; `None`, and nothing is changed, if it has to
    /// replace more than words.
    pub(super) fn step_in_words(
        &self,
        asks: &[Ask],
        clock: &impl Clock,
        step: &impl Fn(usize) -> Step,
    ) -> Result<Option<Done>, Moved> {
        // The list is large, so it stays where it is made.
        let mut all = StepList::new();
        if !self.lock_all_words(asks, step, &mut all)? {
            return Ok(None);
        }
        let at = clock.now();
        let wants_values = step(0).wants_values();
        let mut decisions = with_space_for(if wants_values { asks.len() } else { 0 });
        let mut allowed = true;
        for (place, (words, ask)) in all.iter_mut().zip(asks).enumerate() {
            // The step itself, and no look before it: nothing is stored yet, so a later refusal need not undo it.
            let (cost, step) = ask.part(step(place));
            let one = words.run(cost, step, at);
            allowed &= one.verdict.is_allowed() | !ask.enforced;
            if wants_values {
                decisions.push(one.decided);
            }
        }
        if !allowed {
            for (place, (words, ask)) in all.iter_mut().zip(asks).enumerate() {
                let (cost, step) = ask.part(step(place));
                if !step.takes_if_all_admit() || !words.changed {
                    continue;
                }
                // The limiter admits the request but another limiter refuses it, so nothing is taken.
                let one = words.run(cost, Step::Peek, at);
                if let Some(decided) = decisions.get_mut(place) {
                    *decided = one.decided;
                }
            }
        }
        // Nothing was stored so far: a panic or an early return before this line leaves all limiters as they were. A
        // limiter is dropped with its chain locked by itself, because dropping may move others within the chain.
        let mut idle = StepList::new();
        for words in &all {
            if let Some(one) = words.store() {
                idle.push(one);
            }
        }
        drop(all);
        idle.into_iter().for_each(|(table, fingerprint)| table.drop_if_empty(fingerprint));
        Ok(Some(Done { allowed, at, repeated: false, decisions }))
    }

    /// Locks the limiters of a step, each in a table of its own, in the order of [`MemoryGeneration::table_number`], and adds
    /// them to the empty list `all`. Returns false if they come in another order, or if the step may replace more than
    /// words; the limiters in the list stay locked until it is dropped.
    #[inline]
    fn lock_all_words<'a>(
        &'a self,
        asks: &[Ask],
        step: &impl Fn(usize) -> Step,
        all: &mut StepList<LockedWords<'a>>,
    ) -> Result<bool, Moved> {
        let mut last = None;
        for (place, ask) in asks.iter().enumerate() {
            let Some(rule) = self.rules.get(ask.rule) else { return Ok(false) };
            let number = Some((ask.lineage, ask.values.variant));
            let (cost, step) = ask.part(step(place));
            // A limiter that has a rule of its own is not packed.
            if rule.is_per_key || number <= last || step.may_not_fit(cost) {
                return Ok(false);
            }
            // All requests lock in the same order, so that no two of them wait for each other.
            last = number;
            let Some(table) = rule.tables.get(ask.values.variant) else { return Ok(false) };
            let words = table.lock_words(ask.fingerprint, self.number)?;
            let Some(words) = words else { return Ok(false) };
            all.push(words);
        }
        Ok(true)
    }
}

impl<'a> Locked<'a> {
    fn add(&mut self, limiters: Box<dyn LockedLimiters + 'a>, places: impl Iterator<Item = usize>) {
        let table = self.tables.len();
        for (number, place) in places.enumerate() {
            self.limiters.push(Limiter { place, table, number, admits: false });
        }
        self.tables.push(limiters);
    }

    /// Runs a step over the limiters, and unlocks them; also returns whether one had no room.
    ///
    /// If all that are enforced admit, each that admits takes its units, else none does: so all look first. But reported
    /// usage is always taken, and a step that gives back never refuses.
    pub(super) fn run(
        &mut self,
        asks: &[Ask],
        clock: &impl Clock,
        step: &impl Fn(usize) -> Step,
    ) -> (Done, bool) {
        // With all limiters locked: a later step on any of them reads a later time.
        let at = clock.now();
        let wants_values = step(0).wants_values();
        let mut decisions = with_space_for(if wants_values { asks.len() } else { 0 });
        let mut allowed = true;
        let mut short = false;
        // Rules of their own take effect first, because a look below must already decide by them.
        self.tables.iter_mut().for_each(|table| table.begin(at));
        for limiter in &mut self.limiters {
            let ask = &asks[limiter.place];
            let table = &mut self.tables[limiter.table];
            let (_, step) = ask.part(step(limiter.place));
            // A later limiter may still refuse, and then this limiter must not have taken.
            let first = if step.takes_if_all_admit() { Step::Peek } else { step };
            let one = table.run(limiter.number, first, at);
            limiter.admits = one.verdict.is_allowed();
            allowed &= limiter.admits | !ask.enforced;
            short |= one.decided.overflow;
            if wants_values {
                decisions.push(one.decided);
            }
        }
        let admitting = self.limiters.iter().enumerate().filter(|(_, one)| allowed && one.admits);
        for (number, limiter) in admitting {
            let (_, step) = asks[limiter.place].part(step(limiter.place));
            if step.takes_if_all_admit() {
                let one = self.tables[limiter.table].run(limiter.number, step, at);
                if let Some(decided) = decisions.get_mut(number) {
                    *decided = one.decided;
                }
            }
        }
        self.unlock(at);
        (Done { allowed, at, repeated: false, decisions }, short)
    }

    /// Stores the changes of a step, if any, and unlocks.
    fn unlock(&mut self, at: Timestamp) {
        // In reverse order: a table that grows when it is unlocked waits for one of its chains, whose lock another step
        // may hold while it waits for a later table.
        while let Some(table) = self.tables.pop() {
            table.release(at);
        }
    }
}
