//! Limiters whose values change, by amending or by plans: what begins, many keys, and keys without space. Walks and
//! threads are in `tests/conformance`.

use std::time::Duration;

use crate::packed::{TODAY_US, TestClock, Unsteady};
use tidegate::{
    AlgorithmKind, Clock, KeyedLimiter, Limit, Limiter, Micros, OnFull, Rule, Spec, Under,
};

const DAY: Duration = Duration::from_secs(86_400);

/// Values that admit `limit` units immediately.
fn per_day(algorithm: AlgorithmKind, limit: u64) -> Spec {
    Spec::new(algorithm, limit, DAY)
}

fn rule(algorithm: AlgorithmKind, limit: u64) -> Rule {
    Rule::new(per_day(algorithm, limit)).unwrap()
}

fn limiter<C: Clock>(clock: C) -> KeyedLimiter<C> {
    let limiter = KeyedLimiter::with_clock(Spec::unlimited(AlgorithmKind::TokenBucket), clock);
    limiter.unwrap().with_plans(|_| None)
}

fn log(limit: u64, window_s: u64) -> Rule {
    Rule::new(Spec::new(AlgorithmKind::SlidingLog, limit, Duration::from_secs(window_s))).unwrap()
}

/// With nothing used it may have been dropped while closed, so it begins with `initial` again.
#[test]
fn a_full_bucket_with_initial_begins_again_after_a_limit_of_zero() {
    for (used, left) in [(0, 0), (4, 6)] {
        let clock = TestClock::at(TODAY_US);
        let mut bucket = per_day(AlgorithmKind::TokenBucket, 10);
        bucket.initial = Some(0);
        let packed = Limiter::with_clock(bucket, clock.clone()).unwrap();
        let whole = Limiter::with_clock(bucket, Unsteady(clock.clone())).unwrap();
        assert_eq!((packed.peek(1).remaining, whole.peek(1).remaining), (0, 0), "it begins empty");
        let _ = (packed.check(1), whole.check(1));
        clock.pass(Micros::from(DAY).as_micros());
        assert!(packed.admits(used) && whole.admits(used));
        for spec in [per_day(AlgorithmKind::TokenBucket, 0), bucket] {
            packed.amend(spec).unwrap();
            whole.amend(spec).unwrap();
        }
        assert_eq!((packed.peek(1).remaining, whole.peek(1).remaining), (left, left));
    }
}

