//! Denials: requests that are refused here because the store has just denied them, and the events that end this.

mod memory;

use std::sync::Arc;

use crate::clock::Clock;
use crate::inline_list::InlineList;
use crate::step::Done;
use crate::store::memory::Generation;
use crate::store::{GaveUp, KeyAsk, Layer, StepArgs, StepReply, Store, Verb};
pub(crate) use memory::DenialMemory;

/// Called for each request that is refused without the store `inner`.
pub(crate) type OnDenied = Arc<dyn Fn() + Send + Sync>;

/// Repeats the latest denials of the store `inner`. It comes before leases, so that a refusal holds no leased unit.
#[derive(Clone)]
pub(crate) struct Denials<S> {
    pub(crate) inner: S,
    generation: Arc<Generation>,
    /// `None` if the settings turn it off.
    memory: Option<Arc<DenialMemory>>,
    on_denied: OnDenied,
}

impl<S: Layer> Denials<S> {
    pub(crate) fn new(
        inner: S,
        generation: Arc<Generation>,
        memory: Option<Arc<DenialMemory>>,
        on_denied: OnDenied,
    ) -> Self {
        Self { inner, generation, memory, on_denied }
    }

    /// Refuses a request that the store would refuse, by its latest reports about limiters that have too few units
    /// taken ahead; `None` if nothing is known, or if the request has an id, for which an answer may be remembered.
    fn refuse(&self, asks: &[KeyAsk], args: StepArgs<'_>) -> Option<StepReply> {
        let memory = self.memory.as_ref().filter(|_| args.origin.id.is_none())?;
        let now = self.inner.host().now();
        if !memory.has_any(now) {
            return None;
        }
        let covered = self.inner.covered(asks);
        let places: InlineList<_> =
            (0..asks.len()).filter(|place| !matches!(covered.get(*place), Some(Some(_)))).collect();
        let rest: InlineList<_> = places.iter().filter_map(|place| asks.get(*place)).collect();
        let Done { at, decisions, .. } = memory.refuse(&self.generation, &rest, now)?;
        (self.on_denied)();
        let mut refused = StepReply { allowed: false, ..StepReply::nothing(asks.len(), at) };
        refused.put_decided(0.., covered);
        refused.put_decided(places, decisions);
        Some(refused)
    }

    fn forget(&self, asks: &[KeyAsk]) {
        if let Some(memory) = &self.memory {
            memory.forget(asks, self.inner.host().now());
        }
    }
}

impl<S: Layer> Store for Denials<S> {
    async fn step(&self, asks: &[KeyAsk], args: StepArgs<'_>) -> Result<StepReply, GaveUp> {
        let Some(memory) = &self.memory else { return self.inner.step(asks, args).await };
        match args.verb {
            Verb::Ask => {}
            Verb::Settle | Verb::Reset => {
                let settled = self.inner.step(asks, args).await;
                // After an error it is not known if units were given back.
                self.forget(asks);
                return settled;
            }
            _ => return self.inner.step(asks, args).await,
        }
        if !args.is_queued
            && let Some(refused) = self.refuse(asks, args)
        {
            return Ok(refused);
        }
        let sent = self.inner.host().now();
        let reply = self.inner.step(asks, args).await?;
        if !reply.allowed && !reply.repeated {
            let times = (sent, self.inner.host().now());
            memory.note(&self.generation, asks, times, reply.now, |place| {
                reply.own_under_own_values(place)
            });
        }
        Ok(reply)
    }

    fn under(&self, generation: &Arc<Generation>) -> Self {
        let inner = self.inner.under(generation);
        Self { inner, generation: Arc::clone(generation), ..self.clone() }
    }

    pass_inward!(undo leases store);
}

impl<S: Layer> Layer for Denials<S> {
    fn step_now(&self, asks: &[KeyAsk], args: StepArgs<'_>) -> Option<StepReply> {
        self.inner.step_now(asks, args).or_else(|| self.refuse(asks, args))
    }

    fn decides_now(&self) -> bool {
        self.inner.decides_now()
            || self.memory.as_ref().is_some_and(|memory| memory.has_any(self.inner.host().now()))
    }

    pass_inward!(ahead);
}

impl<S: std::fmt::Debug> std::fmt::Debug for Denials<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { inner, memory, .. } = self;
        f.debug_struct("Denials")
            .field("inner", inner)
            .field("memory", memory)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
