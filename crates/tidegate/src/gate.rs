//! The gate in memory: which limiters a request meets, one atomic step over them, an answer.

mod amend;
mod bans;
mod hold;
mod plans;
mod repeats;
mod waiting;

use std::sync::Arc;

use tidegate_core::{Rule, Timestamp};

use crate::answer::{Answer, Standing};
use crate::clock::{Clock, SystemClock};
use crate::dedupe::{DedupeCache, IdempotencyKey};
use crate::frontend::{Frontend, GateQueues, with_actual};
use crate::inline_list::InlineList;
use crate::key::Seed;
use crate::observe::Observer;
use crate::request::{Descriptor, Request};
use crate::rules::{ActivePolicy, Policy, PolicyRule};
use crate::step::{Decided, Done, Figures, Met, Step, limited};
use crate::store::memory::{MemoryStore, Preview};
pub use hold::Charge;

/// A policy in force, the limiters of every key, and a clock.
///
/// Share it by reference (or in an `Arc`): every verb takes `&self` and is exact under any concurrency.
#[derive(Debug)]
pub struct Gate<C = SystemClock> {
    pub(crate) front: Frontend<C>,
    memory: MemoryStore,
    seed: Seed,
    clock: C,
    /// Who waits.
    pub(crate) queues: GateQueues,
    /// What requests were answered that may be asked again.
    answers: DedupeCache,
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
            front: Frontend::new(ActivePolicy::new(policy)),
            memory,
            seed: Seed::random(),
            clock,
            queues: GateQueues::new(),
            answers: DedupeCache::default(),
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
        self.front.observers.add(observer);
        self
    }

    /// The policy as it was loaded. Figures that were changed since are told by [`Gate::in_force`], and by
    /// each answer.
    #[must_use]
    pub const fn policy(&self) -> &Policy {
        &self.front.policy.loaded
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
        let is_told = !self.front.observers.is_empty()
            || !self.front.bans.is_empty()
            || request.id().is_some();
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
        self.peek(&request.without_id()).least(|decision| decision.remaining)
    }

    /// The least figure `limit` that the request meets: a limit, the capacity of a bucket, the places of
    /// a queue; the largest number there is where it meets none.
    #[must_use]
    pub fn capacity(&self, request: &Request<'_>) -> u64 {
        self.peek(&request.without_id()).least(|decision| decision.limit)
    }

    /// Gives the request's cost back to every limiter it meets, to no fewer than none used; the
    /// answer tells how they stand then.
    pub fn refund(&self, request: &Request<'_>) -> Answer<'_> {
        let met = self.met(request);
        let done = self.memory.step(&met, &self.clock, Step::Refund);
        self.wake(&met);
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

    /// The limiters a request meets, each with what it is to be settled with; what is unlimited by now may
    /// have been taken from before.
    fn met_to_settle(&self, request: &Request<'_>, actual: u64) -> Vec<(Met, u64)> {
        with_actual(request, actual, |request| self.met_at_all(request))
    }

    /// Settles with each of these limiters what it is to be settled with, in one atomic step.
    pub(crate) fn settle_met(&self, met: &[Met], actual: &[u64]) -> Done {
        let done = self.memory.settle(met, actual, &self.clock);
        self.wake(met);
        done
    }

    /// Makes every limiter the request meets as good as new, in one atomic step; answers how many it
    /// meets. Bans of their keys are lifted before.
    pub fn reset(&self, request: &Request<'_>) -> usize {
        let met = self.met_at_all(request);
        self.front.bans.lift(&met, |met| met.fingerprint);
        self.memory.forget(&met, self.clock.now());
        self.wake(&met);
        let is_met = |met: &&Met| self.memory.is_figured(met.rule) || self.is_limited(met);
        met.iter().filter(is_met).count()
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
    ) -> (InlineList<Met>, Done) {
        let met = self.met(request);
        // A look tells how a limiter stands now, whatever was reported before.
        let is_told_anew = step == Step::Peek && met.iter().any(|met| met.report);
        let once = if is_told_anew { None } else { self.once(request, &met) };
        if let Some(done) = self.without_asking(&met, once, clock) {
            return (met, done);
        }
        if !self.queues.are_idle() {
            return self.step_behind(met, once, step);
        }
        let done = self.step_at(&met, once, clock, step);
        (met, done)
    }

    /// One step over the limiters that are met, whoever waits for them.
    fn step_at(
        &self,
        met: &[Met],
        once: Option<IdempotencyKey>,
        clock: &impl Clock,
        step: Step,
    ) -> Done {
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
        self.front.observers.tell(request, &answer);
        answer
    }

    /// One step over the limiters that are met, whoever waits for them.
    pub(crate) fn step_now(&self, met: &[Met], once: Option<IdempotencyKey>, step: Step) -> Done {
        self.step_at(met, once, &self.clock, step)
    }

    /// A preview on a limiter that is met.
    pub(crate) fn preview_now(&self, met: &Met) -> Option<Box<dyn Preview>> {
        self.memory.preview(met, &self.clock)
    }

    pub(crate) const fn clock(&self) -> &C {
        &self.clock
    }

    /// What came of a step, as an answer.
    pub(crate) fn answer(&self, met: &[Met], done: Done) -> Answer<'_> {
        self.front.answer(met, done, Standing::Exact)
    }

    /// The limiters a request meets, in the order of the rules, each once.
    pub(crate) fn met(&self, request: &Request<'_>) -> InlineList<Met> {
        limited(self.met_at_all(request))
    }

    /// The same with those that are unlimited by a plan, or by what the request brings.
    pub(crate) fn met_at_all(&self, request: &Request<'_>) -> InlineList<Met> {
        let fingerprint = |rule: &PolicyRule, descriptor: &Descriptor<'_>| {
            self.seed.of_parts(rule.key(descriptor))
        };
        let in_force = |number, variant, own: &Rule| self.figures_of(number, variant, own);
        self.front.resolve(request, fingerprint, in_force)
    }

    /// The figures under which a limiter of a rule is met that brings none, and has no plan.
    #[inline]
    fn figures_of(&self, number: usize, variant: usize, own: &Rule) -> Option<Figures> {
        if self.memory.is_figured(number) {
            return Some(self.front.figures_sent(number, variant, own));
        }
        let limits = !own.is_unlimited() || self.memory.was_changed(number, variant);
        limits.then_some(None)
    }
}

/// A gate whose requests bring their own time, as in a recorded trace. Times may step back.
impl Gate<Timestamp> {
    /// The same as [`Gate::check`] for a request that came at `at`, as in a recorded trace.
    pub fn check_at(&self, request: &Request<'_>, at: Timestamp) -> Answer<'_> {
        self.decide(request, &at, Step::Ask)
    }
}
