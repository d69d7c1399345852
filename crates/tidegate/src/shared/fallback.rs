//! The limiters in process, for decisions without the store.

use std::collections::HashMap;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};

use tidegate_core::{Decision, Micros, Outcome, Rule, Timestamp};

use super::denials::{Denials, Known};
use super::share::{Share, is_local};
use super::{KeyMet, SharedGateError};
use crate::clock::{Clock, SystemClock};
use crate::dedupe::DedupeCache;
use crate::key::{Fingerprint, Seed};
use crate::rules::{ActivePolicy, AmendError, Policy, PolicyRule};
use crate::step;
use crate::step::Met;
use crate::store::memory::MemoryStore;

/// How long the store's word holds that less than half of a limiter is left.
const SCARCE: Micros = Micros::from_millis(100);
/// How long the store's word holds that so many requests like this one can be admitted: more than all nodes admit
/// within that time.
const PLENTY: (Micros, u64) = (Micros::from_millis(10), 10_000);

/// The limiters of the rules that are decided in process while the store does not decide, kept warm by what
/// this node admits while it does.
///
/// Each is asked under this node's share of its values, and keeps those that it was last asked under. So a share
/// that changes is followed by each limiter when that is next asked, and holds up nobody.
#[derive(Debug)]
pub(super) struct Fallback {
    pub(super) policy: Arc<ActivePolicy>,
    pub(super) memory: MemoryStore,
    parts: RwLock<Parts>,
    /// The rules that were changed since, by their numbers; held by whoever changes rules or the share.
    changed: Mutex<HashMap<usize, PolicyRule>>,
    pub(super) denials: Denials,
    /// Of limiters of which the store has just said what is left: that any cost is denied meanwhile (1), or the largest
    /// cost of which there is plenty, taken from the largest number there is.
    pub(super) left: Denials,
    /// Refusals so far that were spread.
    pub(super) shed: AtomicU64,
    /// What requests were answered by it that may be asked again.
    pub(super) answers: DedupeCache,
    pub(super) seed: Seed,
    pub(super) clock: SystemClock,
}

/// This node's share of the policy.
#[derive(Debug)]
struct Parts {
    share: Share,
    /// By rule and variant, its share of the values that were loaded.
    rules: Vec<Vec<Arc<Rule>>>,
}

impl Fallback {
    pub(super) fn new(policy: Arc<ActivePolicy>, share: Share) -> Result<Self, SharedGateError> {
        let clock = SystemClock::new();
        let parts = share.policy(&policy.loaded).map_err(SharedGateError::Policy)?;
        let rules = parts.rules().iter().map(values).collect();
        let memory = MemoryStore::with_limits_per_key(parts, &clock, is_local);
        Ok(Self {
            memory,
            policy,
            parts: RwLock::new(Parts { share, rules }),
            changed: Mutex::default(),
            denials: Denials::new(),
            left: Denials::new(),
            shed: AtomicU64::new(0),
            answers: DedupeCache::default(),
            seed: Seed::random(),
            clock,
        })
    }

    /// Puts this node's share of `rule` in force in place of the rule with this number.
    ///
    /// # Errors
    /// No share can be made of it.
    pub(super) fn amend(&self, number: usize, rule: &PolicyRule) -> Result<(), AmendError> {
        let mut changed = self.changed();
        let part = self.share().policy_rule(number, rule)?;
        self.follow(number, &part)?;
        changed.insert(number, rule.clone());
        self.denials.clear();
        self.left.clear();
        Ok(())
    }

