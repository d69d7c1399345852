//! A policy in force, the store under it, and the answers of both. Each answer keeps that policy.

use std::sync::Arc;

use crate::answer::{Answer, Rules};
use crate::frontend;
use crate::layers::{AcrossSlots, Leases, Tower};
use crate::request::Origin;
use crate::step::{Decided, Done, Standing};
use crate::store::memory::{Generation, Kept};
use crate::store::{KeyAsk, Layer, LimiterReply, StepArgs, StepReply, Store, Verb};

/// A policy, and the store under it. A request that starts with it is decided under that policy, even if another policy
/// is put in force before it ends.
#[derive(Debug)]
pub(super) struct InForce<S> {
    pub(super) generation: Arc<Generation>,
    pub(super) tower: Tower<S>,
}

impl<S> InForce<S> {
    pub(super) const fn leases(&self) -> &Leases<AcrossSlots<S>> {
        &self.tower.inner.inner
    }

    pub(super) const fn innermost(&self) -> &S {
        &self.leases().inner.inner
    }
}

impl<S: Store> InForce<S> {
    /// A step of the tower, until its deadline.
    pub(super) fn args<'a>(&self, verb: Verb, origin: Origin<'a>) -> StepArgs<'a> {
        StepArgs::new(verb, origin, self.tower.host().deadline())
    }

    /// Makes the answer from the reply to a step.
    pub(super) fn answer<'g>(&self, asks: &[KeyAsk], reply: StepReply) -> Answer<'g> {
        let StepReply { allowed, now, repeated, first, standing, replies, .. } = reply;
        let done = Done { allowed, at: now, repeated, decisions: replies };
        let mut answer = self.answer_with(asks, done, standing);
        answer.first = first.map(Box::new);
        for reply in answer.replies.iter_mut().filter(|reply| reply.reserves) {
            let own =
                asks.iter().find(|ask| (ask.rule, ask.by) == (reply.number as usize, reply.by));
            // No reservation is closed there when its rule has leases no more.
            reply.reserves = !own.is_some_and(|ask| self.tower.has_leases(ask));
        }
        if answer.is_unavailable() {
            // Nothing was taken, so the usage may be reported again.
            answer.replies.iter_mut().for_each(|one| one.report = false);
        }
        answer
    }

    /// Makes the answer from decisions.
    pub(super) fn answer_with<'g, D: frontend::MayDecide>(
        &self,
        asks: &[KeyAsk],
        done: Done<D>,
        standing: Standing,
    ) -> Answer<'g> {
        let rules = Rules::Kept(Kept::from(Arc::clone(&self.generation)));
        frontend::answer(rules, asks, done, standing)
    }
}

impl frontend::MayDecide for Option<LimiterReply> {
    fn decided(&mut self) -> Option<&mut Decided> {
        self.as_mut().map(|reply| &mut reply.decided)
    }
}
