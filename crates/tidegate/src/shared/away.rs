//! Decisions without the store: what is decided in process, and what is refused until the store decides again.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidegate_core::{Decision, Micros, Outcome, Room, Rule, Timestamp, Visitor};

use super::denials::{Denials, Known};
use super::share::{Share, is_local};
use super::{KeyMet, SharedGateError};
use crate::answer::{Lack, Standing};
use crate::clock::{Clock, Reading, SystemClock};
use crate::few::Few;
use crate::gate::Met;
use crate::key::Seed;
use crate::once::{self, Answers};
use crate::rules::{AmendError, OnStoreError, Policy, PolicyRule, refused};
use crate::store::memory::{self, MemoryStore};

/// The `retry_after` of a refusal for want of the store while it is unavailable.
const COME_BACK: Micros = Micros::from_secs(1);
/// The least `retry_after` of such a refusal while the store is overloaded, and the width over which they are
/// spread, so that callers do not come back as one.
const SHED: (Micros, Micros) = (Micros::from_millis(100), Micros::from_millis(100));

/// The limiters of the rules that are decided in process while the store does not decide, kept warm by what
/// this node admits while it does.
#[derive(Debug)]
pub(super) struct Away {
    /// As it was loaded.
    policy: Arc<Policy>,
    memory: MemoryStore,
    /// This node's share of the policy at the start.
    parts: Policy,
    /// This node's share now, packed.
    share: AtomicU64,
    /// The rules that were changed since, by their numbers; held by whoever changes rules or the share.
    changed: Mutex<HashMap<usize, PolicyRule>>,
    denials: Denials,
    /// Refusals so far that were spread.
    shed: AtomicU64,
    /// What requests were answered by it that may be asked again.
    answers: Answers,
    seed: Seed,
    clock: SystemClock,
}

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verb {
    Ask,
    Peek,
}

/// What came of it: of each limiter a decision, if there is anything to tell of it.
pub(super) struct Done {
    pub(super) allowed: bool,
    pub(super) at: Timestamp,
    pub(super) standing: Standing,
    pub(super) repeated: bool,
    pub(super) decisions: Vec<Option<Decision>>,
}

/// Why a limiter in process is not asked: it denies for now.
#[derive(Clone, Copy, Debug)]
struct Barred {
    wait: Micros,
    /// Most units that it can have left.
    left: u64,
}

impl Away {
    pub(super) fn new(policy: Arc<Policy>, share: Share) -> Result<Self, SharedGateError> {
        let clock = SystemClock::new();
        let parts = share.policy(&policy).map_err(SharedGateError::Policy)?;
        Ok(Self {
            memory: MemoryStore::new(&parts, &clock),
            policy,
            parts,
            share: AtomicU64::new(share.packed()),
            changed: Mutex::default(),
            denials: Denials::new(),
            shed: AtomicU64::new(0),
            answers: Answers::default(),
            seed: Seed::random(),
            clock,
        })
    }

    /// Puts this node's share of `rule` in force in place of the rule with this number.
    ///
    /// # Errors
    /// No share can be made of it, or there is no memory for the limiters there are.
    pub(super) fn amend(&self, number: usize, rule: &PolicyRule) -> Result<(), AmendError> {
        let mut changed = self.changed();
        let part = self.share().policy_rule(number, rule)?;
        let told = self.memory.amend(number, &part, Reading::of(&self.clock));
        told.map_err(|errors| refused(number, rule, &errors))?;
        changed.insert(number, rule.clone());
        self.denials.clear();
        Ok(())
    }

    /// Puts another share of every limit in force: what was used stays used. A rule of which no such share
    /// can be made, or for whose limiters there is no memory then, keeps the one it has.
    pub(super) fn split(&self, share: Share) {
        let changed = self.changed();
        let before = Share::unpacked(self.share.swap(share.packed(), Relaxed));
        for (number, loaded) in self.policy.rules().iter().enumerate() {
            let rule = changed.get(&number).unwrap_or(loaded);
            if share.rule_spec(rule.spec()) == before.rule_spec(rule.spec()) {
                continue;
            }
            if let Ok(part) = share.policy_rule(number, rule) {
                let _ = self.memory.amend(number, &part, Reading::of(&self.clock));
            }
        }
    }

    /// This node's share of every limit.
    pub(super) fn share(&self) -> Share {
        Share::unpacked(self.share.load(Relaxed))
    }

    /// The numbers of the rules of which some node has no share.
    pub(super) fn too_small(&self) -> Vec<usize> {
        let (share, changed) = (self.share(), self.changed());
        let rules = self.policy.rules().iter().enumerate();
        let rules = rules.map(|(number, loaded)| (number, changed.get(&number).unwrap_or(loaded)));
        rules.filter(|(_, rule)| share.is_too_small(rule)).map(|(number, _)| number).collect()
    }

