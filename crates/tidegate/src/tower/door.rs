//! The ways to the gate: to be decided at once, or to wait as the rules say. What is admitted is held
//! for its delay either way.

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

/// What an admitted request brings along.
#[derive(Debug, Default)]
pub(super) struct Admission {
    /// How its limits stand.
    pub(super) fields: Fields,
    /// Its place among those in flight, where there is a limit on them.
    pub(super) permit: Option<Permit>,
    /// Where it took its cost.
    pub(super) took: Took,
}

impl Ruling {
    pub(super) fn refused(refusal: Refusal) -> Self {
        Self::Refused(Box::new(refusal))
    }

    /// The same with a place in flight, which a refusal does not need.
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

/// Something that takes its time.
pub(super) type Later<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// A ruling to come. Not to be polled again once it was given.
pub(super) type Asked = Later<Ruling>;

/// Something that is there now, or takes its time.
pub(super) enum Soon<T> {
    Now(T),
    #[cfg_attr(not(feature = "redis"), expect(dead_code, reason = "only a store takes its time"))]
    Later(Later<T>),
}

impl<T> Soon<T> {
    /// Waits for what takes its time.
    pub(super) async fn wait(self) -> T {
        match self {
            Self::Now(there) => there,
            Self::Later(later) => later.await,
        }
    }
}

/// A gate, whatever clock it goes by, and wherever its limiters are.
pub(super) trait Door: Send + Sync {
    /// Decides, and takes when all rules admit; ends when the request may run, or is refused.
    fn ask(self: Arc<Self>, question: Question) -> Asked;

    /// Gives back what an admitted question took.
    fn refund(&self, question: &Question, took: &Took) -> Soon<()>;

    /// Gives back what a question took where it did; returns how its limits stand then.
    fn release(&self, question: &Question, took: &Took) -> Soon<Fields>;

    /// The time now.
    fn now(&self) -> Timestamp;

    /// Ends after `wait`.
    fn pause(self: Arc<Self>, wait: Micros) -> Later<()>;
}

/// The way to a gate.
pub(super) struct ToGate<C> {
    gate: Arc<Gate<C>>,
    /// Whether a request may stand in line, where its rules say so.
    waits: bool,
}

impl<C: Timer + 'static> ToGate<C> {
    /// Decides at once, whatever the rules say of waiting.
    pub(super) const fn prompt(gate: Arc<Gate<C>>) -> Self {
        Self { gate, waits: false }
    }

    /// Lets a request wait as long as the rules allow, in its place in the line.
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

impl<C: Timer + 'static> Door for ToGate<C> {
    fn ask(self: Arc<Self>, question: Question) -> Asked {
        // Not before it is polled: a request that is dropped before costs nothing.
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
