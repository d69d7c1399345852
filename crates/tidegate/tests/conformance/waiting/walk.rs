//! Random arrivals, waits and departures, compared with a naive queue.

use std::time::Duration;
use testkit::model::{self, End, Line};
use testkit::threads::long;
use testkit::traffic::Rng;
use tidegate::{Clock, Decision, ManualClock, Micros, Timestamp};

use crate::kit::every_subject_in_memory;
use crate::packed::spec_of;
use crate::subjects::{Case, InMemory};
use crate::tasks::{Task, run, run_until};

every_subject_in_memory! {
    waiting_is_a_queue_played_out_whoever_leaves_it,
    cancellation_at_every_await_point_leaves_no_trace,
}

const KEY: &str = "ada";

fn small_policy(rng: &mut Rng, algorithm: model::AlgorithmKind) -> model::Policy {
    let window_us = rng.pick([1_000, 1_200, 7_000, 60_000]);
    let mut policy = model::Policy::new(algorithm, rng.between(1, 12), window_us);
    policy.buckets = rng.pick([1, 2, 5, 10]);
    policy.strict = rng.chance(50);
    policy.anchor_first_request = rng.chance(50);
    policy.capacity = Some(rng.between(1, 15));
    policy.resolution_us = rng.pick([1, 1, 300]);
    policy
}

/// The end of a waiter's task.
fn end_of(task: &Task<'_, Decision>) -> Option<End> {
    task.end.as_ref().map(|(at, decision)| match decision.retry_after() {
        Some(Duration::ZERO) => End::Runs(at.as_micros()),
        refused => End::Refused(refused.map(|wait| Micros::from(wait).as_micros())),
    })
}

/// One case: some arrive, and some leave, in any state.
fn walk(case: &Case<'_, dyn InMemory>, seed: u64) {
    let mut rng = Rng::new(seed);
    let policy = small_policy(&mut rng, case.model());
    let window_us = policy.window_us;
    let clock =
        ManualClock::starting_at(Timestamp::from_micros(1_700_000_000_000_000 + rng.below(9_999)));
    let limiter = case.by(&clock, spec_of(&policy));
    let largest = policy.decision_limit() + 1;
    let mut naive = Line::new(policy.clone(), clock.now().as_micros());
    naive.delay_is_waiting = case.kind.delay_is_waiting();
    let mut tasks: Vec<Task<'_, Decision>> = Vec::new();
    for _ in 0..60 {
        match rng.below(10) {
            0..5 => {
                let cost = rng.skewed(largest);
                let max_wait_us = rng.pick([0, window_us / 3, window_us, 20 * window_us]);
                naive.arrive(cost, max_wait_us);
                let max_wait = Duration::from_micros(max_wait_us);
                tasks.push(Task::begun(limiter.acquire(KEY, cost, max_wait), &clock));
            }
            5..7 if !tasks.is_empty() => {
                let number = usize::try_from(rng.below(tasks.len() as u64)).expect("few");
                // An admitted request that a queue only holds keeps its slot, and its end.
                naive.leave(number);
                if naive.ends[number] == Some(End::Left) {
                    tasks[number].cancel();
                }
            }
            _ => {
                let until = clock.now().plus(Duration::from_micros(rng.below(window_us)));
                run_until(&mut tasks, &clock, until);
                naive.pass(until.as_micros());
            }
        }
        run_until(&mut tasks, &clock, clock.now());
        assert_eq!(limiter.waiting(KEY), naive.waiting(), "seed {seed}: {policy:?}");
    }
    let until = clock.now().plus(Duration::from_secs(3_600));
    run_until(&mut tasks, &clock, until);
    naive.pass(until.as_micros());
    for (number, task) in tasks.iter().enumerate() {
        let end = end_of(task).or(Some(End::Left));
        assert_eq!(end, naive.ends[number], "seed {seed}, request {number}: {policy:?}");
    }
    assert_eq!((limiter.waiting(KEY), clock.sleepers()), (0, 0));
}

fn waiting_is_a_queue_played_out_whoever_leaves_it(case: &Case<'_, dyn InMemory>) {
    let seeds = if long() { 5_000 } else { 120 };
    (0..seeds).for_each(|seed| walk(case, seed));
}

/// Six wait, and one of them is dropped after a number of polls, or after a number of wake-ups without a poll: all
/// others end as if it had left the naive queue at that time.
fn cancellation_at_every_await_point_leaves_no_trace(case: &Case<'_, dyn InMemory>) {
    let mut left = 0;
    for victim in 0..COSTS.len() {
        for step in 0..8 {
            left += u32::from(leaves_no_trace(case, victim, step));
        }
    }
    assert!(left > 10, "only {left} left while they waited");
}

const COSTS: [u64; 6] = [3, 2, 4, 1, 5, 2];

/// Returns whether the victim still waited when it was dropped.
fn leaves_no_trace(case: &Case<'_, dyn InMemory>, victim: usize, step: usize) -> bool {
    let clock = ManualClock::new();
    let mut policy = model::Policy::new(case.model(), 5, 1_000);
    policy.capacity = Some(5);
    let limiter = case.by(&clock, spec_of(&policy));
    let mut naive = Line::new(policy, clock.now().as_micros());
    naive.delay_is_waiting = case.kind.delay_is_waiting();
    assert!(limiter.admits(KEY, 5) && naive.model.step(naive.now_us, 5).allowed);
    let mut tasks: Vec<_> = COSTS
        .iter()
        .map(|cost| {
            naive.arrive(*cost, 60_000_000);
            Task::begun(limiter.acquire(KEY, *cost, Duration::from_secs(60)), &clock)
        })
        .collect();
    // An even step drops the victim after a poll, an odd one after a wake-up.
    while !is_at(&tasks[victim], step) && !tasks[victim].is_over() {
        match tasks.iter_mut().find(|task| task.is_woken()) {
            Some(task) => drop(task.poll(&clock)),
            None => clock.advance_to(clock.next_sleeper().expect("a caller waits")),
        }
    }
    let now_us = clock.now().as_micros();
    naive.pass(now_us - 1);
    if tasks[victim].is_over() || naive.ends[victim].is_some() || is_held(&naive, victim, now_us) {
        return false;
    }
    naive.now_us = now_us;
    naive.leave(victim);
    tasks[victim].cancel();
    run(&mut tasks, &clock);
    naive.pass(clock.now().as_micros());
    let ends: Vec<_> = tasks.iter().map(|task| end_of(task).or(Some(End::Left))).collect();
    assert_eq!(ends, naive.ends, "{victim} at step {step}");
    assert_eq!((limiter.waiting(KEY), clock.sleepers()), (0, 0));
    true
}

/// Returns whether a queue has admitted it, to run later.
fn is_held(naive: &Line, victim: usize, now_us: u64) -> bool {
    let mut now = naive.clone();
    now.pass(now_us);
    matches!(now.ends[victim], Some(End::Runs(at)) if at > now_us)
}

fn is_at<T>(task: &Task<'_, T>, step: usize) -> bool {
    if step.is_multiple_of(2) { task.polls > step / 2 } else { task.wakes() > step / 2 }
}
