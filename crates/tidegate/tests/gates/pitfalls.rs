//! Mistakes found in released limiters that need several keys, limits or threads to show: each a
//! test of its name, which says what must not happen here.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;

use tidegate::{
    AlgorithmKind, Clock, Descriptor, Gate, Micros, Policy, Request, RuleSpec, Spec, Timestamp,
};

const NOW: Timestamp = Timestamp::from_micros(1_700_000_000_000_000);

fn gate(rules: impl IntoIterator<Item = RuleSpec>) -> Gate<Timestamp> {
    Gate::with_clock(Policy::new(rules.into_iter().collect()).unwrap(), NOW)
}

fn per_minute(algorithm: AlgorithmKind, limit: u64) -> Spec {
    Spec::new(algorithm, limit, Micros::from_secs(60))
}

fn ask<C: Clock>(gate: &Gate<C>, entries: &[(&str, &str)]) -> bool {
    gate.check(&Request::new("default", &[Descriptor::new(entries)])).is_allowed()
}

fn left(gate: &Gate<Timestamp>, entries: &[(&str, &str)]) -> Vec<u64> {
    let answer = gate.peek(&Request::new("default", &[Descriptor::new(entries)]));
    answer.matched().iter().map(|matched| matched.decision().remaining).collect()
}

/// Asks until it is refused, which must come soon.
fn exhaust(mut ask: impl FnMut() -> bool) {
    assert!((0..1_000).any(|_| !ask()), "there is no limit");
}

/// What eight threads get that all ask at once, each `asks` times.
fn eight_threads<C: Clock>(gate: &Gate<C>, asks: usize) -> u64 {
    let got = AtomicU64::new(0);
    thread::scope(|threads| {
        for _ in 0..8 {
            threads.spawn(|| {
                for _ in 0..asks {
                    got.fetch_add(u64::from(ask(gate, &[])), Relaxed);
                }
            });
        }
    });
    got.into_inner()
}

/// Two round trips, or two instructions: 102 of 100, 21 of 20, 400 of 200, 1,024 of 1,000.
#[test]
fn check_then_act() {
    for algorithm in AlgorithmKind::ALL {
        for limit in [20, 100, 200, 1_000] {
            let gate = gate([RuleSpec::new("r", per_minute(*algorithm, limit))]);
            let most = left(&gate, &[])[0];
            assert_eq!(eight_threads(&gate, 200), most, "{algorithm}");
        }
    }
}

/// A clock that every reading moves on, so that no two threads read the same.
struct Ticking(AtomicU64);

impl Clock for Ticking {
    fn now(&self) -> Timestamp {
        NOW.plus(Micros::from_micros(self.0.fetch_add(1, Relaxed)))
    }
}

/// The time was taken before the lock, and an earlier reading that came later moved `last` back:
/// 5,000 times the limit. Here the bucket holds 10, and a unit flows in at every 1,000th reading.
#[test]
fn time_taken_before_the_lock() {
    for algorithm in
        [AlgorithmKind::TokenBucket, AlgorithmKind::LeakyBucket, AlgorithmKind::LeakyQueue]
    {
        let mut spec = Spec::new(algorithm, 1_000, Micros::from_secs(1));
        spec.capacity = Some(10);
        let policy = Policy::new(vec![RuleSpec::new("r", spec)]).unwrap();
        let gate = Gate::with_clock(policy, Ticking(AtomicU64::new(0)));
        let got = eight_threads(&gate, 2_500);
        let readings = gate.now().since(NOW).as_micros();
        let most = 11 + readings / 1_000;
        assert!(got <= most, "{got} of {most}: {algorithm}");
        assert!(got >= 10, "{got}: {algorithm}");
    }
}

