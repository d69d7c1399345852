//! Denials: requests that are refused here because the store has just denied them, and the events that end this.
//!
//! A denial says how long it lasts if nothing is given back and no rule changes. Other nodes may change that, so the
//! denial is repeated for at most [`MOST`] after its request was sent. Units given back through this
//! node end it immediately.

use std::borrow::Borrow;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use tidegate_core::{Decision, Micros, Outcome, Rule, Timestamp};

use super::recent::RecentReports;
use crate::clock::Clock;
use crate::inline_list::InlineList;
use crate::key::{Fingerprint, Seed};
use crate::layers::Layer;
use crate::step::{Decided, Done};
use crate::store::{GaveUp, Generation, KeyAsk, StepArgs, StepReply, Store, Verb};

/// The longest time for which a denial is repeated.
const MOST: Micros = Micros::from_millis(50);
/// The clocks of this process and the store may differ in speed by this part of a wait: one in 1,024.
const DRIFT: u64 = 1_024;
/// The number of times of giving back that are kept apart.
const ENDS: usize = 256;

/// Called for each request that is refused without the store `inner`.
pub(crate) type OnDenied = Arc<dyn Fn() + Send + Sync>;

/// Repeats the latest denials of the store `inner`. It comes before leases, so that a refusal holds no leased unit.
#[derive(Clone)]
pub(crate) struct Denials<S> {
    pub(crate) inner: S,
    generation: Arc<Generation>,
    /// `None` if the settings turn it off.
    memory: Option<Arc<DenialMemory>>,
    on_denied: OnDenied,
}

impl<S: Layer> Denials<S> {
    pub(crate) fn new(
        inner: S,
        generation: Arc<Generation>,
        memory: Option<Arc<DenialMemory>>,
        on_denied: OnDenied,
    ) -> Self {
        Self { inner, generation, memory, on_denied }
    }

    /// Refuses a request that the store would refuse, by its latest reports about limiters that have too few units
    /// taken ahead; `None` if nothing is known, or if the request has an id, for which an answer may be remembered.
    fn refuse(&self, asks: &[KeyAsk], args: StepArgs<'_>) -> Option<StepReply> {
        let memory = self.memory.as_ref().filter(|_| args.origin.id.is_none())?;
        let now = self.inner.host().now();
        if !memory.has_any(now) {
            return None;
        }
        let covered = self.inner.covered(asks);
        let places: InlineList<_> =
            (0..asks.len()).filter(|place| !matches!(covered.get(*place), Some(Some(_)))).collect();
        let rest: InlineList<_> = places.iter().filter_map(|place| asks.get(*place)).collect();
        let Done { at, decisions, .. } = memory.refuse(&self.generation, &rest, now)?;
        (self.on_denied)();
        let mut refused = StepReply { allowed: false, ..StepReply::nothing(asks.len(), at) };
        refused.put_decided(0.., covered);
        refused.put_decided(places, decisions);
        Some(refused)
    }

    fn forget(&self, asks: &[KeyAsk]) {
        if let Some(memory) = &self.memory {
            memory.forget(asks, self.inner.host().now());
        }
    }
}

impl<S: Layer> Store for Denials<S> {
    async fn step(&self, asks: &[KeyAsk], args: StepArgs<'_>) -> Result<StepReply, GaveUp> {
        let Some(memory) = &self.memory else { return self.inner.step(asks, args).await };
        match args.verb {
            Verb::Ask => {}
            Verb::Settle | Verb::Reset => {
                let settled = self.inner.step(asks, args).await;
                // After an error it is not known if units were given back.
                self.forget(asks);
                return settled;
            }
            _ => return self.inner.step(asks, args).await,
        }
        if !args.is_queued
            && let Some(refused) = self.refuse(asks, args)
        {
            return Ok(refused);
        }
        let sent = self.inner.host().now();
        let reply = self.inner.step(asks, args).await?;
        if !reply.allowed && !reply.repeated {
            let times = (sent, self.inner.host().now());
            memory.note(&self.generation, asks, times, reply.now, |place| {
                reply.own_under_own_values(place)
            });
        }
        Ok(reply)
    }

    fn under(&self, generation: &Arc<Generation>) -> Self {
        let inner = self.inner.under(generation);
        Self { inner, generation: Arc::clone(generation), ..self.clone() }
    }

