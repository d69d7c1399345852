//! Requests that are refused here, because the store has just denied them, and what ends that.

use std::sync::atomic::Ordering::Relaxed;

use tidegate_core::{Decision, Timestamp};

use super::store::Store;
use super::{KeyAsk, SharedGate};
use crate::answer::Answer;
use crate::clock::Clock;
use crate::request::Origin;
use crate::step::Done;
use crate::store::redis::script::{self, Seen};

impl SharedGate {
    /// Refuses a request that the store would refuse by what it has just reported, unless nothing is known or the
    /// request has an id, for which an answer may be remembered. Nobody may wait for its limiters in this process.
    pub(super) fn denied_again(
        &self,
        store: &Store,
        asks: &[KeyAsk],
        origin: Origin<'_>,
    ) -> Option<Answer<'_>> {
        let memory = store.denial_memory.as_ref().filter(|_| origin.id.is_none())?;
        let done = memory.refuse(&store.generation, asks, store.clock.now())?;
        self.client.counts().denied_again.fetch_add(1, Relaxed);
        Some(store.exact(asks, done))
    }
}

impl Store {
    /// Notes a refusal of the store for a request that was sent at `sent`.
    pub(super) fn note_denial(&self, asks: &[KeyAsk], sent: Timestamp, done: &script::Decided) {
        if done.allowed || done.repeated {
            return;
        }
        let own = |seen: &&Seen| !seen.overflow && seen.newer.is_none();
        let own = |place| done.seen.get(place).filter(own).is_some();
        let decision_of = |place| done.decisions.get(place).copied().filter(|_| own(place));
        self.note_refusal(asks, sent, done.now, decision_of);
    }

    /// Notes a refusal over several slots, for a request that was sent at `sent`.
    pub(super) fn note_denial_across(
        &self,
        asks: &[KeyAsk],
        sent: Timestamp,
        done: &Done<Option<crate::step::Decided>>,
    ) {
        if done.allowed {
            return;
        }
        let decision_of = |place: usize| {
            let one = done.decisions.get(place)?.as_ref();
            one.filter(|one| !one.overflow && one.values.is_none()).map(|one| one.decision)
        };
        self.note_refusal(asks, sent, done.at, decision_of);
    }

    fn note_refusal(
        &self,
        asks: &[KeyAsk],
        sent: Timestamp,
        at: Timestamp,
        decision_of: impl Fn(usize) -> Option<Decision>,
    ) {
        if let Some(memory) = &self.denial_memory {
            memory.note(&self.generation, asks, (sent, self.clock.now()), at, decision_of);
        }
    }

    /// Forgets what the store has just denied of these limiters, because units were given back.
    pub(super) fn forget_denials<'m>(&self, asks: impl IntoIterator<Item = &'m KeyAsk>) {
        if let Some(memory) = &self.denial_memory {
            memory.forget(asks, self.clock.now());
        }
    }
}
