//! Reservations that are settled after their limit has changed, on random walks compared with naive models.
//!
//! `TIDEGATE_LONG=1` walks twenty times as many.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::time::Duration;

use crate::packed::{TestClock, answered, long, spec_of};
use testkit::model::{self, AlgorithmKind, Model};
use testkit::traffic::{self, Rng};
use tidegate::{
    Clock, Descriptor, Gate, Limit, ManualClock, OverrideSpec, Policy, Request, Rule, RuleSpec,
    Settled, Taken, Timestamp,
};

/// Users with values of the rule, and a user with a limit of an override.
const USERS: [&[(&str, &str)]; 3] = [&[("user", "ada")], &[("user", "bob")], &[("user", "vip")]];
const VIP: usize = 2;
/// Packed times reach nine years.
const HORIZON_US: u64 = 8 * 366 * 86_400_000_000;

fn vip(policy: &model::Policy) -> OverrideSpec {
    let mut vip = OverrideSpec::new("user", "vip");
    vip.limit = Some(Limit::Units(policy.limit));
    vip.capacity = policy.capacity;
    vip
}

/// Only another limit, or only another capacity: higher or lower, sometimes by far; sometimes a limit of 0.
fn other_limit(rng: &mut Rng, policy: &model::Policy) -> model::Policy {
    if let Some(capacity) = policy.capacity.filter(|_| rng.below(2) == 0) {
        let capacity = rng.pick([capacity + 1, capacity * 2, capacity.div_ceil(10), 300]);
        let next = model::Policy { capacity: Some(capacity), ..policy.clone() };
        return if Rule::new(spec_of(&next)).is_ok() { next } else { policy.clone() };
    }
    let limit = policy.limit.max(1);
    let limit = rng.pick([limit + 1, limit * 2, limit.div_ceil(2), limit.div_ceil(10), 300, 0]);
    let next = model::Policy { limit, ..policy.clone() };
    if Rule::new(spec_of(&next)).is_ok() { next } else { policy.clone() }
}

/// The units that an admitted request took.
enum Held<C> {
    Charge(C),
    /// By a check; true if it says that its cost is settled later.
    Checked(Taken, bool),
}

/// Walks over one rule. Returns the number of reservations that were settled under another limit than the limit that
/// took them, and the number of their units that came back.
fn walk<C: Clock>(
    rng: &mut Rng,
    policy: model::Policy,
    trace: Vec<(u64, u64)>,
    (clock, set): (C, impl Fn(u64)),
) -> (u64, u64) {
    let (began_us, mut settled, mut returned) = (trace[0].0, 0, 0);
    let rule = RuleSpec::new("r", spec_of(&policy)).key(["user"]).with_override(vip(&policy));
    let gate = Gate::with_clock(Policy::new(vec![rule]).unwrap(), clock);
    let mut policies = USERS.map(|_| policy.clone());
    let mut models = USERS.map(|_| Model::new(policy.clone()));
    let mut held = Vec::new();
    for (number, (at_us, cost)) in trace.into_iter().enumerate() {
        if at_us > began_us + HORIZON_US {
            break;
        }
        set(at_us);
        let user = rng.below(3) as usize;
        let context = || format!("step {number} at {at_us}, user {user}: {:?}", policies[user]);
        let asked = Descriptor::new(USERS[user]).cost(cost);
        match rng.below(100) {
            0..20 => {
                let answer = gate.check(asked);
                let expected = models[user].step(at_us, cost);
                assert_eq!(answered(answer.matched()[0].decision()), expected, "{}", context());
            }
            20..35 => {
                let reserves = rng.below(2) == 0;
                let request = Request::from(asked);
                let (answer, expected) = match reserves {
                    true => (gate.check(request.reserving()), models[user].reserve(at_us, cost)),
                    false => (gate.check(request), models[user].step(at_us, cost)),
                };
                assert_eq!(answered(answer.matched()[0].decision()), expected, "{}", context());
                let since_us = models[user].last_us().unwrap_or(at_us);
                let checked = Held::Checked(Taken::from(&answer), reserves);
                if expected.allowed {
                    held.push((user, checked, since_us, cost, policies[user].clone()));
                }
            }
            35..55 => {
                let charge = gate.hold(asked).ok();
                let expected = models[user].reserve(at_us, cost);
                assert_eq!(charge.is_some(), expected.allowed, "{}", context());
                let since_us = models[user].last_us().unwrap_or(at_us);
                let taken = policies[user].clone();
                held.extend(
                    charge.map(|charge| (user, Held::Charge(charge), since_us, cost, taken)),
                );
            }
            55..90 if !held.is_empty() => {
                let (user, charge, since_us, cost, taken) =
                    held.swap_remove(rng.below(held.len() as u64) as usize);
                let (model, actual) = (&mut models[user], rng.skewed(cost + 1) - 1);
                let late = match charge {
                    // No reservation is closed.
                    Held::Checked(_, false) => model.undo(at_us, since_us, cost - actual),
                    _ => model.settle_since(at_us, since_us, cost, actual).late,
                };
                match charge {
                    Held::Charge(charge) => charge.settle(actual),
                    Held::Checked(taken, _) => {
                        let asked = Descriptor::new(USERS[user]).cost(cost);
                        let answer = gate.settle(asked, &taken, &[actual]);
                        let settled = answer.matched().first().map(|one| one.settled());
                        assert_eq!(settled.map_or(0, Settled::late_units), late, "{}", context());
                    }
                }
                let answer = gate.peek(Descriptor::new(USERS[user]));
                let expected = model.peek(at_us, 1);
                let context = || format!("step {number}, {user} settles {cost} of {since_us}");
                assert_eq!(answered(answer.matched()[0].decision()), expected, "{}", context());
                if taken != policies[user] {
                    settled += 1;
                    returned += cost.saturating_sub(actual + late);
                }
            }
            55..90 => {}
            _ => {
                let next = other_limit(rng, &policies[user]);
                if user == VIP {
                    gate.amend("default", "r", vip(&next)).unwrap();
                    policies[VIP] = next;
                } else {
                    gate.amend("default", "r", spec_of(&next)).unwrap();
                    policies[..VIP].fill(next);
                }
                for (model, policy) in models.iter_mut().zip(&policies) {
                    if model.policy() != policy {
                        model.replace(at_us, policy.clone());
                    }
                }
            }
        }
        let answer = gate.peek(Descriptor::new(USERS[user]));
        let expected = models[user].peek(at_us, 1);
        assert_eq!(answered(answer.matched()[0].decision()), expected, "step {number} at {at_us}");
    }
    (settled, returned)
}

