//! Random walks: every verb, step by step, compared with the naive model in every value, also while the values change.
//!
//! Random policies of every algorithm, with states that fit in one word, two or none. `TIDEGATE_LONG=1` walks ten
//! times as far.

use std::slice;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use testkit::model::{self, Expected, Model};
use testkit::threads::{long, together};
use testkit::traffic::{self, Rng};
use tidegate::{AlgorithmKind, Clock, ManualClock, Settled, Spec, Timestamp};

use crate::kit::every_subject_in_memory;
use crate::models::{Models, pool, with_other_capacity};
use crate::packed::{answered, spec_of};
use crate::subjects::{Case, Follows, InMemory, Settle, Waiting};

every_subject_in_memory! {
    a_random_walk_is_answered_as_by_the_models,
    values_that_change_are_answered_as_by_the_models,
    eight_callers_get_what_the_model_has_as_time_passes,
}

/// The number of policies of each algorithm, and of the steps of each.
const POLICIES: u64 = 60;
const STEPS: usize = 250;
/// A clock that never steps back may be read at most this long after its first reading.
pub(crate) const HORIZON_US: u64 = 1 << 48;
const SECOND_US: u64 = 1_000_000;

/// Units that are still to be settled.
struct Open<'s> {
    key: &'static str,
    settle: Settle<'s>,
    since_us: u64,
    units: u64,
    /// They were reserved, not taken by a plain check.
    is_reserved: bool,
}

/// A subject, and the models of its keys.
struct Walk<'s> {
    subject: &'s dyn Waiting,
    follows: Follows,
    /// `None` without a limit, which counts nothing and forgets nothing.
    values: Option<model::Policy>,
    models: Models<&'static str>,
    open: Vec<Open<'s>>,
    at_us: u64,
}

impl Walk<'_> {
    fn change(&mut self, values: Option<model::Policy>) {
        let unlimited = Spec::unlimited(AlgorithmKind::TokenBucket);
        self.subject.change(values.as_ref().map_or(unlimited, spec_of));
        if let (Some(values), Follows::AtOnce) = (&values, self.follows) {
            for key in self.models.ids(|_| true) {
                self.models.under(self.at_us, &key, values);
            }
        }
        self.values = values;
    }

    fn is_supplied(&self) -> bool {
        self.follows == Follows::WhenTaken
    }

    /// The expected answer to a request. Values that it supplies and is denied under change nothing.
    fn decided(&mut self, key: &'static str, values: &model::Policy, cost: u64) -> Expected {
        let (at_us, is_supplied) = (self.at_us, self.is_supplied());
        let (seen, begins) = self.models.tried(at_us, &key, values, cost, is_supplied);
        // A cost of 0 puts no values in force that come with a call.
        let is_look = cost == 0 && self.follows != Follows::AtOnce;
        if is_look || is_supplied && !seen.allowed && !begins {
            return seen;
        }
        self.models.under(at_us, &key, values).step(at_us, cost)
    }

    fn compare_peek(&self, key: &'static str, values: &model::Policy, cost: u64) {
        let (want, _) = self.models.tried(self.at_us, &key, values, cost, self.is_supplied());
        assert_eq!(answered(&self.subject.peek(key, cost)), want, "peek");
    }

    /// One verb on the subject and on the model of its key.
    fn step(&mut self, key: &'static str, rng: &mut Rng, cost: u64) {
        let (subject, at_us) = (self.subject, self.at_us);
        let is_at_once = self.follows == Follows::AtOnce;
        let Some(values) = self.values.clone() else {
            assert!(subject.admits(key, cost), "without a limit");
            return;
        };
        match rng.below(100) {
            0..35 => {
                let want = self.decided(key, &values, cost);
                assert_eq!(answered(&subject.check(key, cost)), want, "check");
            }
            35..45 => {
                let want = self.decided(key, &values, cost).allowed;
                assert_eq!(subject.admits(key, cost), want, "admits");
            }
            45..52 => self.compare_peek(key, &values, cost),
            52..58 => {
                self.models.under(at_us, &key, &values).refund(at_us, cost);
                let _ = subject.refund(key, cost);
            }
            // Some subjects name the permit, and some give back what ends first.
            58..78 if !values.holds_permits() && (cost > 0 || is_at_once) => {
                self.reserve(rng, key, &values, cost)
            }
            78..97 if !self.open.is_empty() => {
                let open = self.open.swap_remove(rng.below(self.open.len() as u64) as usize);
                // A settlement that moves no unit puts no values in force that it supplies.
                let is_supplied = self.is_supplied();
                let known = self.models.get_mut(&open.key);
                if is_supplied && known.is_none_or(|model| model.policy() != &values) {
                    return;
                }
                let Open { key, settle, since_us, units, is_reserved } = open;
                if !is_reserved && values.holds_permits() {
                    return; // as above
                }
                let model = self.models.under(at_us, &key, &values);
                let (actual, late) = if is_reserved {
                    let actual = match values.max_debt {
                        Some(most) if rng.chance(50) => rng.skewed(most.min(1 << 40)),
                        _ => rng.skewed(2 * units.min(1_000) + 1),
                    };
                    (actual, model.settle_since(at_us, since_us, units, actual).late)
                } else {
                    let actual = rng.below(units + 1);
                    (actual, model.undo(at_us, since_us, units - actual))
                };
                let (answer, settled) = settle(actual);
                assert_eq!(settled.map_or(late, Settled::late_units), late, "late units");
                assert_eq!(answered(&answer), model.peek(at_us, 0), "settle");
            }
            _ => {
                subject.reset(key);
                self.models.under(at_us, &key, &values).reset(at_us);
            }
        }
        self.compare_peek(key, &values, 1);
    }

    /// Reserves units, or takes them by a plain check.
    fn reserve(&mut self, rng: &mut Rng, key: &'static str, values: &model::Policy, units: u64) {
        let at_us = self.at_us;
        let want = self.decided(key, values, units).allowed;
        let taken = if rng.chance(40) { self.subject.take(key, units) } else { None };
        let is_reserved = taken.is_none();
        let taken = taken.unwrap_or_else(|| self.subject.reserve(key, units));
        assert_eq!(taken.is_ok(), want, "reserve");
        if let Ok(settle) = taken {
            let model = self.models.under(at_us, &key, values);
            if is_reserved {
                model.reserved(units);
            }
            let since_us = model.last_us().unwrap_or(at_us);
            self.open.push(Open { key, settle, since_us, units, is_reserved });
        }
    }
}

