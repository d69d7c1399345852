//! Limiters under values that come with each call: usage carries over between any values.

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

use super::models::Models;
use super::per_day;
use crate::packed::{TODAY_US, TestClock, answered, long, spec_of, together};
use testkit::model::{self, Expected};
use testkit::traffic::{self, Rng};
use tidegate::{AlgorithmKind, Clock, KeyedLimiter, Rule, Spec, Under};

const KEYS: [&str; 3] = ["ada", "bob", ""];
const WALKS: u64 = 300;
const STEPS: usize = 200;

pub(super) fn rule(algorithm: AlgorithmKind, limit: u64) -> Rule {
    Rule::new(per_day(algorithm, limit)).unwrap()
}

pub(super) fn limiter<C: Clock>(clock: C) -> KeyedLimiter<C> {
    let limiter = KeyedLimiter::with_clock(Spec::unlimited(AlgorithmKind::TokenBucket), clock);
    limiter.unwrap().with_plans(|_| None)
}

/// A few plans of any algorithm. Not both buckets: the state of one is exactly a state of the other,
/// where the model begins again with whole units.
pub(super) fn plans(rng: &mut Rng) -> Vec<model::Policy> {
    let buckets = [model::AlgorithmKind::TokenBucket, model::AlgorithmKind::LeakyBucket];
    let other = rng.pick(buckets);
    let algorithms: Vec<_> =
        model::AlgorithmKind::ALL.into_iter().filter(|algorithm| *algorithm != other).collect();
    let count = rng.between(2, 4);
    let mut any = || {
        let algorithm = algorithms[rng.below(algorithms.len() as u64) as usize];
        let policy = model::Policy { initial: None, ..traffic::policy(rng, algorithm) };
        // Often the same frame with other values, like the plans of one offer.
        let limit = rng.between(1, 2 * policy.limit.clamp(1, 400_000_000));
        let sibling = model::Policy { limit, ..policy.clone() };
        let is_sound = Rule::new(spec_of(&sibling)).is_ok();
        [policy.clone(), if is_sound { sibling } else { policy }]
    };
    (0..count).flat_map(|_| any()).collect()
}

/// A verb of the walk's limiter, by plan or under values that the call supplies.
macro_rules! ask {
    ($walk:expr, $rule:expr, $verb:ident($key:expr $(, $arg:expr)*)) => {
        match $walk.by_plan {
            true => $walk.limiter.$verb($key $(, $arg)*),
            false => $walk.limiter.$verb(Under(&$rule, $key) $(, $arg)*),
        }
    };
}

struct Walk {
    limiter: KeyedLimiter<TestClock>,
    /// The plan that the limiter looks up, where calls do not supply a rule.
    plan: Arc<Mutex<Option<Arc<Rule>>>>,
    by_plan: bool,
    models: Models<&'static str>,
    clock: TestClock,
}

impl Walk {
    fn new(began_us: u64, by_plan: bool) -> Self {
        let (clock, plan) = (TestClock::at(began_us), Arc::new(Mutex::new(None)));
        let known: Arc<Mutex<Option<Arc<Rule>>>> = Arc::clone(&plan);
        let limiter = limiter(clock.clone()).with_plans(move |_| known.lock().unwrap().clone());
        Self { limiter, plan, by_plan, models: Models::default(), clock }
    }

    /// A request at the model of a key. Values that it supplies and is denied under change nothing.
    fn decided(&mut self, key: &'static str, plan: &model::Policy, cost: u64) -> Expected {
        let at_us = self.clock.now_us();
        let supplied = !self.by_plan && self.models.is_under_others(&key, plan);
        let (seen, begins) = self.models.tried(at_us, &key, plan, cost, supplied);
        if supplied && !seen.allowed && !begins {
            return seen;
        }
        self.models.under(at_us, &key, plan).step(at_us, cost)
    }

    fn step(&mut self, rng: &mut Rng, plan: &model::Policy) {
        let at_us = self.clock.now_us();
        let key = rng.pick(KEYS);
        let rule = Rule::new(spec_of(plan)).unwrap();
        *self.plan.lock().unwrap() = Some(Arc::new(rule.clone()));
        let cost = rng.skewed(plan.limit.max(1) + 1);
        match rng.below(100) {
            0..45 if cost > 0 => {
                let want = self.decided(key, plan, cost);
                assert_eq!(answered(&ask!(self, rule, check(key, cost))), want, "check");
            }
            45..60 if cost > 0 => {
                let want = self.decided(key, plan, cost).allowed;
                assert_eq!(ask!(self, rule, admits(key, cost)), want, "admits");
            }
            60..75 => {
                self.models.under(at_us, &key, plan).refund(at_us, cost);
                let _ = ask!(self, rule, refund(key, cost));
            }
            75..85 if cost > 0 => {
                let (want, actual) = (self.decided(key, plan, cost), rng.below(2 * cost));
                let reserved = ask!(self, rule, reserve(key, cost));
                assert_eq!(reserved.is_ok(), want.allowed, "reserve");
                if let Ok(reserved) = reserved {
                    let model = self.models.under(at_us, &key, plan);
                    match (model.token(), model.last_us()) {
                        (Some(token), _) => model.return_permit(at_us, token, cost),
                        (None, Some(since_us)) => {
                            model.settle_since(at_us, since_us, cost, actual);
                        }
                        (None, None) => {}
                    }
                    let _ = ask!(self, rule, settle(key, reserved, actual));
                }
            }
            85..87 => {
                self.models.forget(&key);
                self.limiter.reset(key);
                // Nothing comes back that was taken before a reset, or in its microsecond.
                self.clock.pass(1);
            }
            _ => {
                let (want, _) = self.models.tried(at_us, &key, plan, cost, !self.by_plan);
                assert_eq!(answered(&ask!(self, rule, peek(key, cost))), want, "peek");
                let free = self.models.seen(at_us, &key, plan).peek(at_us, 0);
                assert_eq!(answered(&ask!(self, rule, check(key, 0))), free, "for nothing");
            }
        }
    }
}

