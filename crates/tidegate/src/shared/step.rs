//! One step in the store over the limiters of a request, and when it is sent again.

use std::borrow::Cow;
use std::sync::Arc;

use tokio::time::Instant;

use super::KeyMet;
use super::store::{Asked, Remembered, Store, Waits, Wanted, is_report};
use crate::clock::Clock;
use crate::dedupe;
use crate::request::Origin;
use crate::store::redis::script::{Answer, Call, Decided, Limiter, NewerValues, Reply, Step};
use crate::store::redis::{StoreError, answer_key};

/// The most times that a step is sent again if nothing was done: once for a changed rule, once for newer
/// values, and more if values change meanwhile.
const MOST_TURNS: usize = 6;

impl Store {
    /// Runs a step. If a limiter was written under another rule, the step amends it first.
    ///
    /// # Errors
    /// The store did not reply. Whether anything was taken is known only if nothing was sent.
    pub(super) async fn step(
        &self,
        met: &[KeyMet],
        asked: Asked<'_>,
    ) -> Result<Decided, StoreError> {
        self.step_until(met, asked, self.client.deadline()).await
    }

    /// Runs a step by a deadline.
    pub(super) async fn step_until(
        &self,
        met: &[KeyMet],
        asked: Asked<'_>,
        deadline: Instant,
    ) -> Result<Decided, StoreError> {
        if !self.can_hold(met) {
            let error = StoreError::Refused("no store can hold these figures".to_owned());
            self.note_undecided(&error, met);
            return Err(error);
        }
        if asked.at.is_none() {
            let known = self.know_revision(met, deadline).await;
            known.inspect_err(|error| self.note_undecided(error, met))?;
        }
        let (step, costs) = part(met, asked);
        let limiters = self.limiters(met, asked.actual, &costs);
        if limiters.is_empty() {
            return Ok(Decided::nothing(asked.at.unwrap_or_else(|| self.clock.now())));
        }
        let waits = Waits { met, asked, deadline, by: None, undoes: true };
        // A look returns the current state of a limiter, whatever was reported before.
        let id = asked.origin.id.filter(|_| step != Step::Peek || !is_report(met));
        let wanted = Wanted { step, at: asked.at, remembered: self.remembered(met, id) };
        if wanted.remembered.is_none() {
            return self.decided(&limiters, &wanted, waits).await;
        }
        let (places, limiters) = by_key(limiters);
        let done = self.decided(&limiters, &wanted, waits).await?;
        Ok(put_back(&places, done))
    }

    fn note_undecided(&self, error: &StoreError, met: &[KeyMet]) {
        if let Some(first) = met.first() {
            self.client.note_undecided(error, &first.fingerprint);
        }
    }

    /// Whether the store can hold the values from plans and from the request.
    fn can_hold(&self, met: &[KeyMet]) -> bool {
        let settings = self.client.settings();
        met.iter().filter_map(|met| met.figures.as_deref()).all(|rule| settings.can_hold(rule))
    }

    /// Decides with a limiter that no rule of the policy names.
    pub(super) async fn ask(&self, limiter: Limiter<'_>) -> Result<Decided, StoreError> {
        let wanted = Wanted { step: Step::Ask, at: None, remembered: None };
        let asked = Asked::new(Step::Ask, Origin::default());
        let deadline = self.client.deadline();
        let waits = Waits { met: &[], asked, deadline, by: None, undoes: true };
        self.decided(&[limiter], &wanted, waits).await
    }

