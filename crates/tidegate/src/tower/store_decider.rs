//! The use of a gate over a shared store by a layer.

use std::sync::Arc;
use std::time::Duration;

use tidegate_core::{Micros, Timestamp};
use tokio::time::sleep;

use super::charging::at_no_cost;
use super::decider::{Decider, Later, Ruling, Soon};
use super::entries::LayerQuestion;
use super::fields::LimitFields;
use crate::frontend::Taken;
use crate::request::Request;
use crate::rules::Policy;
use crate::shared::SharedGate;
use crate::store::Store;

/// Uses a gate over a store.
pub(super) struct StoreDecider<S: Store> {
    gate: Arc<SharedGate<S>>,
    /// True if a request may wait in a queue if its rules say so.
    waits: bool,
}

impl<S: Store> StoreDecider<S> {
    pub(super) const fn new(gate: Arc<SharedGate<S>>, waits: bool) -> Self {
        Self { gate, waits }
    }
}

/// Decides, and holds an admitted request for its delay.
async fn check<S: Store>(
    gate: &Arc<SharedGate<S>>,
    request: &Request<'_>,
    question: &LayerQuestion<'_>,
) -> Ruling {
    let (ruling, delay) = {
        let answer = gate.check(request).await;
        (Ruling::of(&answer, question, None, gate), answer.delay_micros())
    };
    pause(delay).await;
    ruling
}

impl<S: Store> Decider for StoreDecider<S> {
    fn ask(&self, question: &LayerQuestion<'_>) -> Soon<Ruling> {
        if question.lacks_address_for(|name| self.gate.policy().looks_at(question.domain(), name)) {
            return Soon::Now(Ruling::without_address());
        }
        let gate = Arc::clone(&self.gate);
        let question = question.to_owned();
        let waits = self.waits;
        Soon::Later(Box::pin(async move {
            let pairs = question.pairs();
            let descriptors = question.descriptors(&pairs);
            let request = Request::new(question.domain(), &descriptors);
            let request = if question.may_settle { request.reserving() } else { request };
            if waits {
                Ruling::of(&gate.acquire(&request).await, &question, None, &gate)
            } else {
                check(&gate, &request, &question).await
            }
        }))
    }

    fn refund(&self, question: &LayerQuestion<'_>, took: &Taken) -> Soon<()> {
        let gate = Arc::clone(&self.gate);
        let question = question.to_owned();
        let took = took.clone();
        Soon::Later(Box::pin(async move {
            let pairs = question.pairs();
            let descriptors = question.descriptors(&pairs);
            give_back(&gate, &Request::new(question.domain(), &descriptors), &took).await;
        }))
    }

    fn release(&self, question: &LayerQuestion<'_>, took: &Taken) -> Soon<LimitFields> {
        let gate = Arc::clone(&self.gate);
        let question = question.to_owned();
        let took = took.clone();
        Soon::Later(Box::pin(async move {
            let pairs = question.pairs();
            let descriptors = question.descriptors(&pairs);
            let request = Request::new(question.domain(), &descriptors);
            give_back(&gate, &request, &took).await;
            let free = at_no_cost(&request);
            let request = Request::new(request.domain(), &free);
            LimitFields::of(&gate.peek(&request).await, question.shown, None)
        }))
    }

    fn now(&self) -> Timestamp {
        self.gate.now()
    }

    fn policy(&self) -> Option<Arc<Policy>> {
        Some(self.gate.policy())
    }

    fn pause(self: Arc<Self>, wait: Micros) -> Later<()> {
        Box::pin(pause(wait))
    }
}

/// Gives back the units of a request. Units that the store does not give back stay taken, because
/// no caller can do anything about it.
async fn give_back<S: Store>(gate: &SharedGate<S>, request: &Request<'_>, taken: &Taken) {
    let _ = gate.settle(request, taken, &[0]).await;
}

async fn pause(wait: Micros) {
    if !wait.is_zero() {
        sleep(Duration::from_micros(wait.as_micros())).await;
    }
}
