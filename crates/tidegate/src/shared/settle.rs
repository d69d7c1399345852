//! A cost that is settled after the decision over a store: units come back or are taken later, permits last longer,
//! limiters are reset.

use tokio::time::Instant;

use super::{InForce, SharedGate};
use crate::answer::Answer;
use crate::frontend::{Charge, Settling, Taken};
use crate::request::{Origin, Request};
use crate::step::Values;
use crate::store::{KeyAsk, StepArgs, StepReply, Store, StoreError, Verb};

impl<S: Store> InForce<S> {
    /// Replaces the replies of keys without room by the replies of their overflow limiters. Giving back does not count
    /// keys and reports a key without a limiter as idle, so idle limiters of rules with a cap are looked at. If the
    /// store does not reply to that, the reply stays as it is.
    async fn with_overflow(
        &self,
        asks: &[KeyAsk],
        mut reply: StepReply,
        deadline: Instant,
    ) -> StepReply {
        let rules = self.generation.policy.rules();
        let mut idle = Vec::new();
        let mut looked = Vec::new();
        for (place, (ask, reply)) in asks.iter().zip(&reply.replies).enumerate() {
            let has_cap = rules.get(ask.rule).is_some_and(|rule| rule.spec().max_keys.is_some());
            let decision = reply.as_ref().map(|one| one.decided.decision);
            if has_cap && decision.is_some_and(|decision| decision.reset_after.is_zero()) {
                // A limiter that the store does not have reads as idle, and so does one without space.
                idle.push(place);
                looked.push(ask.costing(0));
            }
        }
        if idle.is_empty() {
            return reply;
        }
        let seen = self.tower.step(&looked, StepArgs::peek(deadline)).await;
        let Ok(seen) = seen else { return reply };
        for (place, one) in idle.into_iter().zip(seen.replies) {
            let is_overflow = one.as_ref().is_some_and(|one| one.by_store && one.decided.overflow);
            if let Some(slot) = reply.replies.get_mut(place).filter(|_| is_overflow) {
                *slot = one;
            }
        }
        reply
    }
}