    pass_inward!(undo leases store counts);
}

impl<S: Layer> Layer for Denials<S> {
    fn step_now(&self, asks: &[KeyAsk], args: StepArgs<'_>) -> Option<StepReply> {
        self.inner.step_now(asks, args).or_else(|| self.refuse(asks, args))
    }

    fn decides_now(&self) -> bool {
        self.inner.decides_now()
            || self.memory.as_ref().is_some_and(|memory| memory.has_any(self.inner.host().now()))
    }

    pass_inward!(ahead);
}

impl<S: fmt::Debug> fmt::Debug for Denials<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { inner, memory, .. } = self;
        f.debug_struct("Denials")
            .field("inner", inner)
            .field("memory", memory)
            .finish_non_exhaustive()
    }
}

/// The last reports of the store about the limiters of refused requests.
#[derive(Debug)]
pub(crate) struct DenialMemory {
    seed: Seed,
    reports: RecentReports<Option<DenialReport>>,
    /// When the last report ends, in microseconds.
    last: AtomicU64,
    /// When units were last given back to a limiter through this node, in microseconds; many limiters share one.
    given_back: Box<[AtomicU64]>,
}

/// A report of the store about a limiter of a refused request.
#[derive(Clone, Copy, Debug)]
struct DenialReport {
    /// The values it holds under.
    values: u64,
    /// Units that were asked for.
    asks: u64,
    decision: Decision,
    /// When the report arrived, by the clock of this process.
    heard: Timestamp,
    /// The instant of the decision, by the store's clock.
    at: Timestamp,
}

impl DenialReport {
    /// Returns whether a request for `asks` units is denied as well.
    const fn denies(&self, asks: u64) -> bool {
        self.asks <= asks && asks > 0 && !self.decision.is_allowed()
    }

    /// Returns the decision for `asks` units after this report; `None` if the report says nothing about them. More
    /// units than were denied have to wait at least as long.
    fn decision(&self, asks: u64, now: Timestamp) -> Option<Decision> {
        let passed = now.since(self.heard);
        let outcome = match self.decision.outcome {
            Outcome::Allow { .. } if self.asks < asks => return None,
            Outcome::Deny { .. } | Outcome::Never if !self.denies(asks) => return None,
            Outcome::Deny { .. } if self.decision.limit < asks => Outcome::Never,
            Outcome::Deny { retry_after } => {
                Outcome::Deny { retry_after: less(retry_after, passed).max(Micros::from_micros(1)) }
            }
            outcome => outcome,
        };
        let reset_after = less(self.decision.reset_after, passed);
        Some(Decision { outcome, reset_after, ..self.decision })
    }
}

impl DenialMemory {
    pub(crate) fn new() -> Self {
        Self::with_seed(Seed::random())
    }

    pub(crate) fn with_seed(seed: Seed) -> Self {
        Self {
            seed,
            reports: RecentReports::new(),
            last: AtomicU64::new(0),
            given_back: (0..ENDS).map(|_| AtomicU64::new(0)).collect(),
        }
    }

    /// Returns whether any denial may be repeated.
    pub(crate) fn has_any(&self, now: Timestamp) -> bool {
        now.as_micros() < self.last.load(SeqCst)
    }

    /// Notes the store's reply to a refused request that was sent at `sent` and answered by `now`. `reply_of` returns
    /// the decision of the limiter at a place, if its own limiter decided under the values of this node.
    pub(crate) fn note(
        &self,
        generation: &Generation,
        asks: &[KeyAsk],
        (sent, now): (Timestamp, Timestamp),
        at: Timestamp,
        reply_of: impl Fn(usize) -> Option<Decision>,
    ) {
        for (place, ask) in asks.iter().enumerate() {
            let Some(decision) = reply_of(place) else { continue };
            // Shorter than the wait, because the store's clock may be faster than the clock of this process.
            let holds = match decision.outcome {
                Outcome::Deny { retry_after } => {
                    less(retry_after, Micros::from_micros(retry_after.as_micros() / DRIFT + 1))
                }
                Outcome::Allow { .. } | Outcome::Never => MOST,
            };
            // From when it was sent: the store decided it at that time or later, so the denial is repeated for too
            // short a time and never for too long.
            let until = sent.plus(holds.min(MOST));
            let report = DenialReport {
                values: self.values(generation, ask),
                asks: ask.asks(),
                decision,
                heard: now,
                at,
            };
            if now < until {
                self.note_report(self.known_by(ask), report, (sent, now), until);
            }
        }
    }

