//! Keeps the store's replies for when it does not decide.

use tidegate_core::Decision;

use super::store::is_report;
use super::{KeyAsk, SharedGate};
use crate::store::memory::Generation;
use crate::store::redis::StoreError;
use crate::store::redis::script::{self, Seen};

impl SharedGate {
    /// Keeps a reply of the store for when it does not decide.
    pub(super) fn learnt(
        &self,
        generation: &Generation,
        asks: &[KeyAsk],
        done: Result<script::Decided, StoreError>,
    ) -> Result<script::Decided, StoreError> {
        if let Ok(done) = &done
            && !done.repeated
        {
            let own = |place| done.seen.get(place).is_none_or(|seen: &Seen| !seen.overflow);
            let decision_of = |place| done.decisions.get(place).copied().filter(|_| own(place));
            self.learn(generation, asks, done.allowed, decision_of);
        }
        done
    }

    pub(super) fn learn(
        &self,
        generation: &Generation,
        asks: &[KeyAsk],
        allowed: bool,
        decision_of: impl Fn(usize) -> Option<Decision>,
    ) {
        if allowed || is_report(asks) {
            let admits =
                |place| decision_of(place).is_some_and(|decision: Decision| decision.is_allowed());
            self.fallback.learn(&generation.policy, asks, admits);
        }
        if !allowed {
            self.fallback.learn_denials(generation, asks, &decision_of);
        }
        self.fallback.learn_left(generation, asks, decision_of);
    }
}
