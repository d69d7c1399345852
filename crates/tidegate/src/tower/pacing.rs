//! The outgoing side: holds requests to hosts that asked for a pause by `Retry-After`.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use http::Response;
use http::request::Parts;
use tidegate_core::{Micros, Timestamp};

use super::decider::{Decider, Later, Ruling};
use super::entries::LayerQuestion;
use super::extract::{self, Extract};
use super::refusal::{Reason, Refusal};
use super::retry_after;

/// The largest number of hosts with a hold of their own.
const MOST_KEYS: usize = 10_000;
/// The longest hold by default.
const MOST_HOLD: Micros = Micros::from_secs(3_600);
/// The time for which a request waits for holds to end, by default.
const MOST_WAIT: Micros = Micros::from_secs(30);

/// Holds the requests of an outgoing layer to hosts that ask for a pause.
///
/// A 429 or 503 with `Retry-After` (seconds, or a date, which is compared with the response's own
/// `Date`) holds all later requests to the same host until then. So does a gRPC call that is
/// answered immediately by `RESOURCE_EXHAUSTED` or `UNAVAILABLE` with `RetryInfo` or `Retry-After`.
/// At most 10,000 hosts have a hold of their own; a hold without room applies to all hosts.
///
/// ```
/// use std::time::Duration;
/// use tidegate::tower::{Pacing, header};
///
/// let pacing = Pacing::new().hold_by(header("authorization")?).most_wait(Duration::from_secs(5));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Pacing {
    holds: Arc<Holds>,
    by: Arc<dyn Extract>,
    most_wait: Micros,
}

impl Pacing {
    /// Holds hosts, for an hour at most; requests wait up to 30 seconds.
    #[must_use]
    pub fn new() -> Self {
        let holds = Arc::new(Holds::new(MOST_KEYS, MOST_HOLD));
        Self { holds, by: Arc::new(extract::host), most_wait: MOST_WAIT }
    }

    /// Holds requests by this value instead of the host; a request without one is never held.
    #[must_use]
    pub fn hold_by(mut self, by: impl Extract + 'static) -> Self {
        self.by = Arc::new(by);
        self
    }

    /// Sets the longest `Retry-After` that is honoured, and discards all holds so far.
    #[must_use]
    pub fn most_hold(mut self, most: Duration) -> Self {
        self.holds = Arc::new(Holds::new(MOST_KEYS, most.into()));
        self
    }

    /// Sets how long a request waits for holds to end. A request that would wait longer is refused
    /// immediately.
    #[must_use]
    pub const fn most_wait(mut self, most: Duration) -> Self {
        self.most_wait = Micros::from_duration(most);
        self
    }

    /// The view of this request on the holds; `None` for a request without a value, which is never held.
    pub(super) fn meet(&self, parts: &Parts) -> Option<Hold> {
        let key = self.by.extract(parts)?;
        Some(Hold { holds: self.holds.clone(), key, most_wait: self.most_wait })
    }
}

impl Default for Pacing {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Pacing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("Pacing");
        debug.field("most_wait", &self.most_wait).finish_non_exhaustive()
    }
}

/// One request's view of the holds.
#[derive(Clone)]
pub(super) struct Hold {
    holds: Arc<Holds>,
    key: String,
    most_wait: Micros,
}

impl Hold {
    /// Waits until the request may be sent, and asks the gate then. A request whose wait would be
    /// too long is refused immediately.
    pub(super) fn ask(
        self,
        decider: Arc<dyn Decider>,
        question: LayerQuestion<'static>,
    ) -> Later<Ruling> {
        Box::pin(async move {
            let mut patience = self.most_wait;
            loop {
                if let Err(refusal) = self.wait_out(&decider, &mut patience).await {
                    return Ruling::refused(refusal);
                }
                let ruling = decider.ask(&question).wait().await;
                let Ruling::Admitted(admission) = &ruling else { return ruling };
                if !self.holds(&*decider) {
                    return ruling;
                }
                // Another request has started a hold. The units taken now are given back, so that the requests that
                // wait are not all sent together when the hold ends.
                decider.give_back(&question, &admission.took).wait().await;
            }
        })
    }

    fn holds(&self, decider: &dyn Decider) -> bool {
        !self.holds.left(&self.key, decider.now()).is_zero()
    }

