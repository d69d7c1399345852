//! Rules that change while limiters are in use: usage carries over, and no request slips between.

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use super::{DAY, per_day};
use crate::packed::{TODAY_US, TestClock, Unsteady, long, together};
use tidegate::{AlgorithmKind, Clock, KeyedLimiter, Limit, Limiter, Micros, Rule, Spec, Timestamp};

/// A limiter, and the limiter of a key next to others, by a clock that stands still.
struct Both {
    alone: Limiter<TestClock>,
    keyed: KeyedLimiter<TestClock>,
}

impl Both {
    fn new(spec: Spec) -> Self {
        let clock = TestClock::at(TODAY_US);
        let alone = Limiter::with_clock(spec, clock.clone()).unwrap();
        let keyed = KeyedLimiter::with_clock(spec, clock).unwrap();
        (0..40).for_each(|other: u8| {
            assert!(keyed.admits([other], 1) || spec.limit == Limit::Units(0))
        });
        Self { alone, keyed }
    }

    fn admits(&self, cost: u64) -> bool {
        let (alone, keyed) = (self.alone.admits(cost), self.keyed.admits("key", cost));
        assert_eq!(alone, keyed);
        alone
    }

    fn amend(&self, spec: Spec) {
        self.alone.amend(spec).unwrap();
        self.keyed.amend(spec).unwrap();
        self.limit();
    }

    fn available(&self) -> u64 {
        assert_eq!(self.alone.peek(1), self.keyed.peek("key", 1));
        self.alone.peek(1).remaining
    }

    fn limit(&self) -> u64 {
        let limit = self.alone.peek(0).limit;
        assert_eq!(limit, self.keyed.peek("key", 0).limit);
        limit
    }
}

#[test]
fn a_changed_limit_is_not_ignored_by_keys_that_exist_and_mints_no_credit() {
    for algorithm in AlgorithmKind::ALL.iter().copied() {
        let both = Both::new(per_day(algorithm, 100));
        assert!(both.admits(30));
        both.amend(per_day(algorithm, 120));
        assert_eq!(both.available(), 90, "{algorithm}: a higher limit adds the difference");
        both.amend(per_day(algorithm, 20));
        assert_eq!((both.available(), both.admits(1)), (0, false), "{algorithm}: debt");
        both.amend(per_day(algorithm, 100));
        assert_eq!(both.available(), 70, "{algorithm}: there and back is no credit");
        assert!(both.admits(70) && !both.admits(1), "{algorithm}");
    }
}

/// Limits whose states take one word, two, or none, and each algorithm to each.
#[test]
fn what_was_used_stays_used_under_every_other_algorithm() {
    for from in AlgorithmKind::ALL.iter().copied() {
        for to in AlgorithmKind::ALL.iter().copied() {
            for limits in [[100, 100], [1_000_000_000, 100], [100, 50_000_000]] {
                if limits.iter().any(|limit| *limit > 10_000) && to == AlgorithmKind::SlidingLog {
                    continue;
                }
                if limits[0] > 10_000 && from == AlgorithmKind::SlidingLog {
                    continue;
                }
                if limits.iter().any(|limit| *limit > 10_000)
                    && (from.holds_permits() || to.holds_permits())
                {
                    continue; // more permits than fit in its memory
                }
                let both = Both::new(per_day(from, limits[0]));
                assert!(both.admits(60));
                both.amend(per_day(to, limits[1]));
                assert_eq!(both.available(), limits[1] - 60, "{from} to {to}: {limits:?}");
                both.amend(per_day(from, limits[0]));
                assert_eq!(both.available(), limits[0] - 60, "{from} to {to} and back: {limits:?}");
            }
        }
    }
}

