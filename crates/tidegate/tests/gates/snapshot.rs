//! Snapshots of gates: refused snapshots, dropped limiters, and decisions while a snapshot is written.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

use crate::packed::{TODAY_US, TestClock};
use tidegate::{
    AlgorithmKind, Ban, Gate, OnFull, Policy, Request, RuleSpec, Setup, SnapshotError, Spec,
};

const HOUR: Duration = Duration::from_secs(3_600);
const HOUR_US: u64 = 3_600_000_000;

fn per_user(algorithm: AlgorithmKind, limit: u64) -> RuleSpec {
    RuleSpec::new("per-user", Spec::new(algorithm, limit, HOUR)).key(["user"])
}

fn gate_of(rules: Vec<RuleSpec>, clock: &TestClock) -> Gate<TestClock> {
    Gate::with_clock(Policy::new(rules).unwrap(), clock.clone())
}

fn bytes_of(gate: &Gate<TestClock>) -> Vec<u8> {
    let mut bytes = Vec::new();
    let _ = gate.write_snapshot(&mut bytes).unwrap();
    bytes
}

fn of<'a>(user: &'a [(&'a str, &'a str); 1]) -> Request<'a> {
    Request::from(("default", user))
}

/// A gate with a little of everything, and its snapshot.
fn a_little_of_everything(clock: &TestClock) -> Gate<TestClock> {
    let mut rules: Vec<_> = AlgorithmKind::ALL
        .iter()
        .map(|algorithm| {
            let spec = Spec::new(*algorithm, 3, HOUR);
            RuleSpec::new(format!("of-{algorithm}"), spec).key(["user"])
        })
        .collect();
    rules[0].dedupe = Some(HOUR);
    rules[1].limit_from_request = true;
    let ban = Ban::with_clock(1, HOUR, HOUR, clock.clone()).unwrap();
    let setup = Setup::new(Policy::new(rules).unwrap());
    Gate::with_clock(setup.ban("default", "of-sliding_log", ban).unwrap(), clock.clone())
}

#[test]
fn damaged_truncated_and_foreign_files_are_refused_and_nothing_else() {
    let clock = TestClock::at(TODAY_US);
    let gate = a_little_of_everything(&clock);
    for user in ["ada", "bob"] {
        for id in ["1", "2", "3", "4"] {
            let entries = [("user", user)];
            let _ = gate.admits(of(&entries).with_id(id).unwrap());
        }
    }
    let bytes = bytes_of(&gate);
    let load = |bytes: &[u8]| a_little_of_everything(&clock).with_snapshot(bytes).map(|_| ());
    load(&bytes).unwrap();
    for length in 0..bytes.len() {
        let error = load(&bytes[..length]).unwrap_err();
        assert!(matches!(error, SnapshotError::Truncated { .. }), "{length}: {error}");
    }
    for place in 0..bytes.len() {
        for bit in [0, 3, 7] {
            let mut damaged = bytes.clone();
            damaged[place] ^= 1 << bit;
            let error = load(&damaged).unwrap_err();
            match place {
                0..8 => assert!(matches!(error, SnapshotError::NotASnapshot), "{place}: {error}"),
                8..12 => {
                    assert!(matches!(error, SnapshotError::Version { .. }), "{place}: {error}")
                }
                _ => assert!(
                    matches!(
                        error,
                        SnapshotError::Checksum { .. } | SnapshotError::Truncated { .. }
                    ),
                    "{place}: {error}"
                ),
            }
        }
    }
    let mut longer = bytes.clone();
    longer.push(0);
    let error = load(&longer).unwrap_err();
    assert!(matches!(error, SnapshotError::Malformed { .. }), "{error}");
    let error = gate.with_snapshot(&bytes[..]).map(|_| ()).unwrap_err();
    assert!(matches!(error, SnapshotError::InUse), "{error}");
}

