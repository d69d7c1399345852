//! How a layer uses a keyed limiter: each caller has the limit of their key, or their own plan.

use std::sync::Arc;
use std::time::Duration;

use tidegate_core::{Micros, RuleErrors, Spec, Timestamp};

use super::charging::Took;
use super::client_ip::ClientIp;
use super::decider::{Decider, Later, Ruling, Soon, runs_at};
use super::entries::{Entries, Question};
use super::fields::Fields;
use super::layer::RateLimitLayer;
use crate::answer::{Answer, Reply, Rules, Standing};
use crate::clock::{Clock, Timer};
use crate::limiter::KeyedLimiter;
use crate::rules::PolicyRule;
use crate::step::{Descriptors, Lineage, One, Step, is_unlimited};
use crate::wait::wait_until;

/// The name of the rule in answers.
const NAME: &str = "plan";
/// The name of the rule where callers are known by their addresses.
const PER_IP: &str = "per-ip";

impl RateLimitLayer {
    /// Limits each network address to a rate such as `"60/m"`, or to a [`Spec`]; refuses requests above it immediately. At
    /// most a million addresses are kept, and [`RateLimitLayer::per_address`] says what an address is, and that a request
    /// without one is refused with 500.
    ///
    /// # Errors
    /// Returns the error of a text that is no rate, or every invalid field of the spec.
    ///
    /// ```
    /// use tidegate::tower::RateLimitLayer;
    ///
    /// let layer = RateLimitLayer::per_ip("60/m")?;
    /// # Ok::<(), tidegate::RuleErrors>(())
    /// ```
    pub fn per_ip(spec: impl TryInto<Spec, Error: Into<RuleErrors>>) -> Result<Self, RuleErrors> {
        Ok(Self::per_address(Arc::new(KeyedLimiter::new(spec)?), ClientIp::peer()))
    }

    /// Limits each caller by the limiter of their network address, in place of the rules of a gate; refuses requests
    /// above it immediately. This is the layer that costs a request least.
    ///
    /// `address` finds the caller: [`ClientIp::peer`], or an address that trusted proxies report. Addresses are never
    /// made text: the [`Key`](crate::Key) is the [`IpAddr`](std::net::IpAddr), that of the network for IPv6 (/64 by default). In answers
    /// the rule is named `per-ip`. The cost is one unit, and a [`descriptor`](Self::descriptor) would replace the
    /// address as [`keyed`](Self::keyed) says.
    ///
    /// A request without a known address is refused with 500 ([`Reason::NoAddress`](super::Reason::NoAddress)), and the
    /// first one prints a line on standard error: the server does not pass addresses on. An axum server does with
    /// `into_make_service_with_connect_info::<SocketAddr>()`; others insert [`PeerAddr`](super::PeerAddr).
    ///
    /// ```
    /// use std::sync::Arc;
    /// use tidegate::tower::{ClientIp, RateLimitLayer};
    /// use std::time::Duration;
    /// use tidegate::{AlgorithmKind, KeyedLimiter, Spec};
    ///
    /// let per_minute = Spec::new(AlgorithmKind::TokenBucket, 60, Duration::from_secs(60));
    /// let limiter = Arc::new(KeyedLimiter::new(per_minute)?);
    /// let layer = RateLimitLayer::per_address(limiter, ClientIp::peer());
    /// # Ok::<(), tidegate::RuleErrors>(())
    /// ```
    #[must_use]
    pub fn per_address<C: Timer + 'static>(
        limiter: Arc<KeyedLimiter<C>>,
        address: ClientIp,
    ) -> Self {
        Self::with(Keyed::new(PER_IP, limiter, None), Entries::by_address(address))
    }

    /// Limits each caller by the limiter of their key, in place of the rules of a gate; refuses
    /// requests above it immediately.
    ///
    /// The key is the value of the first entry of `who`, and the cost is that of `who`; if the
    /// limiter has plans, the key's plan is looked up. A request without a value is not limited, but one
    /// whose address is not known is refused as [`per_address`](Self::per_address) does. A
    /// [`descriptor`](Self::descriptor) would replace `who`; further ones are ignored. In answers
    /// the rule is named `plan`. Limits for all callers belong in the layer of a gate behind this
    /// one; a request that it refuses has still taken units here. A request that a queue
    /// (`leaky_queue`) admits is held for its `delay`, as by [`RateLimitLayer::new`].
    ///
    /// ```
    /// use std::sync::Arc;
    /// use tidegate::tower::{Entries, RateLimitLayer, header};
    /// use std::time::Duration;
    /// use tidegate::{AlgorithmKind, KeyedLimiter, Rule, Spec};
    ///
    /// let per_minute = |limit| Spec::new(AlgorithmKind::TokenBucket, limit, Duration::from_secs(60));
    /// let paid = Arc::new(Rule::new(per_minute(6_000))?);
    /// let limiter = KeyedLimiter::new(per_minute(60))?
    ///     .with_plans(move |key| key.starts_with(b"paid-").then(|| paid.clone()));
    /// let who = Entries::new().entry("api-key", header("x-api-key")?);
    /// let layer = RateLimitLayer::keyed(Arc::new(limiter), who);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn keyed<C: Timer + 'static>(limiter: Arc<KeyedLimiter<C>>, who: Entries) -> Self {
        Self::with(Keyed::new(NAME, limiter, None), who)
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
    /// use std::time::Duration;
    /// use tidegate::{AlgorithmKind, KeyedLimiter, Spec};
    ///
    /// let usual = Spec::new(AlgorithmKind::LeakyQueue, 10, Duration::from_secs(1));
    /// let limiter = Arc::new(KeyedLimiter::new(usual)?.with_max_waiters(100));
    /// let who = Entries::new().entry("ip", ClientIp::peer());
    /// let layer = RateLimitLayer::keyed_waiting(limiter, who, Duration::from_secs(5));
    /// # Ok::<(), tidegate::RuleErrors>(())
    /// ```
    #[must_use]
    pub fn keyed_waiting<C: Timer + 'static>(
        limiter: Arc<KeyedLimiter<C>>,
        who: Entries,
        most_wait: Duration,
    ) -> Self {
        Self::with(Keyed::new(NAME, limiter, Some(most_wait.into())), who)
    }
}

