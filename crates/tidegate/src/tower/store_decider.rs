//! The decisions of a tower layer that asks a gate over a shared store.
//!
//! `any.rs` makes it of a `SharedGate`. `GateDecider` does the same for a gate in memory.

use std::sync::Arc;
use std::time::Duration;

use tidegate_core::{Micros, Timestamp};
use tokio::time::sleep;

use super::decider::{Decider, Later, Ruling, Soon, at_no_cost};
use super::entries::LayerQuestion;
use super::fields::LimitFields;
use crate::frontend::Taken;
use crate::headers::FieldSet;
use crate::request::Request;
use crate::rules::{Policy, PolicyInternals as _};
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

    fn clone(&self) -> Self {
        Self::new(Arc::clone(&self.gate), self.waits)
    }

    /// Decides; an admitted request that does not wait in a queue is held for its delay.
    async fn decide(&self, request: &Request<'_>, question: &LayerQuestion<'_>) -> Ruling {
        if self.waits {
            return Ruling::of(&self.gate.acquire(request).await, question, None, self);
        }
        // The answer ends before the pause: a request that is held needs only its ruling.
        let (ruling, delay) = {
            let answer = self.gate.check(request).await;
            (Ruling::of(&answer, question, None, self), answer.delay_micros())
        };
        pause(delay).await;
        ruling
    }

    /// Gives back all units that a request took, and returns the fields that the response shows then. If the store
    /// fails, the units stay taken: no caller can do anything about it.
    async fn settle(&self, request: &Request<'_>, took: &Taken, shown: FieldSet) -> LimitFields {
        let _ = self.gate.settle(request, took, &[0]).await;
        if shown.is_empty() {
            return LimitFields::None;
        }
        let free = at_no_cost(request);
        let request = Request::new(request.domain(), &free);
        LimitFields::of(&self.gate.peek(&request).await, shown, None)
    }
}

impl<S: Store> Decider for StoreDecider<S> {
    fn ask(&self, question: &LayerQuestion<'_>) -> Soon<Ruling> {
        if question.lacks_address_for(|name| self.gate.policy().looks_at(question.domain(), name)) {
            return Soon::Now(Ruling::without_address());
        }
        let this = self.clone();
        let question = question.to_owned();
        Soon::Later(Box::pin(async move {
            question.ask_later(async |request| this.decide(request, &question).await).await
        }))
    }

    fn give_back(&self, question: &LayerQuestion<'_>, took: &Taken) -> Soon<LimitFields> {
        let this = self.clone();
        let question = question.to_owned();
        let took = took.clone();
        Soon::Later(Box::pin(async move {
            let shown = question.shown;
            question.ask_later(async |request| this.settle(request, &took, shown).await).await
        }))
    }

    /// The store is asked after the response. If it does not reply, the permits end by themselves.
    fn return_permits(&self, question: &LayerQuestion<'_>, permits: &Taken) {
        self.gate.host().spawn(self.give_back(question, permits).wait());
    }

    fn handle(&self) -> Arc<dyn Decider> {
        Arc::new(self.clone())
    }

    fn now(&self) -> Timestamp {
        self.gate.now()
    }

    fn policy(&self) -> Option<Arc<Policy>> {
        Some(self.gate.policy())
    }

    fn sleep_until(self: Arc<Self>, at: Timestamp) -> Later<()> {
        Box::pin(pause(at.since(self.gate.now())))
    }
}

async fn pause(wait: Micros) {
    if !wait.is_zero() {
        sleep(Duration::from_micros(wait.as_micros())).await;
    }
}
