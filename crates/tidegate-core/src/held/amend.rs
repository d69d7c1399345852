//! Changing the rule of a limiter.
//!
//! A store calls this when a policy gives a rule other values, or another algorithm. Usage is carried over, so that a
//! change is no way round a limit.

use core::mem;

use super::Held;
use crate::algorithm::Algorithm;
use crate::past::Past;
use crate::time::Timestamp;

impl<R: Algorithm> Held<'_, R> {
    /// Carries the state over from `old`, the rule until now, to this rule. Used units stay used,
    /// also by way of a limit of 0, but keep no caller waiting for more than one window because of the change.
    pub fn amend(&mut self, now: Timestamp, old: &R) {
        if let Some((at, owed)) = self.refitted(now, old) {
            self.ease(at, owed);
        }
    }

    /// Like [`Held::amend`], but callers may wait until all usage has drained: where slots are promised, none may come
    /// before an earlier one.
    pub fn refit(&mut self, now: Timestamp, old: &R) {
        let _ = self.refitted(now, old);
    }

    /// Refits the state; returns the instant that counts, and the units that the state owed.
    fn refitted(&mut self, now: Timestamp, old: &R) -> Option<(Timestamp, [u64; 2])> {
        let mut state = self.slot.take()?;
        let at = old.advance(&mut state, now);
        if leaves_nothing(old, &state, at) {
            self.begin_later(at, old, &mut state);
            return None;
        }
        // Before the state is refitted: afterwards nothing tells a debt from units above a lower limit.
        let owed = old.owed(&state, at);
        if self.algorithm.same_shape(old) {
            self.algorithm.refit(old, &mut state, at);
            *self.slot = Some(state);
        } else {
            self.charge_as_new(at, past_of(old, &mut state), owed);
            self.note_change(at, old.limit());
        }
        Some((at, owed))
    }

    /// Carries over `state` of another algorithm: units in use there count as taken now.
    pub fn carry_over<Old: Algorithm>(&mut self, now: Timestamp, old: &Old, mut state: Old::State) {
        let at = old.advance(&mut state, now);
        if leaves_nothing(old, &state, at) {
            return self.begin_later(at, old, &mut state);
        }
        let owed = old.owed(&state, at);
        self.charge_as_new(at, past_of(old, &mut state), owed);
        self.note_change(at, old.limit());
        self.ease(at, owed);
    }

    fn ease(&mut self, at: Timestamp, [_, debt]: [u64; 2]) {
        if let Some(state) = &mut *self.slot {
            self.algorithm.ease(state, at, debt);
        }
    }

    /// Leaves no state, because nothing is used, but remembers the units that must not come back. A bucket that begins
    /// with units in use remembers nothing: a table asks it only for units that were taken since the change.
    fn begin_later<Old: Algorithm>(&mut self, at: Timestamp, old: &Old, state: &mut Old::State) {
        let mut fresh = self.algorithm.fresh(at);
        if let Some(past) = self.algorithm.past_mut(&mut fresh) {
            *past = past_of(old, state);
            past.pass(at);
        }
        // A fresh state that remembers nothing is as good as none.
        let remembers = self.algorithm.is_unused(&fresh, at) && !self.algorithm.is_idle(&fresh, at);
        *self.slot = remembers.then_some(fresh);
        self.note_change(at, old.limit());
    }

    /// Notes that units taken before `at` were taken under another rule, of this limit.
    fn note_change(&mut self, at: Timestamp, limit: u64) {
        let algorithm = self.algorithm;
        let state = self.slot.as_mut();
        if let Some(past) = state.and_then(|state| algorithm.past_mut(state)) {
            // Units may come back of either limit; the larger number of units counts for longer.
            past.rule_changes(at, algorithm.limit().max(limit), |most| algorithm.counts_for(most));
        }
    }

    /// Leaves a fresh state that owes the used units, and remembers the units that must not come back.
    fn charge_as_new(&mut self, at: Timestamp, before: Past, [used, _]: [u64; 2]) {
        let mut state = self.algorithm.fresh(at);
        if let Some(past) = self.algorithm.past_mut(&mut state) {
            *past = before;
        }
        if used > 0 {
            self.algorithm.take(&mut state, at, used);
        }
        *self.slot = Some(state);
    }
}

/// Returns whether there is nothing to carry over: a limit of 0 under which nothing is used. The next rule
/// starts fresh, with the state kept or dropped.
fn leaves_nothing<R: Algorithm>(old: &R, state: &R::State, at: Timestamp) -> bool {
    old.limit() == 0 && old.is_unused(state, at)
}

/// The memory of a state, without its open reservations and eased units.
fn past_of<R: Algorithm>(algorithm: &R, state: &mut R::State) -> Past {
    let mut past = algorithm.past_mut(state).map(mem::take).unwrap_or_default();
    past.run_empty();
    past
}
