//! The use of a keyed limiter by a layer: each caller has the limit of their key, or their own plan.

use std::sync::Arc;

use tidegate_core::{Micros, Timestamp};

use super::decider::{Admission, Decider, Later, Ruling, Soon, runs_at};
use super::entries::LayerQuestion;
use super::fields::{Constant, LimitFields};
use crate::answer::{Answer, Reply, Rules};
use crate::clock::{Clock, Timer};
use crate::frontend::Taken;
use crate::headers;
use crate::inline_list::InlineList;
use crate::limiter::KeyedLimiter;
use crate::rules::PolicyRule;
use crate::step::{DescriptorSet, Lineage, One, Standing, Step};
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
        let usual = PolicyRule::of_values(name, limiter.usual_rule());
        Arc::new(Self { limiter, usual, constant: Constant::default(), patience })
    }

    /// Runs one step on the caller's limiter, at the cost of the request, and passes the answer to
    /// `read`.
    fn step<T>(
        &self,
        question: &LayerQuestion<'_>,
        step: Step,
        read: impl FnOnce(&Answer<'_>, Option<&Constant>) -> T,
    ) -> T {
        let Some((key, cost)) = question.caller() else { return read(&nothing(self.now()), None) };
        // A look has no cost, because its `retry_after` is not used.
        let cost = if step == Step::Peek { 0 } else { cost };
        let one = self.limiter.call_of(&key, cost).step(step);
        self.with_answer((cost, false), one, read)
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
        let own = own.map(|rule| PolicyRule::of_values(self.usual.name(), &rule));
        let rule = own.as_ref().unwrap_or(&self.usual);
        let One { verdict, at, decision, overflow, elsewhere, token, since, settled, .. } = one;
        let mut replies = InlineList::new();
        if !decision.is_unlimited() {
            replies.push(Reply {
                lineage: Lineage::NONE,
                number: 0,
                variant: 0,
                values: None,
                cost,
                asks: cost,
                report: false,
                enforced: true,
                by: DescriptorSet::one(0),
                decision,
                token,
                since,
                settled,
                overflow,
                elsewhere,
                reserves,
            });
        }
        let answer = Answer {
            rules: Rules::Borrowed(std::slice::from_ref(rule)),
            allowed: verdict.is_allowed(),
            at,
            standing: Standing::Exact,
            repeated: false,
            first: None,
            replies,
            unreached: None,
        };
        read(&answer, own.is_none().then_some(&self.constant))
    }

    /// The ruling where no answer is needed, as mostly: the request is admitted under the usual rule, its fields are
    /// numbers, and nothing is waited for or given back.
    fn plain(&self, one: &One, question: &LayerQuestion<'_>) -> Option<Ruling> {
        let One { verdict, decision, token, .. } = one;
        let is_plain = verdict.is_allowed()
            && !decision.is_unlimited()
            && decision.limit > 0
            && decision.delay_micros().is_zero()
            && token.is_none()
            && !question.may_settle
            && self.limiter.other_rule_of(one).is_none();
        if !is_plain {
            return None;
        }
        let numbers = headers::numbers_of(decision, headers::seconds(decision.reset_after));
        let fields =
            LimitFields::of_admission(question.shown, numbers, Some(self.constant.get()?))?;
        Some(Ruling::Admitted(Admission { fields, ..Admission::default() }))
    }

    /// Gives back all units that a request took.
    fn give_back(&self, question: &LayerQuestion<'_>, took: &Taken) {
        let since = took.of_one();
        if took.gives_back() {
            self.step(question, Step::Settle { actual: 0, token: None, since }, |_, _| ());
        }
    }

    fn now(&self) -> Timestamp {
        self.limiter.clock.now()
    }
}

impl<C: Timer + 'static> Keyed<C> {
    fn check(&self, question: &LayerQuestion<'_>) -> Soon<Ruling> {
        let read = |answer: &Answer<'_>, constant: Option<&Constant>| {
            (Ruling::of(answer, question, constant, &self.limiter), runs_at(answer))
        };
        let (ruling, runs_at) = match question.caller() {
            None => read(&nothing(self.now()), None),
            Some((key, cost)) => {
                let step = if question.may_settle { Step::Reserve } else { Step::Ask };
                let one = self.limiter.call_of(&key, cost).step(step);
                if let Some(ruling) = self.plain(&one, question) {
                    return Soon::Now(ruling);
                }
                self.with_answer((cost, question.may_settle), one, read)
            }
        };
        let Some(runs_at) = runs_at else { return Soon::Now(ruling) };
        let limiter = Arc::clone(&self.limiter);
        Soon::Later(Box::pin(async move {
            wait_until(&limiter.clock, runs_at).await;
            ruling
        }))
    }

    /// Nothing happens before the first poll, so a request that is dropped before costs nothing.
    fn acquire(&self, question: LayerQuestion<'static>, patience: Patience) -> Later<Ruling> {
        let this = Self {
            limiter: Arc::clone(&self.limiter),
            usual: self.usual.clone(),
            constant: Constant::default(),
            patience: None,
        };
        Box::pin(async move {
            let Some((key, cost)) = question.caller() else {
                return Ruling::of(&nothing(this.now()), &question, None, &this.limiter);
            };
            let call = this.limiter.call_of(&key, cost);
            let one = call.wait(patience, &this.limiter.clock).await;
            this.with_answer((cost, false), one, |answer, _| {
                Ruling::of(answer, &question, None, &this.limiter)
            })
        })
    }
}

/// The answer to a request without a caller: it matches no limiter.
fn nothing(at: Timestamp) -> Answer<'static> {
    Answer {
        rules: Rules::Borrowed(&[]),
        allowed: true,
        at,
        standing: Standing::Exact,
        repeated: false,
        first: None,
        replies: Default::default(),
        unreached: None,
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

    fn refund(&self, question: &LayerQuestion<'_>, took: &Taken) -> Soon<()> {
        self.give_back(question, took);
        Soon::Now(())
    }

    fn release(&self, question: &LayerQuestion<'_>, took: &Taken) -> Soon<LimitFields> {
        self.give_back(question, took);
        Soon::Now(self.step(question, Step::Peek, |answer, constant| {
            LimitFields::of(answer, question.shown, constant)
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