/// Two threads raced, and the limiter refused for ever.
#[test]
fn a_limiter_that_refuses_for_ever_after_two_threads_raced() {
    for algorithm in AlgorithmKind::ALL {
        let gate = gate([RuleSpec::new("r", per_minute(*algorithm, 50))]);
        let first = eight_threads(&gate, 100);
        let later = NOW.plus(Micros::from_secs(180));
        let descriptor = [Descriptor::new(&[])];
        let request = Request::new("default", &descriptor);
        let again = (0..100).filter(|_| gate.check_at(&request, later).is_allowed()).count();
        assert_eq!(again as u64, first, "{algorithm}");
    }
}

/// The first limit is charged although the second refuses: whoever is refused by the one loses the
/// other as well.
#[test]
fn the_first_is_charged_although_the_second_refuses() {
    for algorithm in AlgorithmKind::ALL {
        let rules = [
            RuleSpec::new("first", per_minute(*algorithm, 10)),
            RuleSpec::new("second", per_minute(AlgorithmKind::SlidingLog, 3)),
            RuleSpec::new("third", per_minute(*algorithm, 20)),
        ];
        let gate = gate(rules);
        let before = left(&gate, &[]);
        let got = (0..9).filter(|_| ask(&gate, &[])).count() as u64;
        assert_eq!(got, 3);
        let after = left(&gate, &[]);
        assert_eq!(after, [before[0] - 3, 0, before[2] - 3], "{algorithm}");
    }
}

/// The same key named twice in one request was looked at twice and each time found room.
#[test]
fn the_same_key_named_twice_bypasses_the_check() {
    for algorithm in AlgorithmKind::ALL {
        let gate = gate([RuleSpec::new("r", per_minute(*algorithm, 10)).key(["user"])]);
        let ada = [("user", "ada")];
        let all = left(&gate, &ada)[0];
        let twice = |cost| [Descriptor::new(&ada).cost(cost), Descriptor::new(&ada).cost(cost)];
        let too_much = gate.check(&Request::new("default", &twice(all / 2 + 1)));
        assert!(!too_much.is_allowed(), "{algorithm}");
        assert_eq!(too_much.matched().len(), 1, "one limiter, one decision");
        assert!(gate.check(&Request::new("default", &twice(all / 2))).is_allowed());
        assert_eq!(left(&gate, &ada)[0], all - 2 * (all / 2), "{algorithm}");
    }
}

/// Sums that wrapped: two halves of 2^64 made a cost of nothing.
#[test]
fn costs_that_wrap_when_they_are_summed() {
    let gate = gate([RuleSpec::new("r", per_minute(AlgorithmKind::TokenBucket, 10))]);
    let half = Descriptor::new(&[]).cost(1 << 63);
    let answer = gate.check(&Request::new("default", &[half, half]));
    assert!(answer.is_never());
    assert_eq!(left(&gate, &[]), [10]);
}

/// `a|b` + `c` is `a` + `b|c` when the parts are only joined.
#[test]
fn key_parts_joined_without_escaping() {
    let gate = gate([RuleSpec::new("r", per_minute(AlgorithmKind::SlidingLog, 1)).key(["a", "b"])]);
    for key in [("a|b", "c"), ("a", "b|c"), ("a:b", "c"), ("a", "b:c"), ("", "abc"), ("abc", "")] {
        assert!(ask(&gate, &[("a", key.0), ("b", key.1)]), "{key:?}");
        assert!(!ask(&gate, &[("a", key.0), ("b", key.1)]), "{key:?}");
    }
}

/// Rules of the same name in two domains, or of the same key: neither may share a limiter.
#[test]
fn two_rules_share_one_limiter() {
    let gate = gate([
        RuleSpec::new("one", per_minute(AlgorithmKind::SlidingLog, 4)).key(["user"]),
        RuleSpec::new("two", per_minute(AlgorithmKind::SlidingLog, 9)).key(["user"]),
    ]);
    assert!(ask(&gate, &[("user", "ada")]));
    assert_eq!(left(&gate, &[("user", "ada")]), [3, 8]);
}

