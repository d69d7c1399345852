//! One step in the store over the limiters of a request, and when it is sent again.

use std::borrow::Cow;
use std::sync::Arc;

use tidegate_core::Rule;
use tokio::time::Instant;

use super::KeyAsk;
use super::store::{CallArgs, PendingStep, Remembered, StepArgs, Store, is_report};
use crate::clock::Clock;
use crate::dedupe;
use crate::request::{Identity, Origin};
use crate::rules::Policy;
use crate::store::redis::script::{Answer, Call, Decided, Limiter, NewerValues, Reply, Step};
use crate::store::redis::{StoreError, answer_key};

impl Store {
    /// Runs a step. If a limiter was written under another rule, the step amends it first.
    ///
    /// # Errors
    /// The store did not reply. Whether anything was taken is known only if nothing was sent.
    pub(super) async fn step(
        &self,
        asks: &[KeyAsk],
        args: StepArgs<'_>,
    ) -> Result<Decided, StoreError> {
        self.step_until(asks, args, self.client.deadline()).await
    }

    /// Runs a step by a deadline.
    pub(super) async fn step_until(
        &self,
        asks: &[KeyAsk],
        args: StepArgs<'_>,
        deadline: Instant,
    ) -> Result<Decided, StoreError> {
        if !self.can_hold(asks) {
            let error = StoreError::Refused("no store can hold these values".to_owned());
            self.note_undecided(&error, asks);
            return Err(error);
        }
        if args.at.is_none() {
            let known = self.know_revision(asks, deadline).await;
            known.inspect_err(|error| self.note_undecided(error, asks))?;
        }
        let (step, costs) = part(self.policy(), asks, args);
        let mut limiters = self.limiters(asks, args.actual, &costs);
        if args.under.len() == limiters.len() {
            let both = limiters.iter_mut().zip(args.under);
            both.for_each(|(one, under)| one.note_values(*under));
        }
        if limiters.is_empty() {
            return Ok(Decided::nothing(args.at.unwrap_or_else(|| self.clock.now())));
        }
        let pending = PendingStep { asks, args, deadline, newer: None, undoes: true };
        // A look returns the current state of a limiter, whatever was reported before.
        let id = args.origin.id.filter(|_| step != Step::Peek || !is_report(asks));
        let call_args = CallArgs { step, at: args.at, remembered: self.remembered(asks, id) };
        if call_args.remembered.is_none() {
            return self.decide(&limiters, &call_args, pending).await;
        }
        let (places, limiters) = by_key(limiters);
        let done = self.decide(&limiters, &call_args, pending).await?;
        Ok(put_back(&places, done))
    }

    fn note_undecided(&self, error: &StoreError, asks: &[KeyAsk]) {
        if let Some(first) = asks.first() {
            self.client.note_undecided(error, &first.fingerprint);
        }
    }

    /// Returns whether the store can hold the values from plans and from the request.
    fn can_hold(&self, asks: &[KeyAsk]) -> bool {
        let settings = self.client.settings();
        asks.iter().filter_map(|ask| ask.values.as_deref()).all(|rule| settings.can_hold(rule))
    }

    /// Decides with a limiter that no rule of the policy names.
    pub(super) async fn ask(&self, limiter: Limiter<'_>) -> Result<Decided, StoreError> {
        let call_args = CallArgs { step: Step::Ask, at: None, remembered: None };
        let args = StepArgs::new(Step::Ask, Origin::default());
        let deadline = self.client.deadline();
        let pending = PendingStep { asks: &[], args, deadline, newer: None, undoes: true };
        self.decide(&[limiter], &call_args, pending).await
    }

