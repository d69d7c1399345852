//! Waiting at a gate under plans, and under values that requests supply; each plan is looked up once.

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

use crate::tasks::{Task, bucket, ms, run, settle};
use tidegate::{
    AlgorithmKind, Answer, Clock, Descriptor, Gate, KeyedLimiter, ManualClock, OnExcess, Policy,
    Request, RequestLimit, Rule, RuleSpec, Setup, Spec,
};

const WAIT: OnExcess = OnExcess::Wait { wait: ms(100), max_waiters: 100 };
const ADA: &[(&str, &str)] = &[("user", "ada")];

fn rule(spec: Spec) -> Rule {
    Rule::new(spec).unwrap()
}

/// A gate whose users are under the plan that is kept next to it; all of them together are under a rule.
struct Planned {
    gate: Gate<ManualClock>,
    plan: Arc<Mutex<Rule>>,
    clock: ManualClock,
}

impl Planned {
    /// Buckets of so many tokens; one comes each millisecond.
    fn new(tokens: u64) -> Self {
        let (clock, plan) = (ManualClock::new(), Arc::new(Mutex::new(rule(bucket(tokens)))));
        let user = RuleSpec::new("user", bucket(1)).key(["user"]).limit_from_request();
        let rules = vec![user.on_excess(WAIT), RuleSpec::new("all", bucket(1_000)).on_excess(WAIT)];
        let known = Arc::clone(&plan);
        let setup = Setup::new(Policy::new(rules).unwrap());
        let setup = setup.plans("default", "user", move |_| Some(known.lock().unwrap().clone()));
        Self { gate: Gate::with_clock(setup.unwrap(), clock.clone()), plan, clock }
    }

    fn change(&self, spec: Spec) {
        *self.plan.lock().unwrap() = rule(spec);
        self.gate.plan_changed(&Request::new("default", &[Descriptor::new(ADA)]));
    }

    fn check(&self, cost: u64) -> Answer<'_> {
        self.gate.check(&Request::new("default", &[Descriptor::new(ADA).cost(cost)]))
    }

    /// A task that waits for so much, under the plan or values of its own, polled once.
    fn begun<'g>(&'g self, cost: u64, own: Option<&'g RequestLimit>) -> Task<'g, Answer<'g>> {
        let acquire = async move {
            let descriptor = Descriptor::new(ADA).cost(cost);
            let asked = [own.map_or(descriptor, |own| descriptor.limit(own))];
            self.gate.acquire(&Request::new("default", &asked)).await
        };
        Task::begun(acquire, &self.clock)
    }
}

#[test]
fn who_waits_while_the_plan_becomes_unlimited_goes_on_and_learns_of_the_other_rule() {
    let planned = Planned::new(3);
    assert!(planned.check(3).is_allowed());
    let mut tasks = [planned.begun(2, None)];
    planned.change(Spec::unlimited(AlgorithmKind::TokenBucket));
    settle(&mut tasks, &planned.clock);
    let (_, answer) = tasks[0].end.as_ref().expect("nothing holds it up");
    assert!(answer.is_allowed());
    let answers: Vec<_> = answer.matched().iter().map(|m| m.rule().name()).collect();
    assert_eq!(answers, ["all"]);
}

#[test]
fn who_waits_while_the_plan_becomes_too_small_is_refused() {
    let planned = Planned::new(3);
    assert!(planned.check(3).is_allowed());
    let mut tasks = [planned.begun(3, None)];
    planned.change(bucket(2));
    settle(&mut tasks, &planned.clock);
    let (_, answer) = tasks[0].end.as_ref().expect("it never fits any more");
    assert!(answer.is_never());
    let left = planned.gate.peek(&Request::new("default", &[Descriptor::new(&[])]));
    assert_eq!(left.matched()[0].decision().remaining, 997, "nothing was taken of the other");
}

/// Waiting puts nothing in force: usage leaves at the pace of the old values.
#[test]
fn who_waits_under_values_of_its_own_is_woken_when_the_old_ones_have_let_go() {
    let log = |millis| Spec::new(AlgorithmKind::SlidingLog, 2, ms(millis));
    for (old, new) in [(50, 5), (5, 50)] {
        let planned = Planned::new(1);
        planned.change(log(old));
        assert!(planned.check(2).is_allowed());
        let (begun, own) = (planned.clock.now(), RequestLimit::new(rule(log(new))));
        let mut tasks = [planned.begun(1, Some(&own))];
        assert!(!tasks[0].is_over());
        run(&mut tasks, &planned.clock);
        let (at, answer) = tasks[0].end.as_ref().unwrap();
        assert_eq!((*at, answer.is_allowed()), (begun.plus(ms(old)), true));
        assert_eq!(*answer.matched()[0].values().spec(), log(new));
    }
}

#[test]
fn a_plan_is_looked_up_once_for_each_time_it_is_asked_for() {
    let clock = ManualClock::new();
    let looks = Arc::new(AtomicU64::new(0));
    let (counted, three) = (Arc::clone(&looks), rule(bucket(3)));
    let limiter = KeyedLimiter::with_clock(bucket(1), clock.clone()).unwrap();
    let limiter = limiter.with_plans(move |_| {
        counted.fetch_add(1, SeqCst);
        Some(three.clone())
    });
    let mut seen = Vec::new();
    let mut look = || seen.push(looks.swap(0, SeqCst));
    assert!(limiter.admits("key", 1));
    look();
    let mut tasks = vec![Task::begun(limiter.acquire("key", 2, ms(100)), &clock)];
    look();
    assert!(tasks[0].is_over(), "it need not wait");
    tasks.push(Task::begun(limiter.acquire("key", 3, ms(100)), &clock));
    look();
    assert!(!limiter.check("key", 1).is_allowed(), "after the waiter");
    look();
    run(&mut tasks, &clock);
    look();
    assert_eq!((tasks[1].is_over(), tasks[1].polls), (true, 2));
    assert_eq!(seen, [1, 1, 1, 1, 1]);
}
