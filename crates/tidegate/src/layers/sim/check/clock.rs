//! The effect of the store's clock steps on a limiter: units taken before a step back of more than W come back no more.
//!
//! It plays the store's clock as one limiter sees it ([`StoreClock`]), through steps and losses of data.

use std::collections::BTreeMap;

use super::super::history::{LayersEvent, LayersEventKind};
use super::super::plan::LayersPlan;

/// The longest life of a lease of a limit that drains.
const LONGEST_LIFE_US: u64 = 1_000_000;
/// Long before each run.
const NEVER: i64 = i64::MIN / 2;

/// The clock of the store as one limiter sees it, in microseconds since the beginning of the run.
#[derive(Clone, Copy, Debug)]
pub(super) struct StoreClock {
    window: i64,
    /// The longest time that units may count as taken earlier than they were, when they are given back.
    earlier: i64,
    stepped: i64,
    /// The instant of the last unit that was taken.
    last: i64,
    /// The same in the replica.
    copied: i64,
    /// The number of times that it found the clock back by more than W, now and when another state last took the place of
    /// its own: after a loss of data, or with units that a node carried. That state knows nothing of the latter.
    times: u64,
    unknown: u64,
}

/// When units were taken, as the limiter counts it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Instant {
    at: i64,
    times: u64,
}

impl StoreClock {
    pub(super) const fn new(window: u64, earlier: u64) -> Self {
        let [window, earlier] = [window.cast_signed(), earlier.cast_signed()];
        Self { window, earlier, stepped: 0, last: NEVER, copied: NEVER, times: 0, unknown: 0 }
    }

    /// Notes an event of the limiter.
    pub(super) fn note(&mut self, event: &LayersEvent) {
        match event.what {
            LayersEventKind::Stepped { by } => self.stepped += by,
            LayersEventKind::Copied => self.copied = self.last,
            LayersEventKind::Lost { to_copy } => {
                self.last = if to_copy { self.copied } else { NEVER };
                self.unknown = self.times;
            }
            // The carried state has the units that were taken before, and knows nothing of steps until now.
            LayersEventKind::Carried { last, .. } => {
                self.last = last.cast_signed();
                self.unknown = self.times;
            }
            LayersEventKind::Taken { .. } | LayersEventKind::Granted { .. } => {
                (self.last, self.times) = self.meets(event.at);
            }
            LayersEventKind::Changed if self.last > NEVER => {
                // A change reads the clock as well, and matters here only if it finds a step back.
                let (at, times) = self.meets(event.at);
                if times > self.times {
                    (self.last, self.times) = (at, times);
                }
            }
            _ => {}
        }
    }

    /// When units count that are taken by the last event that was noted.
    pub(super) const fn instant(&self) -> Instant {
        Instant { at: self.last, times: self.times }
    }

    /// Returns whether units may come back at a time.
    pub(super) fn admits(&self, taken: Instant, time: u64) -> bool {
        let (at, times) = self.meets(time);
        times == taken.times.max(self.unknown) && taken.at - at <= self.window + self.earlier
    }

    /// The instant that counts at a time, and the number of times that the clock was back by more than W until then.
    fn meets(&self, time: u64) -> (i64, u64) {
        let now = time.cast_signed() + self.stepped;
        if self.last - now > self.window {
            (now, self.times + 1)
        } else {
            (self.last.max(now), self.times)
        }
    }
}

/// Units that were taken before a step back of more than W, or by a state that is lost before it, do not come back.
pub(super) fn come_back(
    plan: &LayersPlan,
    limiter: usize,
    events: &[LayersEvent],
) -> Result<(), String> {
    let window = plan.rule(limiter).spec().window.unwrap_or_default();
    let earlier = if plan.is_level(limiter) { LONGEST_LIFE_US } else { 0 };
    let mut clock = StoreClock::new(window.as_micros() as u64, earlier);
    let (mut requests, mut leases) = (BTreeMap::new(), BTreeMap::new());
    for event in events.iter().filter(|event| !event.is_former) {
        clock.note(event);
        let taken = match event.what {
            LayersEventKind::Taken { request, .. } => {
                requests.insert(request, clock.instant());
                continue;
            }
            LayersEventKind::Granted { node, ticket, .. } => {
                leases.insert((node, ticket), clock.instant());
                continue;
            }
            LayersEventKind::Undone { request, units: 1.., .. }
            | LayersEventKind::Settled { request, back: 1.., .. } => requests.get(&request),
            LayersEventKind::Returned { node, ticket, is_late: false, .. } => {
                leases.get(&(node, ticket))
            }
            _ => continue,
        };
        if taken.is_some_and(|taken| !clock.admits(*taken, event.at)) {
            return Err(format!("units come back over a step of the clock: {event:?}"));
        }
    }
    Ok(())
}
