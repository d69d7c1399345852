//! Warnings that callers can cause: one a minute of each kind. All protocols call [`warn_of`] for a request that they do not
//! understand.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use tidegate::{Clock, SystemClock};

use crate::listener::source;
use crate::refusal::WarningKind;

const MINUTE_US: u64 = 60_000_000;

/// Lets one event a minute pass, and counts the others.
#[derive(Debug)]
pub(crate) struct OnceAMinute {
    /// The time from which the next event passes, in microseconds.
    from_us: AtomicU64,
    withheld: AtomicU64,
}

impl OnceAMinute {
    pub(crate) const fn new() -> Self {
        Self { from_us: AtomicU64::new(0), withheld: AtomicU64::new(0) }
    }

    /// The number of events that were withheld since the last event that passed, if this event passes.
    pub(crate) fn passes(&self, clock: &impl Clock) -> Option<u64> {
        let now_us = clock.now().as_micros();
        let from_us = self.from_us.load(Relaxed);
        let next_us = now_us.saturating_add(MINUTE_US);
        let passes = now_us >= from_us
            // Of several events at once, the first to store the next time passes.
            && self.from_us.compare_exchange(from_us, next_us, Relaxed, Relaxed).is_ok();
        if passes {
            return Some(self.withheld.swap(0, Relaxed));
        }
        self.withheld.fetch_add(1, Relaxed);
        None
    }
}

/// Warns of a request that is not decided, with the mistake and the peer.
#[cold]
pub(crate) fn warn_of(kind: WarningKind, reason: &str) {
    // One for each kind, at its number.
    static KINDS: [OnceAMinute; 6] = [const { OnceAMinute::new() }; 6];
    let Some(withheld) = KINDS.get(kind as usize).and_then(|one| one.passes(&SystemClock::new()))
    else {
        return;
    };
    tracing::warn!(
        listener = source::listener(),
        peer = source::peer().map(tracing::field::display),
        reason,
        withheld,
        "a request was not understood, and not decided by the rules"
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use tidegate::ManualClock;

    #[test]
    fn one_a_minute_passes_and_tells_of_those_that_did_not() {
        let (clock, often) = (ManualClock::new(), OnceAMinute::new());
        assert_eq!([(); 4].map(|()| often.passes(&clock)), [Some(0), None, None, None]);
        clock.advance(Duration::from_secs(59));
        assert_eq!(often.passes(&clock), None);
        clock.advance(Duration::from_secs(1));
        assert_eq!([(); 2].map(|()| often.passes(&clock)), [Some(4), None]);
    }
}
