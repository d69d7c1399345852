//! Histories of threads that take while policies are replaced one after another, by the system's clock: no fewer and
//! no more units are admitted than the policies promise.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use crate::changes::History;
use crate::packed::{long, together};
use tidegate::{AlgorithmKind, Descriptor, Gate, Policy, Request, RuleSpec, Spec};

const DAY: Duration = Duration::from_secs(86_400);
const USERS: [&str; 4] = ["ada", "bob", "eve", "joe"];

fn each(name: &str, algorithm: AlgorithmKind, limit: u64) -> RuleSpec {
    let mut spec = Spec::new(algorithm, limit, DAY);
    spec.capacity = (algorithm == AlgorithmKind::LeakyQueue).then(|| limit - 1);
    RuleSpec::new(name, spec).key(["user"])
}

fn ask<T>(user: &str, ask: impl FnOnce(&Request<'_>) -> T) -> T {
    let entries = [("user", user)];
    ask(&Request::new("default", &[Descriptor::new(&entries)]))
}

/// One policy after another, each with higher limits, while threads take one unit at a time until the last policy
/// refuses: each user is admitted exactly the last limit. A rule that comes and goes next to it, and would admit
/// everything, changes nothing.
fn rising(algorithms: &[AlgorithmKind]) {
    const STEPS: u64 = 40;
    let rules = |step: u64| {
        let algorithm = algorithms[step as usize % algorithms.len()];
        let open = each("open", AlgorithmKind::FixedWindow, 1_000_000);
        let grows = each("grows", algorithm, 10 * step);
        match step % 3 {
            0 => vec![grows, open],
            1 => vec![grows],
            _ => vec![open, grows],
        }
    };
    let gate = Gate::new(Policy::new(rules(1)).unwrap());
    let (taken, is_last) = ([(); 4].map(|()| AtomicU64::new(0)), AtomicBool::new(false));
    let step = AtomicU64::new(1);
    together(5, |thread, rng| {
        if thread == 4 {
            for next in 2..=STEPS {
                // All of what the previous policy promises can be taken while it lasts, or half of it.
                let promised = 4 * 10 * (next - 1) / (1 + next % 2);
                while taken.iter().map(|one| one.load(SeqCst)).sum::<u64>() < promised {
                    std::thread::yield_now();
                }
                step.store(next, SeqCst);
                gate.replace(Policy::new(rules(next)).unwrap()).unwrap();
            }
            is_last.store(true, SeqCst);
            return;
        }
        loop {
            let was_last = is_last.load(SeqCst);
            let user = rng.below(4) as usize;
            let admitted = ask(USERS[user], |request| gate.admits(request));
            let taken = taken[user].fetch_add(u64::from(admitted), SeqCst) + u64::from(admitted);
            // A policy that is about to come in force may decide already, but no later one.
            assert!(taken <= 10 * step.load(SeqCst), "{taken} at once");
            if was_last
                && USERS.iter().all(|user| ask(user, |one| gate.peek(one).remaining()) == Some(0))
            {
                return;
            }
        }
    });
    assert_eq!(taken.map(AtomicU64::into_inner), [10 * STEPS; 4], "{algorithms:?}");
}

#[test]
fn limits_that_rise_while_threads_take_admit_just_what_they_promise() {
    for _ in 0..if long() { 10 } else { 1 } {
        for algorithm in AlgorithmKind::ALL.iter().copied() {
            rising(&[algorithm]);
        }
        rising(AlgorithmKind::ALL);
    }
}

/// A rule that comes and goes: a request admitted while the rule was certainly in force was charged to it, and a
/// request while it was certainly gone was not. The counts match a serial order.
#[test]
fn a_rule_that_comes_and_goes_counts_what_came_while_it_was_in_force() {
    let gate =
        Gate::new(Policy::new(vec![each("stays", AlgorithmKind::SlidingLog, 1_000_000)]).unwrap());
    let rules = |has: bool| {
        let stays = each("stays", AlgorithmKind::SlidingLog, 1_000_000);
        let counts = each("counts", AlgorithmKind::TokenBucket, 1_000_000);
        if has { vec![counts, stays] } else { vec![stays] }
    };
    // Twice the number of changes so far, plus one during a change.
    let (phase, asked, done) = (AtomicU64::new(0), AtomicU64::new(0), AtomicBool::new(false));
    let bounds = Mutex::new([0_u64, 0, 0]);
    together(4, |thread, _| {
        if thread == 3 {
            for change in 1..=if long() { 400 } else { 60_u64 } {
                phase.fetch_add(1, SeqCst);
                gate.replace(Policy::new(rules(change % 2 == 1)).unwrap()).unwrap();
                phase.fetch_add(1, SeqCst);
                let so_many = asked.load(SeqCst) + 50;
                while asked.load(SeqCst) < so_many {
                    std::thread::yield_now();
                }
            }
            done.store(true, SeqCst);
            return;
        }
        let [mut surely, mut perhaps, mut all] = [0, 0, 0];
        while !done.load(SeqCst) {
            let before = phase.load(SeqCst);
            assert!(ask("ada", |request| gate.admits(request)));
            let after = phase.load(SeqCst);
            asked.fetch_add(1, SeqCst);
            let is_still = before == after && before.is_multiple_of(2);
            let is_there = before / 2 % 2 == 1;
            surely += u64::from(is_still && is_there);
            perhaps += u64::from(!is_still || is_there);
            all += 1;
        }
        let mut bounds = bounds.lock().unwrap();
        *bounds = [bounds[0] + surely, bounds[1] + perhaps, bounds[2] + all];
    });
    gate.replace(Policy::new(rules(true)).unwrap()).unwrap();
    let [surely, perhaps, all] = bounds.into_inner().unwrap();
    let used: Vec<u64> = ask("ada", |request| {
        let answer = gate.peek(request);
        answer.matched().iter().map(|one| 1_000_000 - one.decision().remaining).collect()
    });
    // A token flows back every 86 milliseconds.
    assert!(
        (surely.saturating_sub(1_000)..=perhaps).contains(&used[0]),
        "{used:?} {surely} {perhaps}"
    );
    assert_eq!(used[1], all, "the rule that stays counted every request");
}

/// A limit that goes up and down every few moments during the requests.
#[test]
fn a_limit_that_moves_all_the_time_admits_each_unit_once_and_refuses_nobody_for_less() {
    let algorithms = [
        AlgorithmKind::SlidingLog,
        AlgorithmKind::TokenBucket,
        AlgorithmKind::FixedWindow,
        AlgorithmKind::SlidingWindow,
    ];
    for algorithm in algorithms {
        let steps = if long() { 2_000 } else { 200 };
        let rules = |limit: u64, step: u64| {
            let open = each("open", AlgorithmKind::FixedWindow, 10_000_000);
            let rule = each("r", algorithm, limit);
            if step.is_multiple_of(3) { vec![open, rule] } else { vec![rule] }
        };
        // Mostly up, but every second limit is far below what is used.
        let limit = |step: u64| if step.is_multiple_of(2) { 10 + 5 * step } else { 1 + 2 * step };
        let (history, done) = (History::default(), AtomicBool::new(false));
        let gate = Gate::new(Policy::new(rules(limit(0), 0)).unwrap());
        history.change(limit(0), || ());
        together(4, |thread, rng| {
            if thread == 0 {
                for step in 1..=steps {
                    let policy = Policy::new(rules(limit(step), step)).unwrap();
                    history.change(limit(step), || gate.replace(policy).unwrap());
                    std::thread::park_timeout(Duration::from_micros(rng.below(2_000)));
                }
                done.store(true, SeqCst);
                return;
            }
            loop {
                let (was_last, begun) = (done.load(SeqCst), history.now());
                let answer = ask("ada", |request| gate.check(request));
                if !history.note(begun, &answer) && was_last {
                    return;
                }
            }
        });
        assert_eq!(
            history.check(true),
            limit(steps),
            "{algorithm}: all units of the last limit were had"
        );
    }
}
