//! How a layer uses a gate: for an immediate decision, or with waiting as the rules say. An
//! admitted request is held for its delay either way.

use std::pin::Pin;
use std::sync::Arc;

use tidegate_core::{Micros, Timestamp};

use super::charging::{self, Took};
use super::entries::Question;
use super::fields::Fields;
use super::refusal::Refusal;
use crate::answer::Answer;
use crate::clock::Timer;
use crate::gate::Gate;
use crate::request::Request;
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
    pub(super) fields: Fields,
    /// Its permit, where requests in flight are limited.
    pub(super) permit: Option<Permit>,
    /// The limiters that took its cost.
    pub(super) took: Took,
}

impl Ruling {
    pub(super) fn refused(refusal: Refusal) -> Self {
        Self::Refused(Box::new(refusal))
    }

    /// Adds a permit, which a refusal does not need.
    pub(super) fn with(self, permit: Permit) -> Self {
        match self {
            Self::Admitted(admission) => {
                Self::Admitted(Admission { permit: Some(permit), ..admission })
            }
            Self::Refused(refusal) => Self::Refused(refusal),
        }
    }
}

impl From<&Answer<'_>> for Ruling {
    fn from(answer: &Answer<'_>) -> Self {
        if answer.is_allowed() {
            let (fields, took) = (Fields::from(answer), Took::from(answer));
            Self::Admitted(Admission { fields, permit: None, took })
        } else {
            Self::refused(Refusal::of(answer))
        }
    }
}

/// A boxed future.
pub(super) type Later<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// A future ruling. It must not be polled again after it is ready.
pub(super) type Asked = Later<Ruling>;

/// A value that is ready, or a future of one.
pub(super) enum Soon<T> {
    Now(T),
    #[cfg_attr(not(feature = "redis"), expect(dead_code, reason = "only a store takes its time"))]
    Later(Later<T>),
}

impl<T> Soon<T> {
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
    /// Decides, and takes when all rules admit; resolves when the request may run, or is refused.
    fn ask(self: Arc<Self>, question: Question) -> Asked;

    /// Gives back the units of an admitted question.
    fn refund(&self, question: &Question, took: &Took) -> Soon<()>;

    /// Gives back the units of a question at the limiters that took them; returns the state of its
    /// limits afterwards.
    fn release(&self, question: &Question, took: &Took) -> Soon<Fields>;

    fn now(&self) -> Timestamp;

    /// Resolves after `wait`.
    fn pause(self: Arc<Self>, wait: Micros) -> Later<()>;
}

/// Uses a gate in memory.
pub(super) struct GateDecider<C> {
    gate: Arc<Gate<C>>,
    /// Whether a request may wait in a queue if its rules say so.
    waits: bool,
}

impl<C: Timer + 'static> GateDecider<C> {
    /// Decides immediately, without waiting, whatever the rules say.
    pub(super) const fn prompt(gate: Arc<Gate<C>>) -> Self {
        Self { gate, waits: false }
    }

    /// Lets a request wait in its queue as long as the rules allow.
    pub(super) const fn patient(gate: Arc<Gate<C>>) -> Self {
        Self { gate, waits: true }
    }

    async fn check(&self, question: &Question) -> Ruling {
        let (ruling, runs_at) = question.ask(|request| {
            let answer = self.gate.check(request);
            (Ruling::from(&answer), answer.at().plus(answer.delay()))
        });
        wait_until(self.gate.clock(), runs_at).await;
        ruling
    }

    async fn acquire(&self, question: &Question) -> Ruling {
        let pairs = question.pairs();
        let descriptors = question.descriptors(&pairs);
        let request = Request::new(question.domain(), &descriptors);
        Ruling::from(&self.gate.acquire(&request).await)
    }
}

impl<C: Timer + 'static> Decider for GateDecider<C> {
    fn ask(self: Arc<Self>, question: Question) -> Asked {
        // Nothing happens before the first poll, so a request that is dropped before costs nothing.
        Box::pin(async move {
            if self.waits { self.acquire(&question).await } else { self.check(&question).await }
        })
    }

    fn refund(&self, question: &Question, _: &Took) -> Soon<()> {
        let _stands = question.ask(|request| self.gate.refund(request).at());
        Soon::Now(())
    }

    fn release(&self, question: &Question, took: &Took) -> Soon<Fields> {
        Soon::Now(question.ask(|request| charging::release(&self.gate, request, took)))
    }

    fn now(&self) -> Timestamp {
        self.gate.now()
    }

    fn pause(self: Arc<Self>, wait: Micros) -> Later<()> {
        let until = self.gate.now().plus(wait);
        Box::pin(async move { wait_until(self.gate.clock(), until).await })
    }
}
