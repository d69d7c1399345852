//! Waiting at a gate: several limiters for one request, a line for each limiter, and no overtaking.

use crate::tasks::{Task, bucket, ms, run, run_until, us};
use std::time::Duration;
use tidegate::{
    Answer, Clock, Descriptor, Gate, ManualClock, Mode, OnExcess, Policy, Problem, Request,
    RuleSpec, Timestamp,
};

const WAIT: OnExcess = OnExcess::Wait { wait: ms(100), max_waiters: 100 };

fn gate(rules: Vec<RuleSpec>) -> (Gate<ManualClock>, ManualClock) {
    let clock = ManualClock::new();
    (Gate::with_clock(Policy::new(rules).unwrap(), clock.clone()), clock)
}

/// One limiter for all, and one for each user, of so many tokens, one each millisecond.
fn all_and_each(all: u64, each: u64) -> (Gate<ManualClock>, ManualClock) {
    gate(vec![
        RuleSpec::new("all", bucket(all)).on_excess(WAIT),
        RuleSpec::new("each", bucket(each)).key(["user"]).on_excess(WAIT),
    ])
}

/// A request for `units`, of a user or without a user.
struct Wish<'a> {
    entries: Vec<(&'a str, &'a str)>,
    units: u64,
}

impl<'a> Wish<'a> {
    fn of(user: &'a str, units: u64) -> Self {
        Self { entries: vec![("user", user)], units }
    }

    fn of_nobody(units: u64) -> Self {
        Self { entries: Vec::new(), units }
    }

    fn ask<T>(&self, ask: impl FnOnce(&Request<'_>) -> T) -> T {
        ask(&Request::from(Descriptor::new(&self.entries).cost(self.units)))
    }
}

/// A task that waits at the gate, polled once.
fn begun<'g>(
    gate: &'g Gate<ManualClock>,
    wish: &'g Wish<'_>,
    clock: &ManualClock,
) -> Task<'g, Answer<'g>> {
    let acquire =
        async move { gate.acquire(Descriptor::new(&wish.entries).cost(wish.units)).await };
    Task::begun(acquire, clock)
}

fn end(task: &Task<'_, Answer<'_>>) -> (Timestamp, bool, Option<Duration>) {
    let (at, answer) = task.end.as_ref().expect("it is over");
    (*at, answer.is_allowed(), answer.retry_after())
}

#[test]
fn a_rule_that_rejects_makes_nobody_wait() {
    let (gate, clock) = gate(vec![RuleSpec::new("all", bucket(10))]);
    let wish = Wish::of_nobody(10);
    assert!(wish.ask(|request| gate.check(request).is_allowed()));
    let task = begun(&gate, &wish, &clock);
    assert_eq!(end(&task), (clock.now(), false, Some(ms(10))));
}

#[test]
fn a_request_waits_as_its_rule_says_and_no_longer() {
    let wait = OnExcess::Wait { wait: ms(5), max_waiters: 2 };
    let (gate, clock) = gate(vec![RuleSpec::new("all", bucket(10)).on_excess(wait)]);
    let began = clock.now();
    let wishes = [10, 6, 2, 3, 4, 1].map(Wish::of_nobody);
    let mut tasks: Vec<_> = wishes.iter().map(|wish| begun(&gate, wish, &clock)).collect();
    assert_eq!(end(&tasks[0]), (began, true, Some(Duration::ZERO)));
    assert_eq!(end(&tasks[1]), (began, false, Some(ms(6))), "longer than it may wait");
    assert_eq!(end(&tasks[4]), (began, false, Some(ms(9))), "after two waiters");
    assert_eq!(end(&tasks[5]), (began, false, Some(ms(6))), "the line is full");
    assert_eq!(wishes[5].ask(|request| gate.waiting(request)), 2);
    run(&mut tasks, &clock);
    assert_eq!(end(&tasks[2]).0.duration_since(began), ms(2));
    assert_eq!(end(&tasks[3]).0.duration_since(began), ms(5));
}

