//! A flood of keys takes no more memory than the cap, counted byte by byte by the allocator itself.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use peak_alloc::PeakAlloc;
use std::time::Duration;
use tidegate::{
    AlgorithmKind, Clock, Descriptor, Gate, KeyedLimiter, Limit, ManualClock, OnFull, OverrideSpec,
    Policy, Request, Rule, RuleSpec, Setup, Spec, Timestamp, Under,
};

#[global_allocator]
static HEAP: PeakAlloc = PeakAlloc;

const CAP: usize = 25_000;

/// Tests of this file take turns, because each would count the memory of the others.
fn turn() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Sends so many times the keys of a cap through it. Returns the bytes held when it was reached, and the maximum
/// afterwards.
fn flood(algorithm: AlgorithmKind, limit: u64, on_full: OnFull, times: usize) -> (usize, usize) {
    let spec = Spec::new(algorithm, limit, Duration::from_secs(3_600));
    let _turn = turn();
    let before = HEAP.current_usage();
    let limiter = KeyedLimiter::new(spec).unwrap().with_max_keys(CAP, on_full);
    let ask = |number: usize| _ = limiter.check(number.to_le_bytes(), 1);
    (0..CAP).for_each(ask);
    assert_eq!(limiter.keys(), CAP);
    let full = HEAP.current_usage().saturating_sub(before);
    HEAP.reset_peak_usage();
    (CAP..times * CAP).for_each(ask);
    assert_eq!(limiter.keys(), CAP);
    (full, HEAP.peak_usage().saturating_sub(before))
}

#[test]
fn ten_times_the_keys_of_a_cap_take_the_memory_of_the_cap() {
    for on_full in [OnFull::Share, OnFull::Refuse] {
        let (full, most) = flood(AlgorithmKind::TokenBucket, 1, on_full, 10);
        assert!(full < CAP * 40, "{full} bytes for {CAP} keys that fit a word each");
        assert!(full > CAP * 20, "{full} bytes: was everyone held?");
        assert!(most <= full + 4_096, "{most} bytes after {full}");
    }
}

/// A sliding counter of a large limit in two words, and sliding windows in two and in six.
#[test]
fn states_of_two_and_of_six_words_take_less_than_a_line_and_a_half() {
    for (algorithm, limit, most_bytes) in [
        (AlgorithmKind::SlidingCounter, 1_000_000_000, 48),
        (AlgorithmKind::SlidingWindow, 100, 48),
        (AlgorithmKind::SlidingWindow, 1_000_000_000, 96),
    ] {
        let (full, most) = flood(algorithm, limit, OnFull::Share, 3);
        assert!(full < CAP * most_bytes, "{full} bytes for {CAP} keys of {algorithm}");
        assert!(full > CAP * most_bytes * 2 / 3, "{full} bytes: was everyone held?");
        assert!(most <= full + 4_096, "{most} bytes after {full}");
    }
}

#[test]
fn states_kept_whole_stay_within_their_cap_too() {
    let (full, most) = flood(AlgorithmKind::SlidingLog, 1, OnFull::Share, 3);
    assert!(most <= full + 4_096, "{most} bytes after {full}");
}

/// A caller that supplies other values with each call has one limiter, and takes the memory of one.
#[test]
fn a_new_plan_with_each_call_takes_no_more_memory() {
    let _turn = turn();
    let before = HEAP.current_usage();
    let limiter = KeyedLimiter::new(Spec::unlimited(AlgorithmKind::TokenBucket)).unwrap();
    let limiter = limiter.with_plans(|_| None);
    let ask = |key: u64, plan: u64| {
        let mut spec = Spec::new(AlgorithmKind::TokenBucket, 10 + plan, Duration::from_secs(3_600));
        spec.capacity = Some(1 + plan % 7);
        let _ = limiter.check(Under(&Rule::new(spec).unwrap(), key.to_le_bytes()), 1);
    };
    // Each under values of its own, which keys of one plan would share.
    (0..1_000).for_each(|key| ask(key, key));
    // Each key remembers its last eight limits, the units that a lower limit eased, and the start of its state, because
    // units taken then may come back. That is 500 to 520 bytes; the limits are 128 of them. Shards grow at sizes that
    // depend on the hashes.
    // The memory of a key goes up and down by some bytes, so the largest of several rounds is compared.
    let most_in = |rounds: std::ops::Range<u64>| {
        let after = |round: u64| {
            (round * 50_000..(round + 1) * 50_000).for_each(|call| ask(call % 1_000, call));
            HEAP.current_usage().saturating_sub(before)
        };
        rounds.map(after).max().unwrap()
    };
    let full = most_in(0..6);
    let more = most_in(6..12).saturating_sub(full);
    assert_eq!(limiter.keys(), 1_000);
    assert!(more < 4_096, "{more} bytes more after {full}");
    assert!(full < 1_000 * 560, "{full} bytes for a thousand keys");
}

