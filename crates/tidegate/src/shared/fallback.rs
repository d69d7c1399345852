//! The limiters in this process, for decisions without the store.

use std::borrow::Cow;
use std::hash::Hasher;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use tidegate_core::{Decision, Outcome, Rule, Timestamp};

use super::KeyAsk;
use super::denials::{Denials, Known};
use super::left::{Lefts, News};
use super::parts::Parts;
use super::share::{Share, is_local};
use crate::clock::{Clock, SystemClock};
use crate::dedupe::DedupeCache;
use crate::key::{Fingerprint, Seed};
use crate::rules::{Policy, PolicyErrors};
use crate::step;
use crate::step::{Ask, Lineage};
use crate::store::memory::{Generation, MemoryStore, PerKey};

/// The limiters of rules that this process decides while the store does not. They also take what this node
/// admits through the store, so their usage is known when the store fails.
///
/// The policies in force here are those of the gate, and so are the generations and lineages of rules. Each
/// limiter is asked under this node's share of its values, and keeps the values it was last asked under. So
/// after a change of the share each limiter changes when it is next asked, and no request waits for that.
#[derive(Debug)]
pub(super) struct Fallback {
    pub(super) memory: MemoryStore,
    pub(super) parts: Arc<Parts>,
    pub(super) denials: Denials,
    /// The units left of limiters, as the store has just reported them.
    pub(super) left: Lefts,
    /// The number of refusals whose `retry_after` was spread.
    pub(super) shed: AtomicU64,
    /// Answers that this process gave to requests that may be asked again.
    pub(super) answers: DedupeCache,
    pub(super) seed: Seed,
    pub(super) clock: SystemClock,
}

impl Fallback {
    pub(super) fn new(policy: Policy, share: Share) -> Self {
        let (clock, parts) = (SystemClock::new(), Arc::new(Parts::new(share)));
        let of_overflow = Arc::clone(&parts);
        let overflow = Box::new(move |rule: &Rule| of_overflow.share().rule(rule));
        let memory = MemoryStore::with_rules_per_key(policy, &clock, PerKey::Shares { overflow });
        parts.follow(&memory.newest().policy);
        Self {
            memory,
            parts,
            denials: Denials::new(),
            left: Lefts::new(),
            shed: AtomicU64::new(0),
            answers: DedupeCache::default(),
            seed: Seed::random(),
            clock,
        }
    }

    /// Puts in force the policy that `next` makes of the current one; changes run one at a time. `published`
    /// gets the rules that changed or were removed.
    ///
    /// # Errors
    /// `next` failed, or no share can be made of a rule. Nothing changes.
    pub(super) fn change<E: From<PolicyErrors>>(
        &self,
        next: impl FnOnce(&Policy) -> Result<Policy, E>,
        published: impl FnOnce(&[Lineage]),
    ) -> Result<(), E> {
        let next = |policy: &Policy| -> Result<Policy, E> {
            let next = next(policy)?;
            self.share().check(&next)?;
            Ok(next)
        };
        let published = |changed: &[Lineage]| {
            self.parts.follow(&self.memory.newest().policy);
            published(changed);
        };
        self.memory.change(|| self.now(), next, published)
    }

    /// Puts another share of every limit in force; what was used stays used.
    pub(super) fn split(&self, share: Share) {
        self.parts.split(share);
        self.memory.amend_overflow();
    }

    /// Returns this node's share of every limit.
    pub(super) fn share(&self) -> Share {
        self.parts.share()
    }

    pub(super) fn clock(&self) -> SystemClock {
        self.clock.clone()
    }

    pub(super) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Takes what the store admitted from the limiters at these places, as far as it fits: usage above this
    /// node's share leaves no debt.
    pub(super) fn learn(
        &self,
        policy: &Arc<Policy>,
        met: &[KeyAsk],
        admits: impl Fn(usize) -> bool,
    ) {
        for (place, met) in warm(policy, met) {
            let local = Ask { enforced: false, reserves: false, ..self.part(policy, met) };
            if local.report {
                self.learn_report(local);
            } else if admits(place) {
                self.step_with(&[local], step::Step::Decide);
            }
        }
    }