fn a_random_walk_is_answered_as_by_the_models(case: &Case<'_, dyn InMemory>) {
    let mut steps = 0;
    for seed in 0..POLICIES * if long() { 10 } else { 1 } {
        let rng = &mut Rng::new(seed);
        let mut policy = traffic::policy(rng, case.model());
        let_owe(rng, slice::from_mut(&mut policy));
        if !case.kind.has_initial() {
            policy.initial = None;
        }
        steps += walk(case, rng, &[policy], 0, &format!("seed {seed}"));
    }
    assert!(steps > 10_000, "{steps} steps: too short a walk");
}

fn values_that_change_are_answered_as_by_the_models(case: &Case<'_, dyn InMemory>) {
    for seed in 0..POLICIES * if long() { 10 } else { 1 } {
        let rng = &mut Rng::new(seed);
        let mut policies = pool(rng, case.model(), AlgorithmKind::ALL, true);
        let others: Vec<_> =
            policies.iter().filter_map(|policy| with_other_capacity(rng, policy)).collect();
        policies.extend(others);
        let_owe(rng, &mut policies);
        let changes = rng.pick([2, 10, 50]);
        walk(case, rng, &policies, changes, &format!("seed {seed}"));
    }
}

/// Lets some limiters owe far more than their packed states have room for: nothing of that may be cut off, because it
/// would come back as a credit. The counters of a sliding window stop at 2^32 - 1.
fn let_owe(rng: &mut Rng, policies: &mut [model::Policy]) {
    let counts = |one: &model::Policy| one.algorithm == model::AlgorithmKind::SlidingWindow;
    let most = if policies.iter().any(counts) { 1 << 31 } else { u64::MAX };
    for policy in policies.iter_mut().filter(|one| !one.holds_permits()) {
        policy.max_debt = Some(most).filter(|_| rng.chance(30));
    }
}

