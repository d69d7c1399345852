//! Statistics as a list of everything that was counted; each window adds it up again.

use tidegate::Snapshot;

/// The length of a bucket.
const BUCKET_US: u64 = 500_000;

/// One counted event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    /// Units admitted.
    Pass(u64),
    /// Units refused.
    Block(u64),
    /// Requests that ended with an error.
    Exception(u64),
    /// A request that succeeded, and its response time.
    Success(u64),
    /// Units borrowed from a later bucket.
    Occupied(u64),
}

/// The statistics of one resource; nothing is ever dropped.
#[derive(Clone, Debug, Default)]
pub(crate) struct Statistics {
    /// The latest time that any verb was given, in half seconds: an earlier time counts as in the current half second.
    current: i64,
    counted: Vec<(i64, What)>,
}

impl Statistics {
    /// Counts one event.
    pub(crate) fn count(&mut self, at_us: u64, what: What) {
        let bucket = self.now(at_us);
        self.counted.push((bucket, what));
    }

    /// The wait for a place for `units`: in the current bucket or the first of the next two in
    /// which no second that contains it passes more than `limit`, with at most `most` units in
    /// later buckets.
    pub(crate) fn occupy(&mut self, at_us: u64, units: u64, limit: u64, most: u64) -> Option<u64> {
        let current = self.now(at_us);
        if units == 0 {
            return Some(0);
        }
        let fits = |bucket: &i64| {
            let second = |first| self.passed(|b| b == first || b == first + 1) + u128::from(units);
            second(bucket - 1).max(second(*bucket)) <= u128::from(limit)
        };
        let bucket = (current..=current + 2).find(fits)?;
        if bucket > current {
            if self.passed(|b| b > current) + u128::from(units) > u128::from(most) {
                return None;
            }
            self.counted.push((current, What::Occupied(units)));
        }
        self.counted.push((bucket, What::Pass(units)));
        let began_us = |bucket: i64| u64::try_from(bucket).unwrap_or(0) * BUCKET_US;
        Some(began_us(bucket).saturating_sub(at_us.max(began_us(current))))
    }

    /// The last second: two buckets.
    pub(crate) fn second(&mut self, at_us: u64) -> Snapshot {
        let current = self.now(at_us);
        self.counts_in(|bucket| bucket == current || bucket == current - 1)
    }

    /// The last minute: sixty seconds of the clock, including the current one.
    pub(crate) fn minute(&mut self, at_us: u64) -> Snapshot {
        let second = self.now(at_us).div_euclid(2);
        self.counts_in(|bucket| (second - 59..=second).contains(&bucket.div_euclid(2)))
    }

    /// Each second of the last minute, oldest first, with the time it began.
    pub(crate) fn seconds(&mut self, at_us: u64) -> Vec<(u64, Snapshot)> {
        let newest = self.now(at_us).div_euclid(2);
        let from_epoch = (newest - 59..=newest).filter_map(|second| u64::try_from(second).ok());
        let each = |second: u64| {
            let of_it = |bucket: i64| bucket.div_euclid(2) == second.cast_signed();
            (second * 2 * BUCKET_US, self.counts_in(of_it))
        };
        from_epoch.map(each).collect()
    }

    /// The current bucket at that time.
    fn now(&mut self, at_us: u64) -> i64 {
        self.current = self.current.max((at_us / BUCKET_US).cast_signed());
        self.current
    }

    /// Units that passed in some buckets, or will.
    fn passed(&self, counts: impl Fn(i64) -> bool) -> u128 {
        let units = |(bucket, what): &(i64, What)| match what {
            What::Pass(units) if counts(*bucket) => u128::from(*units),
            _ => 0,
        };
        self.counted.iter().map(units).sum()
    }

    /// The counts of those buckets that have begun.
    fn counts_in(&self, includes: impl Fn(i64) -> bool) -> Snapshot {
        let mut counts = Snapshot::default();
        for (bucket, what) in &self.counted {
            if *bucket <= self.current && includes(*bucket) {
                add(&mut counts, *what);
            }
        }
        counts
    }
}

fn add(counts: &mut Snapshot, what: What) {
    match what {
        What::Pass(units) => counts.pass += units,
        What::Block(units) => counts.block += units,
        What::Exception(requests) => counts.exception += requests,
        What::Occupied(units) => counts.occupied += units,
        What::Success(us) => {
            counts.success += 1;
            counts.rt_sum_us += us;
            counts.rt_min_us = Some(counts.rt_min_us.map_or(us, |least| least.min(us)));
        }
    }
}