/// The memory for units that may come back is counted too: reservations of packed states, and former limits of keys
/// with plans.
#[test]
fn what_is_remembered_of_keys_counts_in_their_memory() {
    const KEYS: usize = 1_000;
    let _turn = turn();
    for by_plan in [false, true] {
        let spec = Spec::new(AlgorithmKind::TokenBucket, 100, Duration::from_secs(86_400));
        let rule = RuleSpec::new("r", spec).key(["user"]);
        let plan = Arc::new(Mutex::new(spec));
        let (known, clock) = (Arc::clone(&plan), ManualClock::new());
        let mut setup = Setup::new(Policy::new(vec![rule]).unwrap());
        let plan_of = move |_: &Descriptor<'_>| Some(Rule::new(*known.lock().unwrap()).unwrap());
        if by_plan {
            setup = setup.plans("default", "r", plan_of).unwrap();
        }
        let gate = Gate::with_clock(setup, clock);
        let counted = || gate.counts().rules().next().unwrap().1.bytes;
        let of_all = |reserves: bool| {
            for number in 0..KEYS {
                let user = number.to_string();
                let entries = [("user", user.as_str())];
                if reserves {
                    gate.hold(&entries).unwrap().keep();
                } else {
                    assert!(gate.check(&entries).is_allowed());
                }
            }
        };
        of_all(false);
        let before = (HEAP.current_usage(), counted());
        if by_plan {
            for limit in 101..120 {
                plan.lock().unwrap().limit = Limit::Units(limit);
                of_all(false);
            }
        } else {
            of_all(true);
        }
        let held = HEAP.current_usage().saturating_sub(before.0);
        let more = counted().saturating_sub(before.1);
        assert!(held > KEYS * 50, "{held} bytes: was anything remembered?");
        // Each shard of a table also keeps the last few rules.
        let most = more + 32 * 1_024;
        assert!(held <= most, "by plan {by_plan}: {held} bytes held, {more} counted");
    }
}

/// Each override has a table of its own.
#[test]
fn two_thousand_overrides_with_a_key_each_take_four_kilobytes_each() {
    const OVERRIDES: usize = 2_000;
    let _turn = turn();
    for (algorithm, limit) in [
        (AlgorithmKind::TokenBucket, 10),
        (AlgorithmKind::SlidingCounter, 900_000_000),
        (AlgorithmKind::SlidingWindow, 900_000_000),
    ] {
        let before = HEAP.current_usage();
        let spec = Spec::new(algorithm, limit, Duration::from_secs(86_400));
        let mut rule = RuleSpec::new("r", spec);
        rule = rule.key(["user"]).max_keys(1_000_000, OnFull::Share);
        for number in 0..OVERRIDES {
            let mut other = OverrideSpec::new("user", number.to_string());
            other.limit = Some(Limit::Units(limit + 1 + number as u64));
            rule = rule.with_override(other);
        }
        let gate = Gate::new(Policy::new(vec![rule]).unwrap());
        for number in 0..OVERRIDES {
            let user = number.to_string();
            assert!(gate.admits(Descriptor::new(&[("user", user.as_str())])));
        }
        assert_eq!(gate.counts().keys, OVERRIDES);
        let of_one = HEAP.current_usage().saturating_sub(before) / OVERRIDES;
        assert!(of_one < 4_096, "{algorithm}: {of_one} bytes");
    }
}

/// Its policy and its empty tables together.
#[test]
fn a_rule_without_keys_takes_two_kilobytes() {
    const RULES: usize = 1_000;
    let _turn = turn();
    for algorithm in AlgorithmKind::ALL {
        let spec = Spec::new(*algorithm, 100, Duration::from_secs(60));
        let before = HEAP.current_usage();
        let rule = |number| {
            let tenant = format!("tenant-{number}");
            RuleSpec::new(format!("rule-{number}"), spec).key(["user"]).when("tenant", tenant)
        };
        let gate = Gate::new(Policy::new((0..RULES).map(rule).collect()).unwrap());
        let of_one = HEAP.current_usage().saturating_sub(before) / RULES;
        assert!((500..=2_200).contains(&of_one), "{algorithm}: {of_one} bytes");
        drop(gate);
    }
}

/// Keys that are reset by hand come back, over and over: they leave no memory in use.
#[test]
fn keys_that_are_reset_again_and_again_leave_nothing_behind() {
    let _turn = turn();
    for algorithm in [AlgorithmKind::TokenBucket, AlgorithmKind::SlidingLog] {
        let rule = RuleSpec::new("r", Spec::new(algorithm, 1, Duration::from_secs(86_400)));
        let gate = Gate::new(Policy::new(vec![rule.key(["user"])]).unwrap());
        let round = || {
            for number in 0..1_000 {
                let user = number.to_string();
                let entries = [("user", user.as_str())];
                let request = Request::from(Descriptor::new(&entries));
                assert_eq!(gate.reset(&request), 1);
                assert!(gate.admits(&request) && !gate.admits(&request), "{algorithm}");
            }
        };
        (0..10).for_each(|_| round());
        let before = HEAP.current_usage();
        (0..90).for_each(|_| round());
        let more = HEAP.current_usage().saturating_sub(before);
        assert!(more < 16_384, "{algorithm}: {more} bytes more");
        assert_eq!(gate.counts().keys, 1_000);
    }
}

