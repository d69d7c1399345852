//! The one door to every decision: which limiters a request meets, one atomic step over them, an answer.

mod amend;
mod bans;
mod hold;
mod repeats;

use std::sync::Arc;

use tidegate_core::{Rule, Timestamp};

use crate::answer::{Answer, Descriptors, Matched, Standing};
use crate::clock::{Clock, SystemClock};
use crate::few::Few;
use crate::key::{Fingerprint, Seed};
use crate::observe::{Observer, Observers};
use crate::once::{Answers, Once};
use crate::request::{Descriptor, Request};
use crate::rules::{Amended, Mode, Policy, PolicyRule};
use crate::store::memory::{Ahead, Decided, Done, MemoryStore, Step};
use crate::wait::GateLines;
use bans::Bans;
pub use hold::Charge;

/// A limiter that a request meets.
#[derive(Clone, Debug)]
pub(crate) struct Met<K = Fingerprint> {
    /// The number of the rule in the policy.
    pub(crate) rule: usize,
    /// Which of the rule's figures hold for the key.
    pub(crate) variant: usize,
    /// The figures it is asked under, where they are not those of the variant and a store is told them.
    pub(crate) figures: Option<Arc<Rule>>,
    /// What it is known by.
    pub(crate) print: K,
    pub(crate) cost: u64,
    pub(crate) enforced: bool,
    /// Which descriptors of the request meet it.
    pub(crate) by: Descriptors,
}

impl<K> Met<K> {
    /// Whether it may refuse the request, and so have it wait.
    pub(crate) fn can_refuse(&self) -> bool {
        self.enforced && self.cost > 0 && !self.is_unlimited()
    }

    /// Whether its figures, since changed, admit everything.
    pub(crate) fn is_unlimited(&self) -> bool {
        self.figures.as_ref().is_some_and(|figures| figures.is_unlimited())
    }

    /// The figures it is asked under.
    #[cfg(feature = "redis")]
    pub(crate) fn rule<'a>(&'a self, policy: &'a Policy) -> Option<&'a Rule> {
        let own = || Some(policy.rules().get(self.rule)?.variant(self.variant));
        self.figures.as_deref().or_else(own)
    }
}

/// A policy in force, the limiters of every key, and a clock.
///
/// Share it by reference (or in an `Arc`): every verb takes `&self` and is exact under any concurrency.
#[derive(Debug)]
pub struct Gate<C = SystemClock> {
    policy: Policy,
    memory: MemoryStore,
    /// What became of its rules since.
    amended: Amended,
    seed: Seed,
    clock: C,
    /// Who waits.
    pub(crate) lines: GateLines,
    bans: Bans<C>,
    /// What requests were answered that may be asked again.
    answers: Answers,
    observers: Observers,
}

impl Gate {
    /// A gate that reads the system's clock.
    #[must_use]
    pub fn new(policy: Policy) -> Self {
        Self::with_clock(policy, SystemClock::new())
    }
}

impl<C: Clock> Gate<C> {
    /// A gate that reads `clock`; a [`Timestamp`] will do where every request brings its own time.
    #[must_use]
    pub fn with_clock(policy: Policy, clock: C) -> Self {
        let memory = MemoryStore::new(&policy, &clock);
        Self {
            policy,
            memory,
            amended: Amended::default(),
            seed: Seed::random(),
            clock,
            lines: GateLines::new(),
            bans: Bans::none(),
            answers: Answers::default(),
            observers: Observers::default(),
        }
    }

    /// Tells an observer of every decision: of each [`Gate::check`], [`Gate::admits`],
    /// [`Gate::acquire`] and their kin, once it is taken; not of looks ([`Gate::peek`]), nor of what is
    /// given back, settled or reset. Of one that waits, or is held for a delay, it is told when that is
    /// over; of one that is dropped before, never. Several are told in the order in which they were
    /// added.
    ///
    /// A gate that is observed works out the figures for [`Gate::admits`] too, which costs what
    /// [`Gate::check`] costs; one that is not pays nothing.
    #[must_use]
    pub fn with_observer(mut self, observer: Arc<dyn Observer>) -> Self {
        self.observers.add(observer);
        self
    }

    /// The policy as it was loaded. Figures that were changed since are told by [`Gate::in_force`], and by
    /// each answer.
    #[must_use]
    pub const fn policy(&self) -> &Policy {
        &self.policy
    }

