//! Decisions without the store: by limiters in this process, by earlier denials of the store, or by refusal.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use tidegate_core::{Decision, Micros, Outcome, Rule};

use super::local::Local;
use super::reported::{KnownDenial, News};
use crate::clock::Clock;
use crate::inline_list::InlineList;
use crate::request::RequestIdentity;
use crate::rules::{OnStoreError, Policy, limit_of};
use crate::step::{Ask, Decided, Done, Lack, Standing};
use crate::store::memory::MemoryGeneration;
use crate::store::{Generation, KeyAsk, StoreError, Verb, is_report};
use crate::{dedupe, step};

/// The `retry_after` of a refusal while the store is unavailable.
const COME_BACK: Micros = Micros::from_secs(1);
/// The smallest `retry_after` of a refusal while the store is overloaded, and the width over which it is spread, so
/// that callers do not return together.
const SHED: (Micros, Micros) = (Micros::from_millis(100), Micros::from_millis(100));

/// The decider of a limiter in place of the store.
#[derive(Clone, Copy, Debug)]
struct By {
    /// Its rule, by refusing.
    is_closed: bool,
    /// The limiter in this process, if the rule does not refuse.
    is_here: bool,
}

/// The reason not to ask a limiter in this process: it denies for now.
#[derive(Clone, Copy, Debug)]
struct Barred {
    wait: Micros,
    /// The maximum number of units that it can have left.
    left: u64,
}

impl By {
    fn of(
        ask: &KeyAsk,
        policy: &Policy,
        newest: &MemoryGeneration,
        lack: Lack,
        can_hold: impl Fn(&Rule) -> bool,
    ) -> Self {
        let setting = ask.on_store_error(policy);
        let is_local = match setting {
            OnStoreError::Local => true,
            // An open rule stays limited under load, which callers can bring about.
            OnStoreError::Open => lack == Lack::Overloaded,
            OnStoreError::Closed => false,
        };
        // A limiter whose rule has others by now is unknown here, but no load may open its limit.
        let is_closed = setting == OnStoreError::Closed
            || !ask.values.own.as_ref().is_none_or(can_hold)
            || is_local && newest.has_others_for(ask);
        Self { is_closed, is_here: is_local && newest.number_of(ask).is_some() }
    }
}

impl Local {
    /// Decides in place of the store, which failed with `error`. `lasts` returns how long this node can still spend
    /// units that it took ahead: nothing is admitted on top of them. It is all or nothing: if a rule refuses
    /// because the store is missing, or has values that no store can hold, the other limiters take nothing.
    pub(super) fn decide(
        &self,
        generation: &Generation,
        asks: &[KeyAsk],
        verb: Verb,
        id: Option<RequestIdentity<'_>>,
        error: &StoreError,
        (can_hold, lasts): (impl Fn(&Rule) -> bool, impl Fn(&KeyAsk) -> Option<Micros>),
    ) -> (Done<Option<Decided>>, Standing) {
        let lack = Lack::of(error);
        let policy = &generation.policy;
        let newest = self.memory.newest();
        let all: InlineList<_> =
            asks.iter().map(|ask| (ask, By::of(ask, policy, &newest, lack, &can_hold))).collect();
        let here = all.iter().enumerate().filter(|(_, (_, by))| by.is_here);
        let here: InlineList<_> = here.map(|(place, (ask, _))| (place, *ask)).collect();
        let together = *error == StoreError::Overloaded { together: true };
        // Read once: replies of other requests change it all the time, and "little" must not become "unknown" later on.
        let news: InlineList<_> = here.iter().map(|(_, ask)| self.news(generation, ask)).collect();
        let is_new = together && news.iter().all(Option::is_none);
        let barred: InlineList<_> = here
            .iter()
            .zip(news)
            .map(|((_, ask), news)| {
                // Only under load: a store that is unavailable gives the rest to no other request.
                let is_scarce = lack == Lack::Overloaded && news == Some(News::Little);
                self.barred(generation, ask, lack, is_new || is_scarce, &lasts)
            })
            .collect();
        let refused = all.iter().any(|(ask, by)| by.is_closed && ask.can_deny());
        let denied =
            here.iter().zip(&barred).any(|((_, ask), bar)| bar.is_some() && ask.can_deny());
        // Reported usage is taken even if a limiter denies it.
        let refuses = denied && !is_report(asks);
        let step = match verb {
            Verb::Ask if !refused && !refuses => step::Step::Ask,
            _ => step::Step::Peek,
        };
        let done = self.step(policy, &here, step, id);
        let mut decisions: InlineList<_> = all
            .iter()
            .map(|(ask, by)| {
                let decision = if by.is_closed { self.closed(policy, ask, lack) } else { None };
                decision.map(|decision| Decided::of(decision, false, false))
            })
            .collect();
        for (((place, ask), bar), decided) in here.iter().zip(barred).zip(done.decisions) {
            // A closed rule has decided already.
            if let Some(slot @ None) = decisions.get_mut(*place) {
                // A repeated answer stays the answer of the first request, even if the limiter is barred by now.
                let bar = bar.filter(|_| !done.repeated);
                let decision = self.local_decision(policy, ask, decided.decision, bar, lack);
                let values = self.parts.of(policy, ask);
                let Decided { taken, elsewhere, .. } = decided;
                *slot = Some(Decided { values, taken, ..Decided::of(decision, false, elsewhere) });
            }
        }
        let standing = if refused { Standing::Unavailable(lack) } else { Standing::Degraded(lack) };
        let allowed = done.allowed && !refused && (done.repeated || !denied);
        (Done { allowed, at: done.at, repeated: done.repeated, decisions }, standing)
    }

