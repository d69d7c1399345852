//! Traffic that takes everything it can get, and the largest number of units in any interval of it.

use crate::common::{self, Limiter};
use testkit::model::Policy;
use testkit::traffic::{self, Rng};

/// One admitted request: its time, its delay, and its units.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Admitted {
    pub(crate) at_us: u64,
    pub(crate) delay_us: u64,
    pub(crate) cost: u64,
}

/// The units that greedy callers get from a new limiter of the rule, at the times of a random
/// trace.
pub(crate) fn greedy(rng: &mut Rng, policy: &Policy, steps: usize) -> Vec<Admitted> {
    let times = traffic::trace(rng, policy, steps);
    let mut limiter = common::limiter(policy);
    times.iter().filter_map(|(at_us, cost)| grab(rng, limiter.as_mut(), *at_us, *cost)).collect()
}

/// Takes everything, or a part of it, or asks for the cost of the trace.
pub(crate) fn grab(
    rng: &mut Rng,
    limiter: &mut dyn Limiter,
    at_us: u64,
    otherwise: u64,
) -> Option<Admitted> {
    let there = limiter.peek(at_us, 1).remaining;
    let cost = match rng.below(10) {
        0..6 => there,
        6..8 => rng.between(0, there),
        8 => 1,
        _ => otherwise,
    };
    let answer = limiter.step(at_us, cost);
    answer.allowed.then_some(Admitted { at_us, delay_us: answer.delay_us, cost })
}

/// Arrivals in order of time, as `(at_us, units)`.
pub(crate) fn arrivals(admitted: &[Admitted]) -> Vec<(u64, u64)> {
    admitted.iter().map(|one| (one.at_us, one.cost)).collect()
}

/// Departures in order of time.
pub(crate) fn departures(admitted: &[Admitted]) -> Vec<(u64, u64)> {
    admitted.iter().map(|one| (one.at_us + one.delay_us, one.cost)).collect()
}

/// The maximum number of units that any half-open interval of that length holds; `events` are in time order.
pub(crate) fn most_within(events: &[(u64, u64)], length_us: u64) -> u128 {
    let (mut sum, mut most, mut first) = (0_u128, 0_u128, 0);
    for (end_us, units) in events {
        sum += u128::from(*units);
        while events[first].0 + length_us <= *end_us {
            sum -= u128::from(events[first].1);
            first += 1;
        }
        most = most.max(sum);
    }
    most
}

#[test]
fn the_most_within_an_interval_is_the_sum_by_definition() {
    let mut rng = Rng::new(1);
    for _ in 0..200 {
        let mut events: Vec<_> = (0..30).map(|_| (rng.below(100), rng.below(9))).collect();
        events.sort_unstable();
        let length_us = rng.between(1, 40);
        let inside = |end: u64| move |(at, _): &&(u64, u64)| *at <= end && at + length_us > end;
        let sum = |end| events.iter().filter(inside(end)).map(|(_, n)| u128::from(*n)).sum();
        let naive: u128 = events.iter().map(|(end, _)| sum(*end)).max().unwrap();
        assert_eq!(most_within(&events, length_us), naive);
    }
}
