//! Waiting under plans: in turn, also if a plan changes during the wait.

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

use crate::tasks::{Task, bucket, ms, run, settle};
use std::time::Duration;
use tidegate::{AlgorithmKind, Clock, Decision, KeyedLimiter, ManualClock, Rule, Spec, Under};

/// A limiter under the plan that is kept next to it.
struct Planned {
    limiter: KeyedLimiter<ManualClock>,
    plan: Arc<Mutex<Arc<Rule>>>,
    clock: ManualClock,
}

/// A bucket of so many tokens; one comes each millisecond.
fn plan(tokens: u64) -> Arc<Rule> {
    Arc::new(Rule::new(bucket(tokens)).unwrap())
}

impl Planned {
    fn new(tokens: u64) -> Self {
        let clock = ManualClock::new();
        let at = Arc::new(Mutex::new(plan(tokens)));
        let known = Arc::clone(&at);
        let limiter = KeyedLimiter::with_clock(bucket(1), clock.clone()).unwrap();
        let limiter = limiter.with_plans(move |_| Some(Arc::clone(&known.lock().unwrap())));
        Self { limiter, plan: at, clock }
    }

    fn change(&self, tokens: u64) {
        *self.plan.lock().unwrap() = plan(tokens);
        self.limiter.plan_changed("key");
    }

    fn begun(&self, cost: u64, max_wait: Duration) -> Task<'_, Decision> {
        Task::begun(self.limiter.acquire("key", cost, max_wait), &self.clock)
    }
}

#[test]
fn who_waits_while_the_plan_is_raised_is_woken_and_goes_on_under_the_new_one() {
    let planned = Planned::new(3);
    assert!(planned.limiter.admits("key", 3));
    let mut tasks = [planned.begun(3, ms(100))];
    planned.change(6);
    settle(&mut tasks, &planned.clock);
    let (at, decision) = tasks[0].end.as_ref().expect("the difference was there at once");
    assert_eq!((*at, decision.is_allowed(), decision.limit), (planned.clock.now(), true, 6));
}

#[test]
fn who_waits_while_the_plan_becomes_too_small_is_refused() {
    let planned = Planned::new(3);
    assert!(planned.limiter.admits("key", 3));
    let mut tasks = [planned.begun(3, ms(100))];
    planned.change(2);
    settle(&mut tasks, &planned.clock);
    let (_, decision) = tasks[0].end.as_ref().expect("it never fits any more");
    assert!(!decision.is_allowed() && decision.retry_after().is_none());
    assert_eq!(planned.limiter.waiting("key"), 0);
}

#[test]
fn a_plan_is_looked_up_once_for_each_time_it_is_asked_for() {
    let clock = ManualClock::new();
    let looks = Arc::new(AtomicU64::new(0));
    let (counted, three) = (Arc::clone(&looks), plan(3));
    let limiter = KeyedLimiter::with_clock(bucket(1), clock.clone()).unwrap();
    let limiter = limiter.with_plans(move |_| {
        counted.fetch_add(1, SeqCst);
        Some(Arc::clone(&three))
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

#[test]
fn values_of_a_call_hold_for_as_long_as_it_waits() {
    let clock = ManualClock::new();
    let limiter = KeyedLimiter::with_clock(bucket(1), clock.clone()).unwrap().with_plans(|_| None);
    let three = plan(3);
    assert!(limiter.admits(Under(&three, "key"), 3));
    let begun = clock.now();
    let mut tasks = [Task::begun(limiter.acquire(Under(&three, "key"), 2, ms(100)), &clock)];
    run(&mut tasks, &clock);
    assert_eq!(tasks[0].end.as_ref().unwrap().0, begun.plus(ms(2)));
    let late = limiter.acquire_blocking(Under(&three, "key"), 3, ms(1));
    assert_eq!((late.is_allowed(), late.retry_after()), (false, Some(ms(3))));
}

/// Each of many threads waits its turn under a plan of its own; all of them are served.
#[test]
fn threads_under_plans_of_their_own_are_all_served() {
    let limiter = KeyedLimiter::new(bucket(1)).unwrap().with_plans(|_| None);
    let served = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for thread in 0..8_u64 {
            let (limiter, served) = (&limiter, &served);
            scope.spawn(move || {
                let plan = plan(10 + thread % 2);
                for _ in 0..20 {
                    let wait = Duration::from_secs(3_600);
                    let decision = limiter.acquire_blocking(Under(&plan, "key"), 1, wait);
                    served.fetch_add(u64::from(decision.is_allowed()), SeqCst);
                }
            });
        }
    });
    assert_eq!((served.into_inner(), limiter.waiting("key")), (160, 0));
}

/// Waiting puts nothing in force: usage leaves at the pace of the old values.
#[test]
fn who_waits_under_values_of_its_own_is_woken_when_the_old_ones_have_let_go() {
    let clock = ManualClock::new();
    let limiter = KeyedLimiter::with_clock(bucket(1), clock.clone()).unwrap().with_plans(|_| None);
    let log = |millis| Rule::new(Spec::new(AlgorithmKind::SlidingLog, 2, ms(millis))).unwrap();
    for (millis, new) in [(50, 5), (5, 50)] {
        let (key, old, new, waits) = (format!("{new}"), log(millis), log(new), ms(millis));
        assert!(limiter.admits(Under(&old, &key), 2));
        let begun = clock.now();
        let mut tasks = [Task::begun(limiter.acquire(Under(&new, &key), 1, ms(100)), &clock)];
        assert_eq!(limiter.check(Under(&new, &key), 1).retry_after(), Some(waits));
        run(&mut tasks, &clock);
        let (at, decision) = tasks[0].end.as_ref().unwrap();
        assert_eq!((*at, decision.is_allowed()), (begun.plus(waits), true));
    }
}
