//! The use of a gate by a layer: for an immediate decision, or with waiting as the rules say. An
//! admitted request is held for its delay either way.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tidegate_core::{Micros, Timestamp};

use super::charging;
use super::entries::LayerQuestion;
use super::fields::{Constant, LimitFields};
use super::peer;
use super::permits::{HeldPermits, Returns};
use super::refusal::Refusal;
use super::request_guards::RequestGuards;
use crate::answer::Answer;
use crate::clock::Timer;
use crate::frontend::Taken;
use crate::gate::Gate;
use crate::request::Request;
use crate::rules::Policy;
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

    /// The refusal of a request whose caller's address is not known, which is reported once.
    pub(super) fn without_address() -> Self {
        peer::report_missing();
        Self::refused(Refusal::without_address())
    }

    /// Adds a permit, which a refusal does not need.
    pub(super) fn with(self, permit: Permit) -> Self {
        match self {
            Self::Admitted(Admission { fields, took, held }) => {
                Self::Admitted(Admission { fields, took, held: held.with(permit) })
            }
            Self::Refused(refusal) => Self::Refused(refusal),
        }
    }
}

impl Ruling {
    /// The ruling of a gate that follows from its answer to `question`; `constant` as in [`LimitFields::of`].
    pub(super) fn of(
        answer: &Answer<'_>,
        question: &LayerQuestion<'_>,
        constant: Option<&Constant>,
        gate: &impl Returns,
    ) -> Self {
        if !answer.is_allowed() {
            return Self::refused(Refusal::of(answer, question.shown));
        }
        let fields = LimitFields::of(answer, question.shown, constant);
        let took = if question.may_settle {
            Taken::from(answer).without_permits()
        } else {
            Taken::default()
        };
        let held = RequestGuards::of(HeldPermits::of(answer, question, gate));
        Self::Admitted(Admission { fields, took, held })
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

    /// Gives back the units of an admitted question.
    fn refund(&self, question: &LayerQuestion<'_>, took: &Taken) -> Soon<()>;

    /// Gives back the units of a question at the limiters that took them; returns the state of its
    /// limits afterwards.
    fn release(&self, question: &LayerQuestion<'_>, took: &Taken) -> Soon<LimitFields>;

    fn now(&self) -> Timestamp;

    /// The policy in force, if rules decide.
    fn policy(&self) -> Option<Arc<Policy>> {
        None
    }

    /// Resolves after `wait`.
    fn pause(self: Arc<Self>, wait: Micros) -> Later<()>;
}

/// The time until which an admitted request is held, if it is.
pub(super) fn runs_at(answer: &Answer<'_>) -> Option<Timestamp> {
    let delay = answer.delay_micros();
    (!delay.is_zero()).then(|| answer.at().plus(delay))
}

/// Uses a gate in memory.
pub(super) struct GateDecider<C> {
    gate: Arc<Gate<C>>,
    /// True if a request may wait in a queue if its rules say so.
    waits: bool,
}

impl<C: Timer + 'static> GateDecider<C> {
    /// Decides immediately, without waiting, also if the rules let requests wait.
    pub(super) const fn prompt(gate: Arc<Gate<C>>) -> Self {
        Self { gate, waits: false }
    }

    /// Lets a request wait in its queue as long as the rules allow.
    pub(super) const fn patient(gate: Arc<Gate<C>>) -> Self {
        Self { gate, waits: true }
    }

    fn check(&self, question: &LayerQuestion<'_>) -> Soon<Ruling> {
        let (ruling, runs_at) = question.ask(|request| {
            let answer = self.gate.check(request);
            (Ruling::of(&answer, question, None, &self.gate), runs_at(&answer))
        });
        let Some(runs_at) = runs_at else { return Soon::Now(ruling) };
        let gate = Arc::clone(&self.gate);
        Soon::Later(Box::pin(async move {
            wait_until(&gate.clock, runs_at).await;
            ruling
        }))
    }

    /// Nothing happens before the first poll, so a request that is dropped before costs nothing.
    fn acquire(&self, question: LayerQuestion<'static>) -> Later<Ruling> {
        let gate = Arc::clone(&self.gate);
        Box::pin(async move {
            let pairs = question.pairs();
            let descriptors = question.descriptors(&pairs);
            let request = Request::new(question.domain(), &descriptors);
            let request = if question.may_settle { request.reserving() } else { request };
            Ruling::of(&gate.acquire(&request).await, &question, None, &gate)
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

    fn refund(&self, question: &LayerQuestion<'_>, took: &Taken) -> Soon<()> {
        question.ask(|request| drop(self.gate.settle(request, took, &[0])));
        Soon::Now(())
    }

    fn release(&self, question: &LayerQuestion<'_>, took: &Taken) -> Soon<LimitFields> {
        Soon::Now(
            question.ask(|request| charging::release(&self.gate, request, took, question.shown)),
        )
    }

    fn now(&self) -> Timestamp {
        self.gate.clock.now()
    }

    fn policy(&self) -> Option<Arc<Policy>> {
        Some(self.gate.policy())
    }

    fn pause(self: Arc<Self>, wait: Micros) -> Later<()> {
        let until = self.gate.clock.now().plus(wait);
        Box::pin(async move { wait_until(&self.gate.clock, until).await })
    }
}
