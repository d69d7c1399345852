//! Statistics next to the naive model: random traffic, a clock that steps both ways.
//!
//! `TIDEGATE_LONG=1` walks twenty times as often.

use super::model::{Statistics as Model, What};
use std::time::Duration;
use testkit::traffic::Rng;
use tidegate::{Micros, Statistics, Timestamp};

const TODAY_US: u64 = 1_699_999_200_000_000;

/// The statistics, the model, and a clock that moves as it likes.
struct Walk {
    rng: Rng,
    stats: Statistics<Timestamp>,
    model: Model,
    now_us: u64,
}

impl Walk {
    fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let now_us = rng.pick([TODAY_US, TODAY_US, 0, 1_234_567]);
        Self {
            rng,
            stats: Statistics::with_clock(Timestamp::EPOCH),
            model: Model::default(),
            now_us,
        }
    }

    fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.now_us)
    }

    /// Mostly on by a little; sometimes to the very edge of a half second, far on, or back.
    fn move_clock(&mut self, ways: &[u64]) {
        let most_us = ways[usize::try_from(self.rng.below(ways.len() as u64)).unwrap()];
        match self.rng.below(10) {
            0 => self.now_us = self.now_us.next_multiple_of(500_000),
            1 => self.now_us = self.now_us.next_multiple_of(500_000).saturating_sub(1),
            2 => self.now_us = self.now_us.saturating_sub(self.rng.below(most_us)),
            _ => self.now_us += self.rng.below(most_us),
        }
    }

    fn count(&mut self) {
        let (amount, now) = (self.rng.skewed(1_000_000), self.now());
        let what = match self.rng.below(4) {
            0 => What::Pass(amount),
            1 => What::Block(amount),
            2 => What::Exception(amount),
            _ => What::Success(amount - 1),
        };
        match what {
            What::Pass(units) | What::Occupied(units) => self.stats.pass_at(units, now),
            What::Block(units) => self.stats.block_at(units, now),
            What::Exception(requests) => self.stats.exception_at(requests, now),
            What::Success(us) => self.stats.success_at(Duration::from_micros(us), now),
        }
        self.model.count(self.now_us, what);
    }

    /// Asks both for a place, and returns the wait, which must be equal.
    fn occupy(&mut self, limit: u64, most: u64) -> Option<u64> {
        let units = self.rng.below(limit / 2 + 2);
        let wait = self
            .stats
            .occupy_at(units, limit, most, self.now())
            .map(|wait| Micros::from(wait).as_micros());
        assert_eq!(wait, self.model.occupy(self.now_us, units, limit, most), "{units} of {limit}");
        wait
    }

    fn compare(&mut self) {
        let (now, now_us) = (self.now(), self.now_us);
        assert_eq!(self.stats.second_at(now), self.model.second(now_us));
        assert_eq!(self.stats.minute_at(now), self.model.minute(now_us));
    }

    fn compare_each_second(&mut self) {
        let each = self.stats.seconds_at(self.now()).into_iter();
        let each: Vec<_> = each.map(|(began, values)| (began.as_micros(), values)).collect();
        assert_eq!(each, self.model.seconds(self.now_us));
    }
}

/// Runs a walk for each seed, and says which one failed.
fn for_each_seed(walk: impl Fn(u64) + std::panic::RefUnwindSafe) {
    for seed in 0..if testkit::threads::long() { 6_000 } else { 300 } {
        let outcome = std::panic::catch_unwind(|| walk(seed));
        assert!(outcome.is_ok(), "seed {seed}");
    }
}

#[test]
fn random_traffic_is_counted_as_the_model_counts() {
    for_each_seed(|seed| {
        let mut walk = Walk::new(seed);
        for _ in 0..120 {
            walk.move_clock(&[1_000, 400_000, 900_000, 5_000_000, 70_000_000, 200_000_000]);
            match walk.rng.below(5) {
                0 => walk.compare(),
                1 => drop(walk.occupy(walk.rng.clone().below(3_000), 400)),
                _ => walk.count(),
            }
        }
        walk.compare();
        walk.compare_each_second();
    });
}

/// Nothing is compared on the way, for reading also makes half seconds begin.
#[test]
fn what_is_read_once_at_the_end_is_the_same() {
    for_each_seed(|seed| {
        let mut walk = Walk::new(seed);
        for _ in 0..walk.rng.between(0, 60) {
            walk.move_clock(&[1_000, 700_000, 3_000_000]);
            walk.count();
        }
        walk.compare_each_second();
        walk.compare();
    });
}

#[test]
fn no_second_passes_more_than_the_limit() {
    for_each_seed(|seed| {
        let mut walk = Walk::new(seed);
        let (limit, most) = (walk.rng.below(30), walk.rng.below(40));
        let mut borrowed = 0;
        for _ in 0..150 {
            walk.move_clock(&[1_000, 200_000, 200_000, 600_000, 2_000_000]);
            let most = walk.rng.pick([0, most, most]);
            let wait = walk.occupy(limit, most);
            assert!(wait.is_none_or(|wait_us| wait_us <= 1_000_000), "{wait:?}");
            borrowed += u64::from(wait.is_some_and(|wait_us| wait_us > 0));
            assert!(walk.stats.second_at(walk.now()).pass <= limit);
            walk.compare();
        }
        assert!(borrowed > 0 || limit < 10 || most < 16, "nothing was borrowed");
    });
}
