//! Limits by plan: each caller has the limits of their own plan.

use std::sync::Arc;

use tidegate_core::{Micros, Rule, Timestamp};

use super::charging::Took;
use super::decider::{Asked, Decider, Later, Ruling, Soon};
use super::entries::{Entries, Question};
use super::fields::Fields;
use super::layer::RateLimitLayer;
use crate::answer::{Answer, Matched, Standing};
use crate::clock::{Clock, Timer};
use crate::limiter::PlannedLimiter;
use crate::request::Request;
use crate::rules::PolicyRule;
use crate::step::{Descriptors, Done, Step};
use crate::wait::wait_until;

/// The name of the rule in answers.
const NAME: &str = "plan";

impl RateLimitLayer {
    /// Limits each caller by a plan of their own, in place of the rules of a gate; refuses requests
    /// above it immediately.
    ///
    /// The key whose plan is looked up is the value of the first of the entries of `who`, at the
    /// cost of `who`; a request without a value is not limited. A [`descriptor`](Self::descriptor)
    /// would replace `who`; further ones are ignored. Answers name the plan as a rule `plan`.
    /// Limits for all callers belong in the layer of a gate behind this one; a request that it
    /// refuses has still taken units of its plan. A request that a shaping plan (`leaky_queue`)
    /// admits is held for its `delay`, as by [`RateLimitLayer::new`].
    ///
    /// ```
    /// use std::sync::Arc;
    /// use tidegate::tower::{Entries, RateLimitLayer, header};
    /// use tidegate::{AlgorithmKind, Micros, PlannedLimiter, Rule, Spec};
    ///
    /// let per_minute = |limit| Spec::new(AlgorithmKind::TokenBucket, limit, Micros::from_secs(60));
    /// let paid = Arc::new(Rule::new(per_minute(6_000))?);
    /// let limiter = PlannedLimiter::new(per_minute(60))?
    ///     .with_plans(move |key| key.starts_with(b"paid-").then(|| paid.clone()));
    /// let who = Entries::new().entry("api-key", header("x-api-key")?);
    /// let layer = RateLimitLayer::planned(Arc::new(limiter), who);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn planned<C: Timer + 'static>(limiter: Arc<PlannedLimiter<C>>, who: Entries) -> Self {
        Self::with(Arc::new(Planned { limiter, most_wait: None }), who)
    }

    /// Lets a request wait for up to `most_wait` in the queue of its key, as
    /// [`PlannedLimiter::acquire`] does. The time for which a shaping plan holds it is part of
    /// that. A request that cannot run by then is refused immediately, and so is one that finds the
    /// queue full ([`PlannedLimiter::with_max_waiters`]). A request whose client goes away while it
    /// waits leaves the queue, and takes nothing.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use tidegate::tower::{ClientIp, Entries, RateLimitLayer};
    /// use tidegate::{AlgorithmKind, Micros, PlannedLimiter, Spec};
    ///
    /// let usual = Spec::new(AlgorithmKind::LeakyQueue, 10, Micros::from_secs(1));
    /// let limiter = Arc::new(PlannedLimiter::new(usual)?.with_max_waiters(100));
    /// let who = Entries::new().entry("ip", ClientIp::peer());
    /// let layer = RateLimitLayer::planned_waiting(limiter, who, Micros::from_secs(5));
    /// # Ok::<(), tidegate::RuleErrors>(())
    /// ```
    #[must_use]
    pub fn planned_waiting<C: Timer + 'static>(
        limiter: Arc<PlannedLimiter<C>>,
        who: Entries,
        most_wait: Micros,
    ) -> Self {
        Self::with(Arc::new(Planned { limiter, most_wait: Some(most_wait) }), who)
    }
}

/// Decides by the plan of the caller.
struct Planned<C> {
    limiter: Arc<PlannedLimiter<C>>,
    /// How long a request may wait; `None` where it is decided immediately.
    most_wait: Option<Micros>,
}