#[test]
fn values_that_are_wrong_leave_the_values_before_in_force_and_a_text_is_a_rate() {
    let alone = Limiter::with_clock("10/h", TestClock::at(TODAY_US)).unwrap();
    let keyed = KeyedLimiter::with_clock("10/h", TestClock::at(TODAY_US)).unwrap();
    assert!(alone.admits(4) && keyed.admits("key", 4));
    let errors = [alone.amend("12 per hour"), keyed.amend("12 per hour")].map(Result::unwrap_err);
    assert!(errors.iter().all(|error| error.to_string().contains("did you mean \"12/h\"?")));
    let wrong = per_day(AlgorithmKind::TokenBucket, 2_000_000_000);
    assert!(alone.amend(wrong).is_err() && keyed.amend(wrong).is_err());
    assert_eq!((alone.peek(1).remaining, keyed.peek("key", 1).remaining), (6, 6));
    alone.amend("12/h").unwrap();
    keyed.amend("12/h").unwrap();
    assert_eq!((alone.peek(1).remaining, keyed.peek("key", 1).remaining), (8, 8));
    assert_eq!(Rule::new("60/m").unwrap().spec(), &Spec::per_minute(60));
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

#[test]
fn a_plan_is_looked_up_by_key_and_the_usual_one_is_for_all_others() {
    let gold = rule(AlgorithmKind::SlidingLog, 10);
    let limiter = KeyedLimiter::new(*rule(AlgorithmKind::SlidingLog, 2).spec()).unwrap();
    let limiter = limiter.with_plans(move |key| key.starts_with(b"gold").then(|| gold.clone()));
    assert_eq!((limiter.peek("gold 1", 0).limit, limiter.peek("ada", 0).limit), (10, 2));
    assert!(limiter.admits("ada", 2) && !limiter.admits("ada", 1));
    assert!(limiter.admits("gold 1", 10) && !limiter.admits("gold 1", 1));
    assert_eq!((limiter.peek("gold 2", 1).remaining, limiter.keys()), (10, 2));
    limiter.reset("ada");
    let reserved = limiter.reserve("ada", 2).unwrap();
    assert_eq!(limiter.settle("ada", reserved, 1).remaining, 1);
    assert_eq!(limiter.refund("ada", 1).remaining, 2);
}

/// A limiter that is idle makes room, under any plan.
#[test]
fn idle_limiters_make_space_under_any_plan() {
    let clock = TestClock::at(TODAY_US);
    let limiter = limiter(clock.clone()).with_max_keys(10, OnFull::Refuse);
    for round in 0..50_u64 {
        for number in 0..10_u64 {
            let algorithm =
                AlgorithmKind::ALL[(round + number) as usize % AlgorithmKind::ALL.len()];
            let plan = Rule::new(Spec::new(algorithm, 5, Duration::from_secs(1))).unwrap();
            assert!(limiter.admits(Under(&plan, format!("{round} {number}")), 1), "{round}");
        }
        clock.pass(3_000_000);
    }
    assert!(limiter.keys() <= 10);
}

/// Where memory is short, a log goes on in what it has, and a plan that would need more than there is
/// is answered as a key without room: nothing is ever admitted beyond the limit.
#[test]
fn a_log_without_memory_to_grow_admits_no_more_than_its_plans() {
    let clock = TestClock::at(TODAY_US);
    let mut usual = Spec::new(AlgorithmKind::SlidingLog, 10_000, DAY);
    usual.max_memory = Some(200_000);
    let limiter = KeyedLimiter::with_clock(usual, clock.clone()).unwrap().with_plans(|_| None);
    let mut larger = usual;
    larger.limit = Limit::Units(12_000);
    let larger = Rule::new(larger).unwrap();
    let mut admitted = 0;
    for number in 0..40_000_u64 {
        clock.pass(1);
        let key = ["ada", "bob"][(number % 2) as usize];
        let got = if number % 3 == 0 {
            limiter.admits(Under(&larger, key), 1)
        } else {
            limiter.admits(key, 1)
        };
        admitted += u64::from(got);
    }
    assert!(admitted <= 3 * 12_000, "{admitted}: two keys, and the limiter that others share");
    assert!(admitted > 0);
}

#[test]
fn a_bucket_that_begins_empty_begins_with_a_denied_call_and_fills() {
    let clock = TestClock::at(TODAY_US);
    let limiter = limiter(clock.clone());
    let mut empty = Spec::new(AlgorithmKind::TokenBucket, 10, Duration::from_secs(10));
    empty.initial = Some(0);
    let empty = Rule::new(empty).unwrap();
    assert!(limiter.admits(Under(&log(1, 1), "key"), 1));
    let answer = limiter.check(Under(&empty, "key"), 1);
    clock.pass(Micros::from(answer.retry_after().unwrap()).as_micros());
    assert!(limiter.admits(Under(&empty, "key"), 1));
}

/// A fast caller without room would else drain what slow ones used.
#[test]
fn keys_without_space_share_the_usual_values_whoever_asks_and_nothing_where_there_are_none() {
    let clock = TestClock::at(TODAY_US);
    let limiter = KeyedLimiter::with_clock(*log(1, 3_600).spec(), clock.clone())
        .unwrap()
        .with_plans(|_| None);
    let (limiter, fast) = (limiter.with_max_keys(1, OnFull::Share), log(1_000, 1));
    assert!(!limiter.admits(Under(&log(0, 1), "shut"), 1), "and it takes no place");
    assert!(limiter.admits("own", 1));
    let mut admitted = 0;
    for number in 0..100 {
        admitted += u32::from(limiter.admits(format!("slow {number}"), 1));
        admitted += u32::from(limiter.admits(Under(&fast, "fast"), 1));
        clock.pass(2_000_000);
    }
    assert_eq!(admitted, 1);
    for on_full in [OnFull::Share, OnFull::Refuse] {
        let unlimited = self::limiter(clock.clone()).with_max_keys(1, on_full);
        assert!(unlimited.admits(Under(&log(3, 60), "own"), 1));
        let refused = unlimited.check(Under(&log(3, 60), "no"), 1);
        let wait = Some(Duration::from_secs(60));
        assert_eq!((refused.remaining, refused.retry_after()), (0, wait), "{on_full:?}");
    }
}

#[test]
fn what_was_reserved_before_a_plan_became_unlimited_is_given_back() {
    let limiter = limiter(TestClock::at(TODAY_US));
    let (ten, all) =
        (log(10, 3_600), Rule::new(Spec::unlimited(AlgorithmKind::SlidingLog)).unwrap());
    for actual in [2, 9] {
        let reserved = limiter.reserve(Under(&ten, "key"), 5).unwrap();
        let before = limiter.peek(Under(&ten, "key"), 1).remaining;
        let _ = limiter.settle(Under(&all, "key"), reserved, actual);
        let unlimited = limiter.reserve(Under(&all, "key"), 7).unwrap();
        assert_eq!(limiter.settle(Under(&all, "key"), unlimited, 0).limit, u64::MAX);
        let back = 5_u64.saturating_sub(actual);
        assert_eq!(limiter.peek(Under(&ten, "key"), 1).remaining, before + back);
    }
}

#[test]
fn what_is_given_back_where_no_memory_is_left_for_a_changed_plan_is_given_back() {
    let bucket = rule(AlgorithmKind::TokenBucket, 10);
    let mut small = Spec::new(AlgorithmKind::SlidingLog, 10_000, DAY);
    small.max_memory = Some(200_000);
    let limiter =
        KeyedLimiter::with_clock(small, TestClock::at(TODAY_US)).unwrap().with_plans(|_| None);
    let mut large = Spec::new(AlgorithmKind::SlidingWindow, 1_000, DAY);
    large.buckets = Some(1_000);
    let large = Rule::new(large).unwrap();
    let reserved = limiter.reserve(Under(&bucket, "key"), 5).unwrap();
    for number in 0..10_000_u32 {
        let _ = limiter.admits(Under(&bucket, number.to_le_bytes()), 1);
    }
    assert!(!limiter.check(Under(&large, "key"), 1).is_allowed(), "there is no memory");
    let _ = limiter.settle(Under(&large, "key"), reserved, 0);
    assert_eq!(limiter.peek(Under(&bucket, "key"), 1).remaining, 10);
}