    /// Notes a report unless the limiter got units back since the request was sent, or a denial of a cost no larger
    /// lasts.
    fn note_report(
        &self,
        known_by: Fingerprint,
        report: DenialReport,
        (sent, now): (Timestamp, Timestamp),
        until: Timestamp,
    ) {
        self.last.fetch_max(until.as_micros(), SeqCst);
        let Some(given_back) = self.given_back(known_by) else { return };
        // The check runs while the report's place is locked, and `forget` notes the time before it removes a report.
        // So units that come back in between either prevent the note or remove it.
        self.reports.note(known_by, Some(report), until, |last| {
            let last = last.filter(|(_, ends)| now < *ends);
            let last = last.and_then(|(last, ends)| Some((last?, ends)));
            given_back.load(SeqCst) < sent.as_micros()
                && last.is_none_or(|(last, ends)| {
                    last.values != report.values
                        || !last.denies(report.asks)
                        || last.asks == report.asks && ends <= until
                })
        });
    }

    /// Refuses a request if the store has just denied one of its limiters this cost or less; `None` if it has not.
    /// The request must have no id, and no request may wait for its limiters in this process.
    pub(crate) fn refuse(
        &self,
        generation: &Generation,
        asks: &[impl Borrow<KeyAsk>],
        now: Timestamp,
    ) -> Option<Done<Option<Decided>>> {
        if !self.has_any(now) || asks.iter().any(|ask| ask.borrow().is_report()) {
            return None;
        }
        let asks: InlineList<&KeyAsk> = asks.iter().map(Borrow::borrow).collect();
        let reports: InlineList<Option<DenialReport>> =
            asks.iter().map(|ask| self.report(generation, ask, now)).collect();
        let first = asks.iter().zip(&reports).find_map(|(ask, report)| {
            report.filter(|report| ask.can_refuse() && report.denies(ask.asks()))
        })?;
        // A request that is refused has the other limiters' decisions too, as far as they are known.
        let decisions = asks.iter().zip(&reports).map(|(ask, report)| {
            let decision = report.as_ref()?.decision(ask.asks(), now)?;
            Some(Decided::of(decision, false, false))
        });
        Some(Done {
            allowed: false,
            at: first.at.plus(now.since(first.heard)),
            repeated: false,
            decisions: decisions.collect(),
        })
    }

    /// Forgets the reports of limiters to which units were given back by `now`, and those that are on their way.
    pub(crate) fn forget<'m>(&self, asks: impl IntoIterator<Item = &'m KeyAsk>, now: Timestamp) {
        for ask in asks {
            let known_by = self.known_by(ask);
            if let Some(given_back) = self.given_back(known_by) {
                given_back.fetch_max(now.as_micros(), SeqCst);
            }
            self.reports.forget(known_by);
        }
    }

    fn report(
        &self,
        generation: &Generation,
        ask: &KeyAsk,
        now: Timestamp,
    ) -> Option<DenialReport> {
        let (report, _) = self.reports.of(self.known_by(ask), now)?;
        report.filter(|report| report.values == self.values(generation, ask))
    }

    fn known_by(&self, ask: &KeyAsk) -> Fingerprint {
        self.seed.of(&ask.fingerprint[..])
    }

    /// Identifies the values under which a limiter is asked.
    fn values(&self, generation: &Generation, ask: &KeyAsk) -> u64 {
        let since = generation.since(ask.rule).as_micros();
        let Some(rule) = ask.values.own.as_ref().map(Rule::spec) else { return since };
        let [low, high, _] = self
            .seed
            .of_written(|hasher| {
                rule.hash(hasher);
                hasher.write_u64(since);
            })
            .words();
        u64::from(high) << 32 | u64::from(low)
    }

    fn given_back(&self, known_by: Fingerprint) -> Option<&AtomicU64> {
        self.given_back.get(known_by.words()[2] as usize % ENDS)
    }
}

const fn less(wait: Micros, passed: Micros) -> Micros {
    Micros::from_micros(wait.as_micros().saturating_sub(passed.as_micros()))
}

#[cfg(test)]
mod tests;
