//! Random requests: bursts, a steady trickle, landings on boundaries, idle gaps, and clocks that
//! step backward.
//!
//! Tests give each trace to a store and to a model, and compare the answers.

use super::Rng;
use crate::model::Policy;

const MS_US: u64 = 1_000;
const HOUR_US: u64 = 3_600_000 * MS_US;
/// A present-day time, on a whole hour.
const TODAY_US: u64 = 1_700_000_000_000_000 / HOUR_US * HOUR_US;
/// A cost whose product with 5 * 10^9 is just above 2^64: for arithmetic that wraps it is about one unit.
const WRAPPING_COST: u64 = 3_689_348_816;
/// No trace goes beyond this time, so that times and waits stay below 2^53 us.
const END_US: u64 = 1 << 52;

/// Requests as `(at_us, cost)`, the clock never going backward.
///
/// They begin at 0, within the first window, or at a time of our days; costs are mostly 1, some
/// 0, some just too much ever to fit, a few enormous.
pub fn trace(rng: &mut Rng, policy: &Policy, len: usize) -> Vec<(u64, u64)> {
    walk(rng, policy, len, forward)
}

/// Like [`trace`], but sometimes the clock steps backward: by a microsecond, by part of a window,
/// by several windows, or all the way to 0.
pub fn jumpy_trace(rng: &mut Rng, policy: &Policy, len: usize) -> Vec<(u64, u64)> {
    walk(rng, policy, len, |rng, policy, at_us| {
        if rng.chance(12) { backward(rng, policy, at_us) } else { forward(rng, policy, at_us) }
    })
}

fn walk(
    rng: &mut Rng,
    policy: &Policy,
    len: usize,
    mut next: impl FnMut(&mut Rng, &Policy, u64) -> u64,
) -> Vec<(u64, u64)> {
    let within = rng.below(policy.window_us);
    let mut at_us = rng.pick([0, 0, within, TODAY_US, TODAY_US]);
    let mut requests = Vec::with_capacity(len);
    while requests.len() < len {
        at_us = next(rng, policy, at_us).min(END_US);
        requests.push((at_us, cost(rng, policy)));
    }
    requests
}

fn forward(rng: &mut Rng, policy: &Policy, at_us: u64) -> u64 {
    let w = policy.window_us;
    match rng.below(100) {
        0..10 => at_us,
        10..35 => at_us + rng.below((3 * MS_US).min(w)),
        35..80 => at_us + rng.below((2 * w / policy.limit.max(1)).max(2)),
        80..93 => landing(rng, policy, at_us),
        _ => at_us + rng.between(w, 3 * w),
    }
}

/// Some time later, and often exactly at the start or the last microsecond of a window, bucket or
/// tick.
fn landing(rng: &mut Rng, policy: &Policy, at_us: u64) -> u64 {
    let on = at_us + policy.window_us / rng.pick([1, 1, 2, 4, 10]);
    // One of the widths that some algorithm counts in.
    let step = rng.pick([
        1,
        policy.window_us,
        (policy.window_us / 2).max(1),
        (policy.window_us / policy.buckets.max(1)).max(1),
        policy.resolution_us.max(1),
    ]);
    let start = on - on % step;
    start.saturating_sub(rng.pick([0, 0, 0, 1])).max(at_us)
}

fn backward(rng: &mut Rng, policy: &Policy, at_us: u64) -> u64 {
    let w = policy.window_us;
    let by = match rng.below(10) {
        0..3 => rng.between(1, 3),
        3..6 => rng.between(1, w),
        6 => rng.pick([w - 1, w, w + 1]),
        7..9 => rng.between(w, 10 * w),
        _ => at_us,
    };
    at_us.saturating_sub(by)
}

fn cost(rng: &mut Rng, policy: &Policy) -> u64 {
    let most = policy.decision_limit();
    match rng.below(100) {
        0..55 => 1,
        55..63 => 2,
        63..70 => 3,
        70..78 => 0,
        78..88 => (most / 3).max(1),
        88..92 => most.max(1),
        92..98 => most.saturating_add(1),
        98 => rng.between(0, most),
        _ => WRAPPING_COST,
    }
}

#[cfg(test)]
mod tests {
    use super::{END_US, TODAY_US, jumpy_trace, trace};
    use crate::model::AlgorithmKind;
    use crate::traffic::{Rng, policy};

    #[test]
    fn equal_seeds_make_equal_traffic() {
        let make = |seed| {
            let mut rng = Rng::new(seed);
            let policy = policy(&mut rng, AlgorithmKind::SlidingWindow);
            let (calm, jumpy) = (trace(&mut rng, &policy, 50), jumpy_trace(&mut rng, &policy, 50));
            (policy, calm, jumpy)
        };
        assert_eq!(make(9), make(9));
        assert_ne!(make(9), make(10));
    }

    #[test]
    fn time_goes_forward_unless_it_is_to_jump() {
        let mut rng = Rng::new(4);
        let (mut starts, mut jumps) = (Vec::new(), 0);
        for algorithm in AlgorithmKind::ALL.into_iter().cycle().take(700) {
            let policy = policy(&mut rng, algorithm);
            let calm = trace(&mut rng, &policy, 100);
            assert!(calm.is_sorted_by_key(|(at_us, _)| *at_us), "{policy:?}");
            assert!(calm.iter().all(|(at_us, _)| *at_us <= END_US));
            starts.push(calm[0].0);
            let jumpy = jumpy_trace(&mut rng, &policy, 100);
            jumps += jumpy.windows(2).filter(|pair| pair[1].0 < pair[0].0).count();
        }
        assert!(starts.contains(&0) && starts.iter().any(|at_us| *at_us >= TODAY_US));
        assert!((3_000..10_000).contains(&jumps), "{jumps}");
    }
}
