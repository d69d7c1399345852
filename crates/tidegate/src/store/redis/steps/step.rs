//! One step in the store over the limiters of a request, and when it is sent again.

use std::borrow::Cow;
use std::sync::Arc;

use tidegate_core::{Decision, Micros, Rule};
use tokio::time::Instant;

use super::call_args::{CallArgs, Remembered};
use super::reply::{RoutedReply, reply_of};
use super::{PendingStep, RedisStore, no_space, revisions, run};
use crate::dedupe;
use crate::request::{Origin, RequestIdentity};
use crate::rules::Policy;
use crate::step::ValuesSource;
use crate::store::redis::script::{
    Call, CallResult, DecidedStep, NewerValues, RedisReply, ScriptLimiter, ScriptStep,
};
use crate::store::redis::{Delivered, Route, answer_key, key_in};
use crate::store::{GaveUp, KeyAsk, StepArgs, StepReply, StoreError, Verb, is_report};

impl RedisStore {
    /// Runs a step that asks, looks or renews. If a limiter was written under another rule, the step amends it first.
    pub(super) async fn ask(
        &self,
        asks: &[KeyAsk],
        args: StepArgs<'_>,
    ) -> Result<StepReply, GaveUp> {
        if !self.can_hold_all(asks) {
            let error = StoreError::Refused("no store can hold these values".to_owned());
            self.note_undecided(&error, asks);
            return Err(error.into());
        }
        // Values without a date cannot be compared with the values of other nodes. A replay has no other nodes.
        if args.at.is_none() {
            let known = revisions::know_revision(self, asks, args.deadline).await;
            known.inspect_err(|error| self.note_undecided(error, asks))?;
        }
        let (step, costs) = part(self.policy(), asks, args);
        let mut limiters = self.limiters(asks, args.actual, &costs, args.leased);
        if args.under.len() == limiters.len() {
            let both = limiters.iter_mut().zip(args.under);
            both.for_each(|(one, under)| one.note_values(*under));
        }
        if limiters.is_empty() {
            return Ok(self.nothing(asks, args.at));
        }
        let pending = PendingStep { asks, args, newer: None, undoes: true };
        // A look returns the current state of a limiter, not a remembered report.
        let id = args.origin.id.filter(|_| step != ScriptStep::Peek || !is_report(asks));
        let call_args = CallArgs { step, at: args.at, remembered: self.remembered(asks, id) };
        if call_args.remembered.is_none() {
            return Ok(reply_of(self.decide(&limiters, &call_args, pending).await?));
        }
        let (places, limiters) = by_key(limiters);
        let (done, route) = self.decide(&limiters, &call_args, pending).await?;
        Ok(reply_of((put_back(&places, done), route)))
    }

    fn note_undecided(&self, error: &StoreError, asks: &[KeyAsk]) {
        if let Some(first) = asks.first() {
            self.client.note_undecided(error, &first.fingerprint);
        }
    }

    /// Returns whether the store can hold the values from plans and from the request.
    fn can_hold_all(&self, asks: &[KeyAsk]) -> bool {
        let settings = self.client.settings();
        asks.iter().filter_map(|ask| ask.values.as_deref()).all(|rule| settings.can_hold(rule))
    }

    /// Decides for one key under `rule`, and takes `cost` if the rule admits it. The keys of a `namespace` are
    /// separate from the keys of other namespaces and of the policy's rules.
    ///
    /// A key that was asked under another rule before moves to this rule with its usage when something is taken. A
    /// denied call leaves the key as it is; its `retry_after` is at the earliest when the other rule has freed enough.
    /// Time that passes under a faster rule drains at its rate. An unlimited rule admits everything and does not ask
    /// the store.
    ///
    /// ```no_run
    /// use std::time::Duration;
    /// use tidegate::{AlgorithmKind, Rule, SharedGate, Spec, StoreError};
    ///
    /// # async fn example(gate: &SharedGate) -> Result<(), Box<dyn std::error::Error>> {
    /// let per_minute = Rule::new(Spec::new(AlgorithmKind::TokenBucket, 30, Duration::from_secs(60)))?;
    /// let decision = gate.store().check_under("plans", b"ada", &per_minute, 1).await?;
    /// if decision.is_allowed() { /* go on */ }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The store did not reply, and no rule of the policy says how to decide without it. The units may have been taken,
    /// unless nothing was sent.
    pub async fn check_under(
        &self,
        namespace: &str,
        key: &[u8],
        rule: &Rule,
        cost: u64,
    ) -> Result<Decision, StoreError> {
        let key = key_in(&self.client.settings().key_prefix, namespace, key);
        let Some(limiter) = ScriptLimiter::new(&key, rule, cost).map(ScriptLimiter::from_request)
        else {
            return Ok(Decision::UNLIMITED);
        };
        let call_args = CallArgs { step: ScriptStep::Ask, at: None, remembered: None };
        let args = StepArgs::new(Verb::Ask, Origin::default(), self.client.deadline());
        let pending = PendingStep { asks: &[], args, newer: None, undoes: true };
        let done = self.decide(&[limiter], &call_args, pending).await;
        let (done, _) = done.map_err(|gave_up| gave_up.error)?;
        let decision = done.decisions.into_iter().next();
        decision.ok_or_else(|| StoreError::Answer("no values".to_owned()))
    }

