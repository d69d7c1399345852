//! The number of limiters that may be under way at one shard: as many as it decides in time, in few calls or in
//! many.
//!
//! The window grows by one limiter in each round trip in which it was full, and shrinks by a part when answers
//! take longer than they should. Servers that share a store and all do so converge to equal parts of it, as TCP
//! connections do on a link (Chiu and Jain, "Analysis of the increase and decrease algorithms", 1989).

use std::time::Duration;

use tokio::time::Instant;

/// The window at the start.
const FIRST: f64 = 16.0;
/// It never shrinks below this: few limiters are decided in a small part of any deadline, and if answers still
/// take long, sending less does not help.
const LEAST: f64 = 8.0;
/// The part of it that remains when answers take too long.
const SHRINKS_TO: f64 = 0.7;
/// Number of deadlines for which every answer must be late before requests that cannot be sent
/// immediately are not queued.
const TOO_SLOW_AFTER: u32 = 20;
/// The time that lateness is remembered.
const LATELY: Duration = Duration::from_secs(1);
/// The shortest round trip is taken over one or two of the latest of these spans.
const MEMORY: Duration = Duration::from_secs(5);

/// The number of limiters that may be under way, and the round trips that determine it.
#[derive(Debug)]
pub(super) struct Window {
    size: f64,
    most: f64,
    /// True if no answer has taken too long yet: it grows faster until then.
    is_new: bool,
    timeout: Duration,
    /// The shortest round trip in the current span and in the previous span.
    shortest: [Duration; 2],
    span_since: Instant,
    /// A moving average of round trips; zero before the first.
    usual: Duration,
    shrunk_at: Option<Instant>,
    /// The first and the last late answer since the last answer in time.
    late: Option<(Instant, Instant)>,
}

impl Window {
    /// A window of at most `most` limiters of a shard that is to answer well within `timeout`.
    pub(super) fn new(most: usize, timeout: Duration, now: Instant) -> Self {
        let most = (most as f64).max(1.0);
        Self {
            size: FIRST.min(most),
            most,
            is_new: true,
            timeout,
            shortest: [Duration::MAX; 2],
            span_since: now,
            usual: Duration::ZERO,
            shrunk_at: None,
            late: None,
        }
    }

    /// The number of limiters that calls under way may decide.
    pub(super) const fn size(&self) -> usize {
        self.size as usize
    }

    /// Notes that calls which decide `limiters` limiters were answered after `took`; `was_full` if more would
    /// have been sent.
    pub(super) fn answered(
        &mut self,
        limiters: usize,
        took: Duration,
        was_full: bool,
        now: Instant,
    ) {
        // Two spans, so that a new span does not begin without any knowledge, and a longer way is believed in the end.
        if now.duration_since(self.span_since) >= MEMORY {
            (self.shortest, self.span_since) = ([Duration::MAX, self.shortest[0]], now);
        }
        self.shortest[0] = self.shortest[0].min(took);
        self.late = (took > self.timeout).then(|| (self.late.map_or(now, |(since, _)| since), now));
        self.usual = match self.usual {
            Duration::ZERO => took,
            // An eighth of each new round trip, as TCP smooths its own (RFC 6298).
            usual => (usual * 7 + took) / 8,
        };
        if self.usual > self.longest() {
            self.shrink(now);
        } else if was_full {
            // A new window doubles in a round trip, any other grows by one limiter.
            let step = if self.is_new { 1.0 } else { 1.0 / self.size };
            self.size = (self.size + step * limiters as f64).min(self.most);
        }
    }

    /// Returns whether no answer has been in time for long, until lately: a request that cannot be sent
    /// immediately should not wait.
    pub(super) fn is_too_slow(&self, now: Instant) -> bool {
        self.late.is_some_and(|(since, last)| {
            now.duration_since(since) >= self.timeout * TOO_SLOW_AFTER
                && now.duration_since(last) < LATELY
        })
    }

    /// Notes that a check found the shard fit, and forgets earlier lateness.
    pub(super) const fn found_fit(&mut self) {
        self.late = None;
    }

    /// Notes that a request was answered too late.
    pub(super) fn late(&mut self, now: Instant) {
        self.shrink(now);
    }

