//! The limiters in this process, for decisions without the store.

use std::borrow::Cow;
use std::hash::Hasher;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use tidegate_core::{Decision, Outcome, Rule, Timestamp};
use tidegate_rules::shared::{Share, is_local};

use super::reported::{Denied, KnownDenial, Lefts, News};
use super::share::Parts;
use crate::clock::Clock;
use crate::dedupe::DedupeCache;
use crate::key::{Fingerprint, Seed};
use crate::rules::{Policy, PolicyErrors};
use crate::step;
use crate::step::{Ask, AskValues, Lineage, ValuesSource};
use crate::store::memory::{MemoryGeneration, MemoryStore, PerKey};
use crate::store::{Generation, Host, KeyAsk};

/// The limiters of rules that this process decides while the store does not. They also take what this node
/// admits through the store, so their usage is known when the store fails.
///
/// The policies in force here are the policies of the gate, with the same generations and lineages of rules. Each
/// limiter is asked under this node's share of its values, and keeps the values it was last asked under. So
/// after a change of the share each limiter changes when it is next asked, and no request waits for that.
#[derive(Debug)]
pub(crate) struct Local {
    pub(crate) memory: MemoryStore,
    pub(super) parts: Arc<Parts>,
    pub(super) denials: Denied,
    /// The units left of limiters, as the store has just reported them.
    pub(super) left: Lefts,
    /// The number of refusals whose `retry_after` was spread.
    pub(super) shed: AtomicU64,
    /// Answers that this process gave to requests that may be asked again.
    pub(super) answers: DedupeCache,
    pub(super) seed: Seed,
    pub(super) clock: Host,
}

