//! A step over several limiters that replaces no more than the words of their packed states.
//!
//! Most requests need no more: all limiters are in their tables, and stay there. They are locked in the same order as in
//! any step, and nothing is stored before all have decided. A step over any other limiters is run in full
//! ([`several`](super::several)).

use super::generation::Generation;
use super::locked_words::LockedWords;
use super::succession::Moved;
use crate::clock::Clock;
use crate::inline_list::{StepList, with_space_for};
use crate::step::{Ask, Decided, Done, Step};

impl Generation {
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
            let (cost, step) = ask.part(step(place));
            let one = words.run(cost, step, at);
            allowed &= one.verdict.is_allowed() | !ask.enforced;
            if wants_values {
                decisions.push(Decided::from(one));
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
                    *decided = one.into();
                }
            }
        }
        // Nothing was stored so far: a panic or an early return before this line leaves all limiters as they were. A
        // limiter is dropped with its chain locked by itself, because dropping may move others within the chain.
        let idle: StepList<_> = all.iter().filter_map(LockedWords::store).collect();
        drop(all);
        idle.into_iter().for_each(|(table, fingerprint)| table.drop_if_empty(fingerprint));
        Ok(Some(Done { allowed, at, repeated: false, decisions }))
    }

    /// Locks the limiters of a step, each in a table of its own, in the order of [`Generation::table_number`], and adds
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
            let number = Some((ask.lineage, ask.variant));
            let (cost, step) = ask.part(step(place));
            // A limiter that has a rule of its own is not packed.
            if rule.is_per_key || number <= last || step.may_not_fit(cost) {
                return Ok(false);
            }
            // All requests lock in the same order, so that no two of them wait for each other.
            last = number;
            let Some(table) = rule.tables.get(ask.variant) else { return Ok(false) };
            let words = table.lock_words(ask.fingerprint, self.number)?;
            let Some(words) = words else { return Ok(false) };
            all.push(words);
        }
        Ok(true)
    }
}
