//! Mistakes found in released limiters that need several keys, limits or threads to show: each is a test with its
//! name, which describes what must not happen here.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use crate::asks::policy;
use tidegate::{AlgorithmKind, Clock, Descriptor, Gate, Request, RuleSpec, Spec, Timestamp};

const NOW: Timestamp = Timestamp::from_micros(1_700_000_000_000_000);

fn gate(rules: impl IntoIterator<Item = RuleSpec>) -> Gate<Timestamp> {
    Gate::with_clock(policy(rules), NOW)
}

fn per_minute(algorithm: AlgorithmKind, limit: u64) -> Spec {
    Spec::new(algorithm, limit, Duration::from_secs(60))
}

fn ask<C: Clock>(gate: &Gate<C>, entries: &[(&str, &str)]) -> bool {
    gate.check(&Request::new("default", &[Descriptor::new(entries)])).is_allowed()
}

/// Asks until a request is refused, which must come soon.
fn exhaust(mut ask: impl FnMut() -> bool) {
    assert!((0..1_000).any(|_| !ask()), "there is no limit");
}

/// Returns how many units eight concurrent threads get, each with `asks` requests.
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

/// After a race of two threads, a limiter refused for ever.
#[test]
fn a_limiter_that_refuses_for_ever_after_two_threads_raced() {
    for algorithm in AlgorithmKind::ALL {
        let gate = gate([RuleSpec::new("r", per_minute(*algorithm, 50))]);
        let first = eight_threads(&gate, 100);
        let later = NOW.plus(Duration::from_secs(180));
        let request = Request::from(Descriptor::new(&[]));
        let again = (0..100).filter(|_| gate.check_at(&request, later).is_allowed()).count();
        assert_eq!(again as u64, first, "{algorithm}");
    }
}

/// In a limiter with a cache of 1,000 keys, 3,000 other keys gave a limited caller a fresh budget.
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

/// A sweep dropped limiters that were not idle yet; in windows under a second it dropped all of them.
#[test]
fn a_sweep_forgets_callers_that_are_still_limited() {
    for algorithm in AlgorithmKind::ALL {
        let spec = Spec::new(*algorithm, 1, Duration::from_millis(100));
        let gate = gate([RuleSpec::new("r", spec).key(["user"])]);
        let at = |user: &str, us| {
            let (entries, at) = ([("user", user)], NOW.plus(Duration::from_micros(us)));
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