    /// Waits until the hold ends, and again if the hold was prolonged.
    async fn wait_out(
        &self,
        decider: &Arc<dyn Decider>,
        patience: &mut Micros,
    ) -> Result<(), Refusal> {
        loop {
            let left = self.holds.left(&self.key, decider.now());
            if left.is_zero() {
                return Ok(());
            }
            if left > *patience {
                return Err(Refusal::for_now(Reason::Held, left));
            }
            // Counted before the pause: a hold that grows during it uses up the same patience.
            *patience = Micros::from_micros(patience.as_micros() - left.as_micros());
            decider.clone().sleep_until(decider.now().plus(left)).await;
        }
    }

    /// Notes the pause that a response asks for.
    pub(super) fn note<B>(&self, response: &Response<B>, decider: &dyn Decider) {
        let now = decider.now();
        if let Some(wait) = retry_after::asked(response, now) {
            self.holds.note(&self.key, wait, now);
        }
    }
}

/// The instants until which keys (hosts, by default) are held.
#[derive(Debug)]
struct Holds {
    most_keys: usize,
    most: Micros,
    book: Mutex<HoldsByHost>,
}

#[derive(Debug, Default)]
struct HoldsByHost {
    until: HashMap<String, Timestamp>,
    /// A hold of all keys, for holds that have no room of their own, so that no host is asked too
    /// early.
    everyone: Timestamp,
}

impl Holds {
    /// Keeps at most `most_keys` holds, none longer than `most`.
    fn new(most_keys: usize, most: Micros) -> Self {
        Self { most_keys, most, book: Mutex::default() }
    }

    /// Notes that `key` asked for a pause of `wait` at `now`. A hold never becomes shorter.
    fn note(&self, key: &str, wait: Micros, now: Timestamp) {
        let until = now.plus(wait.min(self.most));
        let mut book = self.book();
        if let Some(known) = book.until.get_mut(key) {
            *known = until.max(*known);
            return;
        }
        // Holds that are over are dropped only when their places are needed.
        if book.until.len() >= self.most_keys {
            book.until.retain(|_, until| *until > now);
        }
        if book.until.len() < self.most_keys {
            book.until.insert(key.to_owned(), until);
        } else {
            book.everyone = until.max(book.everyone);
        }
    }

    /// The remaining hold of `key`; zero if a request may be sent.
    fn left(&self, key: &str, now: Timestamp) -> Micros {
        let book = self.book();
        let until = book.until.get(key).copied().unwrap_or_default().max(book.everyone);
        until.since(now)
    }

    /// Code that may panic never runs under this lock.
    fn book(&self) -> MutexGuard<'_, HoldsByHost> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(s: u64) -> Timestamp {
        Timestamp::from_micros(s * 1_000_000)
    }

    const fn secs(s: u64) -> Micros {
        Micros::from_secs(s)
    }

    #[test]
    fn a_hold_ends_and_never_becomes_shorter() {
        let holds = Holds::new(10, secs(60));
        assert_eq!(holds.left("a", at(0)), Micros::ZERO);
        holds.note("a", secs(10), at(100));
        holds.note("a", secs(2), at(101));
        assert_eq!(holds.left("a", at(103)), secs(7));
        assert_eq!(holds.left("a", at(110)), Micros::ZERO);
        assert_eq!(holds.left("b", at(103)), Micros::ZERO);
    }

    #[test]
    fn a_hold_is_bounded() {
        let holds = Holds::new(10, secs(60));
        holds.note("a", Micros::MAX, at(100));
        assert_eq!(holds.left("a", at(100)), secs(60));
    }

    #[test]
    fn holds_that_have_no_space_hold_all_and_old_ones_make_space() {
        let holds = Holds::new(2, secs(60));
        holds.note("a", secs(5), at(0));
        holds.note("b", secs(50), at(0));
        holds.note("c", secs(3), at(1));
        assert_eq!(holds.left("c", at(1)), secs(3));
        assert_eq!(holds.left("d", at(1)), secs(3));
        holds.note("e", secs(9), at(6));
        assert_eq!(holds.left("e", at(6)), secs(9));
        assert_eq!(holds.left("d", at(6)), Micros::ZERO);
    }
}
