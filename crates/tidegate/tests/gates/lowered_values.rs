//! Values of one key that fall because its plan, an override or a request says so: no caller waits longer than one new
//! window, and a caller who alternates between values is admitted no more than the larger values allow.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::packed::{TODAY_US, TestClock};
use testkit::traffic::Rng;
use tidegate::{
    AlgorithmKind, Decision, Descriptor, Gate, Limit, Micros, OverrideSpec, Policy, RequestLimit,
    Rule, RuleSpec, Setup, Spec, Usage,
};

const MINUTE: Duration = Duration::from_secs(60);
const MINUTE_US: u64 = 60_000_000;
const LEVELS: [AlgorithmKind; 3] =
    [AlgorithmKind::TokenBucket, AlgorithmKind::LeakyBucket, AlgorithmKind::LeakyQueue];

/// A gate with a rule for each user, whose values come from everywhere.
struct Alone {
    gate: Gate<TestClock>,
    clock: TestClock,
    plan: Arc<Mutex<Option<Arc<Rule>>>>,
    rule: RuleSpec,
}

impl Alone {
    fn new(spec: Spec) -> Self {
        Self::under(RuleSpec::new("r", spec).key(["user"]).limit_from_request())
    }

    fn under(rule: RuleSpec) -> Self {
        let (clock, plan) = (TestClock::at(TODAY_US), Arc::<Mutex<Option<Arc<Rule>>>>::default());
        let setup = Setup::new(Policy::new(vec![rule.clone()]).unwrap());
        let known = Arc::clone(&plan);
        let setup = setup.plans("default", "r", move |_| known.lock().unwrap().clone()).unwrap();
        let gate = Gate::with_clock(setup, clock.clone());
        Self { gate, clock, plan, rule }
    }

    fn pass(&self, us: u64) {
        self.clock.set(self.clock.now_us() + us);
    }

    fn plan(&self, spec: Spec) {
        *self.plan.lock().unwrap() = Some(Arc::new(Rule::new(spec).unwrap()));
    }

    fn ask(&self, cost: u64) -> Decision {
        self.decide(None, cost, true)
    }

    fn bring(&self, spec: Spec, cost: u64) -> Decision {
        self.decide(Some(&RequestLimit::new(Rule::new(spec).unwrap())), cost, true)
    }

    fn decide(&self, from_request: Option<&RequestLimit>, cost: u64, takes: bool) -> Decision {
        let entries = [("user", "ada")];
        let descriptor = Descriptor::new(&entries).cost(cost);
        let descriptor =
            from_request.map_or(descriptor, |from_request| descriptor.limit(from_request));
        let answer = if takes { self.gate.check(descriptor) } else { self.gate.peek(descriptor) };
        *answer.matched()[0].decision()
    }
}

fn values(algorithm: AlgorithmKind, limit: u64) -> Spec {
    Spec::new(algorithm, limit, MINUTE)
}

fn wait_us(decision: &Decision) -> u64 {
    decision.retry_after_micros().map_or(u64::MAX, Micros::as_micros)
}

/// Every algorithm whose units leave by themselves.
fn algorithms() -> impl Iterator<Item = AlgorithmKind> {
    AlgorithmKind::ALL.iter().copied().filter(|kind| *kind != AlgorithmKind::Concurrency)
}

/// Asks for a unit, which has to wait for a window at most, or in a counter as long as under a full new limit.
fn waits_one_window(one: &Alone, what: &str) {
    let algorithm = one.rule.spec.algorithm;
    let decision = one.ask(1);
    let is_counter = algorithm == AlgorithmKind::SlidingCounter;
    let longest = MINUTE_US + if is_counter { MINUTE_US / decision.limit } else { 0 };
    let wait = wait_us(&decision);
    assert!((1..=longest).contains(&wait), "{algorithm}, {what}: {wait} us");
    one.pass(wait - 1);
    assert!(!one.ask(1).is_allowed(), "{algorithm}, {what}: not a microsecond sooner");
    one.pass(1);
    assert!(one.ask(1).is_allowed(), "{algorithm}, {what}: the wait was true");
}

#[test]
fn a_lower_plan_makes_nobody_wait_43_minutes() {
    for algorithm in algorithms() {
        let one = Alone::new(values(algorithm, 60));
        one.plan(values(algorithm, 10_000));
        assert!(one.ask(2_600).is_allowed());
        one.plan(values(algorithm, 60));
        waits_one_window(&one, "another plan");
        let one = Alone::new(values(algorithm, 60));
        one.plan(values(algorithm, 10_000));
        assert!(one.ask(2_600).is_allowed());
        *one.plan.lock().unwrap() = None;
        waits_one_window(&one, "no plan any more");
    }
}

#[test]
fn an_override_that_comes_or_goes_makes_nobody_wait_43_minutes() {
    let of = |user: &str, limit| {
        let mut values = OverrideSpec::new("user", user);
        values.limit = Some(Limit::Units(limit));
        values
    };
    let (ada, bob) = (|limit| of("ada", limit), of("bob", 5));
    for algorithm in algorithms() {
        let rule = |limit| RuleSpec::new("r", values(algorithm, limit)).key(["user"]);
        let changes = [
            ("comes", rule(10_000), rule(10_000).with_override(ada(60))),
            ("goes", rule(60).with_override(ada(10_000)), rule(60)),
            (
                "comes after a list that changed",
                rule(10_000).with_override(bob.clone()),
                rule(10_000).with_override(ada(60)),
            ),
        ];
        for (what, before, after) in changes {
            let one = Alone { rule: after.clone(), ..Alone::under(before) };
            assert!(one.ask(2_600).is_allowed());
            one.gate.replace(Policy::new(vec![after]).unwrap()).unwrap();
            waits_one_window(&one, what);
        }
    }
}

