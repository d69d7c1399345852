//! Callers with plans of their own, looked up by a callback, and how much each plan lets through.
//!
//! `cargo run -p tidegate --example plans`

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use tidegate::{AlgorithmKind, KeyedLimiter, ManualClock, Rule, RuleErrors, Spec, Statistics};

/// The plans that callers have booked; in a service, a cache of a table.
type Booked = Arc<RwLock<HashMap<Vec<u8>, Rule>>>;

fn per_minute(limit: u64) -> Spec {
    Spec::new(AlgorithmKind::SlidingLog, limit, Duration::from_secs(60))
}

/// Asks so many times, and counts what passed and what was blocked.
fn ask(limiter: &KeyedLimiter<ManualClock>, key: &str, times: u64) -> (u64, u64) {
    let statistics = Statistics::with_clock(ManualClock::new());
    for _ in 0..times {
        match limiter.admits(key, 1) {
            true => statistics.pass(1),
            false => statistics.block(1),
        }
    }
    let second = statistics.second();
    (second.pass, second.block)
}

fn main() -> Result<(), RuleErrors> {
    let booked = Booked::default();
    let known = Arc::clone(&booked);
    let limiter = KeyedLimiter::with_clock(per_minute(5), ManualClock::new())?.with_plans(
        // Quick, and none of the limiter's own verbs: it may run while all lines are held.
        move |key: &[u8]| known.read().unwrap_or_else(PoisonError::into_inner).get(key).cloned(),
    );
    assert_eq!(ask(&limiter, "ada", 8), (5, 3));

    // Ada books more, and has the difference at once; usage carries over.
    let large = Rule::new(per_minute(20))?;
    booked.write().unwrap_or_else(PoisonError::into_inner).insert(b"ada".to_vec(), large);
    limiter.plan_changed("ada");
    assert_eq!(ask(&limiter, "ada", 18), (15, 3));
    assert_eq!(ask(&limiter, "bob", 8), (5, 3));
    println!("ada has used {} of {}", 20 - limiter.peek("ada", 1).remaining, 20);
    Ok(())
}
