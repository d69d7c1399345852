//! One limiter of the simulated store, with any algorithm: the core's own verbs, by virtual time.

use std::any::Any;
use std::fmt;

use tidegate_core::{
    Algorithm, Held, Micros, Rule, Settlement, Timestamp, Token, Verbs as _, Verdict, Visitor,
};

use super::super::Terms;

/// The verbs that the store needs of a limiter.
pub(super) trait SimLimiter: fmt::Debug {
    /// Returns whether the cost fits.
    fn fits(&mut self, now: Timestamp, cost: u64) -> bool;
    /// Takes units, also beyond the limit. Returns those above `max_debt`, which are not taken.
    fn take(&mut self, now: Timestamp, units: u64) -> u64;
    /// Takes a lease, and returns its end.
    fn lease(&mut self, now: Timestamp, units: u64, life: Micros) -> Option<Timestamp>;
    fn give_back_lease(&mut self, now: Timestamp, units: u64, since: Timestamp) -> bool;
    /// Takes a permit of these units, if they fit.
    fn take_permit(&mut self, now: Timestamp, units: u64) -> Option<Token>;
    fn return_permit(&mut self, now: Timestamp, token: Token, units: u64);
    /// Renews a permit, and returns whether it was out.
    fn renew(&mut self, now: Timestamp, token: Token) -> bool;
    /// Forgets a limiter that exists and is idle.
    fn forget_if_idle(&mut self, now: Timestamp) -> bool;
    /// Units in use, rounded up.
    fn used(&self, now: Timestamp) -> u64;
    fn remaining(&self, now: Timestamp) -> u64;
    /// The instant that counts.
    fn at(&self, now: Timestamp) -> Timestamp;
    /// The same limiter under another rule of the same algorithm.
    fn amended(&mut self, now: Timestamp, rule: &Rule) -> Option<Box<dyn SimLimiter>>;
    fn copy(&self) -> Box<dyn SimLimiter>;
    fn as_any(&mut self) -> &mut dyn Any;
}

/// A new limiter of a rule; `None` if it is unlimited.
pub(super) fn limiter(rule: &Rule) -> Option<Box<dyn SimLimiter>> {
    struct New;
    impl Visitor for New {
        type Out = Box<dyn SimLimiter>;

        fn visit<R: Algorithm>(self, algorithm: &R) -> Box<dyn SimLimiter> {
            Box::new(SimLimiterOf { algorithm: algorithm.clone(), slot: None })
        }
    }
    rule.visit(New)
}

#[derive(Clone, Debug)]
struct SimLimiterOf<R: Algorithm> {
    algorithm: R,
    slot: Option<R::State>,
}

impl<R: Algorithm> SimLimiterOf<R> {
    fn held(&mut self, cost: u64) -> Held<'_, R> {
        Held::new(&self.algorithm, &mut self.slot, cost)
    }

    /// The state now.
    fn state(&self, now: Timestamp) -> (R::State, Timestamp) {
        let mut state = self.slot.clone().unwrap_or_else(|| self.algorithm.fresh(now));
        let at = self.algorithm.advance(&mut state, now);
        (state, at)
    }
}

impl<R: Algorithm> SimLimiter for SimLimiterOf<R> {
    fn fits(&mut self, now: Timestamp, cost: u64) -> bool {
        let (state, at) = self.state(now);
        self.algorithm.decide(&state, at, cost) == Verdict::Allow
    }

    fn take(&mut self, now: Timestamp, units: u64) -> u64 {
        let settled =
            self.held(0).settle(now, Settlement { actual: units, ..Settlement::default() });
        settled.cut_units()
    }

    fn lease(&mut self, now: Timestamp, units: u64, life: Micros) -> Option<Timestamp> {
        self.held(units).lease(now, life)
    }

    fn give_back_lease(&mut self, now: Timestamp, units: u64, since: Timestamp) -> bool {
        self.held(units).give_back_lease(now, since)
    }

