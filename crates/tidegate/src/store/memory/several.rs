//! A step over several limiters: all are locked in one order, decide, take or not, and are unlocked.

use tidegate_core::Timestamp;

use super::generation::Generation;
use super::succession::Moved;
use super::table::LockedLimiters;
use crate::clock::Clock;
use crate::inline_list::{StepList, with_space_for};
use crate::step::{Ask, Decided, Done, Step};

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

impl Generation {
    /// Locks the limiters of a step, table by table in one fixed order, and adds them to the empty list `locked`. If the
    /// step has to ask again, none stays locked.
    pub(super) fn lock_all<'a>(
        &'a self,
        asks: &'a [Ask],
        clock: &dyn Clock,
        step: &impl Fn(usize) -> Step,
        locked: &mut Locked<'a>,
    ) -> Result<(), Moved> {
        let mut order: StepList<_> = asks.iter().enumerate().collect();
        order.sort_by_key(|(_, ask)| self.table_number(ask));
        for of_one in order.chunk_by(|a, b| self.table_number(a.1) == self.table_number(b.1)) {
            let Some(table) = of_one.first().and_then(|(_, ask)| self.table(ask)) else { continue };
            let parts: StepList<_> =
                of_one.iter().map(|(place, ask)| self.part(ask, step(*place))).collect();
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
        let at = clock.now();
        let wants_values = step(0).wants_values();
        let mut decisions = with_space_for(if wants_values { asks.len() } else { 0 });
        let mut allowed = true;
        let mut short = false;
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
            short |= one.overflow;
            if wants_values {
                decisions.push(Decided::from(one));
            }
        }
        let admitting = self.limiters.iter().enumerate().filter(|(_, one)| allowed && one.admits);
        for (number, limiter) in admitting {
            let (_, step) = asks[limiter.place].part(step(limiter.place));
            if step.takes_if_all_admit() {
                let one = self.tables[limiter.table].run(limiter.number, step, at);
                if let Some(decided) = decisions.get_mut(number) {
                    *decided = one.into();
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