/// A count that a word has no room for is not cut off by a low limit in between.
#[test]
fn a_large_count_survives_a_small_limit() {
    for algorithm in
        [AlgorithmKind::FixedWindow, AlgorithmKind::SlidingCounter, AlgorithmKind::TokenBucket]
    {
        let both = Both::new(per_day(algorithm, 1_000_000_000));
        assert!(both.admits(999_999_000));
        both.amend(per_day(algorithm, 5));
        assert_eq!(both.available(), 0);
        both.amend(per_day(algorithm, 1_000_000_000));
        assert_eq!(both.available(), 1_000, "{algorithm}");
    }
}

#[test]
fn a_limit_of_zero_closes_and_opens_again_where_it_was() {
    for algorithm in AlgorithmKind::ALL.iter().copied() {
        let both = Both::new(per_day(algorithm, 100));
        assert!(both.admits(60));
        both.amend(per_day(algorithm, 0));
        assert_eq!((both.available(), both.admits(1), both.limit()), (0, false, 0), "{algorithm}");
        both.amend(per_day(algorithm, 100));
        assert_eq!(both.available(), 40, "{algorithm}");
    }
}

/// With nothing used it may have been dropped while closed, so it begins with `initial` again.
#[test]
fn a_full_bucket_with_initial_begins_again_after_a_limit_of_zero() {
    for clock_steps_back in [false, true] {
        for (used, left) in [(0, 0), (4, 6)] {
            let clock = TestClock::at(TODAY_US);
            let mut bucket = per_day(AlgorithmKind::TokenBucket, 10);
            bucket.initial = Some(0);
            let limiter: Box<dyn Fn(u64, u64) -> u64> = match clock_steps_back {
                false => Box::new(through_zero(Limiter::with_clock(bucket, clock.clone()), bucket)),
                true => {
                    let stepping = Unsteady(clock.clone());
                    Box::new(through_zero(Limiter::with_clock(bucket, stepping), bucket))
                }
            };
            assert_eq!(limiter(0, 0), 0, "it begins empty");
            clock.pass(Micros::from(DAY).as_micros());
            assert_eq!(limiter(used, 1), left);
        }
    }
}

/// Takes some units, closes the limiter and opens it again so many times. Returns the units left.
fn through_zero<C: Clock>(
    limiter: Result<Limiter<C>, tidegate::RuleErrors>,
    open: Spec,
) -> impl Fn(u64, u64) -> u64 {
    let limiter = limiter.unwrap();
    move |cost, times| {
        assert!(limiter.admits(cost));
        for _ in 0..times {
            limiter.amend(per_day(AlgorithmKind::TokenBucket, 0)).unwrap();
            limiter.amend(open).unwrap();
        }
        limiter.peek(1).remaining
    }
}

#[test]
fn an_unlimited_rule_counts_nothing_and_forgets_nothing() {
    for algorithm in AlgorithmKind::ALL.iter().copied() {
        let both = Both::new(per_day(algorithm, 100));
        assert!(both.admits(60));
        let keys = both.keyed.keys();
        both.amend(Spec::unlimited(algorithm));
        assert!(both.admits(u64::MAX));
        assert_eq!((both.available(), both.keyed.keys()), (u64::MAX, keys));
        both.amend(Spec::unlimited(AlgorithmKind::FixedWindow));
        both.amend(per_day(algorithm, 100));
        assert_eq!(both.available(), 40, "{algorithm}");

        let opened = Both::new(Spec::unlimited(algorithm));
        assert!(opened.admits(1_000));
        assert_eq!(opened.keyed.check_many(&["key", "other"]), [true, true]);
        opened.amend(per_day(algorithm, 2));
        assert!(opened.admits(2) && !opened.admits(1), "{algorithm}");
        assert_eq!(opened.keyed.check_many(&["key", "new"]), [false, true]);
        assert_eq!(opened.keyed.keys(), 2);
        opened.alone.reset();
        assert_eq!(opened.alone.peek(1).remaining, 2);
    }
}

#[test]
fn a_rule_that_is_wrong_leaves_the_old_one_in_force() {
    let both = Both::new(per_day(AlgorithmKind::TokenBucket, 10));
    assert!(both.admits(4));
    let wrong = per_day(AlgorithmKind::TokenBucket, 2_000_000_000);
    assert!(both.alone.amend(wrong).is_err() && both.keyed.amend(wrong).is_err());
    assert_eq!((both.available(), both.limit()), (6, 10));
}

