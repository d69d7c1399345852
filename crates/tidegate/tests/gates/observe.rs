//! Observers: notified of each decision once, after it and outside of all locks, and of nothing else.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, OnceLock};

use crate::asks::policy;
use crate::tasks::{Task, bucket, ms, run};
use std::time::Duration;
use tidegate::{
    Answer, Clock, Descriptor, Gate, ManualClock, Mode, Observer, OnExcess, Request, RuleSpec,
    RuleStatistics, Setup, Timestamp,
};

/// The arguments of an observer: the request's domain and cost, true if it is allowed, and the number of rules that
/// matched.
type Answered = (String, u64, bool, usize);

#[derive(Default)]
struct Journal(Mutex<Vec<Answered>>);

impl Journal {
    fn take(&self) -> Vec<Answered> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

impl Observer for Journal {
    fn decided(&self, request: &Request<'_>, answer: &Answer<'_>) {
        let cost = request.descriptors().iter().map(Descriptor::units).sum();
        let reported =
            (request.domain().to_owned(), cost, answer.is_allowed(), answer.matched().len());
        self.0.lock().unwrap().push(reported);
    }
}

fn answered(cost: u64, allowed: bool) -> Answered {
    ("default".to_owned(), cost, allowed, 1)
}

/// Asks for `cost` units without any entry.
fn ask<T>(cost: u64, ask: impl FnOnce(&Request<'_>) -> T) -> T {
    ask(&Request::new("default", &[Descriptor::new(&[]).cost(cost)]))
}

fn waiting(limit: u64) -> RuleSpec {
    let wait = OnExcess::Wait { wait: ms(100), max_waiters: 100 };
    RuleSpec::new("all", bucket(limit)).on_excess(wait)
}

#[test]
fn each_decision_is_reported_once_and_nothing_else_is() {
    let journal = Arc::new(Journal::default());
    let setup = Setup::new(policy(vec![waiting(10)])).observer(journal.clone());
    let gate = Gate::with_clock(setup, ManualClock::new());
    assert!(ask(4, |request| gate.check(request).is_allowed()));
    assert!(ask(6, |request| gate.admits(request)));
    assert!(!ask(1, |request| gate.check(request).is_allowed()));
    assert!(!ask(2, |request| gate.admits(request)));
    let all = [answered(4, true), answered(6, true), answered(1, false), answered(2, false)];
    assert_eq!(journal.take(), all, "with values, also where only a verdict was asked for");
    ask(1, |request| {
        let _ = gate.peek(request);
        let _ = gate.settle(request, None, &[3]);
        let _ = gate.refund(request);
        gate.reset(request)
    });
    assert!(journal.take().is_empty());
}

#[test]
fn a_request_that_waits_is_observed_when_it_is_decided_and_one_that_leaves_is_not() {
    let (journal, clock) = (Arc::new(Journal::default()), ManualClock::new());
    let setup = Setup::new(policy(vec![waiting(10)])).observer(journal.clone());
    let gate = Gate::with_clock(setup, clock.clone());
    assert!(ask(10, |request| gate.check(request).is_allowed()));
    journal.take();
    let gate = &gate;
    let acquire =
        async |cost: u64| gate.acquire(Descriptor::new(&[]).cost(cost)).await.is_allowed();
    let in_turn = async {
        gate.acquire(Request::from(Descriptor::new(&[]).cost(2)).returning_delay())
            .await
            .is_allowed()
    };
    let mut gone = Task::begun(acquire(5), &clock);
    let mut tasks = [Task::begun(acquire(3), &clock), Task::begun(in_turn, &clock)];
    assert!(journal.take().is_empty(), "nothing is decided yet");
    assert!(!ask(1, |request| gate.admits(request)), "after the waiters");
    assert_eq!(journal.take(), [answered(1, false)]);
    gone.cancel();
    run(&mut tasks, &clock);
    assert_eq!(journal.take(), [answered(3, true), answered(2, true)]);
    assert!(ask(0, |request| gate.acquire_blocking(request).is_allowed()));
    assert_eq!(journal.take(), [answered(0, true)]);
}

#[test]
fn a_request_with_its_own_time_is_reported_with_it() {
    let at = Timestamp::from_micros(1_700_000_000_000_000);
    let seen = Arc::new(Mutex::new(Vec::new()));
    let mine = seen.clone();
    let note = move |_: &Request<'_>, answer: &Answer<'_>| mine.lock().unwrap().push(answer.at());
    let setup = Setup::new(policy(vec![waiting(1)])).observer(Arc::new(note));
    let gate = Gate::with_clock(setup, Timestamp::EPOCH);
    assert!(ask(1, |request| gate.check_at(request, at).is_allowed()));
    assert_eq!(*seen.lock().unwrap(), [at]);
}

/// The test would deadlock if observers were called with a limiter or a queue locked.
#[test]
fn an_observer_may_ask_the_gate_itself() {
    struct Asks(OnceLock<Arc<Gate<ManualClock>>>, Mutex<Vec<u64>>);
    impl Observer for Asks {
        fn decided(&self, request: &Request<'_>, _: &Answer<'_>) {
            let gate = self.0.get().unwrap();
            let left = gate.peek(request).reported().unwrap().decision().remaining;
            self.1.lock().unwrap().push(left);
            let _ = gate.refund(request);
        }
    }
    let asks = Arc::new(Asks(OnceLock::new(), Mutex::default()));
    let rules = vec![waiting(10), RuleSpec::new("other", bucket(10))];
    let gate =
        Gate::with_clock(Setup::new(policy(rules)).observer(asks.clone()), ManualClock::new());
    let gate = Arc::new(gate);
    asks.0.set(gate.clone()).unwrap();
    for _ in 0..3 {
        assert!(ask(6, |request| gate.check(request).is_allowed()));
    }
    assert_eq!(*asks.1.lock().unwrap(), [4, 4, 4], "after what was taken");
}

#[test]
fn observers_are_notified_in_their_order_and_a_panic_in_one_takes_nothing_back() {
    let order = Arc::new(Mutex::new(Vec::new()));
    let note = |name: &'static str| {
        let order = order.clone();
        move |_: &Request<'_>, answer: &Answer<'_>| {
            order.lock().unwrap().push(name);
            assert!(answer.is_allowed(), "an observer that panics at a refusal");
        }
    };
    let setup = Setup::new(policy(vec![waiting(1)]))
        .observer(Arc::new(note("a")))
        .observer(Arc::new(note("b")));
    let gate = Gate::with_clock(setup, ManualClock::new());
    assert!(ask(1, |request| gate.admits(request)));
    assert_eq!(*order.lock().unwrap(), ["a", "b"]);
    let refused = catch_unwind(AssertUnwindSafe(|| ask(1, |request| gate.admits(request))));
    assert!(refused.is_err());
    assert_eq!(ask(1, |request| gate.peek(request).retry_after()), Some(ms(1)));
}

/// The units that each rule in force passed and blocked in the last minute, in their order.
fn counted<C: Clock>(gate: &Gate<C>, statistics: &RuleStatistics<ManualClock>) -> Vec<(u64, u64)> {
    let of_all = statistics.of(gate.policy().rules());
    let minutes = of_all.iter().map(|of_rule| of_rule.minute());
    minutes.map(|minute| (minute.pass, minute.block)).collect()
}

#[test]
fn units_are_counted_by_the_rule_that_passed_or_blocked_them() {
    let clock = ManualClock::new();
    let policy = policy(vec![
        RuleSpec::new("all", bucket(10)),
        RuleSpec::new("user", bucket(4)).key(["user"]),
        RuleSpec::new("trial", bucket(5)).mode(Mode::Shadow),
        RuleSpec::new("off", bucket(1)).mode(Mode::Off),
    ]);
    let statistics = Arc::new(RuleStatistics::with_clock(clock.clone()));
    let gate = Gate::with_clock(Setup::new(policy).observer(statistics.clone()), clock.clone());
    let check = |users: &[(&str, u64)]| {
        let entries: Vec<_> = users.iter().map(|(user, _)| [("user", *user)]).collect();
        let both = entries.iter().zip(users);
        let all: Vec<_> =
            both.map(|(entries, (_, cost))| Descriptor::new(entries).cost(*cost)).collect();
        gate.check(&Request::new("default", &all)).is_allowed()
    };
    let counts = || counted(&gate, &statistics);

    assert!(check(&[("ada", 3)]));
    assert_eq!(counts(), [(3, 0), (3, 0), (3, 0), (0, 0)]);
    assert!(!check(&[("ada", 2)]));
    let answer = "the rule for all would have admitted it, and counts nothing, nor does the trial";
    assert_eq!(counts(), [(3, 0), (3, 2), (3, 0), (0, 0)], "{answer}");
    assert!(check(&[("ada", 1), ("bob", 2)]));
    assert_eq!(counts()[..2], [(6, 0), (6, 2)], "a rule that matches under two keys");
    assert!(!check(&[("ada", 0), ("bob", 3), ("eve", 4)]));
    assert_eq!(counts()[..2], [(6, 7), (6, 5)], "of the two keys only bob's had no room");
    clock.advance(Duration::from_secs(61));
    assert_eq!(counts(), [(0, 0); 4]);
}

#[test]
fn a_rule_in_shadow_mode_counts_what_it_would_have_done() {
    let clock = ManualClock::new();
    let rules = vec![
        RuleSpec::new("trial", bucket(2)).mode(Mode::Shadow),
        RuleSpec::new("live", bucket(3)),
    ];
    let policy = policy(rules);
    let statistics = Arc::new(RuleStatistics::with_clock(clock.clone()));
    let gate = Gate::with_clock(Setup::new(policy).observer(statistics.clone()), clock);
    let verdicts = [2, 1, 1, 4].map(|cost| ask(cost, |request| gate.admits(request)));
    assert_eq!(verdicts, [true, true, false, false]);
    assert_eq!(counted(&gate, &statistics), [(2, 1 + 1 + 4), (3, 1 + 4)]);
}

/// Two observers of one gate, and an observer of another gate with a copy of the policy.
#[test]
fn all_observers_of_a_rule_count_it_and_each_once() {
    let clock = ManualClock::new();
    let all = [(); 3].map(|()| Arc::new(RuleStatistics::with_clock(clock.clone())));
    let [first, second, other] = &all;
    let policy = policy(vec![RuleSpec::new("all", bucket(2))]);
    let gate = Gate::with_clock(
        Setup::new(policy.clone()).observer(first.clone()).observer(second.clone()),
        clock.clone(),
    );
    // A copy of a policy has the same rules.
    let copy = Gate::with_clock(Setup::new(policy).observer(other.clone()), clock);
    let admitted = [1, 1, 1].map(|cost| ask(cost, |request| gate.admits(request)));
    assert_eq!(admitted, [true, true, false]);
    assert!(ask(1, |request| copy.admits(request)));
    assert_eq!([first, second].map(|one| counted(&gate, one)), [[(2, 1)], [(2, 1)]]);
    assert_eq!(counted(&copy, other), [(1, 0)]);
}

/// Statistics use the time of the answer, so that a recorded trace is counted by its own time.
#[test]
fn a_trace_is_counted_by_its_own_time() {
    let policy = policy(vec![RuleSpec::new("all", bucket(1)), waiting(1).in_domain("other")]);
    let statistics = Arc::new(RuleStatistics::with_clock(Timestamp::EPOCH));
    let gate = Gate::with_clock(Setup::new(policy).observer(statistics.clone()), Timestamp::EPOCH);
    let at = |ms: u64| Timestamp::from_micros(1_700_000_000_000_000 + ms * 1_000);
    for ms in [0, 0, 30_000] {
        let _ = ask(1, |request| gate.check_at(request, at(ms)));
    }
    let of_all = statistics.of(gate.policy().rules());
    let all = of_all[0].windows();
    assert_eq!((all.minute_at(at(30_000)).pass, all.minute_at(at(30_000)).block), (2, 1));
    assert_eq!(all.second_at(at(30_000)).pass, 1);
    assert_eq!(of_all[1].windows().minute_at(at(30_000)).pass, 0, "the rule of another domain");
}

#[test]
fn a_clock_is_what_reads_not_what_counts() {
    let clock = ManualClock::new();
    let now = clock.now();
    let policy = policy(vec![waiting(1)]);
    let statistics = Arc::new(RuleStatistics::with_clock(clock.clone()));
    let gate = Gate::with_clock(Setup::new(policy).observer(statistics.clone()), now);
    assert!(ask(1, |request| gate.check_at(request, now).is_allowed()));
    assert_eq!(counted(&gate, &statistics), [(1, 0)]);
    clock.advance(Duration::from_secs(61));
    assert_eq!(counted(&gate, &statistics), [(0, 0)]);
}
