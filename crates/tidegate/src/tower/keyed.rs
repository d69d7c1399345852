//! The use of a keyed limiter by a layer: each caller has the limit of their key, or their own plan.
//!
//! It is the `Decider` of the layers that have a limiter in place of rules.

use std::sync::Arc;

use tidegate_core::Timestamp;

use super::decider::{Admission, Decider, Later, Ruling, Soon, runs_at};
use super::entries::LayerQuestion;
use super::fields::{Constant, LimitFields};
use crate::answer::{Answer, Reply, Rules};
use crate::clock::{Clock, Timer};
use crate::frontend::Taken;
use crate::headers;
use crate::limiter::KeyedLimiter;
use crate::rules::{PolicyRule, rule_of_values};
use crate::step::{Decided, DescriptorSet, One, Standing, Step};
use crate::wait::{Patience, wait_until};

/// Decides by the limiter of the caller.
pub(super) struct Keyed<C> {
    limiter: Arc<KeyedLimiter<C>>,
    /// The rule of callers without a plan, as long as it is unchanged, as answers show it.
    usual: PolicyRule,
    /// The values that all answers under that rule have in their header fields.
    constant: Constant,
    /// The time for which a request may wait; `None` for an immediate decision.
    patience: Option<Patience>,
}

impl<C: Clock> Keyed<C> {
    pub(super) fn new(
        name: &str,
        limiter: Arc<KeyedLimiter<C>>,
        patience: Option<Patience>,
    ) -> Arc<Self> {
        let usual = rule_of_values(name, limiter.usual_rule());
        Arc::new(Self { limiter, usual, constant: Constant::default(), patience })
    }

    /// Passes an answer to `read` under a rule with the values of the limiter, and those that are constant under it. It
    /// has the cost, and says if that is reserved.
    fn with_answer<T>(
        &self,
        (cost, reserves): (u64, bool),
        one: One,
        read: impl FnOnce(&Answer<'_>, Option<&Constant>) -> T,
    ) -> T {
        let own = self.limiter.other_rule_of(&one);
        let own = own.map(|rule| rule_of_values(self.usual.name(), &rule));
        let rule = own.as_ref().unwrap_or(&self.usual);
        let mut answer = Answer {
            rules: Rules::Borrowed(std::slice::from_ref(rule)),
            allowed: one.verdict.is_allowed(),
            at: one.at,
            standing: Standing::Exact,
            repeated: false,
            first: None,
            replies: Default::default(),
            unreached: None,
        };
        if !one.decided.decision.is_unlimited() {
            answer.replies.push(Reply {
                number: 0,
                variant: 0,
                cost,
                is_look: false,
                report: false,
                enforced: true,
                by: DescriptorSet::one(0),
                reserves,
                decided: one.decided,
            });
        }
        // Under a plan the values differ, so they are constant only under the usual rule.
        read(&answer, own.is_none().then_some(&self.constant))
    }

    /// The ruling where no answer is needed, as mostly: the request is admitted under the usual rule, its fields are
    /// numbers, and nothing is waited for or given back.
    fn plain(&self, one: &One, question: &LayerQuestion<'_>) -> Option<Ruling> {
        let Decided { decision, taken, .. } = &one.decided;
        let is_plain = one.verdict.is_allowed()
            && !decision.is_unlimited()
            && decision.limit > 0
            && decision.delay_micros().is_zero()
            && taken.token.is_none()
            && !question.may_settle
            && self.limiter.other_rule_of(one).is_none();
        if !is_plain {
            return None;
        }
        let numbers = headers::numbers_of(decision, headers::seconds(decision.reset_after));
        // The first answer writes the constant values, so it takes the longer way.
        let fields =
            LimitFields::of_admission(question.shown, numbers, Some(self.constant.get()?))?;
        Some(Ruling::Admitted(Admission { fields, ..Admission::default() }))
    }

    fn clone(&self) -> Self {
        Self {
            limiter: Arc::clone(&self.limiter),
            usual: self.usual.clone(),
            constant: Constant::default(),
            patience: self.patience,
        }
    }
}

impl<C: Timer + 'static> Keyed<C> {
    fn check(&self, question: &LayerQuestion<'_>) -> Soon<Ruling> {
        // A request without a caller matches no limiter.
        let Some((key, cost)) = question.caller() else { return Soon::Now(Ruling::unlimited()) };
        let step = if question.may_settle { Step::Reserve } else { Step::Ask };
        let one = self.limiter.call_of(&key, cost).step(step);
        if let Some(ruling) = self.plain(&one, question) {
            return Soon::Now(ruling);
        }
        self.with_answer((cost, question.may_settle), one, |answer, constant| {
            Ruling::of(answer, question, constant, self).held(runs_at(answer), self)
        })
    }

    /// Nothing happens before the first poll, so a request that is dropped before costs nothing.
    fn acquire(&self, question: LayerQuestion<'static>, patience: Patience) -> Later<Ruling> {
        let this = self.clone();
        Box::pin(async move {
            let Some((key, cost)) = question.caller() else { return Ruling::unlimited() };
            let call = this.limiter.call_of(&key, cost);
            let one = call.wait(patience, &this.limiter.clock).await;
            this.with_answer((cost, false), one, |answer, _| {
                Ruling::of(answer, &question, None, &this)
            })
        })
    }
}

impl<C: Timer + 'static> Decider for Keyed<C> {
    fn ask(&self, question: &LayerQuestion<'_>) -> Soon<Ruling> {
        if question.lacks_address() {
            return Soon::Now(Ruling::without_address());
        }
        match self.patience {
            None => self.check(question),
            Some(patience) => Soon::Later(self.acquire(question.to_owned(), patience)),
        }
    }

    fn give_back(&self, question: &LayerQuestion<'_>, took: &Taken) -> Soon<LimitFields> {
        let Some((key, cost)) = question.caller() else { return Soon::Now(LimitFields::None) };
        // A permit is returned whenever it was taken.
        let token = took.tokens().next();
        let since = if token.is_none() { took.of_one() } else { None };
        if token.is_some() || took.gives_back() {
            self.limiter.call_of(&key, cost).step(Step::Settle { actual: 0, token, since });
        }
        if question.shown.is_empty() {
            return Soon::Now(LimitFields::None);
        }
        // A look has no cost, because its `retry_after` is not used.
        let one = self.limiter.call_of(&key, 0).step(Step::Peek);
        Soon::Now(self.with_answer((0, false), one, |answer, constant| {
            LimitFields::of(answer, question.shown, constant)
        }))
    }

    fn handle(&self) -> Arc<dyn Decider> {
        Arc::new(self.clone())
    }

    fn now(&self) -> Timestamp {
        self.limiter.clock.now()
    }

    fn sleep_until(self: Arc<Self>, at: Timestamp) -> Later<()> {
        Box::pin(async move { wait_until(&self.limiter.clock, at).await })
    }
}