/// Time passes by parts of a window of the plan, or by several.
pub(super) fn pass(rng: &mut Rng, clock: &TestClock, plan: &model::Policy) {
    let window_us = plan.window_us.max(1);
    clock.pass(match rng.below(10) {
        0..3 => 0,
        3..6 => rng.below(window_us / 100 + 2),
        6..9 => rng.below(window_us),
        _ => rng.below(4 * window_us),
    });
}

/// A walk in which a caller changes between plans of all algorithms at every step, or now and then.
#[test]
fn under_changing_plans_it_answers_as_a_model_that_is_amended() {
    for seed in 0..WALKS * if long() { 10 } else { 1 } {
        let rng = &mut Rng::new(seed);
        let plans = plans(rng);
        let mut walk = Walk::new(TODAY_US, seed % 3 == 0);
        let loyalty = rng.pick([0, 50, 90]);
        let mut plan = &plans[0];
        for step in 0..STEPS {
            if !rng.chance(loyalty) {
                plan = &plans[rng.below(plans.len() as u64) as usize];
            }
            pass(rng, &walk.clock, plan);
            let took = std::panic::AssertUnwindSafe(|| walk.step(rng, plan));
            let equal = std::panic::catch_unwind(took).is_ok();
            assert!(equal, "seed {seed}, step {step}: {plan:?} of {plans:?}");
        }
    }
}

#[test]
fn an_unlimited_plan_counts_nothing_and_forgets_nothing() {
    let limiter = limiter(TestClock::at(TODAY_US));
    let (few, all) =
        (rule(AlgorithmKind::SlidingLog, 3), Spec::unlimited(AlgorithmKind::SlidingLog));
    let all = Rule::new(all).unwrap();
    assert!(limiter.admits(Under(&few, "key"), 2));
    assert!(limiter.admits(Under(&all, "key"), u64::MAX));
    let reserved = limiter.reserve(Under(&all, "key"), 7).unwrap();
    assert_eq!(limiter.settle(Under(&all, "key"), reserved, 0).limit, u64::MAX);
    assert_eq!(limiter.peek(Under(&few, "key"), 1).remaining, 1);
}

#[test]
fn a_plan_is_looked_up_by_key_and_the_usual_one_is_for_all_others() {
    let gold = Arc::new(rule(AlgorithmKind::SlidingLog, 10));
    let limiter = KeyedLimiter::new(*rule(AlgorithmKind::SlidingLog, 2).spec()).unwrap();
    let limiter = limiter.with_plans(move |key| key.starts_with(b"gold").then(|| gold.clone()));
    assert_eq!((limiter.peek("gold 1", 0).limit, limiter.peek("ada", 0).limit), (10, 2));
    assert!(limiter.admits("ada", 2) && !limiter.admits("ada", 1));
    assert!(limiter.admits("gold 1", 10) && !limiter.admits("gold 1", 1));
    assert_eq!((limiter.peek("gold 2", 1).remaining, limiter.keys()), (10, 2));
    limiter.reset("ada");
    let reserved = limiter.reserve("ada", 2).unwrap();
    assert_eq!(limiter.settle("ada", reserved, 1).remaining, 1);
    assert_eq!(limiter.refund("ada", 1).remaining, 2);
}

/// Eight threads take all there is of a few keys, each under a plan of its own: to the unit, each key
/// gives what the largest plan has.
#[test]
fn eight_threads_under_plans_of_their_own_get_what_the_largest_has() {
    for algorithm in AlgorithmKind::ALL.iter().copied() {
        for round in 0..if long() { 50 } else { 4 } {
            let limiter = limiter(TestClock::at(TODAY_US));
            let got = [(); 3].map(|()| AtomicU64::new(0));
            together(8, |thread, rng| {
                let plan = rule(algorithm, 100 * (thread + 1));
                let mut refused = 0;
                while refused < 20 {
                    let key = rng.below(3) as usize;
                    let admitted = match rng.chance(50) {
                        true => limiter.admits(Under(&plan, KEYS[key]), 1),
                        false => limiter.check(Under(&plan, KEYS[key]), 1).is_allowed(),
                    };
                    got[key].fetch_add(u64::from(admitted), SeqCst);
                    refused += u64::from(!admitted);
                    let _ = limiter.peek(Under(&plan, KEYS[key]), 1);
                }
            });
            let largest = rule(algorithm, 800);
            for (key, got) in KEYS.iter().zip(got) {
                let more = limiter.peek(Under(&largest, key), 1).remaining;
                assert_eq!(got.into_inner() + more, 800, "{algorithm} {key:?}, round {round}");
                assert!(more == 0 || round > 0 || more < 800);
            }
            assert_eq!(limiter.keys(), 3);
        }
    }
}

#[test]
fn what_is_given_back_under_eight_plans_at_once_is_neither_lost_nor_doubled() {
    let limiter = limiter(TestClock::at(TODAY_US));
    let largest = rule(AlgorithmKind::TokenBucket, 1_000);
    assert!(limiter.admits(Under(&largest, "key"), 800));
    together(8, |thread, _| {
        let plan = rule(AlgorithmKind::TokenBucket, 900 + thread);
        for _ in 0..100 {
            let _ = limiter.refund(Under(&plan, "key"), 1);
        }
    });
    assert_eq!(limiter.peek(Under(&largest, "key"), 1).remaining, 1_000);
}