#[test]
fn what_comes_back_under_another_limit_is_what_has_not_drained_or_left() {
    for algorithm in AlgorithmKind::ALL {
        if algorithm == AlgorithmKind::Concurrency {
            continue; // its permits have walks of their own
        }
        let (mut settled, mut returned) = (0, 0);
        for seed in 0..if long() { 2_000 } else { 100 } {
            let rng = &mut Rng::new(380 + seed);
            let mut policy = traffic::policy(rng, algorithm);
            policy.limit = policy.limit.clamp(1, 1_000);
            policy.capacity = policy.capacity.map(|capacity| capacity.min(1_000));
            policy.initial = None;
            let trace = traffic::trace(rng, &policy, 200);
            let failed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                if seed % 2 == 0 {
                    let clock = TestClock::at(trace[0].0);
                    let set = |us| clock.set(us);
                    return walk(rng, policy, trace, (clock.clone(), set));
                }
                let clock = ManualClock::starting_at(Timestamp::from_micros(trace[0].0));
                let set = |us| clock.advance_to(Timestamp::from_micros(us));
                walk(rng, policy, trace, (clock.clone(), set))
            }));
            let Ok((more_settled, more_returned)) = failed else {
                panic!("{}, seed {seed}", algorithm.name());
            };
            (settled, returned) = (settled + more_settled, returned + more_returned);
        }
        let name = algorithm.name();
        assert!(settled > 500 && returned > 100, "{name}: {settled} settled, {returned} returned");
    }
}

/// A lower capacity hid that more may have been taken at once before.
#[test]
fn a_lower_capacity_alone_cuts_nothing_of_what_comes_back() {
    let of = |capacity| model::Policy {
        capacity: Some(capacity),
        ..model::Policy::new(AlgorithmKind::TokenBucket, 60, 60_000_000)
    };
    let clock = ManualClock::starting_at(Timestamp::from_micros(60_000_000));
    let rule = RuleSpec::new("r", spec_of(&of(1_000))).key(["user"]);
    let gate = Gate::with_clock(Policy::new(vec![rule]).unwrap(), clock);
    let asked = |cost| Descriptor::new(USERS[0]).cost(cost);
    let taken = Taken::from(&gate.check(asked(500)));
    gate.amend("default", "r", spec_of(&of(100))).unwrap();
    let answer = gate.settle(asked(500), &taken, &[0]);
    assert_eq!(answer.matched()[0].settled(), Settled::Whole);
    assert_eq!(answer.matched()[0].decision().remaining, 100);
}

#[test]
fn a_queue_gives_its_last_slots_back_to_a_plain_check_as_to_a_request_that_reserved_them() {
    let policy = model::Policy {
        capacity: Some(9),
        ..model::Policy::new(AlgorithmKind::LeakyQueue, 60, 60_000_000)
    };
    let clock = ManualClock::starting_at(Timestamp::from_micros(60_000_000));
    let rule = RuleSpec::new("r", spec_of(&policy)).key(["user"]);
    let gate = Gate::with_clock(Policy::new(vec![rule]).unwrap(), clock.clone());
    let asked = Descriptor::new(USERS[0]).cost(2);
    let request = Request::from(asked);
    let check = |request: Request<'_>| Taken::from(&gate.check(request));
    let settle = |request: Request<'_>, taken: &Taken| {
        let answer = gate.settle(request, taken, &[0]);
        let one = answer.matched()[0];
        (one.settled(), one.decision().remaining)
    };
    for request in [request.reserving(), request] {
        let first = check(request);
        assert_eq!(settle(request, &first), (Settled::Whole, 10));
        let first = check(request);
        clock.advance(Duration::from_millis(1));
        let last = check(request);
        assert_eq!(settle(request, &first), (Settled::Late(2), 6), "a slot is promised after it");
        assert_eq!(settle(request, &last), (Settled::Whole, 8));
        clock.advance(Duration::from_secs(60));
    }
}