    /// Runs a call until it is decided, and notes an error.
    async fn decide(
        &self,
        limiters: &[Limiter<'_>],
        call_args: &CallArgs<'_>,
        pending: PendingStep<'_>,
    ) -> Result<Decided, StoreError> {
        let done = self.run_until_decided(limiters, call_args, pending).await;
        if let (Err(error), Some(first)) = (&done, limiters.first()) {
            self.client.note_undecided(error, first.key);
        }
        done
    }

    pub(super) async fn run_until_decided(
        &self,
        limiters: &[Limiter<'_>],
        call_args: &CallArgs<'_>,
        pending: PendingStep<'_>,
    ) -> Result<Decided, StoreError> {
        let call = Arc::new(self.call(limiters, call_args));
        match self.answer(limiters, call, pending).await? {
            Answer::Decided(done) => Ok(done),
            other => Box::pin(self.ask_again(limiters, other, call_args, pending)).await,
        }
    }

    /// Asks again after a reply that did nothing: a limiter has to change to its new rule first, newer values
    /// decide it, or it has no room. Values may change meanwhile, any number of times before the deadline.
    async fn ask_again(
        &self,
        limiters: &[Limiter<'_>],
        mut answer: Answer,
        call_args: &CallArgs<'_>,
        pending: PendingStep<'_>,
    ) -> Result<Decided, StoreError> {
        let mut newer = NewerValues::default();
        loop {
            let (mut amends, mut lacks) = (false, None);
            match answer {
                Answer::Decided(done) => return Ok(done.decided_by(newer)),
                Answer::Changed => amends = true,
                Answer::Superseded(found) => newer = newer.and(found),
                Answer::NoSpace(found) => lacks = Some(found),
            }
            let limiters = newer.limiters(limiters);
            if let Some(lacks) = lacks {
                let pending = PendingStep { newer: Some(&newer), ..pending };
                let done = self.decide_without_space(&limiters, &lacks, call_args, pending).await?;
                return Ok(done.decided_by(newer));
            }
            if Instant::now() >= pending.deadline {
                let error = "values that changed until the deadline".to_owned();
                return Err(StoreError::Answer(error));
            }
            let call = self.call(&limiters, call_args);
            let call = Arc::new(if amends { call.amending() } else { call });
            answer = self
                .answer(&limiters, call, PendingStep { newer: Some(&newer), ..pending })
                .await?;
        }
    }

    async fn answer(
        &self,
        limiters: &[Limiter<'_>],
        mut call: Arc<Call>,
        pending: PendingStep<'_>,
    ) -> Result<Answer, StoreError> {
        let mut reply = self.run(&call, pending).await;
        if reply == Err(StoreError::OutOfMemory) {
            // Nothing was done.
            call = Arc::new(Arc::unwrap_or_clone(call).without_memory());
            reply = self.run(&call, pending).await;
        }
        let reply = match reply {
            Err(error) if error.is_of_other_layout() => Reply::Nil,
            reply => reply?,
        };
        call.answer(limiters, &reply).map_err(StoreError::from)
    }

    fn call(&self, limiters: &[Limiter<'_>], call_args: &CallArgs<'_>) -> Call {
        let call = Call::new(limiters, call_args.step, call_args.at);
        match call_args.remembered {
            Some(known) => call.remembering(self.key_of_answer(known, limiters), known.time),
            None => call,
        }
    }

    /// Returns the key of the remembered answer to a request; `None` if it is not remembered.
    pub(super) fn answer_key(&self, asks: &[KeyAsk], id: Option<Identity<'_>>) -> Option<Vec<u8>> {
        let limiters = self.limiters(asks, &[], &[]);
        Some(self.key_of_answer(self.remembered(asks, id)?, &limiters))
    }

    fn remembered<'i>(&self, asks: &[KeyAsk], id: Option<Identity<'i>>) -> Option<Remembered<'i>> {
        Some(Remembered { id: id?, time: dedupe::time(self.policy(), asks)? })
    }

    fn key_of_answer(&self, remembered: Remembered<'_>, limiters: &[Limiter<'_>]) -> Vec<u8> {
        answer_key(&self.client.settings().key_prefix, remembered.id, limiters)
    }

    /// Returns the limiters in the form that the store is asked with.
    pub(super) fn limiters<'m>(
        &'m self,
        asks: &'m [KeyAsk],
        actual: &[u64],
        costs: &[u64],
    ) -> Vec<Limiter<'m>> {
        let prefix = self.client.settings().key_prefix.as_str();
        let limiters = asks.iter().enumerate().filter_map(|(place, ask)| {
            let rule = ask.rule_in(self.policy())?;
            let cost = costs.get(place).copied().unwrap_or(ask.cost);
            let actual = actual.get(place).copied().unwrap_or_default();
            let terms = self.terms(ask);
            // Leases rely on the level: nothing comes back that might have drained by the time they end.
            let since = match terms {
                Some(terms) => ask.since.map(|since| terms.exact_from(since)),
                None => ask.since,
            };
            let is_kept = terms.is_some() && since.is_none();
            let actual = if is_kept { actual.max(cost) } else { actual };
            let limiter =
                Limiter::new(&ask.fingerprint, rule, cost)?.turned_out(actual).of_permit(ask.token);
            let limiter = limiter.taken_at(since);
            let limiter = if terms.is_some() {
                limiter.leased()
            } else if ask.reserves {
                limiter.reserving()
            } else {
                limiter
            };
            let looks = costs.is_empty() && ask.asks > ask.cost;
            let limiter = if looks { limiter.looking() } else { limiter };
            let limiter = limiter.of_revision(self.revision(ask));
            let variant = (!self.is_looked_up(ask.rule)).then_some(ask.variant);
            let limiter = match self.counted.get(ask.rule) {
                Some(Some(counted)) => limiter.among(counted.among(prefix, variant)),
                _ => limiter,
            };
            let limiter = if ask.from_request {
                limiter.from_request()
            } else if self.is_looked_up(ask.rule) {
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
fn part<'a>(policy: &Policy, asks: &[KeyAsk], args: StepArgs<'a>) -> (Step, Cow<'a, [u64]>) {
    match args.step {
        Step::Ask if is_report(asks) => {
            let is_bounded = asks.iter().any(|ask| ask.report && bounds_debt(ask.rule_in(policy)));
            let step = if is_bounded { Step::ReportWithin } else { Step::Report };
            (step, Cow::Borrowed(args.costs))
        }
        Step::Peek if args.costs.is_empty() => {
            (Step::Peek, asks.iter().map(|ask| ask.asks).collect())
        }
        step => (step, Cow::Borrowed(args.costs)),
    }
}

/// Returns whether a rule bounds the debt of what is reported.
fn bounds_debt(rule: Option<&Rule>) -> bool {
    rule.is_some_and(|rule| rule.spec().max_debt.is_some_and(|units| units < u64::MAX))
}

/// Sorts limiters by key, so that the remembered answer is the same in whatever order a request names them.
/// Returns the original places as well.
fn by_key(limiters: Vec<Limiter<'_>>) -> (Vec<usize>, Vec<Limiter<'_>>) {
    let mut all: Vec<_> = limiters.into_iter().enumerate().collect();
    all.sort_by_key(|(_, one)| one.identity().0);
    all.into_iter().unzip()
}

/// Puts the decisions of a step back in the original places.
fn put_back(places: &[usize], done: Decided) -> Decided {
    let parts = done.decisions.into_iter().zip(done.seen);
    let mut all: Vec<_> = places.iter().zip(parts).collect();
    all.sort_by_key(|(place, _)| **place);
    let (decisions, seen) = all.into_iter().map(|(_, part)| part).unzip();
    Decided { decisions, seen, ..done }
}
