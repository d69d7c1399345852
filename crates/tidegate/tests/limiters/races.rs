//! Eight threads at once, by clocks that run: they admit no more than the definitions allow over the whole time.

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use crate::packed::{TODAY_US, TestClock, long, spec_of, together};
use testkit::model;
use testkit::traffic::Rng;
use tidegate::{Clock, Descriptor, Gate, KeyedLimiter, Limiter, Policy, RuleSpec, Timestamp};

const SECOND_US: u64 = 1_000_000;

fn rounds() -> u64 {
    if long() { 50 } else { 3 }
}

/// A clock that every reading moves on by up to 40 us, and never back, as it says or not.
#[derive(Clone)]
struct Running {
    clock: TestClock,
    never_steps_back: bool,
}

impl Clock for Running {
    fn now(&self) -> Timestamp {
        self.clock.pass(40);
        self.clock.now()
    }

    fn never_steps_back(&self) -> bool {
        self.never_steps_back
    }
}

/// The maximum that a rule may admit while its clock goes from the start of a window over `span_us`.
fn most(policy: &model::Policy, span_us: u64) -> u64 {
    let (windows, part) = (span_us / policy.window_us, span_us % policy.window_us);
    match policy.algorithm.has_capacity() {
        true => {
            policy.capacity() + 1 + windows * policy.limit + part * policy.limit / policy.window_us
        }
        false => (windows + 1) * policy.limit,
    }
}

/// Time passes while eight threads ask: their readings are overtaken again and again before they are
/// served, and the bound of the rule over the whole time is never exceeded.
#[test]
fn a_clock_that_runs_admits_no_more_than_the_rule_allows() {
    const WINDOW_US: u64 = 4_000;
    for algorithm in model::AlgorithmKind::ALL {
        for (round, never_steps_back) in
            (0..rounds()).flat_map(|round| [(round, false), (round, true)])
        {
            let policy = model::Policy::new(algorithm, 20 + 10 * (round % 3), WINDOW_US);
            let clock = Running { clock: TestClock::at(TODAY_US), never_steps_back };
            let alone = Limiter::with_clock(spec_of(&policy), clock.clone()).unwrap();
            let keyed = KeyedLimiter::with_clock(spec_of(&policy), clock.clone()).unwrap();
            let rules = Policy::new(vec![RuleSpec::new("r", spec_of(&policy))]).unwrap();
            let gate = Gate::with_clock(rules, clock.clone());
            let admitted = [AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0)];
            together(8, |_, _| {
                for _ in 0..1_000 {
                    admitted[0].fetch_add(u64::from(alone.admits(1)), SeqCst);
                    admitted[1].fetch_add(u64::from(keyed.admits("key", 1)), SeqCst);
                    let answer = gate.check(Descriptor::new(&[]));
                    admitted[2].fetch_add(u64::from(answer.is_allowed()), SeqCst);
                }
            });
            let most = most(&policy, clock.clock.now_us() - TODAY_US);
            for admitted in admitted {
                let admitted = admitted.into_inner();
                assert!(admitted <= most, "{admitted} of {most}: {policy:?}");
                assert!(admitted >= most / 3, "{admitted} of {most}: hardly any: {policy:?}");
            }
        }
    }
}

/// Many keys in one call are decided as one after another, in order, keys named twice included.
#[test]
fn check_many_decides_as_one_by_one_in_order() {
    // A bucket of this window is kept in two words.
    let windows = [SECOND_US, 20_000_000 * SECOND_US];
    for (algorithm, window_us) in
        model::AlgorithmKind::ALL.into_iter().flat_map(|one| windows.map(|window| (one, window)))
    {
        let clock = TestClock::at(TODAY_US);
        let policy = model::Policy::new(algorithm, 3, window_us);
        let new = || KeyedLimiter::with_clock(spec_of(&policy), clock.clone()).unwrap();
        let (many, single) = (new(), new());
        let rng = &mut Rng::new(9);
        for _ in 0..200 {
            clock.pass(rng.below(SECOND_US / 2));
            let length = rng.pick([0, 1, 2, 15, 16, 17, 40, 100]);
            let keys: Vec<_> = (0..length).map(|_| rng.skewed(200).to_le_bytes()).collect();
            let one_by_one: Vec<_> = keys.iter().map(|key| single.admits(key, 1)).collect();
            assert_eq!(many.check_many(&keys), one_by_one, "{policy:?}");
        }
    }
}
