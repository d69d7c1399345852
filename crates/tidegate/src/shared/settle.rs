//! Gives back, settles and resets over a store.

use std::slice;

use tidegate_core::Settled;
use tokio::time::Instant;

use super::plans::ToSettle;
use super::store::{StepArgs, Store};
use super::{KeyAsk, SharedGate};
use crate::answer::{Answer, Reply, Standing};
use crate::frontend::Taken;
use crate::request::{Origin, Request};
use crate::store::redis::script::{Call, Step};
use crate::store::redis::{StoreError, lease_key};

impl Store {
    /// Replaces the replies of keys without room by those of their overflow limiters. Giving back does not count
    /// keys, and reports one without a limiter as idle; so idle limiters of rules with a cap are looked at. If
    /// the store does not reply to that, the answer stays as it is.
    async fn with_overflow<'g>(
        &self,
        asks: &[KeyAsk],
        mut answer: Answer<'g>,
        deadline: Instant,
    ) -> Answer<'g> {
        let may_lack_space = |one: &&KeyAsk| {
            let reply = answer.replies.iter().find(|reply| is_of(reply, one));
            matches!(self.counted.get(one.rule), Some(Some(_)))
                && reply.is_some_and(|reply| reply.decision.reset_after.is_zero())
        };
        let idle: Vec<_> = asks.iter().filter(may_lack_space).cloned().collect();
        if idle.is_empty() {
            return answer;
        }
        let costs = vec![0; idle.len()];
        let look = StepArgs { costs: &costs, ..StepArgs::new(Step::Peek, Origin::default()) };
        let Ok(seen) = self.answer_until(&idle, look, deadline).await else { return answer };
        for reply in answer.replies.iter_mut() {
            let own = idle.iter().find(|ask| is_of(reply, ask));
            let seen = own.and_then(|ask| seen.replies.iter().find(|seen| is_of(seen, ask)));
            if let Some(seen) = seen.filter(|seen| seen.overflow) {
                *reply = seen.clone();
            }
        }
        answer
    }
}

impl Store {
    /// Notes the surplus of limiters with leases that stays taken, because it is not known when it was taken.
    fn note_kept(&self, all: &ToSettle, answer: &mut Answer<'_>) {
        for (ask, actual) in all.asks.iter().zip(&all.actual) {
            let surplus = ask.cost.saturating_sub(*actual);
            if surplus > 0 && ask.since.is_none() && self.terms(ask).is_some() {
                let own = answer.replies.iter_mut().find(|reply| is_of(reply, ask));
                own.into_iter().for_each(|reply| reply.settled = Settled::Late(surplus));
            }
        }
    }
}

fn is_of(reply: &Reply, ask: &KeyAsk) -> bool {
    (reply.lineage, reply.by) == (ask.lineage, ask.by)
}