    /// Runs a call until it is decided, and notes an error.
    pub(super) async fn decide(
        &self,
        limiters: &[ScriptLimiter<'_>],
        call_args: &CallArgs<'_>,
        pending: PendingStep<'_>,
    ) -> Result<RoutedReply, GaveUp> {
        let call = Arc::new(self.call(limiters, call_args));
        let done = match self.answer(limiters, call, pending).await {
            Ok((CallResult::Decided(done), route)) => Ok((done, route)),
            // Boxed, because it may lead back here by way of `no_space`.
            Ok((other, _)) => Box::pin(self.ask_again(limiters, other, call_args, pending)).await,
            Err(gave_up) => Err(gave_up),
        };
        if let (Err(gave_up), Some(first)) = (&done, limiters.first()) {
            self.client.note_undecided(&gave_up.error, first.key);
        }
        done
    }

    /// Asks again after a reply that did nothing: a limiter has to change to its new rule first, newer values
    /// decide it, or there is no space for it. Values may change between the questions, any number of times before the deadline.
    async fn ask_again(
        &self,
        limiters: &[ScriptLimiter<'_>],
        mut answer: CallResult,
        call_args: &CallArgs<'_>,
        pending: PendingStep<'_>,
    ) -> Result<RoutedReply, GaveUp> {
        let mut newer = NewerValues::default();
        let mut route = None;
        loop {
            // Newer values add up from reply to reply. Only the
            // last reply says if the next call has to amend.
            let mut amends = false;
            let mut lacks = None;
            match answer {
                CallResult::Decided(done) => return Ok((done.decided_by(newer), route)),
                CallResult::Changed => amends = true,
                CallResult::Superseded(found) => newer = newer.and(found),
                CallResult::NoSpace(found) => lacks = Some(found),
            }
            let limiters = newer.limiters(limiters);
            if let Some(lacks) = lacks {
                let pending = PendingStep { newer: Some(&newer), ..pending };
                let without_space =
                    no_space::decide_without_space(self, &limiters, &lacks, call_args, pending)
                        .await?;
                return Ok((without_space.0.decided_by(newer), without_space.1));
            }
            if Instant::now() >= pending.args.deadline {
                let error = "values that changed until the deadline".to_owned();
                return Err(StoreError::Answer(error).into());
            }
            let call = self.call(&limiters, call_args);
            let call = Arc::new(if amends { call.amending() } else { call });
            (answer, route) = self
                .answer(&limiters, call, PendingStep { newer: Some(&newer), ..pending })
                .await?;
        }
    }

    async fn answer(
        &self,
        limiters: &[ScriptLimiter<'_>],
        mut call: Arc<Call>,
        pending: PendingStep<'_>,
    ) -> Result<(CallResult, Option<Route>), GaveUp> {
        let mut replied = run::run(self, &call, pending).await;
        if replied.as_ref().is_err_and(|gave_up| gave_up.error == StoreError::OutOfMemory) {
            // Nothing was done, so it is safe to send the step again, in a form that writes no new key.
            call = Arc::new(Arc::unwrap_or_clone(call).without_memory());
            replied = run::run(self, &call, pending).await;
        }
        let (reply, route) = match replied {
            // The script did nothing, because a key has another type. The limiter has to change first, as after nil.
            Err(gave_up) if gave_up.error.is_of_other_layout() => (RedisReply::Nil, None),
            replied => {
                let Delivered { reply, route } = replied?;
                (reply, Some(route))
            }
        };
        let answer = call.answer(limiters, &reply).map_err(StoreError::from)?;
        Ok((answer, route))
    }

    fn call(&self, limiters: &[ScriptLimiter<'_>], call_args: &CallArgs<'_>) -> Call {
        let call = Call::new(limiters, call_args.step, call_args.at);
        match call_args.remembered {
            Some(known) => {
                let key = self.key_of_answer(known, limiters);
                call.remembering(key, known.time, known.id.reservation)
            }
            None => call,
        }
    }

    /// Returns the key of the remembered answer to a request; `None` if it is not remembered.
    pub(crate) fn answer_key(
        &self,
        asks: &[KeyAsk],
        id: Option<RequestIdentity<'_>>,
    ) -> Option<Vec<u8>> {
        let limiters = self.limiters(asks, &[], &[], &[]);
        Some(self.key_of_answer(self.remembered(asks, id)?, &limiters))
    }

    fn remembered<'i>(
        &self,
        asks: &[KeyAsk],
        id: Option<RequestIdentity<'i>>,
    ) -> Option<Remembered<'i>> {
        Some(Remembered { id: id?, time: dedupe::time(self.policy(), asks)? })
    }

    fn key_of_answer(&self, remembered: Remembered<'_>, limiters: &[ScriptLimiter<'_>]) -> Vec<u8> {
        answer_key(&self.client.settings().key_prefix, remembered.id, limiters)
    }

    /// Returns the limiters in the form that the store is asked with.
    pub(super) fn limiters<'m>(
        &'m self,
        asks: &'m [KeyAsk],
        actual: &[u64],
        costs: &[u64],
        leased: &[Option<Micros>],
    ) -> Vec<ScriptLimiter<'m>> {
        let prefix = self.client.settings().key_prefix.as_str();
        let limiters = asks.iter().enumerate().filter_map(|(place, ask)| {
            let rule = ask.rule_in(self.policy())?;
            let cost = costs.get(place).copied().unwrap_or(ask.cost);
            let actual = actual.get(place).copied().unwrap_or_default();
            // Leases rely on the level: nothing comes back that might have drained by the time they end.
            let earlier = leased.get(place).copied().flatten();
            let since = ask.since.map(|since| since.minus(earlier.unwrap_or_default()));
            // Nor if it is not known when they were taken.
            let is_kept = earlier.is_some() && since.is_none();
            let actual = if is_kept { actual.max(cost) } else { actual };
            let limiter = ScriptLimiter::new(&ask.fingerprint, rule, cost)?
                .turned_out(actual)
                .of_permit(ask.token);
            let limiter = limiter.taken_at(since);
            // Under leases units count alike for all, so such a limiter keeps no mark of a reservation.
            let limiter = if earlier.is_some() {
                limiter.leased()
            } else if ask.reserves {
                limiter.reserving()
            } else {
                limiter
            };
            // Asked for a unit that it does not take: its usage is reported later.
            let looks = costs.is_empty() && ask.asks > ask.cost;
            let limiter = if looks { limiter.looking() } else { limiter };
            let limiter = limiter.of_revision(revisions::revision(self, ask));
            let variant = (!ask.source.is_looked_up()).then_some(ask.variant);
            let limiter = match self.counted.get(ask.rule) {
                Some(Some(counted)) => limiter.among(counted.among(prefix, variant)),
                _ => limiter,
            };
            let limiter = if ask.source == ValuesSource::Request {
                limiter.from_request()
            } else if ask.source.is_looked_up() {
                limiter.looked_up()
            } else {
                limiter
            };
            Some(if ask.enforced { limiter } else { limiter.shadow() })
        });
        limiters.collect()
    }
}