#[test]
fn blocks_that_are_left_out_repeated_or_moved_are_noticed() {
    let clock = TestClock::at(TODAY_US);
    let gate = a_little_of_everything(&clock);
    for user in ["ada", "bob"] {
        let entries = [("user", user)];
        let _ = gate.admits(of(&entries).with_id("1").unwrap());
    }
    let bytes = bytes_of(&gate);
    // A kind, the length of the payload, the payload and its checksum.
    let (begin, mut rest) = bytes.split_at(12);
    let mut blocks = Vec::new();
    while let Some((length, _)) = rest.get(1..).and_then(|rest| rest.split_first_chunk()) {
        let (block, after) = rest.split_at(13 + u64::from_le_bytes(*length) as usize);
        blocks.push(block);
        rest = after;
    }
    let load = |blocks: &[&[u8]]| {
        let bytes = [begin, &blocks.concat()].concat();
        a_little_of_everything(&clock).with_snapshot(&bytes[..]).map(|_| ())
    };
    load(&blocks).unwrap();
    let damaged = |blocks: &[&[u8]], how: &str| {
        let error = load(blocks).unwrap_err();
        let noticed = matches!(
            error,
            SnapshotError::Checksum { .. }
                | SnapshotError::Truncated { .. }
                | SnapshotError::Malformed { .. }
        );
        assert!(noticed, "{how}: {error}");
    };
    for number in 0..blocks.len() {
        let mut without = blocks.clone();
        let block = without.remove(number);
        damaged(&without, &format!("without block {number}"));
        let mut twice = blocks.clone();
        twice.insert(number, block);
        damaged(&twice, &format!("block {number} twice"));
        let next = (number + 1) % blocks.len();
        if blocks[number] != blocks[next] {
            let mut swapped = blocks.clone();
            swapped.swap(number, next);
            damaged(&swapped, &format!("blocks {number} and {next} swapped"));
        }
    }
}

/// Its limiters are written under the values that they have.
#[test]
fn what_was_used_before_a_rule_was_unlimited_is_in_the_snapshot() {
    let clock = TestClock::at(TODAY_US);
    let unlimited = RuleSpec::new("per-user", Spec::unlimited(AlgorithmKind::FixedWindow));
    let unlimited = Policy::new(vec![unlimited.key(["user"])]).unwrap();
    for algorithm in AlgorithmKind::ALL {
        let ada = [("user", "ada")];
        let rule = per_user(*algorithm, 9);
        let gate = gate_of(vec![rule.clone()], &clock);
        assert!(gate.admits(of(&ada)) && gate.admits(of(&ada)));
        gate.replace(unlimited.clone()).unwrap();
        let bytes = bytes_of(&gate);
        let load = |policy| Gate::with_clock(policy, clock.clone()).with_snapshot(&bytes[..]);
        let (again, loaded) = load(Policy::new(vec![rule.clone()]).unwrap()).unwrap();
        assert_eq!(loaded.limiters, 1, "{algorithm}");
        gate.replace(Policy::new(vec![rule]).unwrap()).unwrap();
        assert_eq!(
            again.peek(of(&ada)).remaining(),
            gate.peek(of(&ada)).remaining(),
            "{algorithm}"
        );
        let (_, loaded) = load(unlimited.clone()).unwrap();
        assert_eq!(loaded.limiters, 0, "{algorithm}: nothing is kept under no limit");
    }
}

#[test]
fn a_rule_that_is_gone_or_has_another_key_is_dropped_and_the_others_stay() {
    let clock = TestClock::at(TODAY_US);
    let spec = || Spec::new(AlgorithmKind::SlidingLog, 2, HOUR);
    let rule = |name: &str, key: &str| RuleSpec::new(name, spec()).key([key]);
    let before = gate_of(vec![rule("a", "user"), rule("b", "user"), rule("c", "user")], &clock);
    let ada = [("user", "ada")];
    assert!(before.admits(of(&ada)));
    let (after, loaded) =
        gate_of(vec![rule("d", "user"), rule("b", "team"), rule("c", "user")], &clock)
            .with_snapshot(&bytes_of(&before)[..])
            .unwrap();
    assert_eq!((loaded.limiters, loaded.dropped), (1, 2), "{loaded:?}");
    let answer = after.peek(of(&ada));
    let left: Vec<_> = answer
        .matched()
        .iter()
        .map(|one| (one.rule().name().to_owned(), one.decision().remaining))
        .collect();
    assert_eq!(left, [("d".to_owned(), 2), ("c".to_owned(), 1)]);
}