    fn changed(&self) -> MutexGuard<'_, HashMap<usize, PolicyRule>> {
        self.changed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the figures of a rule come with each request.
    pub(super) fn is_figured(&self, number: usize) -> bool {
        self.memory.is_figured(number)
    }

    /// The figures of a rule are looked up from now on.
    pub(super) fn keep_figures(&mut self, number: usize) {
        self.memory.keep_figures(&self.parts, number);
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
        for (place, met) in warm(&self.policy, met) {
            if admits(place) {
                let local = Met { enforced: false, ..self.part(met) };
                self.memory.step(&[local], &self.clock, memory::Step::Decide);
            }
        }
    }

    /// Notes which limiters the store denied, and for how long. Not those whose values the request brought,
    /// for the next one may bring others.
    pub(super) fn learn_denials(&self, met: &[KeyMet], denied: impl Fn(usize) -> Option<Decision>) {
        for (place, met) in warm(&self.policy, met).filter(|(_, met)| !met.brought) {
            if let Some(Outcome::Deny { retry_after }) = denied(place).map(|told| told.outcome) {
                let (print, now) = (self.seed.of_bytes(&met.print), self.clock.now());
                self.denials.note(print, met.cost, now, now.plus(retry_after));
            }
        }
    }

    /// Forgets what the store denied, for something was given back.
    pub(super) fn forget_denials(&self, met: &[KeyMet]) {
        met.iter().for_each(|met| self.denials.forget(self.seed.of_bytes(&met.print)));
    }

    pub(super) fn forget(&self, met: &[KeyMet]) {
        self.forget_denials(met);
        let local: Vec<_> = warm(&self.policy, met).map(|(_, met)| self.part(met)).collect();
        self.memory.forget(&local, self.clock.now());
    }

    /// Decides what the store does not, for this `lack` of it. All or nothing: a rule that refuses for want
    /// of the store keeps the others from being charged. So does one whose figures the store can not hold,
    /// whatever state that is in.
    pub(super) fn decide(
        &self,
        met: &[KeyMet],
        verb: Verb,
        id: Option<&str>,
        lack: Lack,
        can_hold: impl Fn(&Rule) -> bool,
    ) -> Done {
        let is_closed = |met: &KeyMet| {
            on_store_error(&self.policy, met) == OnStoreError::Closed
                || !met.figures.as_deref().is_none_or(&can_hold)
        };
        let is_here = |met: &KeyMet| match on_store_error(&self.policy, met) {
            OnStoreError::Local => true,
            OnStoreError::Open => lack == Lack::Overloaded,
            OnStoreError::Closed => false,
        };
        let here: Few<_> = met.iter().enumerate().filter(|(_, met)| is_here(met)).collect();
        let barred: Few<_> = here.iter().map(|(_, met)| self.barred(met, lack)).collect();
        let refused = met.iter().any(|met| is_closed(met) && met.can_refuse());
        let denied =
            here.iter().zip(&barred).any(|((_, met), bar)| bar.is_some() && met.can_refuse());
        let step = match verb {
            Verb::Ask if !refused && !denied => memory::Step::Ask,
            Verb::Ask | Verb::Peek => memory::Step::Peek,
        };
        let done = self.step(&here, step, id);
        let closed = |met: &KeyMet| is_closed(met).then(|| self.closed(met, lack)).flatten();
        let mut decisions: Vec<_> = met.iter().map(closed).collect();
        for (((place, met), bar), decided) in here.iter().zip(barred).zip(done.decisions) {
            // What is closed has told already.
            if let Some(decision @ None) = decisions.get_mut(*place) {
                let bar = bar.filter(|_| !done.repeated);
                *decision = Some(self.told(met, decided.decision, bar, lack));
            }
        }
        let standing = if refused { Standing::Unavailable(lack) } else { Standing::Degraded(lack) };
        let (at, repeated) = (done.at, done.repeated);
        let allowed = done.allowed && !refused && (repeated || !denied);
        Done { allowed, at, standing, repeated, decisions }
    }

    /// A step over the limiters that are decided in process, once for each id.
    fn step(
        &self,
        here: &[(usize, &KeyMet)],
        step: memory::Step,
        id: Option<&str>,
    ) -> memory::Done {
        let local: Vec<_> = here.iter().map(|(_, met)| self.part(met)).collect();
        let run = || self.memory.step(&local, &self.clock, step);
        let Some(id) = id else { return run() };
        // A request is the same under its id whatever this node's share of the limits is.
        let whole = |met: &KeyMet| Met { figures: met.figures.clone(), ..self.met(met) };
        let whole: Vec<_> = here.iter().map(|(_, met)| whole(met)).collect();
        match once::of(&self.policy, &self.seed, id, &whole, &whole) {
            Some(once) => self.answers.step(once, &local, &self.clock, step, |_, _| true, run),
            None => run(),
        }
    }