    /// Runs a call until it is decided, and notes an error.
    async fn decided(
        &self,
        limiters: &[Limiter<'_>],
        wanted: &Wanted<'_>,
        waits: Waits<'_>,
    ) -> Result<Decided, StoreError> {
        let done = self.decided_by(limiters, wanted, waits).await;
        if let (Err(error), Some(first)) = (&done, limiters.first()) {
            self.client.note_undecided(error, first.key);
        }
        done
    }

    pub(super) async fn decided_by(
        &self,
        limiters: &[Limiter<'_>],
        wanted: &Wanted<'_>,
        waits: Waits<'_>,
    ) -> Result<Decided, StoreError> {
        match self.answer(limiters, self.call(limiters, wanted), waits).await? {
            Answer::Decided(done) => Ok(done),
            other => Box::pin(self.decided_anew(limiters, other, wanted, waits)).await,
        }
    }

    /// Asks again after a reply that did nothing: a limiter has to change to its new rule first, newer values
    /// decide it, or it has no room.
    async fn decided_anew(
        &self,
        limiters: &[Limiter<'_>],
        mut answer: Answer,
        wanted: &Wanted<'_>,
        waits: Waits<'_>,
    ) -> Result<Decided, StoreError> {
        let mut by = NewerValues::default();
        for _ in 0..MOST_TURNS {
            let (mut amends, mut lacks) = (false, None);
            match answer {
                Answer::Decided(done) => return Ok(done.decided_by(by)),
                Answer::Changed => amends = true,
                Answer::Superseded(newer) => by = by.and(newer),
                Answer::NoRoom(told) => lacks = Some(told),
            }
            let limiters = by.limiters(limiters);
            if let Some(lacks) = lacks {
                let waits = Waits { by: Some(&by), ..waits };
                let done = self.decided_without(&limiters, &lacks, wanted, waits).await?;
                return Ok(done.decided_by(by));
            }
            let call = self.call(&limiters, wanted);
            let call = if amends { call.amending() } else { call };
            answer = self.answer(&limiters, call, Waits { by: Some(&by), ..waits }).await?;
        }
        if let Answer::Decided(done) = answer {
            return Ok(done.decided_by(by));
        }
        Err(StoreError::Answer(format!("values that changed {MOST_TURNS} times")))
    }

    async fn answer(
        &self,
        limiters: &[Limiter<'_>],
        call: Call,
        waits: Waits<'_>,
    ) -> Result<Answer, StoreError> {
        let mut call = Arc::new(call);
        let mut told = self.run(&call, waits).await;
        if told == Err(StoreError::OutOfMemory) {
            // Nothing was done.
            call = Arc::new(Arc::unwrap_or_clone(call).without_memory());
            told = self.run(&call, waits).await;
        }
        let reply = match told {
            // The key has another layout; nothing was done.
            Err(StoreError::Refused(told)) if told.contains("WRONGTYPE") => Reply::Nil,
            told => told?,
        };
        call.answer(limiters, &reply).map_err(StoreError::from)
    }

    fn call(&self, limiters: &[Limiter<'_>], wanted: &Wanted<'_>) -> Call {
        let call = Call::new(limiters, wanted.step, wanted.at);
        match wanted.remembered {
            Some(known) => call.remembering(self.key_of_answer(known, limiters), known.time),
            None => call,
        }
    }

    /// Returns the key of the remembered answer to a request; `None` if it is not remembered.
    pub(super) fn answer_key(&self, met: &[KeyMet], id: Option<&str>) -> Option<Vec<u8>> {
        let limiters = self.limiters(met, &[], &[]);
        Some(self.key_of_answer(self.remembered(met, id)?, &limiters))
    }

    fn remembered<'i>(&self, met: &[KeyMet], id: Option<&'i str>) -> Option<Remembered<'i>> {
        Some(Remembered { id: id?, time: dedupe::time(self.policy(), met)? })
    }

    fn key_of_answer(&self, remembered: Remembered<'_>, limiters: &[Limiter<'_>]) -> Vec<u8> {
        answer_key(&self.client.settings().key_prefix, remembered.id, limiters)
    }

    /// Returns the limiters in the form that the store is asked with.
    pub(super) fn limiters<'m>(
        &'m self,
        met: &'m [KeyMet],
        actual: &[u64],
        costs: &[u64],
    ) -> Vec<Limiter<'m>> {
        let prefix = self.client.settings().key_prefix.as_str();
        let limiters = met.iter().enumerate().filter_map(|(place, met)| {
            let rule = met.rule_in(self.policy())?;
            let cost = costs.get(place).copied().unwrap_or(met.cost);
            let actual = actual.get(place).copied().unwrap_or_default();
            let limiter = Limiter::new(&met.fingerprint, rule, cost)?.turned_out(actual);
            let looks = costs.is_empty() && met.asks > met.cost;
            let limiter = if looks { limiter.looking() } else { limiter };
            let limiter = limiter.of_revision(self.revision(met));
            let variant = (!self.is_figured(met.rule)).then_some(met.variant);
            let limiter = match self.counted.get(met.rule) {
                Some(Some(counted)) => limiter.among(counted.among(prefix, variant)),
                _ => limiter,
            };
            let limiter = match met.brought {
                true => limiter.brought(),
                false if self.is_figured(met.rule) => limiter.looked_up(),
                false => limiter,
            };
            Some(if met.enforced { limiter } else { limiter.shadow() })
        });
        limiters.collect()
    }
}

/// Returns the step of a request, and the units each limiter is asked for if they differ from its cost.
fn part<'a>(met: &[KeyMet], asked: Asked<'a>) -> (Step, Cow<'a, [u64]>) {
    match asked.step {
        Step::Ask if is_report(met) => (Step::Report, Cow::Borrowed(asked.costs)),
        Step::Peek if asked.costs.is_empty() => {
            (Step::Peek, met.iter().map(|met| met.asks).collect())
        }
        step => (step, Cow::Borrowed(asked.costs)),
    }
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
