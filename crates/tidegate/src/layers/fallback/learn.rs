//! Keeps the store's replies for when it does not decide.

use super::Fallback;
use crate::store::{KeyAsk, Layer, StepReply, is_report};

impl<S: Layer> Fallback<S> {
    /// Keeps a reply for when the store does not decide: admissions, denials, and the units left.
    pub(super) fn learn(&self, asks: &[KeyAsk], reply: &StepReply) {
        if reply.repeated {
            return;
        }
        let Self { local, generation, .. } = self;
        if reply.allowed || is_report(asks) {
            local.learn(&generation.policy, asks, |place| {
                let one = reply.replies.get(place).and_then(Option::as_ref);
                one.is_some_and(|one| {
                    // Of a request that is refused, units taken ahead were released.
                    (reply.allowed || one.by_store)
                        && !one.decided.overflow
                        && one.decided.decision.is_allowed()
                })
            });
        }
        if !reply.allowed {
            local.learn_denials(generation, asks, |place| reply.own(place));
        }
        local.learn_left(generation, asks, |place| reply.own(place));
    }
}