    /// Runs a step over the limiters of this process, once for each id.
    fn step(
        &self,
        policy: &Arc<Policy>,
        here: &[(usize, &KeyAsk)],
        step: step::Step,
        id: Option<RequestIdentity<'_>>,
    ) -> step::Done {
        let local: Vec<_> = here.iter().map(|(_, ask)| self.part(policy, ask)).collect();
        let Some(id) = id else { return self.step_with(&local, step) };
        // An id identifies the same request whatever this node's share of the limits is.
        let whole: Vec<_> = here
            .iter()
            .map(|(_, ask)| Ask { values: ask.values.clone(), ..self.local_ask(ask) })
            .collect();
        let Some(once) = dedupe::of(policy, &self.seed, id, &whole) else {
            return self.step_with(&local, step);
        };
        let Ok(done) = self.answers.step(once, &local, &self.clock, step, || {
            Ok::<_, Infallible>(self.step_with(&local, step))
        });
        done
    }

    /// Returns why a limiter denies whatever it holds in this process; `None` if it does not. It denies
    /// - while a refusal of the store still holds,
    /// - while this node can spend units that it took ahead, or if it has no share of the limit,
    /// - if other requests may take the rest: the store decides them, and less than half was left in its last reply, or
    ///   it has not reported on a limiter that many requests ask for.
    fn barred(
        &self,
        generation: &Generation,
        ask: &KeyAsk,
        lack: Lack,
        is_contested: bool,
        lasts: impl Fn(&KeyAsk) -> Option<Micros>,
    ) -> Option<Barred> {
        let whole = ask.rule_in(&generation.policy)?;
        // No units are always admitted, and a cost above the whole limit must stay *never*: a bar would deny it for now.
        if ask.asks() == 0 || !holds(whole, ask.asks()) {
            return None;
        }
        let known_by = self.under_values(generation, ask);
        let now = self.clock.now();
        if let Some(KnownDenial { cost, wait }) = self.denials.of(known_by, ask.asks(), now) {
            return Some(Barred { wait, left: cost.saturating_sub(1) });
        }
        if let Some(wait) = lasts(ask) {
            return Some(Barred { wait, left: 0 });
        }
        let has_none = is_contested || self.share().has_none(whole);
        has_none.then(|| Barred { wait: self.come_back(lack), left: 0 })
    }

    /// Returns the decision of a limiter in this process. A cost that exceeds only this node's share is denied
    /// for now: the store may admit it.
    fn local_decision(
        &self,
        policy: &Policy,
        ask: &KeyAsk,
        decided: Decision,
        bar: Option<Barred>,
        lack: Lack,
    ) -> Decision {
        if let Some(Barred { wait, left }) = bar {
            return Decision {
                outcome: Outcome::Deny { retry_after: wait },
                remaining: decided.remaining.min(left),
                reset_after: decided.reset_after.max(wait),
                ..decided
            };
        }
        if decided.outcome == Outcome::Never
            && ask.rule_in(policy).is_some_and(|whole| holds(whole, ask.asks()))
        {
            let retry_after = self.come_back(lack);
            return Decision { outcome: Outcome::Deny { retry_after }, ..decided };
        }
        decided
    }

    /// Returns the denial of a rule that refuses while the store does not decide: with a short `retry_after`,
    /// and without the units left, which are not known.
    fn closed(&self, policy: &Policy, ask: &KeyAsk, lack: Lack) -> Option<Decision> {
        let limit = limit_of(ask.rule_in(policy)?)?;
        let (outcome, reset_after) = match ask.asks() {
            0 => (Outcome::Allow { delay: Micros::ZERO }, Micros::ZERO),
            _ => {
                let retry_after = self.come_back(lack);
                (Outcome::Deny { retry_after }, retry_after)
            }
        };
        Some(Decision { outcome, limit, remaining: 0, reset_after })
    }

    /// Returns how long it takes until the store may decide again.
    fn come_back(&self, lack: Lack) -> Micros {
        if lack == Lack::Unavailable {
            return COME_BACK;
        }
        // Multiples of the golden ratio spread evenly, however many there are.
        let turn = self.shed.fetch_add(1, Relaxed).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        // `turn` is a part of 2^32, so the product stays far below 2^64.
        SHED.0.plus(Micros::from_micros((SHED.1.as_micros() * turn) >> 32))
    }
}

/// Returns whether a limiter can ever hold this many units.
fn holds(whole: &Rule, cost: u64) -> bool {
    limit_of(whole).is_some_and(|limit| cost <= limit)
}

#[cfg(test)]
mod tests;