    /// The time the gate's clock reads.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Decides a request and, when every rule admits it, takes its cost from all of them.
    pub fn check(&self, request: &Request<'_>) -> Answer<'_> {
        self.decide(request, &self.clock, Step::Ask)
    }

    /// Decides and takes like [`Gate::check`], working out no figures: only whether the request goes on.
    #[must_use]
    pub fn admits(&self, request: &Request<'_>) -> bool {
        let is_told = !self.observers.is_empty() || !self.bans.is_empty() || request.id().is_some();
        let step = if is_told { Step::Ask } else { Step::Decide };
        self.decide(request, &self.clock, step).is_allowed()
    }

    /// What [`Gate::check`] would answer, taking nothing.
    pub fn peek(&self, request: &Request<'_>) -> Answer<'_> {
        let (met, done) = self.step(request, &self.clock, Step::Peek);
        self.answer(&met, done)
    }

    /// Requests of one unit that would be admitted now, one after another: what is left of the tightest
    /// limit that the request meets, whatever its id; the largest number there is where it meets none.
    #[must_use]
    pub fn available(&self, request: &Request<'_>) -> u64 {
        self.peek(&request.without_id())
            .enforced()
            .map(|one| one.decision.remaining)
            .min()
            .unwrap_or(u64::MAX)
    }

    /// The least figure `limit` that the request meets: a limit, the capacity of a bucket, the places of
    /// a queue; the largest number there is where it meets none.
    #[must_use]
    pub fn capacity(&self, request: &Request<'_>) -> u64 {
        self.peek(&request.without_id())
            .enforced()
            .map(|one| one.decision.limit)
            .min()
            .unwrap_or(u64::MAX)
    }

    /// Gives the request's cost back to every limiter it meets, to no fewer than none used; the
    /// answer tells how they stand then.
    pub fn refund(&self, request: &Request<'_>) -> Answer<'_> {
        let met = self.met(request);
        let done = self.memory.step(&met, &self.clock, Step::Refund);
        self.stir(&met);
        self.answer(&met, done)
    }

    /// Ends a request that was admitted with its costs reserved: each of its descriptors turned out to
    /// cost `actual`. Gives every limiter it meets back what was too much, to no fewer than none used,
    /// or takes what was too little, even into debt, in one atomic step; the answer tells how they stand
    /// then.
    pub fn settle(&self, request: &Request<'_>, actual: u64) -> Answer<'_> {
        let (met, actual): (Vec<_>, Vec<_>) =
            self.met_to_settle(request, actual).into_iter().unzip();
        let done = self.settle_met(&met, &actual);
        self.answer(&met, done)
    }

    /// The limiters a request meets, each with what it is to be settled with.
    fn met_to_settle(&self, request: &Request<'_>, actual: u64) -> Vec<(Met, u64)> {
        let costing_actual: Vec<_> =
            request.descriptors().iter().map(|descriptor| descriptor.cost(actual)).collect();
        let met = self.met(request);
        let actual = self.met(&Request::new(request.domain(), &costing_actual));
        let with_actual = |met: Met| actual_of(&met, &actual).map(|actual| (met, actual));
        met.into_iter().filter_map(with_actual).collect()
    }

    /// Settles with each of these limiters what it is to be settled with, in one atomic step.
    pub(crate) fn settle_met(&self, met: &[Met], actual: &[u64]) -> Done {
        let done = self.memory.settle(met, actual, &self.clock);
        self.stir(met);
        done
    }

    /// Makes every limiter the request meets as good as new, in one atomic step; answers how many it
    /// meets. Bans of their keys are lifted before.
    pub fn reset(&self, request: &Request<'_>) -> usize {
        let met = self.met(request);
        self.lift_bans(&met);
        self.memory.forget(&met, self.clock.now());
        self.stir(&met);
        met.iter().filter(|met| self.is_limited(met)).count()
    }

    /// Limiters in existence, over all rules.
    #[must_use]
    pub fn keys(&self) -> usize {
        self.memory.keys()
    }

    fn decide<'g>(&'g self, request: &Request<'_>, clock: &impl Clock, step: Step) -> Answer<'g> {
        let (met, done) = self.step(request, clock, step);
        self.conclude(request, &met, done)
    }

    /// A step that gives nothing back.
    pub(crate) fn step(
        &self,
        request: &Request<'_>,
        clock: &impl Clock,
        step: Step,
    ) -> (Few<Met>, Done) {
        let met = self.met(request);
        let once = self.once(request, &met);
        if let Some(done) = self.without_asking(&met, once, clock) {
            return (met, done);
        }
        if !self.lines.are_idle() {
            return self.step_behind(met, once, step);
        }
        let done = self.step_at(&met, once, clock, step);
        (met, done)
    }

    /// One step over the limiters that are met, whoever waits for them.
    fn step_at(&self, met: &[Met], once: Option<Once>, clock: &impl Clock, step: Step) -> Done {
        match once {
            None => self.memory.step(met, clock, step),
            Some(once) => {
                let is_still = |met: &Met, decided: &Decided| self.is_still(met, decided);
                let run = || self.memory.step(met, clock, step);
                self.answers.step(once, met, clock, step, is_still, run)
            }
        }
    }

    /// What came of a decision, as an answer; whoever is to know of it is told.
    pub(crate) fn conclude(&self, request: &Request<'_>, met: &[Met], done: Done) -> Answer<'_> {
        self.count_refusals(met, &done);
        let answer = self.answer(met, done);
        self.observers.tell(request, &answer);
        answer
    }

    /// One step over the limiters that are met, whoever waits for them.
    pub(crate) fn step_now(&self, met: &[Met], once: Option<Once>, step: Step) -> Done {
        self.step_at(met, once, &self.clock, step)
    }

    /// A look ahead on a limiter that is met.
    pub(crate) fn look_ahead(&self, met: &Met) -> Option<Box<dyn Ahead>> {
        self.memory.ahead(met, &self.clock)
    }

    pub(crate) const fn clock(&self) -> &C {
        &self.clock
    }

    /// What came of a step, as an answer.
    pub(crate) fn answer(&self, met: &[Met], done: Done) -> Answer<'_> {
        let Done { allowed, at, repeated, decisions } = done;
        let decided = met.iter().zip(decisions).filter(|(_, decided)| !decided.unlimited);
        let matched = decided.filter_map(|(met, decided)| self.matched(met, decided)).collect();
        Answer { allowed, at, standing: Standing::Exact, repeated, matched }
    }

    fn matched(&self, met: &Met, decided: Decided) -> Option<Matched<'_>> {
        let rule = self.policy.rules().get(met.rule)?;
        Some(Matched {
            rule,
            variant: met.variant,
            figures: decided.figures,
            cost: met.cost,
            by: met.by,
            decision: decided.decision,
            overloaded: decided.overloaded,
            elsewhere: decided.elsewhere,
        })
    }

    /// The limiters a request meets, in the order of the rules, each once.
    pub(crate) fn met(&self, request: &Request<'_>) -> Few<Met> {
        let known_by = |rule: &PolicyRule, descriptor: &Descriptor<'_>| {
            self.seed.of_parts(rule.key(descriptor))
        };
        meet(&self.policy, request, known_by, |number, variant, figures| {
            let limits = !figures.is_unlimited() || self.memory.was_changed(number, variant);
            limits.then_some(None)
        })
    }
}

/// What a limiter is to be settled with, by the same limiter where it is to cost that.
pub(crate) fn actual_of<K: PartialEq>(met: &Met<K>, actual: &[Met<K>]) -> Option<u64> {
    let same = |other: &&Met<K>| other.rule == met.rule && other.print == met.print;
    actual.iter().find(same).map(|other| other.cost)
}

/// The limiters a request meets, in the order of the rules, each once, by what `known_by` tells of each:
/// the same limiter met twice sums its costs. `in_force` is told the number of a rule, that of a variant,
/// and its figures, and answers the figures to be used in their place, if any; or that it does not limit.
pub(crate) fn meet<K: PartialEq>(
    policy: &Policy,
    request: &Request<'_>,
    known_by: impl Fn(&PolicyRule, &Descriptor<'_>) -> K,
    in_force: impl Fn(usize, usize, &Rule) -> Option<Option<Arc<Rule>>>,
) -> Few<Met<K>> {
    let mut all: Few<Met<K>> = Few::new();
    for (place, descriptor) in request.descriptors().iter().enumerate() {
        for (number, rule) in policy.in_domain(request.domain()) {
            if !counts(rule) || !rule.matches(descriptor) {
                continue;
            }
            let variant = rule.variant_for(descriptor);
            let Some(figures) = in_force(number, variant, rule.variant(variant)) else { continue };
            let print = known_by(rule, descriptor);
            match all.iter_mut().find(|met| met.rule == number && met.print == print) {
                Some(met) => {
                    met.cost = met.cost.saturating_add(descriptor.units());
                    met.by.add(place);
                }
                None => all.push(Met {
                    rule: number,
                    variant,
                    figures,
                    print,
                    cost: descriptor.units(),
                    enforced: rule.mode() == Mode::Enforce,
                    by: Descriptors::one(place),
                }),
            }
        }
    }
    all.sort_by_key(|met| met.rule);
    all
}

/// A gate whose requests bring their own time, as in a recorded trace. Times may step back.
impl Gate<Timestamp> {
    /// The same as [`Gate::check`] for a request that came at `at`, as in a recorded trace.
    pub fn check_at(&self, request: &Request<'_>, at: Timestamp) -> Answer<'_> {
        self.decide(request, &at, Step::Ask)
    }
}

fn counts(rule: &PolicyRule) -> bool {
    rule.mode() != Mode::Off
}