/// Begins with the first policy, and changes it at so many of a hundred steps. Returns the number of steps.
fn walk(
    case: &Case<'_, dyn InMemory>,
    rng: &mut Rng,
    policies: &[model::Policy],
    changes: u64,
    context: &str,
) -> usize {
    let trace = traffic::trace(rng, &policies[0], STEPS);
    let began_us = trace[0].0;
    let clock = ManualClock::starting_at(Timestamp::from_micros(began_us));
    let subject = case.by(&clock, spec_of(&policies[0]));
    let keys = subject.keys();
    let mut walk = Walk {
        subject: &*subject,
        follows: case.kind.follows(),
        values: Some(policies[0].clone()),
        models: Models::default(),
        open: Vec::new(),
        at_us: began_us,
    };
    let mut steps = 0;
    for (at_us, cost) in trace {
        if at_us - began_us >= HORIZON_US {
            break;
        }
        clock.advance_to(Timestamp::from_micros(at_us));
        let is_changed = rng.chance(changes);
        if is_changed {
            // Units that were taken in the microsecond of a change may come back or not.
            clock.advance(Duration::from_micros(1));
        }
        walk.at_us = clock.now().as_micros();
        steps += 1;
        let took = std::panic::AssertUnwindSafe(|| {
            if is_changed {
                let next = policies[rng.below(policies.len() as u64) as usize].clone();
                walk.change(Some(next).filter(|_| !rng.chance(10)));
            }
            walk.step(keys[rng.below(keys.len() as u64) as usize], rng, cost);
        });
        let equal = std::panic::catch_unwind(took).is_ok();
        assert!(equal, "{context}, step {steps} at {at_us}: {:?} of {policies:?}", walk.values);
        if walk.models.has_debt_beyond_time(walk.at_us) {
            break;
        }
    }
    steps
}

/// Rules with a state in one word, in two (a large prime of units in half a year, or more of them than one word can
/// count), or in none.
fn policies(case: &Case<'_, dyn InMemory>) -> Vec<model::Policy> {
    let algorithm = case.model();
    let small = model::Policy::new(algorithm, 200, SECOND_US);
    let mut all = vec![small.clone()];
    match algorithm {
        model::AlgorithmKind::FixedWindow => {
            all.push(model::Policy { anchor_first_request: true, ..small });
        }
        algorithm if algorithm.has_capacity() => {
            let large = model::Policy::new(algorithm, 999_999_937, 20_000_000 * SECOND_US);
            all.push(model::Policy { capacity: Some(200), ..large });
            if case.kind.has_initial() && algorithm == model::AlgorithmKind::TokenBucket {
                all.push(model::Policy { initial: Some(100), ..small });
            }
        }
        _ => {}
    }
    all
}

/// The callers take all there is, then time passes, again and again; each time new keys make tables grow.
///
/// Pitfalls: after a race of two threads a limiter refused for ever; and in a limiter with a cache of 1,000 keys, 3,000
/// other keys gave a limited caller a fresh budget.
fn eight_callers_get_what_the_model_has_as_time_passes(case: &Case<'_, dyn InMemory>) {
    for policy in policies(case) {
        let clock = ManualClock::new();
        let subject = case.by(&clock, spec_of(&policy));
        let (key, has_others) = (subject.keys()[0], subject.keys().len() > 1);
        let (mut model, rng) = (Model::new(policy.clone()), &mut Rng::new(policy.limit));
        let others = AtomicU64::new(0);
        for step in 0..24 * if long() { 20 } else { 1 } {
            let got = AtomicU64::new(0);
            together(8, |_, rng| {
                let mut refused = 0;
                while refused < 3 {
                    if has_others {
                        let other = others.fetch_add(1, Relaxed).to_string();
                        assert!(subject.admits(&other, 1), "each of them comes once");
                    }
                    let admitted = match rng.chance(50) {
                        true => subject.check(key, 1).is_allowed(),
                        false => subject.admits(key, 1),
                    };
                    got.fetch_add(u64::from(admitted), Relaxed);
                    refused += u64::from(!admitted);
                }
            });
            let now_us = clock.now().as_micros();
            let there = std::iter::repeat_with(|| model.step(now_us, 1).allowed);
            let want = there.take_while(|allowed| *allowed).count() as u64;
            assert_eq!(got.into_inner(), want, "step {step}: {policy:?}");
            let pauses = [1, 5_000, 40_000, 300_000, SECOND_US - 1, SECOND_US, 3 * SECOND_US];
            clock.advance(Duration::from_micros(rng.pick(pauses)));
        }
    }
}
