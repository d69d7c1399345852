//! How a layer uses a keyed limiter: each caller has the limit of their key, or their own plan.

use std::sync::Arc;

use tidegate_core::{Micros, Rule, Timestamp};

use super::charging::Took;
use super::decider::{Asked, Decider, Later, Ruling, Soon};
use super::entries::{Entries, Question};
use super::fields::Fields;
use super::layer::RateLimitLayer;
use crate::answer::{Answer, Reply, Rules, Standing};
use crate::clock::{Clock, Timer};
use crate::limiter::KeyedLimiter;
use crate::request::Request;
use crate::rules::PolicyRule;
use crate::step::{Descriptors, Lineage, One, Step, is_unlimited};
use crate::wait::wait_until;

/// The name of the rule in answers.
const NAME: &str = "plan";

impl RateLimitLayer {
    /// Limits each caller by the limiter of their key, in place of the rules of a gate; refuses
    /// requests above it immediately.
    ///
    /// The key is the value of the first entry of `who`, and the cost is that of `who`; if the
    /// limiter has plans, the key's plan is looked up. A request without a value is not limited. A
    /// [`descriptor`](Self::descriptor) would replace `who`; further ones are ignored. In answers
    /// the rule is named `plan`. Limits for all callers belong in the layer of a gate behind this
    /// one; a request that it refuses has still taken units here. A request that a queue
    /// (`leaky_queue`) admits is held for its `delay`, as by [`RateLimitLayer::new`].
    ///
    /// ```
    /// use std::sync::Arc;
    /// use tidegate::tower::{Entries, RateLimitLayer, header};
    /// use tidegate::{AlgorithmKind, Micros, KeyedLimiter, Rule, Spec};
    ///
    /// let per_minute = |limit| Spec::new(AlgorithmKind::TokenBucket, limit, Micros::from_secs(60));
    /// let paid = Arc::new(Rule::new(per_minute(6_000))?);
    /// let limiter = KeyedLimiter::new(per_minute(60))?
    ///     .with_plans(move |key| key.starts_with(b"paid-").then(|| paid.clone()));
    /// let who = Entries::new().entry("api-key", header("x-api-key")?);
    /// let layer = RateLimitLayer::keyed(Arc::new(limiter), who);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn keyed<C: Timer + 'static>(limiter: Arc<KeyedLimiter<C>>, who: Entries) -> Self {
        Self::with(Arc::new(Keyed { limiter, most_wait: None }), who)
    }

    /// Lets a request wait for up to `most_wait` in the queue of its key, as
    /// [`KeyedLimiter::acquire`] does; the delay of a `leaky_queue` is part of that time. A request
    /// that cannot run by then is refused immediately, and so is one that finds the queue full
    /// ([`KeyedLimiter::with_max_waiters`]). A request whose client goes away while it waits leaves
    /// the queue and takes nothing.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use tidegate::tower::{ClientIp, Entries, RateLimitLayer};
    /// use tidegate::{AlgorithmKind, Micros, KeyedLimiter, Spec};
    ///
    /// let usual = Spec::new(AlgorithmKind::LeakyQueue, 10, Micros::from_secs(1));
    /// let limiter = Arc::new(KeyedLimiter::new(usual)?.with_max_waiters(100));
    /// let who = Entries::new().entry("ip", ClientIp::peer());
    /// let layer = RateLimitLayer::keyed_waiting(limiter, who, Micros::from_secs(5));
    /// # Ok::<(), tidegate::RuleErrors>(())
    /// ```
    #[must_use]
    pub fn keyed_waiting<C: Timer + 'static>(
        limiter: Arc<KeyedLimiter<C>>,
        who: Entries,
        most_wait: Micros,
    ) -> Self {
        Self::with(Arc::new(Keyed { limiter, most_wait: Some(most_wait) }), who)
    }
}

/// Decides by the limiter of the caller.
struct Keyed<C> {
    limiter: Arc<KeyedLimiter<C>>,
    /// How long a request may wait; `None` for an immediate decision.
    most_wait: Option<Micros>,
}

impl<C: Clock> Keyed<C> {
    /// Runs one step on the caller's limiter, at the cost of the request, and passes the answer to
    /// `read`.
    fn step<T>(&self, request: &Request<'_>, step: Step, read: impl FnOnce(&Answer<'_>) -> T) -> T {
        let Some((key, cost)) = who(request) else { return read(&nothing(self.now())) };
        // A look has no cost, because its `retry_after` is not used.
        let cost = if step == Step::Peek { 0 } else { cost };
        let one = self.limiter.call_of(&key, cost).step(step);
        with_answer(&self.limiter.rule_of(&one), cost, one, read)
    }

    fn now(&self) -> Timestamp {
        self.limiter.clock.now()
    }
}

impl<C: Timer> Keyed<C> {
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
        let one = self.limiter.call_of(&key, cost).wait(most_wait, &self.limiter.clock).await;
        with_answer(&self.limiter.rule_of(&one), cost, one, |answer| Ruling::from(answer))
    }
}

/// The caller of a request, and its cost.
fn who<'a>(request: &Request<'a>) -> Option<(&'a str, u64)> {
    let descriptor = request.descriptors().first()?;
    let (_, value) = descriptor.entries().first()?;
    Some((value, descriptor.units()))
}

/// Passes an answer to `read` under a rule with the values of the limiter.
fn with_answer<T>(rule: &Rule, cost: u64, one: One, read: impl FnOnce(&Answer<'_>) -> T) -> T {
    let One { verdict, at, decision, overflow, elsewhere, .. } = one;
    let is_limited = !is_unlimited(&decision);
    let rule = PolicyRule::of_values(NAME, rule);
    let reply = is_limited.then_some(Reply {
        lineage: Lineage::NONE,
        number: 0,
        variant: 0,
        figures: None,
        cost,
        asks: cost,
        report: false,
        by: Descriptors::one(0),
        decision,
        overflow,
        elsewhere,
    });
    let (standing, replies) = (Standing::Exact, reply.into_iter().collect());
    let rules = Rules::Borrowed(std::slice::from_ref(&rule));
    let allowed = verdict.is_allowed();
    read(&Answer { rules, allowed, at, standing, repeated: false, replies })
}

/// The answer to a request without a caller: it matches no limiter.
fn nothing(at: Timestamp) -> Answer<'static> {
    let (rules, standing, replies) = (Rules::Borrowed(&[]), Standing::Exact, Default::default());
    Answer { rules, allowed: true, at, standing, repeated: false, replies }
}

impl<C: Timer + 'static> Decider for Keyed<C> {
    fn ask(self: Arc<Self>, question: Question) -> Asked {
        // Nothing happens before the first poll, so a request that is dropped before costs nothing.
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
