//! One limiter of a store for tests: the verbs of the core over a state of any algorithm.

use std::fmt;

use tidegate_core::{
    Algorithm, Held, KnownUnits, Micros, Rule, Timestamp, TokenBucket, UsedUnits, Visitor,
};

use crate::step::{One, Step};
use crate::store::memory::carried;

/// One limiter with any algorithm.
pub(crate) trait FakeLimiter: fmt::Debug + Send {
    fn run(&mut self, step: Step, cost: u64, now: Timestamp) -> One;

    /// Takes a lease, and returns its end.
    fn lease(&mut self, units: u64, now: Timestamp, life: Micros) -> Option<Timestamp>;

    /// Gives units back that others under leases may rely on. Returns how many of them still counted.
    fn give_back_lease(&mut self, units: u64, now: Timestamp, since: Timestamp) -> u64;

    /// Returns the units in use, rounded up.
    fn used(&self, now: Timestamp) -> u64;

    /// Returns the limiter under another rule; `None` if this is its rule.
    fn carried_to(&mut self, rule: &Rule, now: Timestamp) -> Option<Box<dyn FakeLimiter>>;

    /// Forgets the units if the limiter exists and is idle, and returns whether it was.
    fn forget_if_idle(&mut self, now: Timestamp) -> bool;

    fn rule(&self) -> &Rule;

    /// Returns whether there is a state.
    fn exists(&self) -> bool;

    /// Returns the units in use, and the time of the last, as a script reports them.
    fn used_units(&self, now: Timestamp) -> (Vec<UsedUnits>, Timestamp);

    /// Keeps the state of these units if it admits less, and returns whether it does.
    fn carry(&mut self, known: KnownUnits<'_>, now: Timestamp) -> bool;

    fn copy(&self) -> Box<dyn FakeLimiter>;
}

/// A new limiter of a rule; `None` if it is unlimited.
pub(crate) fn limiter(rule: &Rule) -> Option<Box<dyn FakeLimiter>> {
    rule.visit(New::<TokenBucket>(rule, None, Timestamp::EPOCH))
}

#[derive(Clone, Debug)]
struct FakeLimiterOf<R: Algorithm> {
    rule: Rule,
    algorithm: R,
    slot: Option<R::State>,
}

/// Makes the limiter of a rule, with the usage under another rule.
struct New<'a, Old: Algorithm>(&'a Rule, Option<(&'a Old, Old::State)>, Timestamp);

impl<Old: Algorithm> Visitor for New<'_, Old> {
    type Out = Box<dyn FakeLimiter>;

    fn visit<R: Algorithm>(self, algorithm: &R) -> Box<dyn FakeLimiter> {
        let Self(rule, old, now) = self;
        let slot = old.and_then(|(old, state)| carried(old, state, algorithm, now));
        Box::new(FakeLimiterOf { rule: rule.clone(), algorithm: algorithm.clone(), slot })
    }
}

impl<R: Algorithm> FakeLimiter for FakeLimiterOf<R> {
    fn run(&mut self, step: Step, cost: u64, now: Timestamp) -> One {
        let begins = self.slot.is_some() || step.begins(cost);
        let one = step.run(&self.algorithm, &mut self.slot, cost, now);
        // A verb of the core may leave a fresh state; a step that begins no limiter leaves none.
        self.slot.take_if(|_| !begins);
        one
    }

    fn lease(&mut self, units: u64, now: Timestamp, life: Micros) -> Option<Timestamp> {
        Held::new(&self.algorithm, &mut self.slot, units).lease(now, life)
    }

    fn give_back_lease(&mut self, units: u64, now: Timestamp, since: Timestamp) -> u64 {
        Held::new(&self.algorithm, &mut self.slot, units).give_back_lease(now, since)
    }

    fn used(&self, now: Timestamp) -> u64 {
        let mut state = self.slot.clone().unwrap_or_else(|| self.algorithm.fresh(now));
        let at = self.algorithm.advance(&mut state, now);
        self.algorithm.used(&state, at)
    }

    fn carried_to(&mut self, rule: &Rule, now: Timestamp) -> Option<Box<dyn FakeLimiter>> {
        if self.rule == *rule {
            return None;
        }
        let state = self.slot.take();
        rule.visit(New(rule, state.map(|state| (&self.algorithm, state)), now))
    }

    fn forget_if_idle(&mut self, now: Timestamp) -> bool {
        let algorithm = &self.algorithm;
        let is_idle = |state: &mut R::State| {
            let mut state = state.clone();
            let at = algorithm.advance(&mut state, now);
            algorithm.is_idle(&state, at)
        };
        self.slot.take_if(is_idle).is_some()
    }

    fn rule(&self) -> &Rule {
        &self.rule
    }

    fn exists(&self) -> bool {
        self.slot.is_some()
    }

    fn used_units(&self, now: Timestamp) -> (Vec<UsedUnits>, Timestamp) {
        let mut slot = self.slot.clone();
        let mut held = Held::new(&self.algorithm, &mut slot, 0);
        held.advance(now);
        let (mut used, last) = held.used_units();
        if !self.rule.spec().algorithm.reply_is_whole() {
            // All as of the last, as a script reports them that returns a part of its state.
            let units = used.iter().map(|one| one.units).sum();
            used = used.pop().into_iter().map(|last| UsedUnits { units, ..last }).collect();
        }
        (used, last)
    }

    fn carry(&mut self, known: KnownUnits<'_>, now: Timestamp) -> bool {
        Held::new(&self.algorithm, &mut self.slot, 0).carry(known, now)
    }

    fn copy(&self) -> Box<dyn FakeLimiter> {
        Box::new(self.clone())
    }
}

impl Clone for Box<dyn FakeLimiter> {
    fn clone(&self) -> Self {
        self.copy()
    }
}