impl<S: Store> SharedGate<S> {
    /// Decides a request like [`SharedGate::check`], and takes its cost until it is known whether it counts,
    /// like [`Gate::hold`](crate::Gate::hold). While the store is unavailable each rule decides by its own
    /// [`OnStoreError`](crate::OnStoreError).
    ///
    /// ```no_run
    /// use tidegate::{Request, SharedGate, StoreError};
    ///
    /// async fn log_in(gate: &SharedGate, request: &Request<'_>) -> Result<&'static str, StoreError> {
    ///     let Ok(charge) = gate.hold(request).await else { return Ok("too many failed logins") };
    ///     # let is_right = true;
    ///     if is_right {
    ///         charge.release().await?;
    ///         return Ok("welcome");
    ///     }
    ///     charge.keep();
    ///     Ok("wrong password")
    /// }
    /// ```
    ///
    /// # Errors
    /// The answer that refuses; nothing is taken.
    pub async fn hold<'a>(
        &'a self,
        request: impl Into<Request<'a>>,
    ) -> Result<Charge<'a, Self>, Answer<'a>> {
        let request = request.into().reserving();
        Charge::of(self, request, self.check(request).await)
    }

    /// Gives the request's cost back to each of its limiters, to no fewer than none used. The answer reports
    /// their values after that, and is never a refusal. In a cluster each slot is a step of its own. A rule with leases
    /// ([`RuleSpec::lease`](crate::RuleSpec::lease)) gives nothing back, because leases rely on the taken units and
    /// nothing says when they were taken: it is [late](crate::Settled::Late).
    ///
    /// ```no_run
    /// # async fn example(gate: &tidegate::SharedGate) -> Result<(), tidegate::StoreError> {
    /// let answer = gate.refund(&[("user", "ada")]).await?;
    /// println!("{:?} units are left", answer.remaining());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The store did not reply. The units may have been given back, unless nothing was sent.
    pub async fn refund<'r>(
        &self,
        request: impl Into<Request<'r>>,
    ) -> Result<Answer<'_>, StoreError> {
        let in_force = self.newest();
        let asks = self.asks(&in_force, &request.into());
        let nothing = vec![0; asks.len()];
        let refund = StepArgs::settle(&nothing, &[], in_force.tower.host().deadline());
        let reply = self.settle_all(&in_force, &asks, refund).await?;
        Ok(in_force.answer(&asks, reply))
    }

    /// Settles an admitted request whose cost turned out to be `actual`, with the limiters that took it, as [`Taken`]
    /// says, or else with all limiters that it matches: see [`Gate::settle`](crate::Gate::settle). A rule with leases
    /// gives units back only if `taken` is known. A request that was admitted without the store is settled in this
    /// process, with the limiters that hold this node's share; the answer is then [degraded](Answer::is_degraded).
    ///
    /// ```no_run
    /// use tidegate::{Request, SharedGate, StoreError, Taken};
    ///
    /// async fn work(gate: &SharedGate, request: Request<'_>) -> Result<(), StoreError> {
    ///     let request = request.reserving();
    ///     let taken = Taken::from(&gate.check(request).await);
    ///     // The work turned out to cost 7 units.
    ///     gate.settle(request, &taken, &[7]).await.map(drop)
    /// }
    /// ```
    ///
    /// # Errors
    /// The store did not reply. The request may have been settled, unless nothing was sent. Do not repeat the call: units
    /// would come back twice.
    pub async fn settle<'r, 't>(
        &self,
        request: impl Into<Request<'r>>,
        taken: impl Into<Option<&'t Taken>>,
        actual: &[u64],
    ) -> Result<Answer<'_>, StoreError> {
        let request = &request.into();
        let taken = taken.into();
        let in_force = self.newest();
        let Settling { asks, actual, unreached } =
            Settling::of(&in_force.generation.policy, request, taken, actual, |request| {
                self.resolve(&in_force, request, |_| true)
            });
        let under: Vec<Option<Values>> = match taken {
            Some(taken) => asks.iter().map(|ask| taken.under(ask)).collect(),
            None => Vec::new(),
        };
        let settle = StepArgs::settle(&actual, &under, in_force.tower.host().deadline());
        let settle = StepArgs { lack: taken.and_then(|taken| taken.lack), ..settle };
        let reply = self.settle_all(&in_force, &asks, settle).await?;
        Ok(Answer { unreached, ..in_force.answer(&asks, reply) })
    }

    /// Makes each permit that a request took last its life from now, and returns whether all of them were still out:
    /// see [`Gate::renew`](crate::Gate::renew). In a cluster each slot is a step of its own.
    ///
    /// ```no_run
    /// use tidegate::{Request, SharedGate, StoreError, Taken};
    ///
    /// /// Returns whether the work may go on.
    /// async fn go_on(gate: &SharedGate, request: &Request<'_>, taken: &Taken) -> Result<bool, StoreError> {
    ///     gate.renew(request, taken).await
    /// }
    /// ```
    ///
    /// # Errors
    /// The store did not reply; the permits may end when they would have.
    pub async fn renew<'r>(
        &self,
        request: impl Into<Request<'r>>,
        taken: &Taken,
    ) -> Result<bool, StoreError> {
        let in_force = self.newest();
        let all = self.all_asks(&in_force, &request.into());
        let Some(asks) = taken.permits_of(all) else { return Ok(false) };
        let renew = in_force.args(Verb::Renew, Origin::default());
        let renew = StepArgs { lack: taken.lack, ..renew };
        let renewed = in_force.tower.step(&asks, renew).await;
        Ok(renewed.map_err(|gave_up| gave_up.error)?.allowed)
    }

    /// Runs a settlement, and wakes those who wait for what it gives back. Unless it goes by what was taken, keys without
    /// room have the replies of their overflow limiters.
    async fn settle_all(
        &self,
        in_force: &InForce<S>,
        asks: &[KeyAsk],
        settle: StepArgs<'_>,
    ) -> Result<StepReply, StoreError> {
        let settled = in_force.tower.step(asks, settle).await;
        // After an error it is not known if units were given back.
        if settle.lack.is_none() {
            self.wake(asks);
        }
        let reply = settled.map_err(|gave_up| gave_up.error)?;
        // A settlement by what was taken says under which values, and needs no overflow limiter's reply.
        if settle.under.is_empty() {
            return Ok(in_force.with_overflow(asks, reply, settle.deadline).await);
        }
        Ok(reply)
    }

    /// Resets every limiter of the request, in one atomic step, or in a cluster one for each slot, and returns
    /// their number. Nothing counts as used then: a bucket that begins with fewer tokens is full. Bans of their keys
    /// in this process are lifted first. Remembered answers stay: see [`Request::with_id`].
    ///
    /// ```no_run
    /// # async fn example(gate: &tidegate::SharedGate) -> Result<(), tidegate::StoreError> {
    /// let limiters = gate.reset(&[("user", "ada")]).await?;
    /// println!("{limiters} limiters are fresh");
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The store did not reply. The limiters may have been reset, unless nothing was sent.
    pub async fn reset<'r>(&self, request: impl Into<Request<'r>>) -> Result<usize, StoreError> {
        let request = &request.into();
        let in_force = self.newest();
        let asks = self.all_asks(&in_force, request);
        self.front.bans.lift(&asks, |ask| self.local.fingerprint(ask));
        let reset = in_force.args(Verb::Reset, Origin::default());
        in_force.tower.step(&asks, reset).await.map_err(|gave_up| gave_up.error)?;
        self.wake(&asks);
        Ok(asks.len())
    }
}

impl<S: Store> Charge<'_, SharedGate<S>> {
    /// Gives the whole cost back, to no fewer than none used, in one atomic step, or in a cluster one for each
    /// slot.
    ///
    /// # Errors
    /// The store did not reply. The units may have been given back, unless nothing was sent.
    pub async fn release(self) -> Result<(), StoreError> {
        self.settle(0).await
    }

    /// Makes the permits of the charge last their lives from now: see [`SharedGate::renew`].
    ///
    /// # Errors
    /// The store did not reply; the permits may end when they would have.
    pub async fn renew(&self) -> Result<bool, StoreError> {
        self.gate.renew(self.request, &Taken::from(&self.answer)).await
    }

    /// Ends the charge with the actual cost of the work, for each descriptor: see [`SharedGate::settle`].
    ///
    /// # Errors
    /// The store did not reply. The request may have been settled, unless nothing was sent.
    pub async fn settle(self, actual: u64) -> Result<(), StoreError> {
        if self.answer.is_repeated() {
            return Ok(());
        }
        let Self { gate, request, answer } = self;
        gate.settle(request, &Taken::from(&answer), &[actual]).await.map(drop)
    }
}
