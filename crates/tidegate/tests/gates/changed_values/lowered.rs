//! Limits of a rule, a plan, an override or a request that fall and rise again: no caller waits longer than one new
//! window, nothing is forgotten, and a caller who alternates between values is admitted no more than the larger values
//! allow.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::policy;
use crate::packed::{TODAY_US, TestClock, Unsteady};
use testkit::traffic::Rng;
use tidegate::{
    AlgorithmKind, Clock, Decision, Descriptor, Gate, Limit, Micros, OverrideSpec, RequestLimit,
    Rule, RuleSpec, Setup, Spec, Usage,
};

const MINUTE: Duration = Duration::from_secs(60);
const MINUTE_US: u64 = 60_000_000;
const KEYS: [&[&str]; 2] = [&[], &["user"]];
const LEVELS: [AlgorithmKind; 3] =
    [AlgorithmKind::TokenBucket, AlgorithmKind::LeakyBucket, AlgorithmKind::LeakyQueue];

/// A gate with one rule, whose values come from everywhere, and its time.
struct Alone<C> {
    gate: Gate<C>,
    rule: RuleSpec,
    plan: Arc<Mutex<Option<Arc<Rule>>>>,
    set: Box<dyn Fn(u64)>,
    at_us: u64,
}

fn packed(rule: &RuleSpec) -> Alone<TestClock> {
    let clock = TestClock::at(TODAY_US);
    Alone::new(rule, clock.clone(), Box::new(move |us| clock.set(us)))
}

fn whole(rule: &RuleSpec) -> Alone<Unsteady<TestClock>> {
    let clock = TestClock::at(TODAY_US);
    Alone::new(rule, Unsteady(clock.clone()), Box::new(move |us| clock.set(us)))
}

/// A rule for each user, whose requests may supply values.
fn open(algorithm: AlgorithmKind, limit: u64) -> Alone<TestClock> {
    packed(&rule(algorithm, &["user"], limit).limit_from_request())
}

impl<C: Clock> Alone<C> {
    fn new(rule: &RuleSpec, clock: C, set: Box<dyn Fn(u64)>) -> Self {
        let plan = Arc::<Mutex<Option<Arc<Rule>>>>::default();
        let known = Arc::clone(&plan);
        let mut setup = Setup::new(policy([rule.clone()]));
        if rule.key == ["user"] {
            setup = setup.plans("default", "r", move |_| known.lock().unwrap().clone()).unwrap();
        }
        let gate = Gate::with_clock(setup, clock);
        Self { gate, rule: rule.clone(), plan, set, at_us: TODAY_US }
    }