    /// Takes reported usage, at most what is left.
    fn learn_report(&self, mut local: Ask) {
        let seen = self.step_with(std::slice::from_ref(&local), step::Step::Peek);
        let left = seen.decisions.first().map_or(0, |decided| decided.decision.remaining);
        (local.report, local.cost) = (false, local.cost.min(left));
        local.asks = local.cost;
        self.step_with(&[local], step::Step::Decide);
    }

    /// Runs one step over limiters in this process. Limiters of rules that are no longer in force admit
    /// everything.
    pub(super) fn step_with(&self, local: &[Ask], step: step::Step) -> step::Done {
        let (_, (here, done)) = self.memory.ask(|newest| {
            let here = renumbered(newest, local);
            let done = self.memory.step(newest, &here, &self.clock, step)?;
            Ok((here, done))
        });
        if here.len() == local.len() || !step.wants_values() {
            return done;
        }
        step::Done { decisions: done.of_each(&here, local), ..done }
    }

    /// Notes which limiters the store denied, and for how long. Limiters with values from the request are left
    /// out, because the next request may supply others.
    pub(super) fn learn_denials(
        &self,
        generation: &Generation,
        met: &[KeyAsk],
        denied: impl Fn(usize) -> Option<Decision>,
    ) {
        for (place, met) in warm(&generation.policy, met).filter(|(_, met)| !met.brought) {
            if let Some(Outcome::Deny { retry_after }) =
                denied(place).map(|decision| decision.outcome)
            {
                let (known_by, now) = (self.under_values(generation, met), self.clock.now());
                self.denials.note(known_by, met.asks, now, now.plus(retry_after));
            }
        }
    }

    /// Notes what is left of limiters. If less than half is left, a request that the store does not decide in
    /// time is denied for now, because other nodes may be taking the rest. If plenty is left, this node's share
    /// admits it even if many requests ask together.
    pub(super) fn learn_left(
        &self,
        generation: &Generation,
        met: &[KeyAsk],
        decision_of: impl Fn(usize) -> Option<Decision>,
    ) {
        for (place, met) in warm(&generation.policy, met) {
            if let Some(decision) = decision_of(place) {
                self.left.note(self.under_values(generation, met), &decision, self.clock.now());
            }
        }
    }

    /// Returns the store's last denial of a limiter, if it still holds for this request.
    pub(super) fn denied(
        &self,
        generation: &Generation,
        met: &KeyAsk,
        now: Timestamp,
    ) -> Option<Known> {
        self.denials.of(self.under_values(generation, met), met.asks, now)
    }

    /// Returns the fingerprint of a limiter in this process.
    pub(super) fn fingerprint(&self, met: &KeyAsk) -> Fingerprint {
        self.seed.of(&met.fingerprint)
    }

    /// Returns the fingerprint of a limiter under the values of its rule, because a reply of the store does not
    /// hold under other values.
    pub(super) fn under_values(&self, generation: &Generation, met: &KeyAsk) -> Fingerprint {
        self.seed.of_written(|hasher| {
            hasher.write_u64(generation.since(met.rule).as_micros());
            hasher.write(&met.fingerprint);
        })
    }

    /// Returns what the store has just reported of a limiter: that plenty is left for such a cost, or little.
    pub(super) fn news(&self, generation: &Generation, met: &KeyAsk) -> Option<News> {
        self.left.news(self.under_values(generation, met), met.asks, self.clock.now())
    }

    /// Forgets the denials of the store, because units were given back.
    pub(super) fn forget_denials(&self, generation: &Generation, met: &[KeyAsk]) {
        for known_by in met.iter().map(|met| self.under_values(generation, met)) {
            self.denials.forget(known_by);
            self.left.forget(known_by);
        }
    }

