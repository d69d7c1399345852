//! One step of a request at a gate: the request is resolved under the newest policy, the step runs over its limiters, and
//! their replies become an answer.

use smallvec::{Array, SmallVec};
use tidegate_core::{Micros, Timestamp};

use super::Gate;
use crate::answer::{Answer, Rules};
use crate::clock::Clock;
use crate::dedupe::{self, IdempotencyKey};
use crate::frontend::{self, Fingerprints, deny, keep_limited};
use crate::inline_list::{InlineList, StepList};
use crate::request::{Descriptor, Request, RequestInternals as _};
use crate::rules::PolicyInternals as _;
use crate::step::{Ask, Done, Standing, Step};
use crate::store::memory::{Kept, MemoryGeneration, Moved};

impl<C: Clock> Gate<C> {
    /// Decides a request that does not wait, at the time of `clock`.
    pub(super) fn decide<'g>(
        &'g self,
        request: &Request<'_>,
        clock: &impl Clock,
        step: Step,
    ) -> Answer<'g> {
        self.run(request, clock, step, |generation, asks, done| {
            self.conclude(request, generation, asks, done)
        })
    }

    /// Runs a step that gives nothing back, for a request that does not wait, at the time of `clock`. Returns the result
    /// of `then` with the policy, the limiters and their replies. They stay where they were made, because to move them
    /// takes as long as to decide.
    #[inline]
    pub(super) fn run<T>(
        &self,
        request: &Request<'_>,
        clock: &impl Clock,
        step: Step,
        then: impl FnOnce(Kept<MemoryGeneration>, &[Ask], Done) -> T,
    ) -> T {
        if !self.queues.are_idle() {
            let Stepped { generation, asks, done } = self.run_behind(request, clock, step);
            return then(generation, &asks, done);
        }
        loop {
            let generation = self.memory.newest();
            let mut asks = StepList::new();
            if self.resolve(&generation, request, |rule| generation.is_per_key(rule), &mut asks) {
                keep_limited(&mut asks, &generation.policy);
            }
            if let Ok(done) = self.step_in(&generation, request, &asks, clock, step) {
                return then(generation, &asks, done);
            }
            // The policy was replaced between the look at it and the step: resolve again, under the next policy.
            self.memory.wait_for_newer();
        }
    }

    /// Runs a step in one generation, unless its result needs no limiter.
    #[inline]
    fn step_in(
        &self,
        generation: &MemoryGeneration,
        request: &Request<'_>,
        asks: &[Ask],
        clock: &impl Clock,
        step: Step,
    ) -> Result<Done, Moved> {
        let once = self.once(generation, request, asks, step);
        match self.without_asking(generation, asks, once, clock)? {
            Some(done) => Ok(done),
            None => self.step_at(generation, asks, once, clock, step),
        }
    }

    /// Runs one step over the limiters in `asks`, regardless of waiters.
    pub(super) fn step_at(
        &self,
        generation: &MemoryGeneration,
        asks: &[Ask],
        once: Option<IdempotencyKey>,
        clock: &impl Clock,
        step: Step,
    ) -> Result<Done, Moved> {
        let Some(once) = once else {
            return self.memory.step(generation, asks, clock, step);
        };
        self.answers
            .step(once, asks, clock, step, || self.memory.step(generation, asks, clock, step))
    }

    /// The idempotency key of a request, with the verb that is called.
    #[inline]
    pub(super) fn once(
        &self,
        generation: &MemoryGeneration,
        request: &Request<'_>,
        asks: &[Ask],
        step: Step,
    ) -> Option<IdempotencyKey> {
        let identity = request.identity()?;
        // A peek reports the limiter as it is now, also after reported usage.
        if step == Step::Peek && asks.iter().any(Ask::is_report) {
            return None;
        }
        dedupe::of(&generation.policy, &self.seed, identity, asks)
    }

    /// The result that needs no limiter: a remembered answer, or the denial of a banned key.
    #[inline]
    pub(super) fn without_asking(
        &self,
        generation: &MemoryGeneration,
        asks: &[Ask],
        once: Option<IdempotencyKey>,
        clock: &impl Clock,
    ) -> Result<Option<Done>, Moved> {
        // The remembered answer first: a repeated request is no new request, so no ban applies to it.
        if let Some(repeated) = once.and_then(|once| self.answers.recall(once, asks, clock)) {
            return Ok(Some(repeated));
        }
        if self.front.bans.is_empty() {
            return Ok(None);
        }
        let now = clock.now();
        let left = self.front.bans.left(asks, |ask| ask.fingerprint, now);
        left.map(|left| self.banned(generation, asks, left, now)).transpose()
    }

    /// The denial of a request with a banned key; nothing is taken.
    #[cold]
    fn banned(
        &self,
        generation: &MemoryGeneration,
        asks: &[Ask],
        left: Vec<Option<Micros>>,
        now: Timestamp,
    ) -> Result<Done, Moved> {
        // The other limiters are reported as they are; only limiters with a ban deny.
        let mut done = self.memory.step(generation, asks, &now, Step::Peek)?;
        for (decided, left) in done.decisions.iter_mut().zip(left) {
            left.into_iter().for_each(|left| deny(&mut decided.decision, left));
        }
        done.allowed = false;
        Ok(done)
    }

    /// Turns the result of a decision into an answer, and notifies observers.
    #[inline]
    pub(super) fn conclude<'g>(
        &'g self,
        request: &Request<'_>,
        generation: Kept<MemoryGeneration>,
        asks: &[Ask],
        mut done: Done,
    ) -> Answer<'g> {
        if asks.is_empty() && generation.policy.refuses_without_rule(request) {
            done.allowed = false;
        }
        self.count_refusals(asks, &done);
        if self.front.observers.is_empty() {
            // Without observers the answer is constructed directly in the caller's memory.
            return answer(generation, asks, done);
        }
        let answer = answer(generation, asks, done);
        self.front.observers.notify(request, &answer);
        answer
    }

    /// Counts the refusals by rules that ban.
    #[inline]
    fn count_refusals(&self, asks: &[Ask], done: &Done) {
        if self.front.bans.is_empty() || done.allowed {
            return;
        }
        for (ask, decided) in asks.iter().zip(&done.decisions) {
            // A key without a limiter of its own was refused because of other keys.
            if !decided.decision.is_allowed() && !decided.elsewhere {
                self.front.bans.count(ask, |ask| ask.fingerprint, done.at);
            }
        }
    }

    /// Resolves a request: its limiters in the order of the rules, without duplicates.
    pub(super) fn asks(
        &self,
        generation: &MemoryGeneration,
        request: &Request<'_>,
    ) -> InlineList<Ask> {
        let mut asks = self.all_asks(generation, request);
        keep_limited(&mut asks, &generation.policy);
        asks
    }

    /// Resolves a request, and includes limiters that a plan or the request itself makes unlimited.
    pub(super) fn all_asks(
        &self,
        generation: &MemoryGeneration,
        request: &Request<'_>,
    ) -> InlineList<Ask> {
        let mut asks = InlineList::new();
        self.resolve(generation, request, |rule| generation.is_per_key(rule), &mut asks);
        asks
    }

    /// Adds the limiters of a request to an empty list. Limiters of an unlimited rule are added only if the rule
    /// `may_have_others` than its own values; returns whether there may be some.
    #[inline]
    pub(super) fn resolve<A: Array<Item = Ask>>(
        &self,
        generation: &MemoryGeneration,
        request: &Request<'_>,
        may_have_others: impl Fn(usize) -> bool,
        asks: &mut SmallVec<A>,
    ) -> bool {
        let mut fingerprints = Fingerprints::new(&self.seed);
        self.front.resolve(
            &generation.policy,
            |rule| generation.lineage(rule),
            request,
            |rule, descriptor: &Descriptor<'_>| fingerprints.of(rule, descriptor),
            may_have_others,
            asks,
        )
    }
}

/// The answer of a step under the policy that decided.
#[inline]
pub(super) fn answer<'g>(
    generation: Kept<MemoryGeneration>,
    asks: &[Ask],
    done: Done,
) -> Answer<'g> {
    frontend::answer(Rules::Kept(generation), asks, done, Standing::Exact, |decided| Some(decided))
}

/// The result of a step, with the policy that decided.
#[derive(Debug)]
pub(crate) struct Stepped {
    pub(super) generation: Kept<MemoryGeneration>,
    pub(super) asks: InlineList<Ask>,
    pub(super) done: Done,
}

impl Stepped {
    pub(super) fn answer<'g>(self) -> Answer<'g> {
        answer(self.generation, &self.asks, self.done)
    }
}