impl SharedGate {
    /// Gives the request's cost back to each of its limiters, to no fewer than none used, and returns their
    /// values after that. In a cluster each slot is a step of its own. A rule with leases
    /// ([`RuleSpec::lease`](crate::RuleSpec::lease)) gives nothing back, because leases rely on what is taken and nothing
    /// says when this was: it is [late](crate::Settled::Late).
    ///
    /// # Errors
    /// The store did not reply. Whether anything was given back is known only if nothing was sent.
    pub async fn refund<'r>(
        &self,
        request: impl Into<Request<'r>>,
    ) -> Result<Answer<'_>, StoreError> {
        self.settle_request(&request.into(), 0, false).await
    }

    /// Settles an admitted request whose costs were reserved: each of its descriptors turned out to cost
    /// `actual`. See [`Gate::settle`](crate::Gate::settle). A rule with leases gives nothing back, but takes more if
    /// `actual` is more; with [`SharedGate::settle_taken`] it gives back as well.
    ///
    /// # Errors
    /// The store did not reply. Whether anything was settled is known only if nothing was sent.
    pub async fn settle<'r>(
        &self,
        request: impl Into<Request<'r>>,
        actual: u64,
    ) -> Result<Answer<'_>, StoreError> {
        self.settle_request(&request.into(), actual, true).await
    }

    /// Settles a request with those of its limiters that took its cost, as [`Taken`] says: see
    /// [`Gate::settle_taken`](crate::Gate::settle_taken). A request that was admitted without the store is settled
    /// in this process, with the limiters that hold this node's share; the answer is then
    /// [degraded](Answer::is_degraded).
    ///
    /// # Errors
    /// The store did not reply. Whether anything was settled is known only if nothing was sent.
    pub async fn settle_taken<'r>(
        &self,
        request: impl Into<Request<'r>>,
        taken: &Taken,
        actual: &[u64],
    ) -> Result<Answer<'_>, StoreError> {
        self.settle_those(&request.into(), taken, actual).await
    }

    /// Makes each permit that a request took last its life from now, and returns whether all of them were still out:
    /// see [`Gate::renew_taken`](crate::Gate::renew_taken). In a cluster each slot is a step of its own.
    ///
    /// # Errors
    /// The store did not reply; the permits may end when they would have.
    pub async fn renew_taken<'r>(
        &self,
        request: impl Into<Request<'r>>,
        taken: &Taken,
    ) -> Result<bool, StoreError> {
        let store = self.newest();
        let all = self.all_asks(&store, &request.into());
        let Some(asks) = taken.permits_of(all) else { return Ok(false) };
        if taken.lack.is_some() {
            return Ok(self.fallback.renew(&store.generation.policy, &asks));
        }
        let renew = StepArgs::new(Step::Renew, Origin::default());
        let renewed = store.answer_until(&asks, renew, self.client.deadline()).await?;
        Ok(renewed.is_allowed())
    }

    /// Settles a request whose costs were `reserved`, or refunds it; compiled once, whatever the request is made of.
    async fn settle_request(
        &self,
        request: &Request<'_>,
        actual: u64,
        reserved: bool,
    ) -> Result<Answer<'_>, StoreError> {
        let (store, deadline) = (self.newest(), self.client.deadline());
        let all = ToSettle::of(self.asks_to_settle(&store, request, &[actual]), |_| None);
        let answer = self.settle_all(&store, &all, reserved, deadline).await?;
        Ok(store.with_overflow(&all.asks, answer, deadline).await)
    }

    /// Settles with the limiters that took the cost of a request; in this process, if the request was admitted without
    /// the store.
    ///
    /// # Errors
    /// The store did not reply.
    pub(crate) async fn settle_those(
        &self,
        request: &Request<'_>,
        taken: &Taken,
        actual: &[u64],
    ) -> Result<Answer<'_>, StoreError> {
        let store = self.newest();
        let all = self.asks_to_settle(&store, request, actual);
        let unreached = taken.unreached(request, actual, &all);
        let all = taken.of(all);
        let answer = match taken.lack {
            Some(lack) => {
                let (asks, done) = self.fallback.settle(&store.generation.policy, all);
                store.answer_with(&asks, done, Standing::Degraded(lack))
            }
            None => {
                let all = ToSettle::of(all, |ask| taken.under(ask));
                self.settle_all(&store, &all, true, self.client.deadline()).await?
            }
        };
        Ok(Answer { unreached, ..answer })
    }

    /// Settles, and also gives `reserved` units back to limiters that are unlimited now.
    async fn settle_all(
        &self,
        store: &Store,
        all: &ToSettle,
        reserved: bool,
        deadline: Instant,
    ) -> Result<Answer<'_>, StoreError> {
        let settle = StepArgs::settle(&all.actual, &all.under);
        let settled = store.answer_until(&all.asks, settle, deadline).await;
        // Whether units were given back is not known after an error.
        store.forget_denials(&all.asks);
        let mut answer = settled?;
        store.note_kept(all, &mut answer);
        self.fallback.forget_denials(&store.generation, &all.asks);
        store.wake(&all.asks);
        if reserved && !all.unlimited.is_empty() {
            let given_back = store.give_back_unlimited(&all.unlimited, deadline).await;
            store.forget_denials(all.unlimited.iter().map(|(_, ask)| ask));
            given_back
                .map_err(|error| if all.asks.is_empty() { error } else { error.in_part() })?;
            all.unlimited.iter().for_each(|(_, ask)| store.wake(slice::from_ref(ask)));
        }
        Ok(answer)
    }

    /// Resets every limiter of the request, in one atomic step, or in a cluster one for each slot, and returns
    /// their number. Nothing counts as used then: a bucket that begins with fewer tokens is full. Bans of their keys
    /// in this process are lifted first. Remembered answers stay: see [`Request::with_id`].
    ///
    /// # Errors
    /// The store did not reply. Whether they were reset is known only if nothing was sent.
    pub async fn reset<'r>(&self, request: impl Into<Request<'r>>) -> Result<usize, StoreError> {
        self.reset_request(&request.into()).await
    }

    /// Resets; compiled once, whatever the request is made of.
    async fn reset_request(&self, request: &Request<'_>) -> Result<usize, StoreError> {
        let store = self.newest();
        let asks = self.all_asks(&store, request);
        self.lift_bans(&asks);
        self.fallback.forget(&store.generation, &asks);
        // Before and after: the store may grant others meanwhile, before the reset.
        store.reset_leases(&asks);
        let deadline = self.client.deadline();
        self.create(&store, &asks, deadline).await?;
        let parts = store.parts(&asks);
        let mut slots: Vec<Vec<_>> = parts.iter().map(|part| part.keys(&asks)).collect();
        if slots.is_empty() && !asks.is_empty() {
            slots.push(asks.iter().map(|ask| ask.fingerprint.clone()).collect());
        }
        let mut done = Ok(());
        for keys in slots {
            let prefix = &self.settings().key_prefix;
            let records = keys.iter().map(|key| lease_key(prefix, key)).collect();
            let call = Call::reset(keys, records, None);
            let sent = self.client.run(&call.script, &call.keys, &call.args, deadline);
            done = sent.await.map(drop);
            if done.is_err() {
                break;
            }
        }
        store.forget_denials(&asks);
        store.reset_leases(&asks);
        done?;
        store.wake(&asks);
        Ok(asks.len())
    }

    /// Creates the limiters that would begin with units in use, so that a reset fills them.
    async fn create(
        &self,
        store: &Store,
        asks: &[KeyAsk],
        deadline: Instant,
    ) -> Result<(), StoreError> {
        for ask in asks.iter().filter(|ask| ask.begins_in_use(store.policy())) {
            let args = StepArgs::new(Step::Ask, Origin::default());
            store.step_until(&[ask.costing(0)], args, deadline).await?;
        }
        Ok(())
    }
}