    fn pass(&mut self, us: u64) {
        self.at_us += us;
        (self.set)(self.at_us);
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

    fn limit(&mut self, limit: u64) {
        let mut rule = self.rule.clone();
        rule.spec = values(rule.spec.algorithm, limit);
        self.put(rule);
    }

    fn put(&mut self, rule: RuleSpec) {
        self.rule = rule;
        self.gate.replace(policy([self.rule.clone()])).unwrap();
    }

    fn plan(&self, limit: u64) {
        self.plan_of(values(self.rule.spec.algorithm, limit));
    }

    fn plan_of(&self, spec: Spec) {
        *self.plan.lock().unwrap() = Some(Arc::new(Rule::new(spec).unwrap()));
    }
}

fn values(algorithm: AlgorithmKind, limit: u64) -> Spec {
    Spec::new(algorithm, limit, MINUTE)
}

fn rule(algorithm: AlgorithmKind, key: &[&str], limit: u64) -> RuleSpec {
    RuleSpec::new("r", values(algorithm, limit)).key(key.iter().copied())
}

/// Every algorithm whose units leave by themselves.
fn algorithms() -> impl Iterator<Item = AlgorithmKind> {
    AlgorithmKind::ALL.iter().copied().filter(|kind| *kind != AlgorithmKind::Concurrency)
}

/// The longest wait for a unit because of a change: a window, or in a counter as long as under a full new limit.
fn longest_us(algorithm: AlgorithmKind, limit: u64) -> u64 {
    MINUTE_US + if algorithm == AlgorithmKind::SlidingCounter { MINUTE_US / limit } else { 0 }
}

fn wait_us(decision: &Decision) -> u64 {
    decision.retry_after_micros().map_or(u64::MAX, Micros::as_micros)
}

/// Asks for a unit, which has to wait for a window at most.
fn waits_one_window<C: Clock>(one: &mut Alone<C>, what: &str) {
    let algorithm = one.rule.spec.algorithm;
    let decision = one.ask(1);
    let wait = wait_us(&decision);
    let longest = longest_us(algorithm, decision.limit);
    assert!((1..=longest).contains(&wait), "{algorithm}, {what}: {wait} us");
    one.pass(wait - 1);
    assert!(!one.ask(1).is_allowed(), "{algorithm}, {what}: not a microsecond sooner");
    one.pass(1);
    assert!(one.ask(1).is_allowed(), "{algorithm}, {what}: the wait was true");
}

/// Uses units that are too many after the change, which is one of the ways in which values fall.
fn falls<C: Clock>(mut one: Alone<C>, what: &str, change: impl FnOnce(&mut Alone<C>)) {
    assert!(one.ask(2_600).is_allowed());
    change(&mut one);
    waits_one_window(&mut one, what);
}

#[test]
fn the_43_minutes_after_a_limit_of_10_000_became_one_of_60() {
    for algorithm in algorithms() {
        for key in KEYS {
            let rule = rule(algorithm, key, 10_000);
            falls(packed(&rule), "another limit", |one| one.limit(60));
            falls(whole(&rule), "another limit of a whole state", |one| one.limit(60));
        }
        let planned = || {
            let one = open(algorithm, 60);
            one.plan(10_000);
            one
        };
        falls(planned(), "another plan", |one| one.plan(60));
        falls(planned(), "no plan any more", |one| *one.plan.lock().unwrap() = None);
        let with = |limit, user, own| {
            let mut values = OverrideSpec::new("user", user);
            values.limit = Some(Limit::Units(own));
            rule(algorithm, &["user"], limit).with_override(values)
        };
        for (what, before, after) in [
            ("an override comes", rule(algorithm, &["user"], 10_000), with(10_000, "ada", 60)),
            ("an override goes", with(60, "ada", 10_000), rule(algorithm, &["user"], 60)),
            ("one comes after another", with(10_000, "bob", 5), with(10_000, "ada", 60)),
        ] {
            falls(packed(&before), what, |one| one.put(after));
        }
    }
}

/// A sum of limits that fall one after another leaves no longer wait than the last of them.
#[test]
fn a_limit_that_falls_in_steps_makes_nobody_wait_for_each_step() {
    for algorithm in algorithms() {
        for key in KEYS {
            let mut one = packed(&rule(algorithm, key, 10_000));
            assert!(one.ask(10_000).is_allowed());
            for limit in [6_000, 5_000, 0, 300, 60, 50] {
                one.limit(limit);
            }
            let wait = wait_us(&one.ask(1));
            assert!(wait <= longest_us(algorithm, 50), "{algorithm}: {wait} us");
        }
    }
}

/// The wait of a caller that owes is not because of the change.
#[test]
fn a_debt_is_waited_for_whatever_changes() {
    for algorithm in [AlgorithmKind::TokenBucket, AlgorithmKind::LeakyBucket] {
        let mut one = packed(&rule(algorithm, &["user"], 100).usage(Usage::Reported));
        let _ = one.ask(600);
        for limit in [90, 80, 120] {
            one.limit(limit);
            let wait = wait_us(&one.ask(0));
            assert!(wait >= (600 - limit) * MINUTE_US / limit, "{algorithm} at {limit}: {wait} us");
        }
    }
}

/// Units for which a lower limit or a lower plan makes no caller wait are still used under higher values.
#[test]
fn values_that_fall_and_rise_give_no_free_units() {
    let ways: [fn(&mut Alone<TestClock>, u64); 2] =
        [Alone::limit, |one: &mut Alone<TestClock>, limit| one.plan(limit)];
    for algorithm in LEVELS {
        for (key, put) in [(KEYS[0], ways[0]), (KEYS[1], ways[0]), (KEYS[1], ways[1])] {
            let mut one = packed(&rule(algorithm, key, 10_000).limit_from_request());
            assert!(one.ask(10_000).is_allowed());
            for _ in 0..10 {
                put(&mut one, 60);
                assert!(!one.ask(1).is_allowed());
                put(&mut one, 10_000);
                assert!(one.ask(1).remaining <= 1, "{algorithm}: at once");
            }
            put(&mut one, 60);
            assert!(!one.ask(1).is_allowed());
            one.pass(MINUTE_US);
            assert!(one.ask(1).is_allowed());
            put(&mut one, 10_000);
            // In a minute at 60 there drained 60 units, and a unit was taken.
            let left = one.ask(1).remaining;
            assert!(left <= 60, "{algorithm}: {left} after a minute");
        }
    }
}

/// For any sequence of limits, a window admits no more than the largest allows, and no wait is longer than a window.
#[test]
fn limits_that_fall_and_rise_at_random_pass_no_bound_and_make_nobody_wait_longer() {
    for algorithm in algorithms() {
        for seed in 0..10 {
            let (mut rng, mut got) = (Rng::new(seed), VecDeque::new());
            let key = rng.pick(KEYS);
            let mut one = packed(&rule(algorithm, key, 1_000));
            for _ in 0..200 {
                one.pass(rng.pick([0, 1, 1_000, 500_000, 20_000_000, 61_000_000]));
                if rng.chance(25) {
                    one.limit(rng.pick([1, 7, 60, 60, 300, 1_000]));
                }
                let cost = if rng.chance(50) { 1 } else { one.ask(0).remaining.max(1) };
                let answer = one.ask(cost);
                if answer.is_allowed() {
                    got.push_back((one.at_us, cost));
                }
                let wait = wait_us(&one.ask(1));
                let most = if one.ask(0).limit > 0 { MINUTE_US } else { u64::MAX };
                let own = MINUTE_US / one.ask(0).limit.max(1) + 1;
                let is_window = algorithm == AlgorithmKind::SlidingWindow;
                let own = if is_window { MINUTE_US / 10 } else { own };
                assert!(answer.is_allowed() || wait <= most + own, "{algorithm} {seed}: {wait} us");
                while got.front().is_some_and(|(at, _)| at + MINUTE_US <= one.at_us) {
                    got.pop_front();
                }
                let inside: u64 = got.iter().map(|(_, cost)| cost).sum();
                assert!(inside <= 2_001, "{algorithm} {seed}: {inside} in a minute");
            }
        }
    }
}

/// A report puts its own limit in force, with any usage.
#[test]
fn a_report_that_brings_a_lower_limit_makes_nobody_wait_43_minutes() {
    for algorithm in [AlgorithmKind::TokenBucket, AlgorithmKind::LeakyBucket] {
        let rule = rule(algorithm, &["user"], 10_000).limit_from_request();
        let one = packed(&rule.usage(Usage::Reported));
        let _ = one.ask(2_600);
        let answer = one.bring(values(algorithm, 60), 1);
        // The unit that was reported is in use as well.
        let wait = wait_us(&answer);
        assert!((1..=MINUTE_US + MINUTE_US / 60).contains(&wait), "{algorithm}: {wait} us");
    }
}

/// A caller who may choose between values asks under each of them in turn, for all available units: a window admits no
/// more than it would under the largest of them alone.
#[test]
fn a_caller_who_chooses_between_values_by_turns_is_admitted_no_more_than_the_largest_allow() {
    for algorithm in algorithms() {
        for seed in 0..20 {
            let (mut rng, mut got) = (Rng::new(seed), VecDeque::new());
            let mut one = open(algorithm, 1_000);
            let (mut chooses, mut total) = (rng.pick([0, 30, 80]), 0);
            let from = one.at_us;
            for _ in 0..400 {
                one.pass(rng.pick([0, 1, 1_000, 500_000, 3_000_000, 20_000_000, 61_000_000]));
                if rng.chance(20) {
                    one.plan(rng.pick([1, 7, 60, 300, 1_000]));
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
                    got.push_back((one.at_us, cost));
                    total += cost;
                }
                while got.front().is_some_and(|(at, _)| at + MINUTE_US <= one.at_us) {
                    got.pop_front();
                }
                let inside: u64 = got.iter().map(|(_, cost)| cost).sum();
                assert!(inside <= 2_001, "{algorithm} {seed}: {inside} in a minute");
                let passed = (one.at_us - from).div_ceil(MINUTE_US);
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
        let rule = RuleSpec::new("r", long).key(["user"]).limit_from_request();
        let [mut chosen, mut planned] = [packed(&rule), packed(&rule)];
        // All units count for an hour from its beginning.
        let start = TODAY_US.next_multiple_of(60 * MINUTE_US);
        for one in [&mut chosen, &mut planned] {
            one.pass(start - TODAY_US);
            assert!(one.ask(100).is_allowed());
        }
        let wait = wait_us(&chosen.bring(short, 1));
        assert!(wait > 50 * MINUTE_US, "{algorithm}: {wait} us");
        planned.plan_of(short);
        waits_one_window(&mut planned, "a plan of a shorter window");
        chosen.pass(2 * MINUTE_US);
        assert!(!chosen.bring(short, 1).is_allowed() && !chosen.bring(long, 1).is_allowed());
        planned.pass(MINUTE_US);
        planned.plan_of(long);
        assert!(planned.ask(99).is_allowed(), "{algorithm}: an operator's plan forgets");
    }
}
