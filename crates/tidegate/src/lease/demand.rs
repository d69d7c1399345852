//! The demand for a limiter, in the time of one lease: the size of the next lease, or a sign that none is worth it.

use tidegate_core::Micros;

/// A lease is worth its round trip if at least so many requests come within the life of one.
const WORTH: u64 = 3;

/// Requests and their units.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Sum {
    requests: u64,
    units: u64,
}

/// The units asked for in the current life and in the previous life. Lives follow one another from the first request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Demand {
    since: Micros,
    current: Sum,
    before: Sum,
}

impl Demand {
    /// Adds a request of `cost` units.
    pub(super) fn add(&mut self, now: Micros, life: Micros, cost: u64) {
        self.advance(now, life);
        self.current.requests += 1;
        self.current.units = self.current.units.saturating_add(cost);
    }

    /// Returns the units that the life of a lease needs; `None` if too few ask.
    pub(super) fn of_one_life(&mut self, now: Micros, life: Micros) -> Option<u64> {
        self.advance(now, life);
        let Self { current, before, .. } = *self;
        let asks = current.requests + before.requests >= WORTH;
        // The larger of the two, because the current life may have only begun.
        asks.then_some(current.units.max(before.units))
    }

    /// Returns whether the current life is the first life with requests. The need of one life is not known then.
    pub(super) fn is_new(&mut self, now: Micros, life: Micros) -> bool {
        self.advance(now, life);
        self.before.requests == 0
    }

    /// Returns whether no request asked in this life and the previous life.
    pub(super) fn is_none(&mut self, now: Micros, life: Micros) -> bool {
        self.advance(now, life);
        self.current.requests + self.before.requests == 0
    }

    fn advance(&mut self, now: Micros, life: Micros) {
        let passed = now.as_micros().saturating_sub(self.since.as_micros());
        let life = life.as_micros().max(1);
        match passed / life {
            0 => return,
            1 => self.before = self.current,
            // A whole life has passed without a request.
            _ => self.before = Sum::default(),
        }
        self.current = Sum::default();
        // Lives follow one another without a gap, so the current life may have begun before this request.
        self.since = Micros::from_micros(now.as_micros() - passed % life);
    }
}
