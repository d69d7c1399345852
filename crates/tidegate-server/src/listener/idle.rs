//! How long a connection may bring nothing, whatever is spoken on it: looked at now and then, so that a request sets
//! no timer.

use std::time::Duration;

use tokio::time::{Instant, Interval, MissedTickBehavior, interval_at};

/// Looks in the time that a connection may idle.
const LOOKS: u32 = 4;

/// What is seen of a connection at each look.
#[derive(Debug)]
pub(crate) struct Idle {
    looks: Interval,
    quiet: u32,
}

impl Idle {
    /// Of a connection that may bring nothing for so long, or up to a quarter longer.
    pub(crate) fn after(idle: Duration) -> Self {
        Self { looks: looks(idle / LOOKS), quiet: 0 }
    }

    /// Waits for the next look.
    pub(crate) async fn look(&mut self) {
        self.looks.tick().await;
    }

    /// Notes whether something came since the last look; whether the connection has brought nothing for too long.
    pub(crate) const fn is_over(&mut self, came: bool) -> bool {
        self.quiet = if came { 0 } else { self.quiet + 1 };
        self.quiet >= LOOKS
    }
}

/// A look every so often, from now on.
pub(crate) fn looks(every: Duration) -> Interval {
    let every = every.max(Duration::from_millis(1));
    let mut looks = interval_at(Instant::now() + every, every);
    // Who was held up is not looked at twice for it.
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    looks
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::listener::IDLE;

    /// Seconds until the end of a connection on which something comes at these.
    async fn ends_after(comes: &[u64]) -> u64 {
        let (began, mut idle, mut came) =
            (Instant::now(), Idle::after(IDLE), comes.iter().peekable());
        loop {
            idle.look().await;
            let now = began.elapsed().as_secs();
            let any = came.next_if(|at| **at < now).is_some();
            if idle.is_over(any) {
                return now;
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_ends_a_minute_after_the_last_that_it_brought() {
        assert_eq!(ends_after(&[]).await, 60);
        assert_eq!(ends_after(&[1]).await, 75);
        assert_eq!(ends_after(&[14]).await, 75);
        assert_eq!(ends_after(&[1, 50, 109]).await, 180);
    }
}