#[test]
fn a_request_may_want_to_wait_less_than_its_rule_lets_it_and_never_more() {
    let wait = OnExcess::Wait { wait: ms(5), max_waiters: 10 };
    let rules = vec![RuleSpec::new("all", bucket(10)).on_excess(wait)];
    let (gate, clock) = gate(rules);
    let began = clock.now();
    let ask = |units, longest| {
        let (gate, clock) = (&gate, &clock);
        let acquire = async move {
            gate.acquire(&Request::from(Descriptor::new(&[]).cost(units)).max_wait(longest)).await
        };
        Task::begun(acquire, clock)
    };
    assert!(end(&ask(10, Duration::ZERO)).1, "nothing has to be waited for");
    assert_eq!(end(&ask(1, Duration::ZERO)), (began, false, Some(ms(1))));
    assert_eq!(end(&ask(3, us(2_999))), (began, false, Some(ms(3))), "a microsecond too early");
    let mut waits = ask(3, ms(3));
    assert!(!waits.is_over());
    assert_eq!(
        end(&ask(4, Duration::MAX)),
        (began, false, Some(ms(7))),
        "longer than the rule says"
    );
    run(std::slice::from_mut(&mut waits), &clock);
    assert_eq!(end(&waits).0.duration_since(began), ms(3));
}

/// The request waits for the limiter of one user; the limiter of all goes on for others.
#[test]
fn who_waits_for_one_limiter_holds_up_nobody_at_another() {
    let (gate, clock) = all_and_each(100, 10);
    let (ann, bob) = (Wish::of("ann", 10), Wish::of("bob", 1));
    assert!(ann.ask(|request| gate.admits(request)));
    let mut task = begun(&gate, &ann, &clock);
    assert!(!task.is_over());
    assert!(bob.ask(|request| gate.admits(request)));
    let refused = Wish::of("ann", 1).ask(|request| gate.check(request).retry_after());
    assert_eq!(refused, Some(ms(11)));
    run(std::slice::from_mut(&mut task), &clock);
    assert!(end(&task).1);
}

#[test]
fn no_request_passes_those_who_wait_for_a_limiter_that_it_meets_as_well() {
    let (gate, clock) = all_and_each(10, 10);
    assert!(Wish::of_nobody(10).ask(|request| gate.admits(request)));
    let wishes = [Wish::of_nobody(5), Wish::of("ann", 1)];
    let began = clock.now();
    let mut tasks: Vec<_> = wishes.iter().map(|wish| begun(&gate, wish, &clock)).collect();
    clock.advance(ms(2));
    assert!(!Wish::of("bob", 1).ask(|request| gate.admits(request)));
    let peeked = Wish::of("bob", 1).ask(|request| gate.peek(request).retry_after());
    assert_eq!(peeked, Some(ms(5)));
    run(&mut tasks, &clock);
    assert_eq!(end(&tasks[0]).0.duration_since(began), ms(5));
    assert_eq!(end(&tasks[1]).0.duration_since(began), ms(6));
}

/// A request that has waited for one limiter and must then wait for another goes before all later requests there too.
#[test]
fn from_line_to_line_the_order_of_arrival_stays() {
    let (gate, clock) = all_and_each(10, 4);
    assert!(Wish::of("ann", 4).ask(|request| gate.admits(request)));
    let began = clock.now();
    let wishes = [Wish::of("ann", 4), Wish::of("bob", 4), Wish::of("cid", 4), Wish::of_nobody(4)];
    let mut tasks = vec![begun(&gate, &wishes[0], &clock)];
    clock.advance(ms(1));
    // Of the limiter of all, 7 are left: bob goes, and cid waits for one more.
    tasks.extend(wishes[1..3].iter().map(|wish| begun(&gate, wish, &clock)));
    assert_eq!(tasks.iter().map(Task::is_over).collect::<Vec<_>>(), [false, true, false]);
    run_until(&mut tasks, &clock, began.plus(ms(3)));
    // The last request finds one unit left. When ann's own limiter lets her go, she needs four units too.
    tasks.push(begun(&gate, &wishes[3], &clock));
    run(&mut tasks, &clock);
    let ends: Vec<_> = tasks.iter().map(|task| end(task).0.duration_since(began)).collect();
    assert_eq!(ends, [ms(6), ms(1), ms(2), ms(10)]);
}