#[test]
fn caps_hold_and_keys_without_space_share_a_limiter_that_is_kept_too() {
    for algorithm in AlgorithmKind::ALL {
        let clock = TestClock::at(TODAY_US);
        let rule = |most| per_user(*algorithm, 2).max_keys(most, OnFull::Share);
        let before = gate_of(vec![rule(3)], &clock);
        let admitted = |gate: &Gate<_>, user| gate.admits(of(&[("user", user)]));
        // The queue of two takes one more.
        let most = usize::try_from(before.peek(of(&[("user", "a")])).matched()[0].decision().limit)
            .unwrap();
        for user in ["a", "b", "c"] {
            (0..most).for_each(|_| assert!(admitted(&before, user), "{algorithm}"));
        }
        (0..most).for_each(|_| assert!(admitted(&before, "d"), "{algorithm}: shared"));
        let bytes = bytes_of(&before);

        let (after, loaded) = gate_of(vec![rule(3)], &clock).with_snapshot(&bytes[..]).unwrap();
        assert_eq!((loaded.limiters, loaded.without_space), (4, 0), "{algorithm}");
        for user in ["a", "b", "c", "d", "e"] {
            assert!(!admitted(&after, user), "{algorithm}: {user}");
        }
        let (after, loaded) = gate_of(vec![rule(2)], &clock).with_snapshot(&bytes[..]).unwrap();
        assert_eq!(
            (loaded.limiters, loaded.without_space, after.counts().keys),
            (3, 1, 2),
            "{algorithm}"
        );
        for user in ["a", "b", "c", "d", "e"] {
            assert!(!admitted(&after, user), "{algorithm}: {user} has a limiter or shares one");
        }
    }
}

#[test]
fn a_clock_that_is_behind_the_writers_is_a_step_of_the_clock() {
    for algorithm in AlgorithmKind::ALL {
        for behind_us in [1, HOUR_US / 2, HOUR_US, 3 * HOUR_US, 1_000 * HOUR_US] {
            let (clock, behind) = (TestClock::at(TODAY_US), TestClock::at(TODAY_US - behind_us));
            let rules = || vec![per_user(*algorithm, 4)];
            let before = gate_of(rules(), &clock);
            let ada = [("user", "ada")];
            while before.admits(of(&ada)) {}
            let (after, _) =
                gate_of(rules(), &behind).with_snapshot(&bytes_of(&before)[..]).unwrap();
            assert!(!after.admits(of(&ada)), "{algorithm}: a step of {behind_us} us is no fill");
            // A unit comes back in two windows at most, and another for the step.
            behind.pass(3 * HOUR_US);
            assert!(
                after.admits(of(&ada)),
                "{algorithm}: no caller waits longer for {behind_us} us"
            );
        }
    }
}

/// Threads take units while snapshots are written; each snapshot holds what was taken before it was begun, and nothing
/// that was not taken by its end.
#[test]
fn decisions_go_on_while_a_snapshot_is_written() {
    for algorithm in [AlgorithmKind::FixedWindow, AlgorithmKind::SlidingLog] {
        let clock = TestClock::at(TODAY_US);
        let rules = || {
            vec![
                RuleSpec::new("all", Spec::new(algorithm, 1_000_000, HOUR)),
                per_user(algorithm, 9),
            ]
        };
        let gate = gate_of(rules(), &clock);
        let (taken, begun, stop) = (AtomicU64::new(0), AtomicU64::new(0), AtomicBool::new(false));
        thread::scope(|scope| {
            for number in 0..2_u64 {
                let (gate, taken, begun, stop) = (&gate, &taken, &begun, &stop);
                scope.spawn(move || {
                    for user in 0_u64.. {
                        if stop.load(SeqCst) {
                            break;
                        }
                        let user = (2 * (user % 20_000) + number).to_string();
                        begun.fetch_add(1, SeqCst);
                        let admitted = gate.admits(("default", &[("user", &*user)]));
                        taken.fetch_add(u64::from(admitted), SeqCst);
                    }
                });
            }
            for _ in 0..6 {
                // Asked, not admitted: on a slow machine all that the limits admit may be used up by now.
                let more = begun.load(SeqCst) + 1_000;
                while begun.load(SeqCst) < more {
                    thread::yield_now();
                }
                let before = taken.load(SeqCst);
                let bytes = bytes_of(&gate);
                let after = begun.load(SeqCst);
                let (copy, loaded) = gate_of(rules(), &clock).with_snapshot(&bytes[..]).unwrap();
                assert_eq!((loaded.dropped, loaded.without_space), (0, 0));
                let used =
                    1_000_000 - copy.peek(("default", &[("team", "x")])).remaining().unwrap();
                assert!((before..=after).contains(&used), "{before} {used} {after}");
            }
            stop.store(true, SeqCst);
        });
    }
}
