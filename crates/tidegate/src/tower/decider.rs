//! The use of a gate by a layer: for an immediate decision, or with waiting as the rules say. An
//! admitted request is held for its delay either way.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tidegate_core::Timestamp;

use super::body::{HeldPermits, RequestGuards};
use super::client_ip;
use super::entries::LayerQuestion;
use super::fields::{Constant, LimitFields};
use super::refusal::Refusal;
use crate::answer::Answer;
use crate::clock::Timer;
use crate::frontend::Taken;
use crate::gate::Gate;
use crate::request::{Descriptor, Request};
use crate::rules::{Policy, PolicyInternals as _};
use crate::wait::{Permit, wait_until};

/// An answer that outlives the gate.
#[derive(Debug)]
pub(super) enum Ruling {
    Admitted(Admission),
    Refused(Box<Refusal>),
}

/// The parts of an admission that the request keeps.
#[derive(Debug, Default)]
pub(super) struct Admission {
    /// The header fields about its limits.
    pub(super) fields: LimitFields,
    /// The limiters that took its cost, without the limiters of permits.
    pub(super) took: Taken,
    /// Its permits.
    pub(super) held: RequestGuards,
}

impl Ruling {
    pub(super) fn refused(refusal: Refusal) -> Self {
        Self::Refused(Box::new(refusal))
    }

    /// The ruling about a request that matches no limiter.
    pub(super) fn unlimited() -> Self {
        Self::Admitted(Admission::default())
    }

    /// The refusal of a request whose caller's address is not known, which is reported once.
    pub(super) fn without_address() -> Self {
        client_ip::report_missing_peer();
        Self::refused(Refusal::without_address())
    }

    /// Adds a permit, which a refusal does not need.
    pub(super) fn with(mut self, permit: Permit) -> Self {
        if let Self::Admitted(admission) = &mut self {
            admission.held.keep(permit);
        }
        self
    }

    /// The ruling of a decider that follows from its answer to `question`; `constant` as in [`LimitFields::of`].
    pub(super) fn of(
        answer: &Answer<'_>,
        question: &LayerQuestion<'_>,
        constant: Option<&Constant>,
        decider: &impl Decider,
    ) -> Self {
        if !answer.is_allowed() {
            return Self::refused(Refusal::of(answer, question.shown));
        }
        let fields = LimitFields::of(answer, question.shown, constant);
        // Permits end with the body, so a service that settles its cost must not touch them.
        let took = if question.may_settle {
            Taken::from(answer).without_permits()
        } else {
            Taken::default()
        };
        let held = RequestGuards::of(held_permits(answer, question, decider));
        Self::Admitted(Admission { fields, took, held })
    }

    /// The ruling once an admitted request may run.
    pub(super) fn held(self, runs_at: Option<Timestamp>, decider: &impl Decider) -> Soon<Self> {
        let Some(runs_at) = runs_at else { return Soon::Now(self) };
        let sleep = decider.handle().sleep_until(runs_at);
        Soon::Later(Box::pin(async move {
            sleep.await;
            self
        }))
    }
}

/// A boxed future.
pub(super) type Later<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// A value that is ready, or a future of one, which must not be polled again after it is ready.
pub(super) enum Soon<T> {
    Now(T),
    Later(Later<T>),
}

impl<T> Soon<T> {
    /// The value if it is there; else polls the future, and leaves it in `later`.
    #[inline]
    pub(super) fn poll_or_keep(
        self,
        later: &mut Option<Later<T>>,
        cx: &mut Context<'_>,
    ) -> Poll<T> {
        match self {
            Self::Now(there) => Poll::Ready(there),
            Self::Later(future) => later.insert(future).as_mut().poll(cx),
        }
    }

    /// Waits for the value.
    pub(super) async fn wait(self) -> T {
        match self {
            Self::Now(there) => there,
            Self::Later(later) => later.await,
        }
    }
}

