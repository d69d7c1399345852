//! One step of a request at a gate: resolved under the newest policy, unless no limiter needs to be asked.

use tidegate_core::{Micros, Timestamp};

use super::Gate;
use crate::answer::{Answer, Rules};
use crate::clock::Clock;
use crate::dedupe::{self, IdempotencyKey};
use crate::frontend::{self, deny};
use crate::inline_list::{InlineList, StepList};
use crate::request::Request;
use crate::step::{Ask, Done, Standing, Step, keep_limited};
use crate::store::memory::{Generation, Kept, Moved};

/// A step of a request that does not wait, at the time of `clock`; it gives nothing back.
#[derive(Debug)]
pub(super) struct GateStep<'s, 'r, C, K> {
    pub(super) gate: &'s Gate<C>,
    pub(super) request: &'s Request<'r>,
    pub(super) clock: &'s K,
    pub(super) step: Step,
}

impl<C: Clock, K: Clock> GateStep<'_, '_, C, K> {
    /// Runs the step, and returns the result of `then` with the policy, the limiters and their replies. They stay where
    /// they were made, because to move them takes as long as to decide.
    #[inline]
    pub(super) fn run<T>(self, then: impl FnOnce(Kept<Generation>, &[Ask], Done) -> T) -> T {
        let Self { gate, request, .. } = self;
        if !gate.queues.are_idle() {
            let Stepped { generation, asks, done } = self.run_behind();
            return then(generation, &asks, done);
        }
        loop {
            let generation = gate.memory.newest();
            let mut asks = StepList::new();
            gate.resolve(&generation, request, |rule| generation.is_per_key(rule), &mut asks);
            keep_limited(&mut asks);
            if let Ok(done) = self.run_in(&generation, &asks) {
                return then(generation, &asks, done);
            }
            // The policy was replaced between the look at it and the step: resolve again, under the next policy.
            gate.memory.wait_for_newer();
        }
    }

    /// Runs the step in one generation.
    #[inline]
    fn run_in(&self, generation: &Generation, asks: &[Ask]) -> Result<Done, Moved> {
        let Self { gate, clock, step, .. } = *self;
        let once = self.once(generation, asks);
        match without_asking(gate, generation, asks, once, clock)? {
            Some(done) => Ok(done),
            None => gate.step_at(generation, asks, once, clock, step),
        }
    }

    /// The idempotency key of the request, with the verb that is called.
    #[inline]
    pub(super) fn once(&self, generation: &Generation, asks: &[Ask]) -> Option<IdempotencyKey> {
        // A peek reports the limiter as it is now, also after reported usage.
        if self.step == Step::Peek && asks.iter().any(|ask| ask.report) {
            return None;
        }
        once(self.gate, generation, self.request, asks)
    }
}

/// The result of a step, with the policy that decided.
#[derive(Debug)]
pub(crate) struct Stepped {
    pub(super) generation: Kept<Generation>,
    pub(super) asks: InlineList<Ask>,
    pub(super) done: Done,
}

impl Stepped {
    pub(super) fn answer<'g>(self) -> Answer<'g> {
        answer(self.generation, &self.asks, self.done)
    }
}

/// The answer of a step under the policy that decided.
#[inline]
pub(super) fn answer<'g>(generation: Kept<Generation>, asks: &[Ask], done: Done) -> Answer<'g> {
    frontend::answer(Rules::Kept(generation), asks, done, Standing::Exact)
}

/// The idempotency key of the request.
#[inline]
pub(super) fn once<C: Clock>(
    gate: &Gate<C>,
    generation: &Generation,
    request: &Request<'_>,
    asks: &[Ask],
) -> Option<IdempotencyKey> {
    dedupe::of(&generation.policy, &gate.seed, request.identity()?, asks)
}

/// The answer that needs no limiter.
#[inline]
pub(super) fn without_asking<C: Clock>(
    gate: &Gate<C>,
    generation: &Generation,
    asks: &[Ask],
    once: Option<IdempotencyKey>,
    clock: &impl Clock,
) -> Result<Option<Done>, Moved> {
    // The remembered answer first: a repeated request is no new request, so no ban applies to it.
    match once.and_then(|once| gate.answers.recall(once, asks, clock)) {
        Some(repeated) => Ok(Some(repeated)),
        None => banned(gate, generation, asks, clock),
    }
}

/// Returns the denial of a request with a banned key; nothing is taken.
#[inline]
fn banned<C: Clock>(
    gate: &Gate<C>,
    generation: &Generation,
    asks: &[Ask],
    clock: &impl Clock,
) -> Result<Option<Done>, Moved> {
    if gate.front.bans.is_empty() {
        return Ok(None);
    }
    let now = clock.now();
    let left = gate.front.bans.left(asks, |ask| ask.fingerprint, now);
    left.map(|left| banned_for(gate, generation, asks, left, now)).transpose()
}

fn banned_for<C: Clock>(
    gate: &Gate<C>,
    generation: &Generation,
    asks: &[Ask],
    left: Vec<Option<Micros>>,
    now: Timestamp,
) -> Result<Done, Moved> {
    // The other limiters are reported as they are; only limiters with a ban deny.
    let mut done = gate.memory.step(generation, asks, &now, Step::Peek)?;
    for (decided, left) in done.decisions.iter_mut().zip(left) {
        left.into_iter().for_each(|left| deny(&mut decided.decision, left));
    }
    done.allowed = false;
    Ok(done)
}

/// Counts the refusals by rules that ban.
#[inline]
pub(super) fn count_refusals<C: Clock>(gate: &Gate<C>, asks: &[Ask], done: &Done) {
    if gate.front.bans.is_empty() || done.allowed {
        return;
    }
    for (ask, decided) in asks.iter().zip(&done.decisions) {
        // A key without a limiter of its own was refused because of other keys.
        if !decided.decision.is_allowed() && !decided.elsewhere {
            gate.front.bans.count(ask, |ask| ask.fingerprint, done.at);
        }
    }
}