    /// Puts another share of every limit in force: what was used stays used. A rule of which no such share
    /// can be made keeps the one it has.
    pub(super) fn split(&self, share: Share) {
        let changed = self.changed();
        let mut rules = Vec::with_capacity(self.policy.loaded.rules().len());
        for (number, loaded) in self.policy.loaded.rules().iter().enumerate() {
            let part = share.policy_rule(number, loaded).map(|part| values(&part));
            rules.push(
                part.unwrap_or_else(|_| {
                    self.parts().rules.get(number).cloned().unwrap_or_default()
                }),
            );
            let in_force = changed.get(&number).unwrap_or(loaded);
            if let Ok(part) = share.policy_rule(number, in_force) {
                let _ = self.follow(number, &part);
            }
        }
        *self.parts.write().unwrap_or_else(PoisonError::into_inner) = Parts { share, rules };
    }

    /// The overflow limiter follows; each other when it is next asked.
    fn follow(&self, number: usize, part: &PolicyRule) -> Result<(), AmendError> {
        let part = [(number, part.clone())].into_iter();
        self.memory.change(|| self.now(), |policy| Ok(policy.with_rules(part)), |_| ())
    }

    /// This node's share of every limit.
    pub(super) fn share(&self) -> Share {
        self.parts().share
    }

    fn parts(&self) -> RwLockReadGuard<'_, Parts> {
        self.parts.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// The numbers of the rules of which some node has no share.
    pub(super) fn too_small(&self) -> Vec<usize> {
        let (share, changed) = (self.share(), self.changed());
        let rules = self.policy.loaded.rules().iter().enumerate();
        let rules = rules.map(|(number, loaded)| (number, changed.get(&number).unwrap_or(loaded)));
        rules.filter(|(_, rule)| share.is_too_small(rule)).map(|(number, _)| number).collect()
    }

    fn changed(&self) -> MutexGuard<'_, HashMap<usize, PolicyRule>> {
        self.changed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn clock(&self) -> SystemClock {
        self.clock.clone()
    }

    pub(super) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Takes here as well what the store admitted, by the places of its limiters, as far as it fits: more
    /// than this node's share leaves no debt.
    pub(super) fn learn(&self, met: &[KeyMet], admits: impl Fn(usize) -> bool) {
        for (place, met) in warm(&self.policy.loaded, met) {
            let local = Met { enforced: false, ..self.part(met) };
            if local.report {
                self.learn_report(local);
            } else if admits(place) {
                self.step_with(&[local], step::Step::Decide);
            }
        }
    }

    /// Takes what was reported as far as there is anything left.
    fn learn_report(&self, mut local: Met) {
        let seen = self.step_with(std::slice::from_ref(&local), step::Step::Peek);
        let left = seen.decisions.first().map_or(0, |decided| decided.decision.remaining);
        (local.report, local.cost) = (false, local.cost.min(left));
        local.asks = local.cost;
        self.step_with(&[local], step::Step::Decide);
    }

    /// One step over limiters in process.
    pub(super) fn step_with(&self, local: &[Met], step: step::Step) -> step::Done {
        let step = |generation: &_| self.memory.step(generation, local, &self.clock, step);
        self.memory.ask(step).1
    }

    /// Notes which limiters the store denied, and for how long. Not those whose values the request brought,
    /// for the next one may bring others.
    pub(super) fn learn_denials(&self, met: &[KeyMet], denied: impl Fn(usize) -> Option<Decision>) {
        for (place, met) in warm(&self.policy.loaded, met).filter(|(_, met)| !met.brought) {
            if let Some(Outcome::Deny { retry_after }) = denied(place).map(|told| told.outcome) {
                let (fingerprint, now) = (self.fingerprint(met), self.clock.now());
                self.denials.note(fingerprint, met.asks, now, now.plus(retry_after));
            }
        }
    }

    /// Notes what is left of limiters. Where that is less than half, a request that the store does not decide in
    /// time is denied for now, for others may be taking what is left; where it is plenty, it is admitted by this node's
    /// share even if many ask together.
    pub(super) fn learn_left(&self, met: &[KeyMet], told: impl Fn(usize) -> Option<Decision>) {
        for (place, met) in warm(&self.policy.loaded, met) {
            if let Some(Decision { remaining, limit, .. }) = told(place) {
                let (fingerprint, now) = (self.fingerprint(met), self.clock.now());
                if remaining.saturating_mul(2) < limit {
                    self.left.replace(fingerprint, 1, now.plus(SCARCE));
                } else if remaining >= PLENTY.1 {
                    let largest = remaining / PLENTY.1;
                    self.left.replace(fingerprint, u64::MAX - largest, now.plus(PLENTY.0));
                } else {
                    self.left.forget(fingerprint);
                }
            }
        }
    }