/// Decides by the limiter of the caller.
struct Keyed<C> {
    limiter: Arc<KeyedLimiter<C>>,
    /// The rule of callers without a plan, as long as it is unchanged, as answers show it.
    usual: PolicyRule,
    /// How long a request may wait; `None` for an immediate decision.
    most_wait: Option<Micros>,
}

impl<C: Clock> Keyed<C> {
    fn new(name: &str, limiter: Arc<KeyedLimiter<C>>, most_wait: Option<Micros>) -> Arc<Self> {
        let usual = PolicyRule::of_values(name, limiter.usual_rule());
        Arc::new(Self { limiter, usual, most_wait })
    }

    /// Runs one step on the caller's limiter, at the cost of the request, and passes the answer to
    /// `read`.
    fn step<T>(
        &self,
        question: &Question<'_>,
        step: Step,
        read: impl FnOnce(&Answer<'_>) -> T,
    ) -> T {
        let Some((key, cost)) = question.caller() else { return read(&nothing(self.now())) };
        // A look has no cost, because its `retry_after` is not used.
        let cost = if step == Step::Peek { 0 } else { cost };
        let one = self.limiter.call_of(&key, cost).step(step);
        self.with_answer(cost, one, read)
    }

    /// Passes an answer to `read` under a rule with the values of the limiter.
    fn with_answer<T>(&self, cost: u64, one: One, read: impl FnOnce(&Answer<'_>) -> T) -> T {
        let own = self.limiter.other_rule_of(&one);
        let own = own.map(|rule| PolicyRule::of_values(self.usual.name(), &rule));
        let rule = own.as_ref().unwrap_or(&self.usual);
        let One { verdict, at, decision, overflow, elsewhere, .. } = one;
        let is_limited = !is_unlimited(&decision);
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
        let rules = Rules::Borrowed(std::slice::from_ref(rule));
        let allowed = verdict.is_allowed();
        read(&Answer { rules, allowed, at, standing, repeated: false, replies })
    }

    fn now(&self) -> Timestamp {
        self.limiter.clock.now()
    }
}

impl<C: Timer + 'static> Keyed<C> {
    fn check(&self, question: &Question<'_>) -> Soon<Ruling> {
        let read = |answer: &Answer<'_>| (Ruling::of(answer, question), runs_at(answer));
        let (ruling, runs_at) = self.step(question, Step::Ask, read);
        let Some(runs_at) = runs_at else { return Soon::Now(ruling) };
        let limiter = Arc::clone(&self.limiter);
        Soon::Later(Box::pin(async move {
            wait_until(&limiter.clock, runs_at).await;
            ruling
        }))
    }

    /// Nothing happens before the first poll, so a request that is dropped before costs nothing.
    fn acquire(&self, question: Question<'static>, most_wait: Micros) -> Later<Ruling> {
        let this =
            Self { limiter: Arc::clone(&self.limiter), usual: self.usual.clone(), most_wait: None };
        Box::pin(async move {
            let Some((key, cost)) = question.caller() else {
                return Ruling::of(&nothing(this.now()), &question);
            };
            let call = this.limiter.call_of(&key, cost);
            let one = call.wait(most_wait, &this.limiter.clock).await;
            this.with_answer(cost, one, |answer| Ruling::of(answer, &question))
        })
    }
}

/// The answer to a request without a caller: it matches no limiter.
fn nothing(at: Timestamp) -> Answer<'static> {
    let (rules, standing, replies) = (Rules::Borrowed(&[]), Standing::Exact, Default::default());
    Answer { rules, allowed: true, at, standing, repeated: false, replies }
}

impl<C: Timer + 'static> Decider for Keyed<C> {
    fn ask(&self, question: &Question<'_>) -> Soon<Ruling> {
        if question.lacks_address() {
            return Soon::Now(Ruling::without_address());
        }
        match self.most_wait {
            None => self.check(question),
            Some(most_wait) => Soon::Later(self.acquire(question.to_owned(), most_wait)),
        }
    }

    fn refund(&self, question: &Question<'_>, _: &Took) -> Soon<()> {
        self.step(question, Step::Refund, |_| ());
        Soon::Now(())
    }

    fn release(&self, question: &Question<'_>, took: &Took) -> Soon<Fields> {
        if took.anything() {
            self.step(question, Step::Settle { actual: 0 }, |_| ());
        }
        Soon::Now(self.step(question, Step::Peek, |answer| Fields::from(answer)))
    }

    fn now(&self) -> Timestamp {
        Self::now(self)
    }

    fn pause(self: Arc<Self>, wait: Micros) -> Later<()> {
        let until = Self::now(&self).plus(wait);
        Box::pin(async move { wait_until(&self.limiter.clock, until).await })
    }
}
