//! Traces that need no file.
//!
//! `tidegate compare` decides such a trace if it is given no file.

use super::event::{DEFAULT_DOMAIN, Event};

const SECOND_US: u64 = 1_000_000;
const REQUESTS_PER_SIDE: u64 = 200;

/// A trace that shows the effect of a window's edge: 200 requests spread evenly over the last
/// second before the minute's edge at 60 s, and 200 over the first second after it, all from one
/// caller (`key` = `demo`), and no other.
///
/// At 200 per minute a fixed window admits all 400; the other windows and a bucket admit 200.
///
/// ```
/// let trace = tidegate_lab::trace::builtin::minute_edge();
/// assert_eq!(trace.len(), 400);
/// assert_eq!((trace[0].at_us, trace[200].at_us), (59_000_000, 60_000_000));
/// ```
#[must_use]
pub fn minute_edge() -> Vec<Event<'static>> {
    second(59).chain(second(60)).map(demo_request).collect()
}

/// The times of one side's requests.
fn second(start_s: u64) -> impl Iterator<Item = u64> {
    let step_us = SECOND_US / REQUESTS_PER_SIDE;
    (0..REQUESTS_PER_SIDE).map(move |i| start_s * SECOND_US + i * step_us)
}

fn demo_request(at_us: u64) -> Event<'static> {
    Event::of_one(at_us, DEFAULT_DOMAIN, vec![("key", "demo")])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_hundred_on_each_side_of_the_edge() {
        let times: Vec<u64> = minute_edge().iter().map(|e| e.at_us).collect();
        assert_eq!(times.iter().filter(|t| (59_000_000..60_000_000).contains(*t)).count(), 200);
        assert_eq!(times.iter().filter(|t| (60_000_000..61_000_000).contains(*t)).count(), 200);
        assert!(times.windows(2).all(|pair| pair[1] - pair[0] == 5_000));
    }
}
