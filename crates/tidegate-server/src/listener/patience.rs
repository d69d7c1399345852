//! Closes connections whose clients send no request, do not finish a request, or do not read. The task of a
//! connection waits for the next check, describes the connection as a [`ConnectionCheck`], and ends it if
//! [`ConnectionPatience::ends`] says so.

use std::time::Duration;

use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at};

use super::Bounds;

/// The state of a connection at one check.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ConnectionCheck {
    /// True if an admitted request arrived since the last check, or is under way.
    pub(crate) is_used: bool,
    /// A message that the client has begun and has to end, as a number that changes when it has
    /// ended it.
    pub(crate) unended: Option<u64>,
    /// Answers that the client has not read, as a number that changes as it reads.
    pub(crate) unread: Option<u64>,
}

/// The reason for which a connection is ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Over {
    /// The connection was not used.
    Idle,
    /// A message did not end, or answers were not read.
    HeldUp,
}

/// Checks one connection periodically, so that a request sets no timer.
#[derive(Debug)]
pub(crate) struct ConnectionPatience {
    bounds: Bounds,
    /// The time between two checks.
    every: Duration,
    ticks: Interval,
    /// Checks since the connection was used.
    idle: u32,
    unended: Unchanged,
    unread: Unchanged,
}

/// A number as of the last check, and the checks since it changed.
#[derive(Debug, Default)]
struct Unchanged {
    last: Option<u64>,
    checks: u32,
}

impl Unchanged {
    /// Notes the number at a check; returns the checks since it changed.
    fn note(&mut self, now: Option<u64>) -> u32 {
        // A client that goes on, however slowly, changes the number and is waited for.
        self.checks = if now.is_some() && now == self.last { self.checks + 1 } else { 0 };
        self.last = now;
        self.checks
    }
}

impl ConnectionPatience {
    pub(crate) fn of(bounds: Bounds) -> Self {
        // Often enough that a bound is passed by no more than `Bounds` says: a quarter of idle time, half of the
        // others.
        let every = (bounds.idle / 4).min(bounds.head.min(bounds.stalled) / 2);
        Self {
            bounds,
            every,
            ticks: looks(every),
            idle: 0,
            unended: Unchanged::default(),
            unread: Unchanged::default(),
        }
    }

    pub(crate) async fn look(&mut self) {
        self.ticks.tick().await;
    }

    /// Evaluates a check; returns the reason if the connection is to end.
    pub(crate) fn ends(&mut self, seen: ConnectionCheck) -> Option<Over> {
        self.idle = if seen.is_used { 0 } else { self.idle + 1 };
        // Both count on at every check, so neither may be left out because of the other.
        let unended = self.every.saturating_mul(self.unended.note(seen.unended));
        let unread = self.every.saturating_mul(self.unread.note(seen.unread));
        if unended >= self.bounds.head || unread >= self.bounds.stalled {
            Some(Over::HeldUp)
        } else if self.every.saturating_mul(self.idle) >= self.bounds.idle {
            Some(Over::Idle)
        } else {
            None
        }
    }
}

/// Periodic checks from now on.
pub(super) fn looks(every: Duration) -> Interval {
    // An interval of zero panics, and its first tick would come immediately without `interval_at`.
    let every = every.max(Duration::from_millis(1));
    let mut looks = interval_at(Instant::now() + every, every);
    // A task that was late does not make up for missed checks.
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    looks
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Seconds until a connection in this state ends, with the reason; an hour at most.
    async fn ends(mut seen: impl FnMut(u64) -> ConnectionCheck) -> (u64, Option<Over>) {
        let (began, mut patience) = (Instant::now(), ConnectionPatience::of(Bounds::default()));
        loop {
            patience.look().await;
            let now = began.elapsed().as_secs();
            let over = patience.ends(seen(now));
            if over.is_some() || now >= 3_600 {
                return (now, over);
            }
        }
    }

    const USED: ConnectionCheck = ConnectionCheck { is_used: true, unended: None, unread: None };

    #[tokio::test(start_paused = true)]
    async fn a_connection_ends_a_minute_after_its_last_request() {
        for (comes, ended) in [(&[][..], 60), (&[1], 75), (&[14], 75), (&[1, 50, 109], 180)] {
            let mut comes = comes.iter().peekable();
            let seen =
                |now| ConnectionCheck { is_used: comes.next_if(|at| **at < now).is_some(), ..USED };
            assert_eq!(ends(seen).await, (ended, Some(Over::Idle)));
        }
        assert_eq!(ends(|_| USED).await, (3_600, None));
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_not_ended_or_not_read_is_waited_for_half_a_minute() {
        let held_up = (45, Some(Over::HeldUp));
        assert_eq!(ends(|_| ConnectionCheck { unended: Some(7), ..USED }).await, held_up);
        assert_eq!(ends(|_| ConnectionCheck { unread: Some(7), ..USED }).await, held_up);
        let slow = |now| Some(now / 30);
        assert_eq!(ends(|now| ConnectionCheck { unended: slow(now), ..USED }).await, (3_600, None));
        assert_eq!(ends(|now| ConnectionCheck { unread: slow(now), ..USED }).await, (3_600, None));
        let between = |now: u64| (!now.is_multiple_of(45)).then_some(7);
        assert_eq!(
            ends(|now| ConnectionCheck { unended: between(now), ..USED }).await,
            (3_600, None)
        );
    }
}