/// A report puts its own limit in force, with any usage.
#[test]
fn a_report_that_brings_a_lower_limit_makes_nobody_wait_43_minutes() {
    for algorithm in [AlgorithmKind::TokenBucket, AlgorithmKind::LeakyBucket] {
        let rule = RuleSpec::new("r", values(algorithm, 10_000)).key(["user"]).limit_from_request();
        let one = Alone::under(rule.usage(Usage::Reported));
        let _ = one.ask(2_600);
        let answer = one.bring(values(algorithm, 60), 1);
        // The unit that was reported is in use as well.
        let wait = wait_us(&answer);
        assert!((1..=MINUTE_US + MINUTE_US / 60).contains(&wait), "{algorithm}: {wait} us");
    }
}

/// Units for which a lower plan makes no caller wait are still used under a higher plan.
#[test]
fn a_plan_that_falls_and_rises_gives_no_free_units() {
    for algorithm in LEVELS {
        let one = Alone::new(values(algorithm, 10_000));
        assert!(one.ask(10_000).is_allowed());
        for _ in 0..10 {
            one.plan(values(algorithm, 60));
            assert!(!one.ask(1).is_allowed());
            one.plan(values(algorithm, 10_000));
            assert!(one.ask(1).remaining <= 1, "{algorithm}: at once");
        }
        one.plan(values(algorithm, 60));
        assert!(!one.ask(1).is_allowed());
        one.pass(MINUTE_US);
        assert!(one.ask(1).is_allowed());
        one.plan(values(algorithm, 10_000));
        // In a minute at 60 there drained 60 units, and a unit was taken.
        let left = one.ask(1).remaining;
        assert!(left <= 60, "{algorithm}: {left} after a minute");
    }
}

/// A caller who may choose between values asks under each of them in turn, for all available units: a window admits no
/// more than it would under the largest of them alone.
#[test]
fn a_caller_who_chooses_between_values_by_turns_is_admitted_no_more_than_the_largest_allow() {
    for algorithm in algorithms() {
        for seed in 0..20 {
            let (mut rng, mut got) = (Rng::new(seed), VecDeque::new());
            let one = Alone::new(values(algorithm, 1_000));
            let (mut chooses, mut total) = (rng.pick([0, 30, 80]), 0);
            let from = one.clock.now_us();
            for _ in 0..400 {
                one.pass(rng.pick([0, 1, 1_000, 500_000, 3_000_000, 20_000_000, 61_000_000]));
                if rng.chance(20) {
                    one.plan(values(algorithm, rng.pick([1, 7, 60, 300, 1_000])));
                }
                if rng.chance(2) {
                    chooses = rng.pick([0, 30, 80]);
                }
                let from_request = rng.chance(chooses).then(|| {
                    let spec = values(algorithm, rng.pick([1, 60, 500, 1_000]));
                    RequestLimit::new(Rule::new(spec).unwrap())
                });
                let there = one.decide(from_request.as_ref(), 0, false).remaining;
                let cost = if rng.chance(30) { 1 } else { there.max(1) };
                if one.decide(from_request.as_ref(), cost, true).is_allowed() {
                    got.push_back((one.clock.now_us(), cost));
                    total += cost;
                }
                while got.front().is_some_and(|(at, _)| at + MINUTE_US <= one.clock.now_us()) {
                    got.pop_front();
                }
                let inside: u64 = got.iter().map(|(_, cost)| cost).sum();
                assert!(inside <= 2_001, "{algorithm} {seed}: {inside} in a minute");
                let passed = (one.clock.now_us() - from).div_ceil(MINUTE_US);
                let most = 1_001 + 1_000 * (passed + 1);
                assert!(total <= most, "{algorithm} {seed}: {total} in {passed} minutes");
            }
        }
    }
}

/// A refusal does not put the values of a request in force, so its wait is a window of the values in force. If the
/// refusal put them in force, as a plan is, a short window would forget what a long window counts, and a caller who
/// chooses the values would be admitted twice.
#[test]
fn values_of_a_refused_request_do_not_forget_what_a_longer_window_counts() {
    let hour = Duration::from_secs(3_600);
    for algorithm in
        [AlgorithmKind::FixedWindow, AlgorithmKind::SlidingWindow, AlgorithmKind::SlidingLog]
    {
        let (long, short) = (Spec::new(algorithm, 100, hour), values(algorithm, 5));
        let chosen = Alone::new(long);
        let planned = Alone::new(long);
        // All units count for an hour from its beginning.
        let start = TODAY_US.next_multiple_of(60 * MINUTE_US);
        for one in [&chosen, &planned] {
            one.clock.set(start);
            assert!(one.ask(100).is_allowed());
        }
        let wait = wait_us(&chosen.bring(short, 1));
        assert!(wait > 50 * MINUTE_US, "{algorithm}: {wait} us");
        planned.plan(short);
        waits_one_window(&planned, "a plan of a shorter window");
        chosen.pass(2 * MINUTE_US);
        assert!(!chosen.bring(short, 1).is_allowed() && !chosen.bring(long, 1).is_allowed());
        planned.pass(MINUTE_US);
        planned.plan(long);
        assert!(planned.ask(99).is_allowed(), "{algorithm}: an operator's plan forgets");
    }
}