impl Local {
    /// The limiters of this process, by its clock.
    pub(crate) fn new(policy: Policy, share: Share, clock: Host) -> Self {
        let parts = Arc::new(Parts::new(share));
        let of_overflow = Arc::clone(&parts);
        let overflow = Box::new(move |rule: &Rule| of_overflow.share().rule(rule));
        let memory = MemoryStore::with_rules_per_key(policy, &clock, PerKey::Shares { overflow });
        parts.follow(&memory.newest().policy);
        Self {
            memory,
            parts,
            denials: Denied::new(),
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
    pub(crate) fn change<E: From<PolicyErrors>>(
        &self,
        next: impl FnOnce(&Policy) -> Result<Policy, E>,
        published: impl FnOnce(&[Lineage]),
    ) -> Result<(), E> {
        self.memory.change(
            || self.now(),
            |policy| {
                let next = next(policy)?;
                self.share().check(&next)?;
                Ok(next)
            },
            |changed| {
                self.parts.follow(&self.memory.newest().policy);
                published(changed);
            },
        )
    }

    /// Puts another share of every limit in force; usage carries over.
    pub(crate) fn split(&self, share: Share) {
        self.parts.split(share);
        self.memory.amend_overflow();
    }

    /// Returns this node's share of every limit.
    pub(crate) fn share(&self) -> Share {
        self.parts.share()
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Takes the units that the store admitted from the limiters at these places, as far as they fit: usage above this
    /// node's share leaves no debt.
    pub(super) fn learn(
        &self,
        policy: &Arc<Policy>,
        asks: &[KeyAsk],
        admits: impl Fn(usize) -> bool,
    ) {
        for (place, ask) in warm(policy, asks) {
            // The store has decided, and keeps the reservation if it is one. Enforced, so that the step says if it took.
            let local = Ask { enforced: true, reserves: false, ..self.part(policy, ask) };
            if local.is_report() || admits(place) && !self.takes(&local) {
                self.take_what_fits(local);
            }
        }
    }

    /// Takes the cost of a limiter if it fits as a whole.
    fn takes(&self, local: &Ask) -> bool {
        self.step_with(std::slice::from_ref(local), step::Step::Decide).allowed
    }

    /// Takes the cost of a limiter, at most the units left.
    fn take_what_fits(&self, local: Ask) {
        let seen = self.step_with(std::slice::from_ref(&local), step::Step::Peek);
        let left = seen.decisions.first().map_or(0, |decided| decided.decision.remaining);
        self.step_with(&[local.costing(local.cost.min(left))], step::Step::Decide);
    }

    /// Runs one step over limiters in this process. Limiters of rules that are no longer in force admit
    /// everything.
    pub(super) fn step_with(&self, local: &[Ask], step: step::Step) -> step::Done {
        let (_, (here, done)) = self.memory.ask(|newest| {
            let here = renumbered(newest, local);
            let done = self.memory.step(newest, &here, &self.clock, step)?;
            Ok((here, done))
        });
        // Decisions of rules that are gone are put back in their places.
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
        asks: &[KeyAsk],
        denied: impl Fn(usize) -> Option<Decision>,
    ) {
        for (place, ask) in warm(&generation.policy, asks)
            .filter(|(_, ask)| ask.values.source != ValuesSource::Request)
        {
            if let Some(Outcome::Deny { retry_after }) =
                denied(place).map(|decision| decision.outcome)
            {
                let known_by = self.under_values(generation, ask);
                let now = self.clock.now();
                self.denials.note(known_by, ask.asks(), now, now.plus(retry_after));
            }
        }
    }

    /// Notes the units left of limiters. If less than half is left, a request that the store does not decide in time is
    /// denied for now, because other nodes may be taking the rest. If plenty is left, this node's share admits it even
    /// if many requests ask together.
    pub(super) fn learn_left(
        &self,
        generation: &Generation,
        asks: &[KeyAsk],
        decision_of: impl Fn(usize) -> Option<Decision>,
    ) {
        for (place, ask) in warm(&generation.policy, asks) {
            if let Some(decision) = decision_of(place) {
                self.left.note(self.under_values(generation, ask), &decision, self.clock.now());
            }
        }
    }

    /// Returns the store's last denial of a limiter, if it still holds for this request.
    pub(crate) fn denied(
        &self,
        generation: &Generation,
        ask: &KeyAsk,
        now: Timestamp,
    ) -> Option<KnownDenial> {
        self.denials.of(self.under_values(generation, ask), ask.asks(), now)
    }

    /// Returns the fingerprint of a limiter in this process.
    pub(crate) fn fingerprint(&self, ask: &KeyAsk) -> Fingerprint {
        self.seed.of(&ask.fingerprint)
    }

    /// Returns the fingerprint of a limiter under the values of its rule, because a reply of the store does not
    /// hold under other values.
    pub(super) fn under_values(&self, generation: &Generation, ask: &KeyAsk) -> Fingerprint {
        self.seed.of_written(|hasher| {
            hasher.write_u64(generation.since(ask.rule).as_micros());
            hasher.write(&ask.fingerprint);
        })
    }

    /// Returns the latest report of the store about a limiter: plenty is left for such a cost, or little.
    pub(super) fn news(&self, generation: &Generation, ask: &KeyAsk) -> Option<News> {
        self.left.news(self.under_values(generation, ask), ask.asks(), self.clock.now())
    }

    /// Forgets the denials of the store, because units were given back.
    pub(super) fn forget_denials(&self, generation: &Generation, asks: &[KeyAsk]) {
        for known_by in asks.iter().map(|ask| self.under_values(generation, ask)) {
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
            let here = all.iter().filter_map(|(ask, actual)| {
                let local = is_warm(policy, ask).then(|| self.part(policy, ask))?;
                Some((ask.clone(), (in_force(newest, &local)?, *actual)))
            });
            let (asks, here): (Vec<_>, Vec<_>) = here.unzip();
            let (local, actual): (Vec<_>, Vec<_>) = here.into_iter().unzip();
            let done = self.memory.settle(newest, &local, &actual, &self.clock)?;
            Ok((asks, done))
        });
        settled
    }

    /// Renews permits of this process; returns whether all are still out.
    pub(super) fn renew(&self, policy: &Arc<Policy>, all: &[KeyAsk]) -> bool {
        let all: Vec<_> = warm(policy, all).map(|(_, ask)| self.part(policy, ask)).collect();
        let renewed = self.memory.ask(|newest| {
            let here: Vec<_> = all.iter().filter_map(|ask| in_force(newest, ask)).collect();
            // The permit of a rule that is gone is lost, and then the other permits need no renewal.
            Ok(here.len() == all.len() && self.memory.renew(newest, &here, &self.clock)?.allowed)
        });
        renewed.1
    }

    pub(super) fn forget(&self, generation: &Generation, asks: &[KeyAsk]) {
        self.forget_denials(generation, asks);
        let policy = &generation.policy;
        let local: Vec<_> = warm(policy, asks).map(|(_, ask)| self.part(policy, ask)).collect();
        self.memory
            .ask(|newest| self.memory.reset(newest, &renumbered(newest, &local), &self.clock));
    }

    /// Returns a limiter as this process knows it, without values.
    pub(super) fn local_ask(&self, ask: &KeyAsk) -> Ask {
        let KeyAsk { lineage, rule, cost, kind, enforced, by, reserves, taken, .. } = *ask;
        Ask {
            lineage,
            rule,
            fingerprint: self.fingerprint(ask),
            cost,
            kind,
            enforced,
            values: AskValues { own: None, ..ask.values },
            by,
            reserves,
            taken,
        }
    }

    /// Returns a limiter that matched under `policy`, with this node's share of its values.
    pub(super) fn part(&self, policy: &Arc<Policy>, ask: &KeyAsk) -> Ask {
        let mut local = self.local_ask(ask);
        local.values.own = self.parts.of(policy, ask);
        local
    }
}

/// Returns the limiters whose rules are in force, with their current rule indices.
fn renumbered<'m>(newest: &MemoryGeneration, local: &'m [Ask]) -> Cow<'m, [Ask]> {
    if local.iter().all(|ask| newest.number_of(ask) == Some(ask.rule)) {
        return Cow::Borrowed(local);
    }
    local.iter().filter_map(|ask| in_force(newest, ask)).collect()
}

fn in_force(newest: &MemoryGeneration, ask: &Ask) -> Option<Ask> {
    Some(Ask { rule: newest.number_of(ask)?, ..ask.clone() })
}

/// Returns the limiters that this process may decide, each with its place in the request.
fn warm<'a>(policy: &'a Policy, asks: &'a [KeyAsk]) -> impl Iterator<Item = (usize, &'a KeyAsk)> {
    asks.iter().enumerate().filter(move |(_, ask)| is_warm(policy, ask))
}

fn is_warm(policy: &Policy, ask: &KeyAsk) -> bool {
    policy.rules().get(ask.rule).is_some_and(|rule| is_local(rule.spec()))
}
