//! Limiters in a store, asked by so many at a time; who comes later stands in a line before the store.
//!
//! The store answers so many questions at once and degrades what comes beyond them. One client's flood must
//! not do that to others, so questions wait here, in the order they came, and the time the store is given
//! begins when it is really asked.

use std::time::Duration;

use tidegate::{Answer, Decision, Policy, Request, Rule, SharedGate, StoreError, StoreSettings};
use tokio::sync::Semaphore;
use tokio::time::timeout;

/// Longest that a question keeps its place: one that has not ended then waits for a limiter, not for the
/// store, or the store hangs.
const LONGEST: Duration = Duration::from_secs(1);

/// How many questions are put to the store at once, and how long each of them counts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    at_once: usize,
    each: Duration,
}

impl Bounds {
    /// Three quarters of what the store may have under way: the rest is for operators, and for what is
    /// given back because its client went away.
    pub(super) fn of(store: &StoreSettings) -> Self {
        let each = Duration::from_micros(store.timeout.as_micros()).min(LONGEST);
        Self { at_once: (store.max_in_flight - store.max_in_flight / 4).max(1), each }
    }
}

/// A gate over a store, and the line before it.
#[derive(Debug)]
pub(crate) struct Shared {
    gate: SharedGate,
    places: Semaphore,
    each: Duration,
}

impl Shared {
    pub(super) fn new(gate: SharedGate, bounds: Bounds) -> Self {
        Self { gate, places: Semaphore::new(bounds.at_once), each: bounds.each }
    }

    pub(super) fn policy(&self) -> &Policy {
        self.gate.policy()
    }

    pub(super) async fn connected(&self) -> Result<(), StoreError> {
        self.gate.connected().await
    }

    pub(super) async fn leave(&self) -> Result<(), StoreError> {
        self.gate.leave().await
    }

    pub(super) async fn check_in_turn(&self, request: &Request<'_>) -> Answer<'_> {
        self.in_line(self.gate.check_in_turn(request)).await
    }

    pub(super) async fn peek(&self, request: &Request<'_>) -> Answer<'_> {
        self.in_line(self.gate.peek(request)).await
    }

    pub(super) async fn refund(&self, request: &Request<'_>) -> Result<Answer<'_>, StoreError> {
        self.in_line(self.gate.refund(request)).await
    }

    /// Operators do not stand in the line.
    pub(super) async fn reset(&self, request: &Request<'_>) -> Result<usize, StoreError> {
        self.gate.reset(request).await
    }

    /// Decides under a rule that the call brings.
    ///
    /// # Errors
    /// The store did not answer.
    pub(crate) async fn check_under(
        &self,
        namespace: &str,
        key: &[u8],
        rule: &Rule,
        cost: u64,
    ) -> Result<Decision, StoreError> {
        self.in_line(self.gate.check_under(namespace, key, rule, cost)).await
    }

    /// Puts a question once it has a place, and gives the place back when the store has answered; or, if
    /// it then waits for a limiter, when its part of the time is over.
    async fn in_line<T>(&self, question: impl Future<Output = T>) -> T {
        // Nobody closes the semaphore; and a question without a place is better than none.
        let place = self.places.acquire().await;
        let mut question = std::pin::pin!(question);
        let told = timeout(self.each, question.as_mut()).await;
        drop(place);
        match told {
            Ok(told) => told,
            Err(_) => question.await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate::Micros;

    #[test]
    fn a_part_of_what_the_store_takes_is_asked_at_once_and_never_nothing() {
        let bounds = |max_in_flight| {
            let mut store = StoreSettings::new("redis://127.0.0.1".parse().unwrap());
            (store.max_in_flight, store.timeout) = (max_in_flight, Micros::from_secs(60));
            Bounds::of(&store)
        };
        assert_eq!([1, 2, 4, 4096].map(|most| bounds(most).at_once), [1, 2, 3, 3072]);
        assert_eq!(bounds(1).each, LONGEST);
    }
}
