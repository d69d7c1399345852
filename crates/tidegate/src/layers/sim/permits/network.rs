//! The network between nodes and the store: some messages are late, lost or repeated.

use testkit::traffic::Rng;

#[derive(Clone, Debug)]
pub(super) struct Network {
    /// Ordinary and slow messages: the longest time on the way.
    delays: [u64; 2],
    slow_percent: u64,
    lost_percent: u64,
    repeated_percent: u64,
}

impl Network {
    /// A network that repeats messages, and if it is not `calm` loses and delays them as well.
    pub(super) fn new(rng: &mut Rng, calm: bool) -> Self {
        Self {
            delays: [rng.pick([300, 2_000, 10_000]), rng.pick([20_000, 300_000])],
            slow_percent: if calm { 0 } else { rng.pick([1, 10]) },
            lost_percent: if calm { 0 } else { rng.pick([0, 2, 10]) },
            repeated_percent: rng.pick([0, 20]),
        }
    }

    /// The time that a message is on its way; `None` if it is lost.
    pub(super) fn delay(&self, rng: &mut Rng) -> Option<u64> {
        let slow = usize::from(rng.chance(self.slow_percent));
        let delay = 20 + rng.below(self.delays[slow]);
        (!rng.chance(self.lost_percent)).then_some(delay)
    }

    /// The number of times that a message is sent.
    pub(super) fn times(&self, rng: &mut Rng) -> u64 {
        if rng.chance(self.repeated_percent) { 2 } else { 1 }
    }
}
