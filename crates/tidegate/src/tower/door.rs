//! The ways to the gate: to be decided at once, or to wait as the rules say.

use std::future::ready;
use std::pin::Pin;
use std::sync::Arc;

use tidegate_core::{Micros, Timestamp};

use super::charging::{self, Took};
use super::entries::Question;
use super::fields::Fields;
use super::refusal::Refusal;
use crate::answer::Answer;
use crate::clock::{Clock, Timer};
use crate::gate::Gate;
use crate::request::Request;
use crate::wait::Permit;

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

/// A gate, whatever clock it goes by.
pub(super) trait Door: Send + Sync {
    /// Decides, and takes when all rules admit.
    fn ask(self: Arc<Self>, question: Question) -> Asked;

    /// Gives back what an admitted question took.
    fn refund(&self, question: &Question);

    /// Gives back what a question took where it did; tells how its limits stand then.
    fn release(&self, question: &Question, took: &Took) -> Fields;

    /// The time now.
    fn now(&self) -> Timestamp;

    /// Ends after `wait`; at once where this door can not wait.
    fn pause(self: Arc<Self>, wait: Micros) -> Later<()>;
}

/// Decides at once, whatever the rules say of waiting.
pub(super) struct Prompt<C>(pub(super) Arc<Gate<C>>);

impl<C: Clock + 'static> Door for Prompt<C> {
    fn ask(self: Arc<Self>, question: Question) -> Asked {
        // Not before it is polled: a request that is dropped before costs nothing.
        let ruling = async move { question.ask(|request| Ruling::from(&self.0.check(request))) };
        Box::pin(ruling)
    }

    fn refund(&self, question: &Question) {
        refund(&self.0, question);
    }

    fn release(&self, question: &Question, took: &Took) -> Fields {
        question.ask(|request| charging::release(&self.0, request, took))
    }

    fn now(&self) -> Timestamp {
        self.0.now()
    }

    fn pause(self: Arc<Self>, _: Micros) -> Later<()> {
        Box::pin(ready(()))
    }
}

/// Lets a request wait as long as the rules allow, in its place in the line.
pub(super) struct Patient<C>(pub(super) Arc<Gate<C>>);

impl<C: Timer + 'static> Door for Patient<C> {
    fn ask(self: Arc<Self>, question: Question) -> Asked {
        Box::pin(async move { self.acquire(&question).await })
    }

    fn refund(&self, question: &Question) {
        refund(&self.0, question);
    }

    fn release(&self, question: &Question, took: &Took) -> Fields {
        question.ask(|request| charging::release(&self.0, request, took))
    }

    fn now(&self) -> Timestamp {
        self.0.now()
    }

    fn pause(self: Arc<Self>, wait: Micros) -> Later<()> {
        Box::pin(async move { self.wait_out(wait).await })
    }
}

impl<C: Timer + 'static> Patient<C> {
    async fn acquire(&self, question: &Question) -> Ruling {
        let pairs = question.pairs();
        let descriptors = question.descriptors(&pairs);
        let request = Request::new(question.domain(), &descriptors);
        Ruling::from(&self.0.acquire(&request).await)
    }

    /// A timer may end early: the clock has the last word.
    async fn wait_out(&self, wait: Micros) {
        let until = self.0.now().plus(wait);
        while self.0.now() < until {
            self.0.clock().sleep_until(until).await;
        }
    }
}

fn refund<C: Clock>(gate: &Gate<C>, question: &Question) {
    let _stands = question.ask(|request| gate.refund(request).at());
}