/// A gate of any clock and any store, as a layer uses it.
pub(super) trait Decider: Send + Sync {
    /// Decides, and takes when all rules admit: now, or in a future that resolves when the request may run, or is
    /// refused. A future decides when it is polled, or has decided and only holds the request for its delay.
    fn ask(&self, question: &LayerQuestion<'_>) -> Soon<Ruling>;

    /// Gives back the units of a question at the limiters that took them; returns the fields that the question shows, of
    /// its limits afterwards.
    fn give_back(&self, question: &LayerQuestion<'_>, took: &Taken) -> Soon<LimitFields>;

    /// Returns the permits of a request that is over.
    fn return_permits(&self, question: &LayerQuestion<'_>, permits: &Taken) {
        // In memory this returns the permits immediately, and leaves nothing to wait for.
        drop(self.give_back(question, permits));
    }

    /// Another handle to the same gate.
    fn handle(&self) -> Arc<dyn Decider>;

    fn now(&self) -> Timestamp;

    /// The policy in force, if rules decide.
    fn policy(&self) -> Option<Arc<Policy>> {
        None
    }

    /// Resolves at an instant.
    fn sleep_until(self: Arc<Self>, at: Timestamp) -> Later<()>;
}

/// The time until which an admitted request is held, if it is.
pub(super) fn runs_at(answer: &Answer<'_>) -> Option<Timestamp> {
    let delay = answer.delay_micros();
    // From the instant of the decision, because this may run later.
    (!delay.is_zero()).then(|| answer.at().plus(delay))
}

/// Uses a gate in memory.
pub(super) struct GateDecider<C> {
    gate: Arc<Gate<C>>,
    /// True if a request may wait in a queue if its rules say so.
    waits: bool,
}

impl<C: Timer + 'static> GateDecider<C> {
    pub(super) const fn new(gate: Arc<Gate<C>>, waits: bool) -> Self {
        Self { gate, waits }
    }

    fn check(&self, question: &LayerQuestion<'_>) -> Soon<Ruling> {
        let (ruling, runs_at) = question.ask(|request| {
            let answer = self.gate.check(request);
            (Ruling::of(&answer, question, None, self), runs_at(&answer))
        });
        ruling.held(runs_at, self)
    }

    /// Nothing happens before the first poll, so a request that is dropped before costs nothing.
    fn acquire(&self, question: LayerQuestion<'static>) -> Later<Ruling> {
        let this = Self::new(Arc::clone(&self.gate), true);
        Box::pin(async move {
            question
                .ask_later(async |request| {
                    Ruling::of(&this.gate.acquire(request).await, &question, None, &this)
                })
                .await
        })
    }
}

impl<C: Timer + 'static> Decider for GateDecider<C> {
    fn ask(&self, question: &LayerQuestion<'_>) -> Soon<Ruling> {
        if question.lacks_address_for(|name| self.gate.policy().looks_at(question.domain(), name)) {
            return Soon::Now(Ruling::without_address());
        }
        if self.waits {
            Soon::Later(self.acquire(question.to_owned()))
        } else {
            self.check(question)
        }
    }

    fn give_back(&self, question: &LayerQuestion<'_>, took: &Taken) -> Soon<LimitFields> {
        Soon::Now(question.ask(|request| {
            // Settled for a cost of 0, so that everything comes back that still counts.
            let _ = self.gate.settle(request, took, &[0]);
            if question.shown.is_empty() {
                return LimitFields::None;
            }
            let free = at_no_cost(request);
            let answer = self.gate.peek(Request::new(request.domain(), &free));
            LimitFields::of(&answer, question.shown, None)
        }))
    }

    fn handle(&self) -> Arc<dyn Decider> {
        Arc::new(Self::new(Arc::clone(&self.gate), self.waits))
    }

    fn now(&self) -> Timestamp {
        self.gate.clock.now()
    }

    fn policy(&self) -> Option<Arc<Policy>> {
        Some(self.gate.policy())
    }

    fn sleep_until(self: Arc<Self>, at: Timestamp) -> Later<()> {
        Box::pin(async move { wait_until(&self.gate.clock, at).await })
    }
}

/// The descriptors of a finished request, with no cost, so that the answer has no `retry_after`.
pub(super) fn at_no_cost<'a>(request: &Request<'a>) -> Vec<Descriptor<'a>> {
    request.descriptors().iter().map(|one| one.cost(0)).collect()
}

/// The permits of an admitted request, if it took any.
#[inline]
fn held_permits(
    answer: &Answer<'_>,
    question: &LayerQuestion<'_>,
    decider: &impl Decider,
) -> Option<HeldPermits> {
    if answer.replies.iter().all(|one| one.decided.taken.token.is_none()) {
        return None;
    }
    let permits = Taken::from(answer).only_permits();
    let mut question = question.to_owned();
    // The response is over, so the limits need not be looked at again.
    question.shown = false.into();
    Some(Box::new(Returning { decider: decider.handle(), question, permits }))
}

/// Returns the permits of a request when it is dropped.
struct Returning {
    decider: Arc<dyn Decider>,
    question: LayerQuestion<'static>,
    permits: Taken,
}

impl Drop for Returning {
    fn drop(&mut self) {
        self.decider.return_permits(&self.question, &self.permits);
    }
}
