//! `sliding_window`: at most N units in the current bucket of W/B and those before it.
//!
//! B buckets count; `strict` also counts the bucket before them, which is only partly out.

use super::{Policy, history::History, meaning::Meaning};

/// Units by the number of their bucket.
#[derive(Clone, Debug)]
pub(super) struct SlidingWindow {
    limit: i128,
    width: i128,
    span: i128,
    history: History,
}

impl SlidingWindow {
    pub(super) fn fresh(policy: &Policy) -> Self {
        let buckets = i128::from(policy.buckets);
        Self {
            limit: policy.limit.into(),
            width: i128::from(policy.window_us) / buckets,
            span: buckets + i128::from(policy.strict),
            history: History::default(),
        }
    }

    fn bucket(&self, t: i128) -> i128 {
        t.div_euclid(self.width)
    }

    /// The first microsecond at which a bucket no longer counts.
    fn leaves_at(&self, bucket: i128) -> i128 {
        (bucket + self.span) * self.width
    }

    fn counts_at(&self, t: i128) -> impl Fn(i128) -> bool + use<> {
        let (bucket, span) = (self.bucket(t), self.span);
        move |place| bucket - span < place && place <= bucket
    }
}

impl Meaning for SlidingWindow {
    fn used(&self, t: i128) -> i128 {
        self.history.sum(self.counts_at(t))
    }

    fn admits(&self, t: i128, cost: i128) -> bool {
        self.used(t) + cost <= self.limit
    }

    fn remaining(&self, t: i128) -> i128 {
        self.limit - self.used(t)
    }

    fn retry_after(&self, t: i128, cost: i128) -> Option<i128> {
        if cost > self.limit {
            return None;
        }
        let exits = self.history.places().map(|bucket| self.leaves_at(bucket));
        exits.filter(|exit| *exit > t).find(|exit| self.admits(*exit, cost)).map(|exit| exit - t)
    }

    fn reset_after(&self, t: i128) -> i128 {
        self.history.newest().map_or(0, |bucket| self.leaves_at(bucket) - t)
    }

    fn charge(&mut self, t: i128, units: i128) {
        self.history.add(self.bucket(t), units);
    }

    fn refund(&mut self, t: i128, units: i128) {
        let counts = self.counts_at(t);
        self.history.give_back(units, counts);
    }

    /// Of the bucket in which they were taken, if that still counts.
    fn give_back(&mut self, t: i128, units: i128, since: i128, _drained: i128) -> i128 {
        let (counts, bucket) = (self.counts_at(t), self.bucket(since));
        units - self.history.give_back(units, |place| counts(place) && place == bucket)
    }

    fn move_back(&mut self, last: i128, t: i128) {
        self.history.move_back(self.bucket(last) - self.bucket(t));
    }

    fn amend(&mut self, _t: i128, policy: &Policy) {
        self.limit = policy.limit.into();
    }
}