    /// Settles limiters of this process, each with its actual cost. Returns those that it has, with their replies.
    pub(super) fn settle(
        &self,
        policy: &Arc<Policy>,
        all: Vec<(KeyAsk, u64)>,
    ) -> (Vec<KeyAsk>, step::Done) {
        let (_, settled) = self.memory.ask(|newest| {
            let here = all.iter().filter_map(|(met, actual)| {
                let local = is_warm(policy, met).then(|| self.part(policy, met))?;
                Some((met.clone(), (in_force(newest, &local)?, *actual)))
            });
            let (met, here): (Vec<_>, Vec<_>) = here.unzip();
            let (local, actual): (Vec<_>, Vec<_>) = here.into_iter().unzip();
            let done = self.memory.settle(newest, &local, &actual, &self.clock)?;
            Ok((met, done))
        });
        settled
    }

    /// Renews permits of this process; returns whether all are still out.
    pub(super) fn renew(&self, policy: &Arc<Policy>, all: &[KeyAsk]) -> bool {
        let all: Vec<_> = warm(policy, all).map(|(_, met)| self.part(policy, met)).collect();
        let renewed = self.memory.ask(|newest| {
            let here: Vec<_> = all.iter().filter_map(|met| in_force(newest, met)).collect();
            Ok(here.len() == all.len() && self.memory.renew(newest, &here, &self.clock)?.allowed)
        });
        renewed.1
    }

    pub(super) fn forget(&self, generation: &Generation, met: &[KeyAsk]) {
        self.forget_denials(generation, met);
        let policy = &generation.policy;
        let local: Vec<_> = warm(policy, met).map(|(_, met)| self.part(policy, met)).collect();
        self.memory
            .ask(|newest| self.memory.reset(newest, &renumbered(newest, &local), &self.clock));
    }

    /// Returns a limiter as this process knows it, but with its own values.
    pub(super) fn met(&self, met: &KeyAsk) -> Ask {
        let KeyAsk { lineage, rule, variant, cost, asks, report, .. } = *met;
        let KeyAsk { enforced, brought, by_plan, is_unlimited, by, reserves, .. } = *met;
        let KeyAsk { token, since, .. } = *met;
        let (fingerprint, figures) = (self.fingerprint(met), None);
        Ask {
            lineage,
            rule,
            variant,
            fingerprint,
            cost,
            asks,
            report,
            enforced,
            brought,
            by_plan,
            figures,
            is_unlimited,
            by,
            reserves,
            token,
            since,
        }
    }

    /// Returns a limiter that matched under `policy`, with this node's share of its values.
    pub(super) fn part(&self, policy: &Arc<Policy>, met: &KeyAsk) -> Ask {
        Ask { figures: self.parts.of(policy, met), ..self.met(met) }
    }
}

/// Returns the limiters whose rules are in force, with their current rule indices.
fn renumbered<'m>(newest: &Generation, local: &'m [Ask]) -> Cow<'m, [Ask]> {
    match local.iter().all(|met| newest.number_of(met) == Some(met.rule)) {
        true => Cow::Borrowed(local),
        false => local.iter().filter_map(|met| in_force(newest, met)).collect(),
    }
}

fn in_force(newest: &Generation, met: &Ask) -> Option<Ask> {
    Some(Ask { rule: newest.number_of(met)?, ..met.clone() })
}

/// Returns the limiters that this process may decide, each with its place in the request.
fn warm<'a>(policy: &'a Policy, met: &'a [KeyAsk]) -> impl Iterator<Item = (usize, &'a KeyAsk)> {
    met.iter().enumerate().filter(move |(_, met)| is_warm(policy, met))
}

fn is_warm(policy: &Policy, met: &KeyAsk) -> bool {
    policy.rules().get(met.rule).is_some_and(|rule| is_local(rule.spec()))
}