/// Four threads let each of many logs grow to its largest size. Returns the peak of the allocated bytes, the admitted
/// units, and the number of requests without room.
fn grow(keys: u64, limit: u64, max_memory: usize, on_full: OnFull) -> (usize, u64, u64) {
    let _turn = turn();
    let before = HEAP.current_usage();
    let mut spec = Spec::new(AlgorithmKind::SlidingLog, limit, Duration::from_secs(86_400));
    spec.max_memory = Some(max_memory as u64);
    let rule = RuleSpec::new("r", spec).key(["user"]).max_keys(1_000_000, on_full);
    let gate = Gate::with_clock(Policy::new(vec![rule]).unwrap(), Ticking(AtomicU64::new(0)));
    HEAP.reset_peak_usage();
    let (own, overflow) = (AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|threads| {
        for thread in 0..4 {
            let (gate, own, overflow) = (&gate, &own, &overflow);
            threads.spawn(move || {
                for turn in 0..limit + 1 {
                    for key in (thread..keys).step_by(4) {
                        let user = key.to_string();
                        let entries = [("user", user.as_str())];
                        let request = Request::from(Descriptor::new(&entries));
                        if turn % 16 == 0 {
                            let _ = gate.peek(&request);
                        }
                        let answer = gate.check(&request);
                        let mine = answer.is_allowed() && !answer.is_overflow();
                        own.fetch_add(u64::from(mine), Relaxed);
                        overflow.fetch_add(u64::from(answer.is_overflow()), Relaxed);
                    }
                }
            });
        }
    });
    (HEAP.peak_usage().saturating_sub(before), own.into_inner(), overflow.into_inner())
}

/// A clock that every reading moves on, so that each unit is an entry of its own.
struct Ticking(AtomicU64);

impl Clock for Ticking {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(1_700_000_000_000_000 + self.0.fetch_add(1, Relaxed))
    }
}

#[test]
fn logs_that_grow_to_their_largest_stay_within_max_memory_at_any_time() {
    for on_full in [OnFull::Share, OnFull::Refuse] {
        for (keys, limit, cap) in [(500, 200, 1 << 20), (40, 2_000, 1 << 20), (200, 40, 100_000)] {
            let (most, own, overflow) = grow(keys, limit, cap, on_full);
            // Threads, names and the table's own shards are not states.
            assert!(most <= cap + 64 * 1_024, "{most} bytes of {cap}");
            assert!(most >= cap / 2, "{most} bytes of {cap}: is there no use of it?");
            assert!(overflow > 0 && own < keys * limit, "{own} units: it was never full");
            assert!(
                own * 16 > cap as u64 * 3 / 10,
                "{own} units: those who are there cannot go on"
            );
        }
    }
}

#[test]
fn logs_that_have_space_for_all_they_need_are_never_in_overflow() {
    let (_, own, overflow) = grow(100, 200, 4 << 20, OnFull::Refuse);
    assert_eq!((own, overflow), (100 * 200, 0));
    let (_, own, _) = grow(1, 60, 1_024, OnFull::Refuse);
    assert_eq!(own, 60, "there is always room for one");
}

/// Logs that need more memory than there is. All of them began while there was room.
#[test]
fn a_log_without_memory_to_grow_admits_its_limit_and_not_one_unit_more() {
    const KEYS: usize = 40;
    const LIMIT: u64 = 2_000;
    let _turn = turn();
    for on_full in [OnFull::Share, OnFull::Refuse] {
        let mut spec = Spec::new(AlgorithmKind::SlidingLog, LIMIT, Duration::from_secs(86_400));
        spec.max_memory = Some(800_000);
        let rule = RuleSpec::new("r", spec).key(["user"]).max_keys(1_000, on_full);
        let gate = Gate::with_clock(Policy::new(vec![rule]).unwrap(), Ticking(AtomicU64::new(0)));
        let (mut admitted, mut overflow) = ([0; KEYS], 0);
        for _ in 0..LIMIT + 500 {
            for (key, admitted) in admitted.iter_mut().enumerate() {
                let user = key.to_string();
                let answer = gate.check(Descriptor::new(&[("user", user.as_str())]));
                *admitted += u64::from(answer.is_allowed());
                overflow += u64::from(answer.is_overflow());
            }
        }
        assert_eq!(admitted, [LIMIT; KEYS], "{on_full:?}");
        assert!(overflow > 0, "there was memory for all");
    }
}
