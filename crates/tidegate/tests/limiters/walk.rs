//! States packed into a word or two answer as the naive models do, to the last figure.
//!
//! Random policies of every algorithm, several keys, every verb. Those whose states do not fit are
//! kept whole and come along. `TIDEGATE_LONG=1` walks ten times as far.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use crate::packed::{TestClock, long, spec_of, told};
use testkit::model::{self, Model};
use testkit::traffic::{self, Rng};
use tidegate::{
    Decision, Descriptor, Gate, KeyedLimiter, Limiter, Policy, Request, RuleSpec, Usage,
};

/// Policies of each algorithm; with the steps of each, up to 7 x 200 x 250 verbs.
const POLICIES: u64 = 200;
const STEPS: usize = 250;
/// No clock that promises not to step back may be read later than this after its first reading.
const HORIZON_US: u64 = 1 << 48;
const KEYS: [&str; 4] = ["ada", "bob", "", "a|b"];

/// What is walked: one limiter, one for each key, or a rule of a gate.
trait Subject {
    fn admits(&self, key: &str, cost: u64) -> bool;
    fn check(&self, key: &str, cost: u64) -> Decision;
    fn peek(&self, key: &str, cost: u64) -> Decision;
    fn refund(&self, key: &str, units: u64);
    fn reset(&self, key: &str);
    /// Whether usage is reported to it.
    fn is_reported(&self) -> bool {
        false
    }
}

impl Subject for Limiter<TestClock> {
    fn admits(&self, _key: &str, cost: u64) -> bool {
        self.admits(cost)
    }

    fn check(&self, _key: &str, cost: u64) -> Decision {
        self.check(cost)
    }

    fn peek(&self, _key: &str, cost: u64) -> Decision {
        self.peek(cost)
    }

    fn refund(&self, _key: &str, units: u64) {
        let _ = self.refund(units);
    }

    fn reset(&self, _key: &str) {
        self.reset();
    }
}

impl Subject for KeyedLimiter<TestClock> {
    fn admits(&self, key: &str, cost: u64) -> bool {
        self.admits(key, cost)
    }

    fn check(&self, key: &str, cost: u64) -> Decision {
        self.check(key, cost)
    }

    fn peek(&self, key: &str, cost: u64) -> Decision {
        self.peek(key, cost)
    }

    fn refund(&self, key: &str, units: u64) {
        let _ = self.refund(key, units);
    }

    /// It has no such verb: all that a key can have used is given back instead.
    fn reset(&self, key: &str) {
        self.refund(key, 1 << 40);
    }
}

/// One request about one key of a rule.
fn with<T>(key: &str, cost: u64, verb: impl FnOnce(&Request<'_>) -> T) -> T {
    let entries = [("user", key)];
    verb(&Request::new(Request::DEFAULT_DOMAIN, &[Descriptor::new(&entries).cost(cost)]))
}

impl Subject for Gate<TestClock> {
    fn admits(&self, key: &str, cost: u64) -> bool {
        with(key, cost, |request| self.admits(request))
    }

    fn check(&self, key: &str, cost: u64) -> Decision {
        with(key, cost, |request| *self.check(request).matched()[0].decision())
    }

    fn peek(&self, key: &str, cost: u64) -> Decision {
        with(key, cost, |request| *self.peek(request).matched()[0].decision())
    }

    fn refund(&self, key: &str, units: u64) {
        let _ = with(key, units, |request| self.refund(request).is_allowed());
    }

    fn reset(&self, key: &str) {
        assert_eq!(with(key, 1, |request| self.reset(request)), 1);
    }

    fn is_reported(&self) -> bool {
        self.policy().rules()[0].spec().usage == Usage::Reported
    }
}

/// One verb on the subject and on the model of its key.
fn step(subject: &dyn Subject, model: &mut Model, key: &str, at_us: u64, cost: u64, verb: u64) {
    let reported = subject.is_reported();
    let mut asked = |at_us, cost| match reported {
        true => model.reported(at_us, cost),
        false => model.step(at_us, cost),
    };
    match verb {
        0..55 => assert_eq!(told(&subject.check(key, cost)), asked(at_us, cost), "check"),
        55..75 => assert_eq!(subject.admits(key, cost), asked(at_us, cost).allowed, "admits"),
        75..88 => {
            let cost_asked = if reported { 1 } else { cost };
            assert_eq!(told(&subject.peek(key, cost)), model.peek(at_us, cost_asked), "peek");
        }
        88..97 => {
            subject.refund(key, cost);
            model.refund(at_us, cost);
        }
        _ => {
            subject.reset(key);
            model.reset();
        }
    }
    assert_eq!(told(&subject.peek(key, 1)), model.peek(at_us, 1), "as it stands then");
}

/// Walks policies of every algorithm; `make` gives the subject of one.
fn walk(keys: &[&str], make: impl Fn(&model::Policy, TestClock) -> Box<dyn Subject>) {
    let mut steps = 0;
    let policies = POLICIES * if long() { 10 } else { 1 };
    for algorithm in model::AlgorithmKind::ALL {
        for seed in 0..policies {
            let rng = &mut Rng::new(seed);
            let mut policy = traffic::policy(rng, algorithm);
            if keys.len() > 1 {
                policy.initial = None; // for rules without a key only
            }
            let trace = traffic::trace(rng, &policy, STEPS);
            let began_us = trace[0].0;
            let clock = TestClock::at(began_us);
            let subject = make(&policy, clock.clone());
            let mut models = keys.iter().map(|_| Model::new(policy.clone())).collect::<Vec<_>>();
            let within = trace.into_iter().take_while(|(at_us, _)| at_us - began_us < HORIZON_US);
            for (number, (at_us, cost)) in within.enumerate() {
                clock.set(at_us);
                steps += 1;
                let key = rng.below(keys.len() as u64) as usize;
                let verb = rng.below(100);
                let took = std::panic::AssertUnwindSafe(|| {
                    step(subject.as_ref(), &mut models[key], keys[key], at_us, cost, verb);
                });
                let equal = std::panic::catch_unwind(took).is_ok();
                assert!(equal, "seed {seed}, step {number} at {at_us}, verb {verb}: {policy:?}");
            }
        }
    }
    assert!(steps > 200_000, "{steps} steps: too short a walk");
}

#[test]
fn a_limiter_in_a_word_or_two_answers_as_its_model() {
    walk(&KEYS[..1], |policy, clock| {
        Box::new(Limiter::with_clock(spec_of(policy), clock).unwrap())
    });
}

#[test]
fn limiters_in_a_table_of_words_answer_as_their_models() {
    walk(&KEYS, |policy, clock| {
        Box::new(KeyedLimiter::with_clock(spec_of(policy), clock).unwrap())
    });
}

#[test]
fn a_gate_whose_clock_never_steps_back_answers_as_the_models() {
    walk(&KEYS, |policy, clock| {
        let rule = RuleSpec::new("r", spec_of(policy)).key(["user"]);
        Box::new(Gate::with_clock(Policy::new(vec![rule]).unwrap(), clock))
    });
}

/// Debts of any size among them, which a word has no place for.
#[test]
fn a_gate_to_which_usage_is_reported_answers_as_the_models() {
    walk(&KEYS, |policy, clock| {
        let mut rule = RuleSpec::new("r", spec_of(policy)).key(["user"]);
        if policy.algorithm != model::AlgorithmKind::LeakyQueue {
            rule = rule.usage(Usage::Reported);
        }
        Box::new(Gate::with_clock(Policy::new(vec![rule]).unwrap(), clock))
    });
}
