//! Units in use that are carried to a store that lost them: it admits no more than the state that it lost.

use testkit::model::Policy;
use testkit::traffic::{self, Rng};
use tidegate_core::{Algorithm, Held, KnownUnits, Timestamp, UsedUnits, Visitor};

use crate::{MANY, STEPS, common, for_many_policies};

/// The check of one algorithm.
struct CarriedProperty<'a> {
    rng: &'a mut Rng,
    policy: &'a Policy,
}

/// A limiter's state after some requests, and the time of the last.
fn after<R: Algorithm>(
    algorithm: &R,
    requests: &[(u64, u64)],
    refunds: &mut Rng,
) -> (Option<R::State>, Timestamp) {
    let mut slot = None;
    let mut now = Timestamp::EPOCH;
    for (at_us, cost) in requests {
        now = now.max(Timestamp::from_micros(*at_us));
        let _ = Held::new(algorithm, &mut slot, *cost).ask(now);
        if refunds.chance(5) {
            let mut held = Held::new(algorithm, &mut slot, cost / 2);
            held.advance(now);
            held.give_back();
        }
    }
    (slot, now)
}

/// The units in use of a state, and the units that it still admits, each at a time.
fn standing<R: Algorithm>(
    algorithm: &R,
    slot: &Option<R::State>,
    now: Timestamp,
) -> (Vec<UsedUnits>, u64) {
    let mut slot = slot.clone();
    let mut held = Held::new(algorithm, &mut slot, 1);
    held.advance(now);
    let (used, _) = held.used_units();
    (used, held.peek(now).remaining)
}

impl Visitor for CarriedProperty<'_> {
    type Out = ();

    fn visit<R: Algorithm>(self, algorithm: &R) {
        let Self { rng, policy } = self;
        let requests = traffic::trace(rng, policy, STEPS);
        let (lost, now) = after(algorithm, &requests, rng);
        let (used, _) = standing(algorithm, &lost, now);
        // To a store that has nothing: then and later it admits no more, and within a microsecond it admits as much.
        let known = KnownUnits { used: &used, reported: now, last: None };
        let mut slot = None;
        let has_use = Held::new(algorithm, &mut slot, 0).carry(known, now);
        assert_eq!(has_use, !used.is_empty(), "{policy:?}");
        let mut later = now;
        for _ in 0..8 {
            let (_, most) = standing(algorithm, &lost, later);
            let (_, carried) = standing(algorithm, &slot, later);
            assert!(carried <= most, "{policy:?}: {carried} of {most} at {later:?}");
            let (_, a_microsecond_later) = standing(algorithm, &slot, later.plus_us(1));
            // A limiter that begins with fewer tokens begins again if nothing was in use.
            assert!(
                !has_use && policy.initial.is_some() || a_microsecond_later >= most,
                "{policy:?}: {a_microsecond_later} of {most}"
            );
            later = later.plus_us(rng.below(policy.window_us / 2 + 2));
        }
        // To a store that has a state of its own, from other requests or from a part of the same.
        let part = rng.below(requests.len() as u64 + 1) as usize;
        let others = traffic::trace(rng, policy, STEPS);
        for before in [&requests[..part], &others] {
            let (mut slot, last) = after(algorithm, before, rng);
            let now = now.max(last);
            let (_, own) = standing(algorithm, &slot, now);
            let (_, lost_left) = standing(algorithm, &lost, now);
            Held::new(algorithm, &mut slot, 0).carry(known, now);
            let (_, kept) = standing(algorithm, &slot, now);
            assert!(kept <= own.min(lost_left), "{policy:?}: {kept} of {own} or {lost_left}");
            // Again it changes nothing.
            let before = slot.clone();
            assert!(!Held::new(algorithm, &mut slot, 0).carry(known, now), "{policy:?}");
            assert!(slot == before, "{policy:?}");
        }
    }
}

trait Later {
    fn plus_us(self, us: u64) -> Timestamp;
}

impl Later for Timestamp {
    fn plus_us(self, us: u64) -> Timestamp {
        Timestamp::from_micros(self.as_micros() + us)
    }
}

#[test]
fn units_that_are_carried_admit_no_more_than_either_state() {
    for_many_policies(1101, MANY, |rng, policy| {
        let rule = common::rule(&policy).unwrap();
        rule.visit(CarriedProperty { rng, policy: &policy });
    });
}