    fn take_permit(&mut self, now: Timestamp, units: u64) -> Option<Token> {
        let mut held = self.held(units);
        held.ask(now).is_allowed().then(|| held.token()).flatten()
    }

    fn return_permit(&mut self, now: Timestamp, token: Token, units: u64) {
        let _ = self.held(0).settle(
            now,
            Settlement { token: Some(token), reserved: units, ..Settlement::default() },
        );
    }

    fn renew(&mut self, now: Timestamp, token: Token) -> bool {
        self.held(0).renew(now, token)
    }

    fn forget_if_idle(&mut self, now: Timestamp) -> bool {
        let (state, at) = self.state(now);
        let is_idle = self.slot.is_some() && self.algorithm.is_idle(&state, at);
        if is_idle {
            self.slot = None;
        }
        is_idle
    }

    fn used(&self, now: Timestamp) -> u64 {
        let (state, at) = self.state(now);
        self.algorithm.used(&state, at)
    }

    fn remaining(&self, now: Timestamp) -> u64 {
        let (state, at) = self.state(now);
        self.algorithm.remaining(&state, at)
    }

    fn at(&self, now: Timestamp) -> Timestamp {
        self.state(now).1
    }

    fn amended(&mut self, now: Timestamp, rule: &Rule) -> Option<Box<dyn SimLimiter>> {
        let mut new = limiter(rule)?;
        if let Some(same) = new.as_any().downcast_mut::<Self>() {
            same.slot = self.slot.clone();
            let old = self.algorithm.clone();
            same.held(0).amend(now, &old);
        }
        Some(new)
    }

    fn copy(&self) -> Box<dyn SimLimiter> {
        Box::new(self.clone())
    }

    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}

/// The units that hold up the level under a long lease may belong to a shorter lease, and come back first.
#[test]
fn a_short_lease_that_comes_back_leaves_the_level_that_a_longer_one_relies_on() {
    let rule = Rule::new(tidegate_core::Spec::per_second(1_000)).expect("a rule");
    let ms = Micros::from_millis;
    let terms = |life| Terms::of(&rule, 200, ms(life), ms(1_000)).expect("it has leases");
    let at = |time: u64| Timestamp::EPOCH.plus(ms(5_000 + time));
    let mut stored = limiter(&rule).expect("a limit");
    let short = stored.lease(at(0), 160, terms(40).life());
    let long = stored.lease(at(1), 20, terms(200).life());
    assert_eq!([short, long], [Some(at(40)), Some(at(201))]);
    stored.give_back_lease(at(30), 160, at(0).minus(terms(40).counts_earlier()));
    assert!(
        stored.used(at(200)) >= 20,
        "{} are counted, and 20 can be spent",
        stored.used(at(200))
    );
    let mut without = limiter(&rule).expect("a limit");
    without.lease(at(0), 160, ms(40));
    without.lease(at(1), 20, ms(200));
    without.give_back_lease(at(30), 160, at(0));
    assert!(without.used(at(200)) < 20, "it would not hold if lives were all alike");
}

/// The units that hold up the level under a lease may belong to a reservation that is settled for nothing.
#[test]
fn a_reservation_that_is_settled_leaves_the_level_that_a_later_lease_relies_on() {
    let rule = Rule::new(tidegate_core::Spec::per_second(1_000)).expect("a rule");
    let ms = Micros::from_millis;
    let terms = Terms::of(&rule, 200, ms(200), ms(1_000)).expect("it has leases");
    let at = |time: u64| Timestamp::EPOCH.plus(ms(5_000 + time));
    let used_after = |since: Timestamp| {
        let mut stored = limiter(&rule).expect("a limit");
        stored.take(at(0), 250);
        assert_eq!(stored.lease(at(1), 20, terms.life()), Some(at(201)));
        stored.give_back_lease(at(10), 250, since);
        stored.used(at(200))
    };
    assert!(used_after(at(0).minus(terms.exact_earlier())) >= 20, "20 can be spent");
    assert!(used_after(at(0)) < 20, "it would not hold as of when they were taken");
}
