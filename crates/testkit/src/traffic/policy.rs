//! Random rules: mostly small and awkward, sometimes at the limits of the fields of a rule.
//!
//! Tests make a model and a limiter of each rule.

use super::Rng;
use crate::model::{AlgorithmKind, Policy};

const MS_US: u64 = 1_000;
const DAY_US: u64 = 86_400_000 * MS_US;
/// The largest limit of a rule, and its largest capacity.
const LIMIT_MAX: u64 = 1_000_000_000;
/// The longest time in which a rule may fill.
const FILL_MAX_US: u128 = 1 << 53;

/// A rule of that algorithm: limit 0 to 10^9, window 1 ms to 366 days.
///
/// Buckets divide the window, a capacity is 1 or more (a queue always has one), a tick is at most
/// the window but need not divide it, and the time to fill is below 2^53 us. Products such as
/// `capacity * window` may pass 2^64.
pub fn policy(rng: &mut Rng, algorithm: AlgorithmKind) -> Policy {
    let mut policy = Policy::new(algorithm, limit(rng), window_us(rng));
    match algorithm {
        AlgorithmKind::FixedWindow => policy.anchor_first_request = rng.chance(40),
        AlgorithmKind::SlidingWindow => {
            policy.buckets = buckets(rng, policy.window_us);
            policy.strict = rng.chance(40);
        }
        AlgorithmKind::SlidingCounter | AlgorithmKind::Concurrency => {}
        AlgorithmKind::SlidingLog => policy.resolution_us = resolution_us(rng, policy.window_us),
        AlgorithmKind::TokenBucket => {
            policy.capacity = if rng.chance(70) { Some(capacity(rng, &policy)) } else { None };
            policy.initial = if rng.chance(30) { Some(initial(rng, &policy)) } else { None };
        }
        AlgorithmKind::LeakyBucket => {
            policy.capacity = if rng.chance(70) { Some(capacity(rng, &policy)) } else { None };
        }
        AlgorithmKind::LeakyQueue => policy.capacity = Some(capacity(rng, &policy)),
    }
    policy
}

fn limit(rng: &mut Rng) -> u64 {
    match rng.below(10) {
        0..4 => rng.pick([1, 1, 2, 3, 5, 7, 10, 60, 100, 997, 10_000]),
        4..8 => rng.skewed(1_000),
        8 => rng.pick([0, 0, 1, 700_000_000, 999_999_937, LIMIT_MAX]),
        _ => rng.skewed(LIMIT_MAX),
    }
}

fn window_us(rng: &mut Rng) -> u64 {
    match rng.below(10) {
        0..6 => {
            MS_US * rng.pick([1, 50, 100, 240, 1_000, 1_000, 1_200, 60_000, 3_600_000, 86_400_000])
        }
        6 => MS_US * rng.skewed(60_000),
        7 => MS_US + rng.skewed(60_000 * MS_US),
        8 => DAY_US * rng.pick([7, 30, 365, 366]),
        _ => MS_US * rng.skewed(366 * DAY_US / MS_US),
    }
}

/// One of the usual numbers of buckets, if it divides the window; 1 does.
fn buckets(rng: &mut Rng, window_us: u64) -> u64 {
    let wish = rng.pick([1, 2, 3, 4, 5, 6, 7, 8, 10, 10, 12, 24, 60, 100]);
    (1..=wish).rev().find(|buckets| window_us.is_multiple_of(*buckets)).unwrap_or(1)
}

fn resolution_us(rng: &mut Rng, window_us: u64) -> u64 {
    let tenth = (window_us / 10).max(1);
    let any = rng.skewed(window_us);
    rng.pick([1, 1, 1, 1, MS_US, tenth, window_us, any]).min(window_us)
}

fn capacity(rng: &mut Rng, policy: &Policy) -> u64 {
    let n = policy.limit.max(1);
    let any = rng.skewed(n * 3);
    rng.pick([n, n, 1, 5, 2 * n, n / 2, any]).clamp(1, capacity_max(n, policy.window_us))
}

/// The largest capacity that fills, with one place to spare, within the longest time.
fn capacity_max(limit: u64, window_us: u64) -> u64 {
    let most = FILL_MAX_US * u128::from(limit) / u128::from(window_us);
    u64::try_from(most).unwrap_or(u64::MAX).saturating_sub(2).clamp(1, LIMIT_MAX)
}

fn initial(rng: &mut Rng, policy: &Policy) -> u64 {
    let any = rng.between(0, policy.capacity());
    rng.pick([0, 1, any, policy.capacity()]).min(policy.capacity())
}

#[cfg(test)]
mod tests {
    use super::{DAY_US, FILL_MAX_US, MS_US, policy};
    use crate::model::AlgorithmKind;
    use crate::traffic::Rng;

    #[test]
    fn every_rule_is_one_that_may_be_written() {
        let mut rng = Rng::new(2);
        for algorithm in AlgorithmKind::ALL.into_iter().cycle().take(20_000) {
            let p = policy(&mut rng, algorithm);
            assert!(p.limit <= 1_000_000_000, "{p:?}");
            assert!((MS_US..=366 * DAY_US).contains(&p.window_us), "{p:?}");
            assert!((1..=p.window_us).contains(&p.resolution_us), "{p:?}");
            assert!(p.initial.is_none_or(|initial| initial <= p.capacity()), "{p:?}");
            if algorithm == AlgorithmKind::SlidingWindow {
                assert!(p.window_us.is_multiple_of(p.buckets), "{p:?}");
            }
            let places = u128::from(p.capacity()) + 1;
            let fill = places * u128::from(p.window_us) / u128::from(p.limit.max(1));
            assert!(p.limit == 0 || fill < FILL_MAX_US, "{p:?}");
        }
    }

    #[test]
    fn the_edges_come_up() {
        let mut rng = Rng::new(3);
        let many: Vec<_> =
            (0..5_000).map(|_| policy(&mut rng, AlgorithmKind::TokenBucket)).collect();
        assert!(many.iter().any(|p| p.limit == 0));
        assert!(many.iter().any(|p| p.limit == 1_000_000_000));
        assert!(many.iter().any(|p| p.window_us == MS_US));
        assert!(many.iter().any(|p| p.window_us == 366 * DAY_US));
        assert!(many.iter().any(|p| p.initial == Some(0)));
        assert!(many.iter().any(|p| p.capacity == Some(1)));
    }
}