/// 3,000 other keys through a cache of 1,000 gave a limited caller a fresh budget.
#[test]
fn other_keys_give_a_limited_caller_a_fresh_budget() {
    for algorithm in AlgorithmKind::ALL {
        let gate = gate([RuleSpec::new("r", per_minute(*algorithm, 2)).key(["user"])]);
        exhaust(|| ask(&gate, &[("user", "ada")]));
        for other in 0..20_000 {
            assert!(ask(&gate, &[("user", &other.to_string())]));
        }
        assert!(!ask(&gate, &[("user", "ada")]), "{algorithm}");
        assert!(ask(&gate, &[("user", "19999")]), "{algorithm}: their second unit");
    }
}

/// A sweep that took what was not yet as good as new; in windows under a second it took everything.
#[test]
fn a_sweep_forgets_callers_that_are_still_limited() {
    for algorithm in AlgorithmKind::ALL {
        let spec = Spec::new(*algorithm, 1, Micros::from_millis(100));
        let gate = gate([RuleSpec::new("r", spec).key(["user"])]);
        let at = |user: &str, us| {
            let (entries, at) = ([("user", user)], NOW.plus(Micros::from_micros(us)));
            gate.check_at(&Request::new("default", &[Descriptor::new(&entries)]), at).is_allowed()
        };
        exhaust(|| at("ada", 0));
        for other in 0..10_000 {
            at(&other.to_string(), other);
        }
        assert!(!at("ada", 10_000), "{algorithm}");
        assert!(at("ada", 200_000), "{algorithm}");
    }
}

/// A limiter whose state is per clone of the service: 1,500 requests through a limit of 5.
#[test]
fn state_per_clone_of_the_service() {
    let gate = Arc::new(gate([RuleSpec::new("r", per_minute(AlgorithmKind::TokenBucket, 5))]));
    let clones: Vec<_> = (0..300).map(|_| Arc::clone(&gate)).collect();
    let got = clones.iter().flat_map(|gate| (0..5).map(|_| ask(gate, &[]))).filter(|yes| *yes);
    assert_eq!(got.count(), 5);
}

/// Headers computed by a second call: refused with `remaining: 5000`.
#[test]
fn refused_with_5000_remaining() {
    for algorithm in AlgorithmKind::ALL {
        let gate = gate([RuleSpec::new("r", per_minute(*algorithm, 5_000))]);
        for cost in [3_000, 3_000, 1_500, 700, 5_000, 6_000] {
            let descriptor = [Descriptor::new(&[]).cost(cost)];
            let answer = gate.check(&Request::new("default", &descriptor));
            let decision = answer.reported().unwrap().decision();
            assert!(answer.is_allowed() || decision.remaining < cost, "{algorithm}: {decision:?}");
        }
    }
}

/// One unauthenticated command with enormous numbers killed the task that decides.
#[test]
fn one_command_kills_the_task_that_decides() {
    for algorithm in AlgorithmKind::ALL {
        let gate = gate([RuleSpec::new("r", per_minute(*algorithm, 10))]);
        for cost in [2_000_000_000, 9_000_000_000_000_000_000, u64::MAX] {
            let descriptor = [Descriptor::new(&[]).cost(cost)];
            let request = Request::new("default", &descriptor);
            for at in [Timestamp::EPOCH, NOW, Timestamp::MAX] {
                assert!(gate.check_at(&request, at).is_never(), "{algorithm}");
                let _ = (gate.refund(&request), gate.peek(&request));
            }
        }
        assert!(ask(&gate, &[]), "{algorithm}: it still decides");
    }
}

/// 429 with no Retry-After, or with one of 0 s.
#[test]
fn a_refusal_without_a_wait() {
    for algorithm in AlgorithmKind::ALL {
        let gate = gate([RuleSpec::new("r", per_minute(*algorithm, 100))]);
        exhaust(|| ask(&gate, &[]));
        let descriptor = [Descriptor::new(&[])];
        let wait = gate.check(&Request::new("default", &descriptor)).retry_after().unwrap();
        assert!(wait > Micros::ZERO && wait.as_secs_ceil() >= 1, "{algorithm}: {wait}");
    }
}