/// Returns the step of a request, and the units each limiter is asked for if they differ from its cost.
fn part<'a>(policy: &Policy, asks: &[KeyAsk], args: StepArgs<'a>) -> (ScriptStep, Cow<'a, [u64]>) {
    match args.verb {
        Verb::Ask if is_report(asks) => {
            let is_bounded = asks.iter().any(|ask| ask.report && bounds_debt(ask.rule_in(policy)));
            let step = if is_bounded { ScriptStep::ReportWithin } else { ScriptStep::Report };
            (step, Cow::Borrowed(args.costs))
        }
        Verb::Ask => (ScriptStep::Ask, Cow::Borrowed(args.costs)),
        Verb::Peek if args.costs.is_empty() => {
            (ScriptStep::Peek, asks.iter().map(|ask| ask.asks).collect())
        }
        Verb::Peek => (ScriptStep::Peek, Cow::Borrowed(args.costs)),
        Verb::Settle => (ScriptStep::Settle, Cow::Borrowed(args.costs)),
        Verb::Renew => (ScriptStep::Renew, Cow::Borrowed(args.costs)),
        // A reset has a script of its own, and comes here to look only.
        Verb::Reset => (ScriptStep::Peek, Cow::Borrowed(args.costs)),
    }
}

/// Returns whether a rule bounds the debt of reported usage.
fn bounds_debt(rule: Option<&Rule>) -> bool {
    rule.is_some_and(|rule| rule.spec().max_debt.is_some_and(|units| units < u64::MAX))
}

/// Sorts limiters by key, so that the remembered answer is the same in whatever order a request names them.
/// Returns the original places as well.
fn by_key(limiters: Vec<ScriptLimiter<'_>>) -> (Vec<usize>, Vec<ScriptLimiter<'_>>) {
    let mut all: Vec<_> = limiters.into_iter().enumerate().collect();
    all.sort_by_key(|(_, one)| one.identity().0);
    all.into_iter().unzip()
}

/// Puts the decisions of a step back in the original places.
fn put_back(places: &[usize], done: DecidedStep) -> DecidedStep {
    let parts = done.decisions.into_iter().zip(done.seen);
    let mut all: Vec<_> = places.iter().zip(parts).collect();
    all.sort_by_key(|(place, _)| **place);
    let (decisions, seen) = all.into_iter().map(|(_, part)| part).unzip();
    DecidedStep { decisions, seen, ..done }
}
