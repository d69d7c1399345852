//! The permits that a request holds at a gate: they are returned when its response is over, or it is dropped.

use std::fmt;
use std::sync::Arc;

use super::entries::LayerQuestion;
use crate::answer::Answer;
use crate::clock::{Clock, Timer};
use crate::frontend::Taken;
use crate::gate::Gate;
use crate::limiter::KeyedLimiter;
#[cfg(feature = "redis")]
use crate::request::Request;
#[cfg(feature = "redis")]
use crate::shared::SharedGate;
use crate::step::Step;
#[cfg(feature = "redis")]
use crate::store::Store;

/// A gate or a limiter that permits are returned to.
pub(super) trait Returns: Clone + Send + Sync + 'static {
    /// Returns the permits that a request took.
    fn give_back(&self, question: &LayerQuestion<'_>, permits: &Taken);
}

impl<C: Timer + 'static> Returns for Arc<Gate<C>> {
    fn give_back(&self, question: &LayerQuestion<'_>, permits: &Taken) {
        question.ask(|request| drop(self.settle(request, permits, &[0])));
    }
}

impl<C: Clock + 'static> Returns for Arc<KeyedLimiter<C>> {
    fn give_back(&self, question: &LayerQuestion<'_>, permits: &Taken) {
        if let Some((key, cost)) = question.caller() {
            let token = permits.tokens().next();
            self.call_of(&key, cost).step(Step::Settle { actual: 0, token, since: None });
        }
    }
}

/// The store is asked after the response. If it does not reply, the permits end by themselves.
#[cfg(feature = "redis")]
impl<S: Store> Returns for Arc<SharedGate<S>> {
    fn give_back(&self, question: &LayerQuestion<'_>, permits: &Taken) {
        let gate = Self::clone(self);
        let question = question.to_owned();
        let permits = permits.clone();
        self.host().spawn(async move {
            let pairs = question.pairs();
            let descriptors = question.descriptors(&pairs);
            let request = Request::new(question.domain(), &descriptors);
            let _ = gate.settle(request, &permits, &[0]).await;
        });
    }
}

/// Permits that are returned when this is dropped.
pub(super) struct HeldPermits(
    #[expect(dead_code, reason = "it is there to be dropped")] Box<dyn Send + Sync>,
);

impl HeldPermits {
    /// The permits of an admitted request, if it took any.
    #[inline]
    pub(super) fn of(
        answer: &Answer<'_>,
        question: &LayerQuestion<'_>,
        gate: &impl Returns,
    ) -> Option<Self> {
        if answer.replies.iter().all(|one| one.token.is_none()) {
            return None;
        }
        let permits = Taken::from(answer).only_permits();
        let gate = gate.clone();
        let question = question.to_owned();
        Some(Self(Box::new(Returning { gate, question, permits })))
    }
}

impl fmt::Debug for HeldPermits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HeldPermits")
    }
}

struct Returning<G: Returns> {
    gate: G,
    question: LayerQuestion<'static>,
    permits: Taken,
}

impl<G: Returns> Drop for Returning<G> {
    fn drop(&mut self) {
        self.gate.give_back(&self.question, &self.permits);
    }
}
