//! The one door to every decision: which limiters a request meets, one atomic step over them, an answer.

use tidegate_core::Timestamp;

use crate::answer::{Answer, Matched};
use crate::clock::{Clock, SystemClock};
use crate::key::{Fingerprint, Seed};
use crate::request::Request;
use crate::rules::{Mode, Policy, PolicyRule};
use crate::store::memory::{Ahead, Decided, Done, MemoryStore, Step};
use crate::wait::GateLines;

/// A limiter that a request meets.
#[derive(Clone, Debug)]
pub(crate) struct Met {
    /// The number of the rule in the policy.
    pub(crate) rule: usize,
    /// Which of the rule's figures hold for the key.
    pub(crate) variant: usize,
    pub(crate) print: Fingerprint,
    pub(crate) cost: u64,
    pub(crate) enforced: bool,
}

/// A policy in force, the limiters of every key, and a clock.
///
/// Share it by reference (or in an `Arc`): every verb takes `&self` and is exact under any concurrency.
#[derive(Debug)]
pub struct Gate<C = SystemClock> {
    policy: Policy,
    memory: MemoryStore,
    seed: Seed,
    clock: C,
    /// Who waits.
    pub(crate) lines: GateLines,
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
        Self { policy, memory, seed: Seed::random(), clock, lines: GateLines::new() }
    }

    /// The policy in force.
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
        self.step(request, &self.clock, Step::Ask)
    }

    /// Decides and takes like [`Gate::check`], working out no figures: only whether the request goes on.
    #[must_use]
    pub fn admits(&self, request: &Request<'_>) -> bool {
        self.step(request, &self.clock, Step::Decide).is_allowed()
    }

    /// What [`Gate::check`] would answer, taking nothing.
    pub fn peek(&self, request: &Request<'_>) -> Answer<'_> {
        self.step(request, &self.clock, Step::Peek)
    }

    /// Gives the request's cost back to every limiter it meets, to no fewer than none used; the
    /// answer tells how they stand then.
    pub fn refund(&self, request: &Request<'_>) -> Answer<'_> {
        self.step(request, &self.clock, Step::Refund)
    }

    /// Ends a request that was admitted with its costs reserved: each of its descriptors turned out to
    /// cost `actual`. Gives every limiter it meets back what was too much, to no fewer than none used,
    /// or takes what was too little, even into debt, in one atomic step; the answer tells how they stand
    /// then.
    pub fn settle(&self, request: &Request<'_>, actual: u64) -> Answer<'_> {
        let costing_actual: Vec<_> =
            request.descriptors().iter().map(|descriptor| descriptor.cost(actual)).collect();
        let actual = self.met(&Request::new(request.domain(), &costing_actual));
        let (met, actual) = (self.met(request), actual.iter().map(|met| met.cost));
        let done = self.memory.settle(&met, &actual.collect::<Vec<_>>(), &self.clock);
        self.stir(&met);
        self.answer(&met, done)
    }

    /// Makes every limiter the request meets as good as new, in one atomic step; answers how many it
    /// meets.
    pub fn reset(&self, request: &Request<'_>) -> usize {
        let met = self.met(request);
        self.memory.forget(&met, self.clock.now());
        self.stir(&met);
        met.len()
    }

    /// Limiters in existence, over all rules.
    #[must_use]
    pub fn keys(&self) -> usize {
        self.memory.keys()
    }

    fn step<'g>(&'g self, request: &Request<'_>, clock: &impl Clock, step: Step) -> Answer<'g> {
        let met = self.met(request);
        if !self.lines.are_idle() && !step.gives_back() {
            let (met, done) = self.step_behind(met, step);
            return self.answer(&met, done);
        }
        let done = self.memory.step(&met, clock, step);
        if step.gives_back() {
            self.stir(&met);
        }
        self.answer(&met, done)
    }

    /// One step over the limiters that are met, whoever waits for them.
    pub(crate) fn step_now(&self, met: &[Met], step: Step) -> Done {
        self.memory.step(met, &self.clock, step)
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
        let decided = met.iter().zip(done.decisions);
        let matched = decided.filter_map(|(met, decided)| self.matched(met, decided)).collect();
        Answer { allowed: done.allowed, at: done.at, matched }
    }

    fn matched(&self, met: &Met, decided: Decided) -> Option<Matched<'_>> {
        let rule = self.policy.rules().get(met.rule)?;
        Some(Matched {
            rule,
            variant: met.variant,
            decision: decided.decision,
            overloaded: decided.overloaded,
        })
    }

    /// The limiters a request meets, in the order of the rules, each once: the same limiter met twice
    /// sums its costs.
    pub(crate) fn met(&self, request: &Request<'_>) -> Vec<Met> {
        let mut all: Vec<Met> = Vec::new();
        for descriptor in request.descriptors() {
            for (number, rule) in self.policy.in_domain(request.domain()) {
                if !counts(rule) || !rule.matches(descriptor) {
                    continue;
                }
                let variant = rule.variant_for(descriptor);
                if rule.variant(variant).is_unlimited() {
                    continue;
                }
                let print = self.seed.of_parts(rule.key(descriptor));
                match all.iter_mut().find(|met| met.rule == number && met.print == print) {
                    Some(met) => met.cost = met.cost.saturating_add(descriptor.units()),
                    None => all.push(Met {
                        rule: number,
                        variant,
                        print,
                        cost: descriptor.units(),
                        enforced: rule.mode() == Mode::Enforce,
                    }),
                }
            }
        }
        all.sort_by_key(|met| met.rule);
        all
    }
}

/// A gate whose requests bring their own time, as in a recorded trace. Times may step back.
impl Gate<Timestamp> {
    /// The same as [`Gate::check`] for a request that came at `at`, as in a recorded trace.
    pub fn check_at(&self, request: &Request<'_>, at: Timestamp) -> Answer<'_> {
        self.step(request, &at, Step::Ask)
    }
}

fn counts(rule: &PolicyRule) -> bool {
    rule.mode() != Mode::Off
}
