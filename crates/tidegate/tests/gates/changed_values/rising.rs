//! Limits that rise while threads take, by the system's clock: no fewer and no more units are admitted than the policies
//! promise.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

use super::{admits, ask, per_day, policy};
use crate::packed::{long, together};
use tidegate::{AlgorithmKind, Gate, RuleSpec};

const USERS: [&str; 4] = ["ada", "bob", "eve", "joe"];

/// One policy after another, each with higher limits, while threads take one unit at a time until the last policy
/// refuses: each user is admitted exactly the last limit. A rule that comes and goes next to it, and would admit
/// everything, changes nothing.
fn rising(algorithms: &[AlgorithmKind]) {
    const STEPS: u64 = 40;
    let rule =
        |name: &str, algorithm, limit| RuleSpec::new(name, per_day(algorithm, limit)).key(["user"]);
    let rules = |step: u64| {
        let algorithm = algorithms[step as usize % algorithms.len()];
        let open = rule("open", AlgorithmKind::FixedWindow, 1_000_000);
        let grows = rule("grows", algorithm, 10 * step);
        match step % 3 {
            0 => vec![grows, open],
            1 => vec![grows],
            _ => vec![open, grows],
        }
    };
    let gate = Gate::new(policy(rules(1)));
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
                gate.replace(policy(rules(next))).unwrap();
            }
            is_last.store(true, SeqCst);
            return;
        }
        loop {
            let was_last = is_last.load(SeqCst);
            let user = rng.below(4) as usize;
            let admitted = admits(&gate, USERS[user], 1);
            let taken = taken[user].fetch_add(u64::from(admitted), SeqCst) + u64::from(admitted);
            // A policy that is about to come in force may decide already, but no later one.
            assert!(taken <= 10 * step.load(SeqCst), "{taken} at once");
            if was_last
                && USERS
                    .iter()
                    .all(|user| ask(user, 1, |one| gate.peek(one).remaining()) == Some(0))
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
