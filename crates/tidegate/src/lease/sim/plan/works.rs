//! The part of a plan about reservations, and about the clock steps of the store that fall between reservation and
//! settlement.

use testkit::traffic::Rng;
use tidegate_core::Micros;

use super::{LeasesFault, LeasesPlan, RunKind};

/// A step that is longer than every run and window.
const FAR: i64 = 3_600_000_000;

/// The work of one reservation: the time it takes, and the part of the reserved cost that it needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct Work {
    pub(in super::super) until: u64,
    percent: u64,
}

impl Work {
    /// The actual cost of a reserved cost.
    pub(in super::super) const fn actual(self, cost: u64) -> u64 {
        cost * self.percent / 100
    }
}

/// The works of all reservations of a run.
#[derive(Clone, Copy, Debug, Default)]
pub(in super::super) struct Works {
    /// The number of requests of a hundred that reserve.
    percent: u64,
    longest: u64,
    /// Works end at multiples of this time, many of them together.
    tick: u64,
    /// The maximum that a work needs, in percent of its reservation.
    most_percent: u64,
}

impl Works {
    /// The work of the next request; `None` if it reserves nothing.
    pub(in super::super) fn next(&self, rng: &mut Rng, time: u64) -> Option<Work> {
        if self.percent == 0 {
            return None;
        }
        let until = (time + rng.below(self.longest) + 1).next_multiple_of(self.tick);
        let percent = if rng.chance(10) {
            rng.below(self.most_percent + 1)
        } else {
            rng.pick([0, 0, 30, 70, 100])
        };
        rng.chance(self.percent).then_some(Work { until, percent })
    }

    pub(in super::super) const fn are_none(&self) -> bool {
        self.percent == 0
    }
}

impl LeasesPlan {
    /// The plan with reservations and steps of the store's clock in some runs. The other runs stay as they are.
    pub(super) fn with_works(mut self) -> Self {
        let mut rng = Rng::new(self.seed ^ 0x5e77_1e00);
        let rng = &mut rng;
        let life = self.keys[0].life.as_micros();
        let window =
            self.keys[0].rules[0].spec().window.map_or(life, |one| Micros::from(one).as_micros());
        let is_lasting = self.kind == RunKind::Lasting;
        if self.kind == RunKind::Even {
            return self;
        }
        if rng.chance(50) {
            let longest = if is_lasting { 4 * life } else { 4 * window };
            self.works = Works {
                percent: rng.pick([20, 100]),
                longest: rng.pick([life / 4 + 1, life, longest]),
                tick: rng.pick([1, 1, life / 2]),
                most_percent: if is_lasting { 100 } else { 300 },
            };
            self.largest_cost = rng.pick([3, 10]);
        }
        if rng.chance(20) {
            let window = window.cast_signed();
            let back = 1 + rng.below(window.cast_unsigned()).cast_signed();
            let steps = [-back / 2, -back, -window - back, -FAR, back, 2 * window, FAR];
            let by = if is_lasting { -back / 4 } else { rng.pick(steps) };
            self.faults.push((rng.below(self.length), LeasesFault::StoreStep { by }));
            if !is_lasting && rng.chance(50) {
                self.faults.push((rng.below(self.length), LeasesFault::StoreStep { by: -by }));
            }
        }
        self
    }
}
