//! What is decided while the store is away: each rule by its own choice.

use std::sync::Arc;

use tidegate_core::{Decision, Micros, Outcome, Room, Rule, Timestamp, Visitor};

use super::{KeyMet, SharedGateError, share};
use crate::answer::{Lack, Standing};
use crate::clock::{Clock, Reading, SystemClock};
use crate::gate::Met;
use crate::key::Seed;
use crate::once::{self, Answers};
use crate::rules::{AmendError, OnStoreError, Policy, PolicyRule, refused};
use crate::store::memory::{self, Decided, MemoryStore};

/// When one who is refused because the store is away is told to come back.
const COME_BACK: Micros = Micros::from_secs(1);

/// The limiters of the rules that are decided in process while the store is away, kept warm by what
/// this node admits while it is there.
#[derive(Debug)]
pub(super) struct Away {
    memory: MemoryStore,
    /// This node's part of the policy as it was loaded, and of how many it is one.
    parts: Policy,
    nodes: u64,
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

impl Done {
    /// Whether the limiter at this place admitted the request.
    pub(super) fn admits(&self, place: usize) -> bool {
        self.decisions.get(place).is_some_and(|told| told.is_some_and(|told| told.is_allowed()))
    }
}

impl Away {
    pub(super) fn new(policy: &Policy, nodes: u64) -> Result<Self, SharedGateError> {
        let clock = SystemClock::new();
        let parts = share::of(policy, nodes)?;
        let memory = MemoryStore::new(&parts, &clock);
        Ok(Self { memory, parts, nodes, answers: Answers::default(), seed: Seed::random(), clock })
    }

    /// Puts this node's part of the figures of `rule` in force in place of those of the rule with this
    /// number.
    ///
    /// # Errors
    /// There is less than one unit for each node, or no memory for the limiters there are.
    pub(super) fn amend(&self, number: usize, rule: &PolicyRule) -> Result<(), AmendError> {
        let part = share::of_rule(number, rule, self.nodes)?;
        let told = self.memory.amend(number, &part, Reading::of(&self.clock));
        told.map_err(|errors| refused(number, rule, &errors))
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

    /// What the store admitted, by the places of its limiters, is taken here as well, as far as it fits:
    /// more than this node's part leaves no debt.
    pub(super) fn learn(&self, policy: &Policy, met: &[KeyMet], admits: impl Fn(usize) -> bool) {
        for (place, mut local) in self.local(policy, met) {
            local.enforced = false;
            if admits(place) {
                self.memory.step(&[local], &self.clock, memory::Step::Decide);
            }
        }
    }

    pub(super) fn forget(&self, policy: &Policy, met: &[KeyMet]) {
        let local: Vec<_> = self.local(policy, met).map(|(_, met)| met).collect();
        self.memory.forget(&local, self.clock.now());
    }

    /// All or nothing: a rule that is closed keeps those that are local from being charged. So does one whose
    /// figures the store can not hold, whether it is away or not.
    pub(super) fn decide(
        &self,
        policy: &Policy,
        met: &[KeyMet],
        verb: Verb,
        id: Option<&str>,
        lack: Lack,
        can_hold: impl Fn(&Rule) -> bool,
    ) -> Done {
        let is_closed = |met: &KeyMet| {
            on_store_error(policy, met) == OnStoreError::Closed
                || !met.figures.as_deref().is_none_or(&can_hold)
        };
        let refuses = |met: &KeyMet| is_closed(met) && met.can_refuse();
        let refused = met.iter().any(refuses);
        let step = match verb {
            Verb::Ask if !refused => memory::Step::Ask,
            Verb::Ask | Verb::Peek => memory::Step::Peek,
        };
        let (places, local): (Vec<_>, Vec<_>) = self.local(policy, met).unzip();
        let done = self.step(policy, &local, step, id);
        let mut decisions: Vec<_> =
            met.iter().map(|met| is_closed(met).then(|| closed(policy, met)).flatten()).collect();
        for (place, decided) in places.into_iter().zip(done.decisions) {
            // What it tells where it was changed to be unlimited is not looked at, and what is closed has told.
            if let Some(decision @ None) = decisions.get_mut(place) {
                *decision = Some(decided.decision);
            }
        }
        let standing = if refused { Standing::Unavailable(lack) } else { Standing::Degraded(lack) };
        let (allowed, at, repeated) = (done.allowed && !refused, done.at, done.repeated);
        Done { allowed, at, standing, repeated, decisions }
    }

    /// A step over the limiters that are decided in process, once for each id.
    fn step(
        &self,
        policy: &Policy,
        local: &[Met],
        step: memory::Step,
        id: Option<&str>,
    ) -> memory::Done {
        let run = || self.memory.step(local, &self.clock, step);
        let is_still =
            |met: &Met, decided: &Decided| self.memory.is_still(&self.parts, met, decided);
        match id.and_then(|id| once::of(policy, &self.seed, id, local, local)) {
            Some(once) => self.answers.step(once, local, &self.clock, step, is_still, run),
            None => run(),
        }
    }

    /// A limiter as it is known in process, but for its figures.
    pub(super) fn met(&self, met: &KeyMet) -> Met {
        let KeyMet { rule, variant, cost, enforced, brought, by_plan, first, by, .. } = *met;
        let print = self.seed.of_bytes(&met.print);
        Met { rule, variant, print, cost, enforced, brought, by_plan, figures: None, first, by }
    }

    /// The same under this node's part of its figures.
    fn part(&self, met: &KeyMet) -> Met {
        let part = |figures: &Arc<Rule>| Arc::new(share::of_figures(figures, self.nodes));
        let figures = met.figures.as_ref().filter(|_| self.memory.is_figured(met.rule)).map(part);
        Met { figures, ..self.met(met) }
    }

    /// The limiters that are decided in process, each with its place in the request.
    fn local<'a>(
        &'a self,
        policy: &'a Policy,
        met: &'a [KeyMet],
    ) -> impl Iterator<Item = (usize, Met)> + 'a {
        let is_local =
            |(_, met): &(usize, &KeyMet)| on_store_error(policy, met) == OnStoreError::Local;
        met.iter().enumerate().filter(is_local).map(|(place, met)| (place, self.part(met)))
    }
}

fn on_store_error(policy: &Policy, met: &KeyMet) -> OnStoreError {
    policy.rules().get(met.rule).map_or(OnStoreError::Open, |rule| rule.spec().on_store_error)
}

/// What a closed rule tells: no, and to come back soon; what it still holds is not known.
fn closed(policy: &Policy, met: &KeyMet) -> Option<Decision> {
    let limit = limit_of(met.rule_in(policy)?)?;
    let (outcome, reset_after) = match met.cost {
        0 => (Outcome::Allow { delay: Micros::ZERO }, Micros::ZERO),
        _ => (Outcome::Deny { retry_after: COME_BACK }, COME_BACK),
    };
    Some(Decision { outcome, limit, remaining: 0, reset_after })
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
