//! Charging by outcome: what a request took is given back where its response says that it was free.

use std::sync::Arc;

use http::Response;
use http::response::Parts;

use super::entries::Question;
use super::fields::Fields;
use crate::answer::{Answer, Matched};
use crate::clock::Clock;
use crate::frontend::{again, known_by};
use crate::gate::Gate;
use crate::request::{Descriptor, Request};
use crate::step::{Descriptors, Lineage, Met};

/// Says of a response whether its request counts.
pub(super) type Counts = dyn Fn(&Parts) -> bool + Send + Sync;

/// What an admitted request took.
#[derive(Clone, Debug, Default)]
pub(super) struct Took {
    /// Of each limiter it met, whether that took the cost, and can give it back: not where a rule in shadow mode
    /// would have refused, nor where keys without room may share it.
    limiters: Vec<((Lineage, Descriptors), bool)>,
    /// It was taken in this process, for the store did not decide.
    #[cfg(feature = "redis")]
    pub(super) degraded: bool,
}

impl Took {
    /// Whether any limiter took the cost.
    pub(super) fn anything(&self) -> bool {
        self.limiters.iter().any(|(_, took)| *took)
    }

    /// Keeps those of `met`, which are all that the same request meets, that took the cost.
    pub(super) fn of<K>(&self, all: Vec<(Met<K>, u64)>) -> Vec<(Met<K>, u64)> {
        let all = again(all, |(met, _)| met, &self.limiters, |(known_by, _)| *known_by);
        all.into_iter().filter(|(_, (_, took))| *took).map(|(one, _)| one).collect()
    }
}

impl From<&Answer<'_>> for Took {
    fn from(answer: &Answer<'_>) -> Self {
        let took = |one: &Matched<'_>| {
            (one.decision().is_allowed() || one.is_report()) && !one.is_elsewhere()
        };
        Self {
            limiters: answer.all().map(|one| (known_by(&one), took(&one))).collect(),
            #[cfg(feature = "redis")]
            degraded: answer.is_degraded(),
        }
    }
}

/// Gives back what a request took, in one atomic step; tells how its limits stand then.
pub(super) fn release<C: Clock>(gate: &Gate<C>, request: &Request<'_>, took: &Took) -> Fields {
    gate.settle_those(request, 0, |all| took.of(all));
    Fields::from(&gate.peek(&Request::new(request.domain(), &free(request))))
}

/// The descriptors of a request that is over, at no cost: it is not to be told when it might come again.
pub(super) fn free<'a>(request: &Request<'a>) -> Vec<Descriptor<'a>> {
    request.descriptors().iter().map(|one| one.cost(0)).collect()
}

/// What a request is charged, until its response is there. Dropped before, the charge stays.
pub(super) struct Bill {
    counts: Arc<Counts>,
    question: Question,
    took: Took,
}

impl Bill {
    pub(super) fn new(counts: Arc<Counts>, question: Question) -> Self {
        Self { counts, question, took: Took::default() }
    }

    /// The request was admitted.
    pub(super) fn took(&mut self, took: Took) {
        self.took = took;
    }

    /// Gives back the taken cost by `release` if the response does not count, and returns what that returns.
    pub(super) fn close<B, T>(
        self,
        response: Response<B>,
        release: impl FnOnce(&Question, &Took) -> T,
    ) -> (Response<B>, Option<T>) {
        let (parts, body) = response.into_parts();
        let fields = (!(self.counts)(&parts)).then(|| release(&self.question, &self.took));
        (Response::from_parts(parts, body), fields)
    }
}