#[test]
fn several_limits_charge_all_or_none_also_after_a_wait() {
    let (gate, clock) = all_and_each(20, 10);
    let ann = Wish::of("ann", 10);
    assert!(ann.ask(|request| gate.admits(request)));
    let mut task = begun(&gate, &ann, &clock);
    assert_eq!(
        Wish::of_nobody(1).ask(|request| gate
            .peek(request)
            .reported()
            .unwrap()
            .decision()
            .remaining),
        10
    );
    clock.advance(ms(4));
    task.cancel();
    let left = Wish::of("ann", 1).ask(|request| {
        let peeked = gate.peek(request);
        peeked.matched().iter().map(|rule| rule.decision().remaining).collect::<Vec<_>>()
    });
    assert_eq!(left, [14, 4]);
    assert_eq!((Wish::of("ann", 1).ask(|request| gate.waiting(request)), clock.sleepers()), (0, 0));
}

/// The shortest wait of the rules in its way counts, and a rule that rejects is not waited for.
#[test]
fn every_rule_that_denies_must_let_it_wait() {
    let short = OnExcess::Wait { wait: ms(3), max_waiters: 9 };
    let (gate, clock) = gate(vec![
        RuleSpec::new("long", bucket(10)).on_excess(WAIT),
        RuleSpec::new("short", bucket(5)).when("kind", "short").on_excess(short),
        RuleSpec::new("none", bucket(5)).when("kind", "none"),
    ]);
    let of = |kind, units| Wish { entries: vec![("kind", kind)], units };
    assert!(of("none", 5).ask(|request| gate.admits(request)));
    assert!(of("short", 5).ask(|request| gate.admits(request)));
    let began = clock.now();
    let wishes = [of("none", 1), of("short", 4), of("short", 3), Wish::of_nobody(8)];
    let mut tasks: Vec<_> = wishes.iter().map(|wish| begun(&gate, wish, &clock)).collect();
    assert_eq!(end(&tasks[0]), (began, false, Some(ms(1))), "one of the two rejects");
    assert_eq!(end(&tasks[1]), (began, false, Some(ms(4))), "one of the two waits for 3 ms only");
    run(&mut tasks, &clock);
    assert_eq!(end(&tasks[2]), (began.plus(ms(3)), true, Some(Duration::ZERO)));
    assert_eq!(end(&tasks[3]), (began.plus(ms(11)), true, Some(Duration::ZERO)));
}

#[test]
fn shadow_rules_and_rules_without_a_limit_make_nobody_wait() {
    let shadow = RuleSpec::new("shadow", bucket(1)).mode(Mode::Shadow).on_excess(WAIT);
    let (gate, clock) = gate(vec![shadow]);
    let wish = Wish::of_nobody(1);
    for _ in 0..3 {
        assert!(end(&begun(&gate, &wish, &clock)).1);
    }
    let nothing = Wish { entries: vec![("domain", "none")], units: 0 };
    assert!(end(&begun(&gate, &nothing, &clock)).1);
}

#[test]
fn values_of_waiting_that_make_no_sense_are_reported() {
    let bad = |wait, max_waiters| {
        let rule = RuleSpec::new("all", bucket(1)).on_excess(OnExcess::Wait { wait, max_waiters });
        let errors = Policy::new(vec![rule]).unwrap_err();
        errors.iter().map(|error| error.problem.clone()).collect::<Vec<_>>()
    };
    assert_eq!(bad(Duration::ZERO, 1), [Problem::Wait(Duration::ZERO)]);
    assert_eq!(bad(us(1), 0), [Problem::MaxWaiters(0)]);
    let both = [Problem::Wait(Duration::MAX), Problem::MaxWaiters(1_000_001)];
    assert_eq!(bad(Duration::MAX, 1_000_001), both);
}