    /// The average time that round trips may take before the window shrinks: a quarter of the deadline or, at a
    /// distant shard, twice the shortest one.
    fn longest(&self) -> Duration {
        let shortest = self.shortest[0].min(self.shortest[1]);
        (self.timeout / 4).max(shortest.saturating_mul(2)).min(self.timeout / 2)
    }

    /// Shrinks the window, once in a round trip.
    fn shrink(&mut self, now: Instant) {
        let usual = self.usual;
        // Answers to calls that were sent before the window shrank say nothing about its new size.
        if self.shrunk_at.is_some_and(|at| now.duration_since(at) < usual) {
            return;
        }
        self.is_new = false;
        self.shrunk_at = Some(now);
        self.size = (self.size * SHRINKS_TO).max(LEAST.min(self.most));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMEOUT: Duration = Duration::from_millis(10);

    /// The final window of each of several servers over one store that runs a call in 10 us, one
    /// after another.
    fn converged(firsts: &[f64]) -> Vec<f64> {
        let mut now = Instant::now();
        let mut all: Vec<_> = firsts.iter().map(|_| Window::new(4_096, TIMEOUT, now)).collect();
        all.iter_mut().zip(firsts).for_each(|(window, first)| window.size = *first);
        for _ in 0..2_000 {
            let under_way: usize = all.iter().map(Window::size).sum();
            let took = Duration::from_micros(100 + 10 * under_way as u64);
            now += took;
            for window in &mut all {
                window.answered(window.size(), took, true, now);
            }
        }
        all.iter().map(|window| window.size).collect()
    }

    #[test]
    fn the_store_is_busy_and_answers_in_time() {
        let size = converged(&[FIRST])[0];
        let took = 100.0 + 10.0 * size;
        assert!((1_000.0..2_700.0).contains(&took), "{size} calls under way: {took} us");
    }

    #[test]
    fn of_four_servers_none_falls_below_half_its_part() {
        for firsts in [[16.0; 4], [4_000.0, 16.0, 2.0, 2.0], [2.0, 200.0, 200.0, 200.0]] {
            let sizes = converged(&firsts);
            let part = sizes.iter().sum::<f64>() / 4.0;
            assert!(sizes.iter().all(|size| *size >= part / 2.0), "{firsts:?}: {sizes:?}");
        }
    }

    #[test]
    fn a_store_that_is_far_away_is_not_taken_for_a_busy_one() {
        let mut now = Instant::now();
        let mut window = Window::new(4_096, TIMEOUT, now);
        for _ in 0..100 {
            now += Duration::from_millis(4);
            window.answered(window.size(), Duration::from_millis(4), true, now);
        }
        assert!(window.size() > 1_000, "{}", window.size());
    }

    #[test]
    fn a_window_is_never_empty_and_never_above_its_most() {
        let now = Instant::now();
        let mut window = Window::new(1, TIMEOUT, now);
        (1..100).for_each(|second| window.late(now + Duration::from_secs(second)));
        assert_eq!(window.size(), 1);
        window.answered(1_000, Duration::from_micros(1), true, now + Duration::from_secs(200));
        assert_eq!(window.size(), 1);
    }

    #[test]
    fn a_store_is_too_slow_once_no_answer_was_in_time_for_long_and_until_one_is() {
        let began = Instant::now();
        let mut window = Window::new(4_096, TIMEOUT, began);
        let after = |ms| began + Duration::from_millis(ms);
        let late = Duration::from_millis(50);
        window.answered(1, late, true, after(50));
        assert!(!window.is_too_slow(after(249)));
        window.answered(1, late, true, after(249));
        assert!(window.is_too_slow(after(250)));
        assert!(!window.is_too_slow(after(1_249)), "that was long ago");
        window.answered(1, Duration::from_millis(10), true, after(251));
        assert!(!window.is_too_slow(after(252)));
        window.answered(1, late, true, after(300));
        assert!(!window.is_too_slow(after(499)), "it is late since then");
        window.answered(1, late, true, after(499));
        window.found_fit();
        assert!(!window.is_too_slow(after(501)));
    }

    #[test]
    fn it_does_not_grow_where_nothing_waits() {
        let now = Instant::now();
        let mut window = Window::new(4_096, TIMEOUT, now);
        (0..100).for_each(|_| window.answered(1, Duration::from_micros(100), false, now));
        assert_eq!(window.size(), FIRST as usize);
    }
}