    /// Whether a limiter denies whatever it holds here: this node has no share of it, or the store has said
    /// so and that still holds.
    fn barred(&self, met: &KeyMet, lack: Lack) -> Option<Barred> {
        let whole = met.rule_in(&self.policy)?;
        if met.cost == 0 || !holds(whole, met.cost) {
            return None;
        }
        if let Some(Known { cost, wait }) =
            self.denials.of(self.seed.of_bytes(&met.print), met.cost, self.clock.now())
        {
            return Some(Barred { wait, left: cost.saturating_sub(1) });
        }
        let has_none = self.share().has_none(whole);
        has_none.then(|| Barred { wait: self.come_back(lack), left: 0 })
    }

    /// The decision of a limiter in process. A cost that only this node's share can not hold is denied for
    /// now: the store may admit it.
    fn told(&self, met: &KeyMet, decided: Decision, bar: Option<Barred>, lack: Lack) -> Decision {
        if let Some(Barred { wait, left }) = bar {
            return Decision {
                outcome: Outcome::Deny { retry_after: wait },
                remaining: decided.remaining.min(left),
                reset_after: decided.reset_after.max(wait),
                ..decided
            };
        }
        let is_held = || met.rule_in(&self.policy).is_some_and(|whole| holds(whole, met.cost));
        match decided.outcome {
            Outcome::Never if is_held() => {
                let retry_after = self.come_back(lack);
                Decision { outcome: Outcome::Deny { retry_after }, ..decided }
            }
            _ => decided,
        }
    }

    /// What a rule that refuses for want of the store says: no, and to come back soon; what it still holds is
    /// not known.
    fn closed(&self, met: &KeyMet, lack: Lack) -> Option<Decision> {
        let limit = limit_of(met.rule_in(&self.policy)?)?;
        let (outcome, reset_after) = match met.cost {
            0 => (Outcome::Allow { delay: Micros::ZERO }, Micros::ZERO),
            _ => {
                let retry_after = self.come_back(lack);
                (Outcome::Deny { retry_after }, retry_after)
            }
        };
        Some(Decision { outcome, limit, remaining: 0, reset_after })
    }

    /// How long it takes until the store may decide again.
    fn come_back(&self, lack: Lack) -> Micros {
        if lack == Lack::Unavailable {
            return COME_BACK;
        }
        // Multiples of the golden ratio lie evenly, however many there are.
        let turn = self.shed.fetch_add(1, Relaxed).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        SHED.0.plus(Micros::from_micros((SHED.1.as_micros() * turn) >> 32))
    }

    /// A limiter as it is known in process, but for its figures.
    pub(super) fn met(&self, met: &KeyMet) -> Met {
        let KeyMet { rule, variant, cost, enforced, brought, by_plan, first, by, .. } = *met;
        let print = self.seed.of_bytes(&met.print);
        Met { rule, variant, print, cost, enforced, brought, by_plan, figures: None, first, by }
    }

    /// A limiter under this node's share of its figures.
    fn part(&self, met: &KeyMet) -> Met {
        let part = |figures: &Arc<Rule>| Arc::new(self.share().rule(figures));
        let figures = met.figures.as_ref().filter(|_| self.memory.is_figured(met.rule)).map(part);
        Met { figures, ..self.met(met) }
    }
}

/// The limiters of rules that may be decided in process, each with its place in the request.
fn warm<'a>(policy: &'a Policy, met: &'a [KeyMet]) -> impl Iterator<Item = (usize, &'a KeyMet)> {
    let is_warm =
        |met: &KeyMet| policy.rules().get(met.rule).is_some_and(|rule| is_local(rule.spec()));
    met.iter().enumerate().filter(move |(_, met)| is_warm(met))
}

fn on_store_error(policy: &Policy, met: &KeyMet) -> OnStoreError {
    policy.rules().get(met.rule).map_or(OnStoreError::Open, |rule| rule.spec().on_store_error)
}

/// Whether a limiter can ever hold so many units.
fn holds(whole: &Rule, cost: u64) -> bool {
    limit_of(whole).is_some_and(|limit| cost <= limit)
}

fn limit_of(rule: &Rule) -> Option<u64> {
    struct LimitOf;
    impl Visitor for LimitOf {
        type Out = u64;
        fn visit<R: Room>(self, room: &R) -> u64 {
            room.limit()
        }
    }
    rule.visit(LimitOf)
}