/// Refunds, resets and reservations find the limiter where it is now.
#[test]
fn every_verb_follows_the_limiter() {
    for algorithm in AlgorithmKind::ALL.iter().copied() {
        let both = Both::new(per_day(algorithm, 10));
        let reserved = (both.alone.reserve(6).unwrap(), both.keyed.reserve("key", 6).unwrap());
        both.amend(per_day(algorithm, 20));
        assert_eq!(both.available(), 14, "{algorithm}");
        let _ = both.alone.settle(reserved.0, 9);
        let _ = both.keyed.settle("key", reserved.1, 9);
        // A permit comes back as a whole.
        let left = if algorithm.holds_permits() { [20, 20] } else { [11, 15] };
        assert_eq!(both.available(), left[0], "{algorithm}");
        assert_eq!(both.alone.refund(4), both.keyed.refund("key", 4));
        assert_eq!(both.available(), left[1], "{algorithm}");
        both.alone.reset();
        assert_eq!(both.alone.peek(1).remaining, 20, "{algorithm}");
        assert_eq!(both.keyed.keys(), 41, "none is lost: {algorithm}");
    }
}

/// A clock that steps back keeps all states whole, under any rule.
#[test]
fn limiters_of_a_clock_that_may_step_back_change_too() {
    for algorithm in AlgorithmKind::ALL.iter().copied() {
        let at = Timestamp::from_micros(TODAY_US);
        let limiter = Limiter::with_clock(per_day(algorithm, 100), at).unwrap();
        let keyed = KeyedLimiter::with_clock(per_day(algorithm, 100), at).unwrap();
        assert!(limiter.admits(30) && keyed.admits("key", 30));
        limiter.amend(per_day(AlgorithmKind::FixedWindow, 40)).unwrap();
        keyed.amend(per_day(AlgorithmKind::FixedWindow, 40)).unwrap();
        assert_eq!(
            (limiter.peek(1).remaining, keyed.peek("key", 1).remaining),
            (10, 10),
            "{algorithm}"
        );
    }
}

/// Ten thousand keys, each with something else used, through tables of every kind.
#[test]
fn no_key_of_many_is_lost_or_mixed_up() {
    const KEYS: u64 = 10_000;
    let clock = TestClock::at(TODAY_US);
    let keyed = KeyedLimiter::with_clock(per_day(AlgorithmKind::FixedWindow, 50), clock).unwrap();
    (0..KEYS).for_each(|key| assert!(keyed.admits(key.to_le_bytes(), 1 + key % 50)));
    for to in [AlgorithmKind::SlidingWindow, AlgorithmKind::TokenBucket, AlgorithmKind::SlidingLog]
    {
        keyed.amend(per_day(to, 60)).unwrap();
        assert_eq!(keyed.keys() as u64, KEYS);
        for key in 0..KEYS {
            assert_eq!(keyed.peek(key.to_le_bytes(), 1).remaining, 59 - key % 50, "{to}: {key}");
        }
    }
}

/// States that grow by the change have to fit into the memory that the new rule allows; else nothing
/// changes.
#[test]
fn a_change_that_would_not_fit_in_memory_is_refused_and_loses_nothing() {
    let small = Spec::new(AlgorithmKind::TokenBucket, 10, DAY);
    let keyed = KeyedLimiter::with_clock(small, TestClock::at(TODAY_US)).unwrap();
    (0..1_000_u64).for_each(|key| assert!(keyed.admits(key.to_le_bytes(), 1 + key % 10)));
    let mut large = Spec::new(AlgorithmKind::SlidingWindow, 10, DAY);
    (large.buckets, large.max_memory) = (Some(1_000), Some(1_000_000));
    for _ in 0..2 {
        let message = keyed.amend(large).unwrap_err().to_string();
        assert!(message.contains("max_memory") && message.contains("1000 limiters"), "{message}");
        assert_eq!((keyed.keys(), keyed.peek("key", 0).limit), (1_000, 10));
        for key in 0..1_000_u64 {
            assert_eq!(keyed.peek(key.to_le_bytes(), 1).remaining, 9 - key % 10);
        }
    }
    large.max_memory = Some(10_000_000);
    keyed.amend(large).unwrap();
    assert_eq!((keyed.keys(), keyed.peek(7_u64.to_le_bytes(), 1).remaining), (1_000, 2));
}

