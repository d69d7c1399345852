//! Fallback: decisions without the store, by this node's share of each limit.

mod decide;
mod local;
mod reported;
mod share;

use std::sync::Arc;

use crate::clock::Clock;
use crate::layers::Layer;
use crate::step::Standing;
use crate::store::{
    GaveUp, Generation, KeyAsk, LimiterReply, StepArgs, StepReply, Store, Verb, at_places,
    is_report,
};
pub(crate) use local::Local;

/// Decides in place of the store `inner` while it does not.
#[derive(Clone, Debug)]
pub(crate) struct Fallback<S> {
    pub(crate) inner: S,
    generation: Arc<Generation>,
    pub(crate) local: Arc<Local>,
}

impl<S: Layer> Fallback<S> {
    pub(crate) const fn new(inner: S, generation: Arc<Generation>, local: Arc<Local>) -> Self {
        Self { inner, generation, local }
    }

    /// Decides in this process, because the store gave up. An admitted request owns the units that a late reply took.
    fn decide(&self, asks: &[KeyAsk], args: StepArgs<'_>, gave_up: GaveUp) -> StepReply {
        let GaveUp { error, mut covered, late } = gave_up;
        let rest: Vec<_> =
            (0..asks.len()).filter(|place| !matches!(covered.get(*place), Some(Some(_)))).collect();
        let of_rest = at_places(asks, &rest);
        let store_knows =
            (|rule: &_| self.inner.can_hold(rule), |ask: &KeyAsk| self.inner.lasts(ask));
        let verb = if args.or_ask { Verb::Ask } else { args.verb };
        let id = args.origin.id;
        let (done, standing) =
            self.local.decide(&self.generation, &of_rest, verb, id, &error, store_knows);
        if done.allowed && verb == Verb::Ask {
            late.keep();
            if !covered.is_empty() {
                // The decision took the rest from this node's limiters. Units that were held count there too.
                self.local.learn(&self.generation.policy, asks, |place| !rest.contains(&place));
            }
        } else if !covered.is_empty() {
            // The units that were held can be spent again.
            drop(late);
            let released = self.inner.covered(asks);
            let released = covered.iter_mut().zip(released).filter(|(held, _)| held.is_some());
            released.for_each(|(held, now)| *held = now.or(held.take()));
        }
        let mut reply = StepReply::nothing(asks.len(), done.at);
        reply.allowed = done.allowed;
        reply.repeated = done.repeated;
        reply.standing = standing;
        reply.put_decided(rest, done.decisions);
        reply.put_decided(0.., covered);
        reply
    }

    /// Keeps a reply for when the store does not decide: admissions, denials, and the units left.
    fn learn(&self, asks: &[KeyAsk], reply: &StepReply) {
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

    /// Settles in this process the requests that it decided in place of the store.
    fn settle(&self, asks: &[KeyAsk], args: StepArgs<'_>, standing: Standing) -> StepReply {
        let policy = &self.generation.policy;
        let all = asks.iter().cloned().zip(args.actual.iter().copied()).collect();
        let (settled, done) = self.local.settle(policy, all);
        let mut reply = StepReply::nothing(asks.len(), done.at);
        reply.standing = standing;
        for (ask, decided) in settled.iter().zip(done.decisions) {
            let place = asks.iter().position(|one| one.is_of(ask) && one.by == ask.by);
            reply.put_all(place, [Some(LimiterReply::of_layer(decided))]);
        }
        reply
    }
}

impl<S: Layer> Store for Fallback<S> {
    async fn step(&self, asks: &[KeyAsk], args: StepArgs<'_>) -> Result<StepReply, GaveUp> {
        // The request was decided without the store, which does not have its units.
        if let Some(lack) = args.lack {
            let standing = Standing::Degraded(lack);
            if args.verb == Verb::Settle {
                return Ok(self.settle(asks, args, standing));
            }
            let mut reply = StepReply::nothing(asks.len(), self.local.clock.now());
            reply.standing = standing;
            reply.allowed = self.local.renew(&self.generation.policy, asks);
            return Ok(reply);
        }
        if args.verb == Verb::Reset {
            self.local.forget(&self.generation, asks);
        }
        match (self.inner.step(asks, args).await, args.verb) {
            (Ok(reply), Verb::Ask) => {
                self.learn(asks, &reply);
                Ok(reply)
            }
            (settled, Verb::Settle) => {
                // After an error it is not known if units were given back.
                self.local.forget_denials(&self.generation, asks);
                settled
            }
            (Err(gave_up), Verb::Ask | Verb::Peek) => Ok(self.decide(asks, args, gave_up)),
            (replied, _) => replied,
        }
    }

    fn under(&self, generation: &Arc<Generation>) -> Self {
        let inner = self.inner.under(generation);
        Self { inner, generation: Arc::clone(generation), local: Arc::clone(&self.local) }
    }

    pass_inward!(undo leases store counts);
}

impl<S: Layer> Layer for Fallback<S> {
    fn step_now(&self, asks: &[KeyAsk], args: StepArgs<'_>) -> Option<StepReply> {
        let reply = self.inner.step_now(asks, args)?;
        self.learn(asks, &reply);
        Some(reply)
    }

    fn decides_now(&self) -> bool {
        self.inner.decides_now()
    }

    pass_inward!(ahead);
}

#[cfg(test)]
mod tests;
