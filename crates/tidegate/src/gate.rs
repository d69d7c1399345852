//! The gate in memory: which limiters a request meets, one atomic step over them, an answer.

mod amend;
mod bans;
mod hold;
mod plans;
mod repeats;
mod waiting;

use std::sync::Arc;

use tidegate_core::{Rule, Timestamp};

use crate::answer::{Answer, Rules, Standing};
use crate::clock::{Clock, SystemClock};
use crate::dedupe::{DedupeCache, IdempotencyKey};
use crate::frontend::{self, Frontend, GateQueues, with_actual};
use crate::inline_list::InlineList;
use crate::key::Seed;
use crate::observe::Observer;
use crate::request::{Descriptor, Request};
use crate::rules::{Policy, PolicyRule};
use crate::step::{Done, Figures, Met, Step, limited};
use crate::store::memory::{Generation, Kept, MemoryStore, Moved};
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
        let memory = MemoryStore::new(policy, &clock);
        Self {
            front: Frontend::new(),
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

    /// The policy that is in force.
    #[must_use]
    pub fn policy(&self) -> Arc<Policy> {
        Arc::clone(&self.memory.newest().policy)
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
        self.step(request, &self.clock, Step::Peek).answer()
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
        let (generation, (met, done)) = self.memory.ask(|generation| {
            let met = self.met(generation, request);
            let done = self.memory.step(generation, &met, &self.clock, Step::Refund)?;
            Ok((met, done))
        });
        self.wake(&met);
        Stepped { generation, met, done }.answer()
    }

    /// Ends a request that was admitted with its costs reserved: each of its descriptors turned out to
    /// cost `actual`. Gives every limiter it meets back what was too much, to no fewer than none used,
    /// or takes what was too little, even into debt, in one atomic step; the answer tells how they stand
    /// then.
    pub fn settle(&self, request: &Request<'_>, actual: u64) -> Answer<'_> {
        self.settle_those(request, actual, |all| all).answer()
    }

    /// Settles with those limiters that `chosen` keeps of all that a request meets, each with what it is to be
    /// settled with, in one atomic step.
    pub(crate) fn settle_those(
        &self,
        request: &Request<'_>,
        actual: u64,
        chosen: impl Fn(Vec<(Met, u64)>) -> Vec<(Met, u64)>,
    ) -> Stepped {
        let (generation, (met, done)) = self.memory.ask(|generation| {
            // What is unlimited by a plan by now may have been taken from before.
            let resolve = |request: &Request<'_>| self.met_at_all(generation, request);
            let all = chosen(with_actual(request, actual, resolve));
            let (met, actual): (InlineList<_>, Vec<_>) = all.into_iter().unzip();
            let done = self.memory.settle(generation, &met, &actual, &self.clock)?;
            Ok((met, done))
        });
        self.wake(&met);
        Stepped { generation, met, done }
    }

    /// Makes every limiter the request meets as good as new, in one atomic step; answers how many it
    /// meets. Bans of their keys are lifted before.
    pub fn reset(&self, request: &Request<'_>) -> usize {
        let (_, met) = self.memory.ask(|generation| {
            let met = self.met_at_all(generation, request);
            self.front.bans.lift(&met, |met| met.fingerprint);
            self.memory.forget(generation, &met, self.clock.now())?;
            Ok(met)
        });
        self.wake(&met);
        met.len()
    }

    /// Limiters in existence, over all rules.
    #[must_use]
    pub fn keys(&self) -> usize {
        self.memory.keys()
    }

    #[cfg(feature = "tower")]
    pub(crate) const fn clock(&self) -> &C {
        &self.clock
    }

    fn decide<'g>(&'g self, request: &Request<'_>, clock: &impl Clock, step: Step) -> Answer<'g> {
        self.conclude(request, self.step(request, clock, step))
    }

    /// A step that gives nothing back.
    fn step(&self, request: &Request<'_>, clock: &impl Clock, step: Step) -> Stepped {
        if !self.queues.are_idle() {
            return self.step_behind(request, clock, step);
        }
        loop {
            let generation = self.memory.newest();
            let met = self.met(&generation, request);
            if let Ok(done) = self.step_in(&generation, request, &met, clock, step) {
                return Stepped { generation, met, done };
            }
            self.memory.wait_for_newer();
        }
    }

    /// The same in one generation.
    #[inline]
    fn step_in(
        &self,
        generation: &Generation,
        request: &Request<'_>,
        met: &[Met],
        clock: &impl Clock,
        step: Step,
    ) -> Result<Done, Moved> {
        let once = self.once_for(generation, request, met, step);
        match self.without_asking(generation, met, once, clock)? {
            Some(done) => Ok(done),
            None => self.step_at(generation, met, once, clock, step),
        }
    }

    /// How the request is known if it is asked again in this way.
    #[inline]
    fn once_for(
        &self,
        generation: &Generation,
        request: &Request<'_>,
        met: &[Met],
        step: Step,
    ) -> Option<IdempotencyKey> {
        // A look tells how a limiter stands now, whatever was reported before.
        let is_told_anew = step == Step::Peek && met.iter().any(|met| met.report);
        if is_told_anew { None } else { self.once(generation, request, met) }
    }

    /// One step over the limiters that are met, whoever waits for them.
    fn step_at(
        &self,
        generation: &Generation,
        met: &[Met],
        once: Option<IdempotencyKey>,
        clock: &impl Clock,
        step: Step,
    ) -> Result<Done, Moved> {
        let run = || self.memory.step(generation, met, clock, step);
        match once {
            None => run(),
            Some(once) => self.answers.step(once, met, clock, step, run),
        }
    }

    /// What came of a decision, as an answer; whoever is to know of it is told.
    fn conclude<'g>(&'g self, request: &Request<'_>, stepped: Stepped) -> Answer<'g> {
        self.count_refusals(&stepped.met, &stepped.done);
        if self.front.observers.is_empty() {
            // An answer that nobody else sees is made where the caller wants it.
            return stepped.answer();
        }
        let answer = stepped.answer();
        self.front.observers.notify(request, &answer);
        answer
    }

    /// The limiters a request meets, in the order of the rules, each once.
    fn met(&self, generation: &Generation, request: &Request<'_>) -> InlineList<Met> {
        limited(self.met_at_all(generation, request))
    }

    /// The same with those that are unlimited by a plan, or by what the request brings.
    fn met_at_all(&self, generation: &Generation, request: &Request<'_>) -> InlineList<Met> {
        let fingerprint = |rule: &PolicyRule, descriptor: &Descriptor<'_>| {
            self.seed.of_parts(rule.key(descriptor))
        };
        let in_force = |number, _, own: &Rule| -> Option<Figures> {
            let is_per_key = generation.is_per_key(number);
            (is_per_key || !own.is_unlimited())
                .then(|| own.is_unlimited().then(|| Arc::new(own.clone())))
        };
        let lineage = |number| generation.lineage(number);
        self.front.resolve(&generation.policy, lineage, request, fingerprint, in_force)
    }
}

/// What came of a step, and under which policy.
#[derive(Debug)]
pub(crate) struct Stepped {
    generation: Kept<Generation>,
    met: InlineList<Met>,
    done: Done,
}

impl Stepped {
    fn answer<'g>(self) -> Answer<'g> {
        let Self { generation, met, done } = self;
        frontend::answer(Rules::Kept(generation), &met, done, Standing::Exact)
    }
}

/// A gate whose requests bring their own time, as in a recorded trace. Times may step back.
impl Gate<Timestamp> {
    /// The same as [`Gate::check`] for a request that came at `at`, as in a recorded trace.
    pub fn check_at(&self, request: &Request<'_>, at: Timestamp) -> Answer<'_> {
        self.decide(request, &at, Step::Ask)
    }
}