/// Four threads take what they can while a fifth moves the limit up and down: never more than the
/// largest limit that was ever in force, and in the end exactly the units that the last limit leaves.
fn four_threads(first: Spec, limits: &[u64], spec: impl Fn(u64) -> Spec + Sync) {
    let both = Both::new(first);
    let (alone, keyed, left) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(4));
    together(5, |thread, rng| {
        if thread == 4 {
            let mut turn = 0;
            while left.load(SeqCst) > 0 {
                let limit = limits[turn % limits.len()];
                turn += 1;
                both.alone.amend(spec(limit)).unwrap();
                both.keyed.amend(spec(limit)).unwrap();
            }
            return;
        }
        for _ in 0..2_000 {
            let cost = rng.between(1, 3);
            let values = rng.chance(30);
            let admitted = match values {
                true => both.alone.check(cost).is_allowed(),
                false => both.alone.admits(cost),
            };
            alone.fetch_add(cost * u64::from(admitted), SeqCst);
            let admitted = match values {
                true => both.keyed.check("key", cost).is_allowed(),
                false => both.keyed.admits("key", cost),
            };
            keyed.fetch_add(cost * u64::from(admitted), SeqCst);
        }
        left.fetch_sub(1, SeqCst);
    });
    let most = limits.iter().copied().max().unwrap();
    both.alone.amend(spec(most)).unwrap();
    both.keyed.amend(spec(most)).unwrap();
    let (alone, keyed) = (alone.into_inner(), keyed.into_inner());
    assert!(alone <= most && keyed <= most, "{alone} and {keyed} of {most}");
    assert_eq!(both.alone.peek(1).remaining, most - alone, "each unit is counted once");
    assert_eq!(both.keyed.peek("key", 1).remaining, most - keyed, "each unit is counted once");
}

#[test]
fn a_limit_that_moves_while_four_threads_take_admits_no_more_than_the_largest() {
    for _ in 0..if long() { 20 } else { 1 } {
        for algorithm in AlgorithmKind::ALL.iter().copied() {
            let spec = |limit| per_day(algorithm, limit);
            four_threads(spec(500), &[700, 300, 3_000, 0, 1_000], spec);
        }
    }
}

/// From algorithm to algorithm: units are carried over whole, so none is lost or doubled.
#[test]
fn an_algorithm_that_changes_while_four_threads_take_loses_no_unit() {
    let spec = |limit: u64| {
        let all = AlgorithmKind::ALL;
        per_day(all[limit as usize % all.len()], limit)
    };
    for _ in 0..if long() { 20 } else { 2 } {
        four_threads(spec(500), &[501, 1_502, 503, 3_004, 505, 4_000, 6], spec);
    }
}

#[test]
fn a_text_is_a_rate_wherever_a_spec_is() {
    let both = Both::new("10/h".parse().unwrap());
    assert!(both.admits(10));
    both.alone.amend("12/h").unwrap();
    both.keyed.amend("12/h").unwrap();
    assert!(both.admits(2) && !both.admits(1));
    let errors = [both.alone.amend("12 per hour"), both.keyed.amend("12 per hour")]
        .map(|amended| amended.unwrap_err().to_string());
    assert!(errors.iter().all(|error| error.contains("did you mean \"12/h\"?")), "{errors:?}");
    assert_eq!(Rule::new("60/m").unwrap().spec(), &Spec::per_minute(60));
}