impl<C: Clock> Planned<C> {
    /// Runs one step on the caller's limiter, at the cost of the request, and passes the answer to
    /// `read`.
    fn step<T>(&self, request: &Request<'_>, step: Step, read: impl FnOnce(&Answer<'_>) -> T) -> T {
        let Some((key, cost)) = who(request) else { return read(&nothing(self.now())) };
        // A look has no cost: nobody asks when the request might be repeated.
        let cost = if step == Step::Peek { 0 } else { cost };
        self.limiter.by_plan(key.as_bytes(), |under, key| {
            let done = under.done(under.fingerprint(key), cost, step);
            with_answer(under.rule, cost, &done, read)
        })
    }

    fn now(&self) -> Timestamp {
        self.limiter.clock.now()
    }
}

impl<C: Timer> Planned<C> {
    async fn check(&self, question: &Question) -> Ruling {
        let (ruling, runs_at) = question.ask(|request| {
            let read =
                |answer: &Answer<'_>| (Ruling::from(answer), answer.at().plus(answer.delay()));
            self.step(request, Step::Ask, read)
        });
        wait_until(&self.limiter.clock, runs_at).await;
        ruling
    }

    async fn acquire(&self, question: &Question, most_wait: Micros) -> Ruling {
        let pairs = question.pairs();
        let descriptors = question.descriptors(&pairs);
        let request = Request::new(question.domain(), &descriptors);
        let Some((key, cost)) = who(&request) else {
            return Ruling::from(&nothing(self.now()));
        };
        let (done, plan) = self.limiter.acquire_done(key.as_bytes(), cost, most_wait).await;
        let rule = self.limiter.under_plan(&plan).rule;
        with_answer(rule, cost, &done, |answer| Ruling::from(answer))
    }
}

/// The caller of a request, and its cost.
fn who<'a>(request: &Request<'a>) -> Option<(&'a str, u64)> {
    let descriptor = request.descriptors().first()?;
    let (_, value) = descriptor.entries().first()?;
    Some((value, descriptor.units()))
}

/// Passes an answer to `read` under a rule with the values of the plan.
fn with_answer<T>(rule: &Rule, cost: u64, done: &Done, read: impl FnOnce(&Answer<'_>) -> T) -> T {
    let limited = done.decisions.first().filter(|_| !rule.is_unlimited());
    let rule = PolicyRule::of_figures(NAME, rule);
    let matched = limited.map(|decided| Matched {
        rule: &rule,
        number: 0,
        variant: 0,
        figures: None,
        cost,
        asks: cost,
        report: false,
        by: Descriptors::one(0),
        decision: decided.decision,
        overflow: decided.overflow,
        elsewhere: decided.elsewhere,
    });
    let (allowed, at) = (done.allowed, done.at);
    let (standing, matched) = (Standing::Exact, matched.into_iter().collect());
    read(&Answer { allowed, at, standing, repeated: false, matched })
}

/// The answer to a request without a caller: it matches no limiter.
fn nothing(at: Timestamp) -> Answer<'static> {
    let (standing, matched) = (Standing::Exact, Default::default());
    Answer { allowed: true, at, standing, repeated: false, matched }
}

impl<C: Timer + 'static> Decider for Planned<C> {
    fn ask(self: Arc<Self>, question: Question) -> Asked {
        // Nothing happens before the first poll: a request that is dropped before costs nothing.
        Box::pin(async move {
            match self.most_wait {
                None => self.check(&question).await,
                Some(most_wait) => self.acquire(&question, most_wait).await,
            }
        })
    }

    fn refund(&self, question: &Question, _: &Took) -> Soon<()> {
        question.ask(|request| self.step(request, Step::Refund, |_| ()));
        Soon::Now(())
    }

    fn release(&self, question: &Question, took: &Took) -> Soon<Fields> {
        Soon::Now(question.ask(|request| {
            if took.anything() {
                self.step(request, Step::Settle { actual: 0 }, |_| ());
            }
            self.step(request, Step::Peek, |answer| Fields::from(answer))
        }))
    }

    fn now(&self) -> Timestamp {
        Self::now(self)
    }

    fn pause(self: Arc<Self>, wait: Micros) -> Later<()> {
        let until = Self::now(&self).plus(wait);
        Box::pin(async move { wait_until(&self.limiter.clock, until).await })
    }
}