    /// What the store has lately denied of a limiter, if that still holds for this request.
    pub(super) fn denied(&self, met: &KeyMet, now: Timestamp) -> Option<Known> {
        self.denials.of(self.fingerprint(met), met.asks, now)
    }

    /// What a limiter is known by in this process.
    pub(super) fn fingerprint(&self, met: &KeyMet) -> Fingerprint {
        self.seed.of_bytes(&met.fingerprint)
    }

    /// Whether the store has just said that plenty is left of a limiter for such a cost, or how little.
    pub(super) fn has_news(&self, met: &KeyMet) -> bool {
        let known = self.left.of(self.fingerprint(met), u64::MAX, self.clock.now());
        known.is_some_and(|known| known.cost == 1 || met.asks <= u64::MAX - known.cost)
    }

    /// Forgets what the store denied, for something was given back.
    pub(super) fn forget_denials(&self, met: &[KeyMet]) {
        for fingerprint in met.iter().map(|met| self.fingerprint(met)) {
            self.denials.forget(fingerprint);
            self.left.forget(fingerprint);
        }
    }

    /// Settles with limiters in process what a request took there, each with what it turned out to cost.
    pub(super) fn settle(&self, all: &[(KeyMet, u64)]) {
        let here = all.iter().filter(|(met, _)| is_warm(&self.policy.loaded, met));
        let (local, actual): (Vec<_>, Vec<_>) =
            here.map(|(met, actual)| (self.part(met), *actual)).unzip();
        self.memory.ask(|generation| {
            self.memory.settle(generation, &local, &actual, &self.clock).map(drop)
        });
    }

    pub(super) fn forget(&self, met: &[KeyMet]) {
        self.forget_denials(met);
        let local: Vec<_> = warm(&self.policy.loaded, met).map(|(_, met)| self.part(met)).collect();
        self.memory.ask(|generation| self.memory.forget(generation, &local, self.clock.now()));
    }

    /// A limiter as it is known in process, but for its figures.
    pub(super) fn met(&self, met: &KeyMet) -> Met {
        let KeyMet { lineage, rule, variant, cost, asks, report, .. } = *met;
        let KeyMet { enforced, brought, by_plan, by, .. } = *met;
        let (fingerprint, figures) = (self.fingerprint(met), None);
        Met {
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
            by,
        }
    }

    /// A limiter under this node's share of its values.
    pub(super) fn part(&self, met: &KeyMet) -> Met {
        let parts = self.parts();
        let figures = match &met.figures {
            Some(figures) => Some(Arc::new(parts.share.rule(figures))),
            None => parts.rules.get(met.rule).and_then(|rule| rule.get(met.variant)).cloned(),
        };
        Met { figures, ..self.met(met) }
    }
}

/// The values of a rule, by variant; none where it limits nothing here.
fn values(rule: &PolicyRule) -> Vec<Arc<Rule>> {
    if !is_local(rule.spec()) {
        return Vec::new();
    }
    (0..rule.variants()).map(|number| Arc::new(rule.variant(number).clone())).collect()
}

/// The limiters of rules that may be decided in process, each with its place in the request.
fn warm<'a>(policy: &'a Policy, met: &'a [KeyMet]) -> impl Iterator<Item = (usize, &'a KeyMet)> {
    met.iter().enumerate().filter(move |(_, met)| is_warm(policy, met))
}

fn is_warm(policy: &Policy, met: &KeyMet) -> bool {
    policy.rules().get(met.rule).is_some_and(|rule| is_local(rule.spec()))
}
