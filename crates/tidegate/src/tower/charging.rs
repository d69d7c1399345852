//! Charging by outcome: gives the cost of a request back if its response is free.

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
use crate::step::{Ask, Descriptors, Lineage};

/// Whether a request counts, by its response.
pub(super) type Counts = dyn Fn(&Parts) -> bool + Send + Sync;

/// The units that an admitted request took.
#[derive(Clone, Debug, Default)]
pub(super) struct Took {
    /// For each limiter, whether it took the cost and can give it back. It cannot if a rule in
    /// shadow mode would have refused, or if the overflow limiter may have decided.
    limiters: Vec<((Lineage, Descriptors), bool)>,
    /// Whether this process decided instead of the store.
    #[cfg(feature = "redis")]
    pub(super) degraded: bool,
}

impl Took {
    /// Whether any limiter took the cost.
    pub(super) fn anything(&self) -> bool {
        self.limiters.iter().any(|(_, took)| *took)
    }

    /// Of `all` limiters of the request, keeps those that took its cost.
    pub(super) fn keep_takers<K>(&self, all: Vec<(Ask<K>, u64)>) -> Vec<(Ask<K>, u64)> {
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

/// Gives back the units of a request in one atomic step; returns the state of its limits
/// afterwards.
pub(super) fn release<C: Clock>(gate: &Gate<C>, request: &Request<'_>, took: &Took) -> Fields {
    gate.settle_those(request, 0, |all| took.keep_takers(all));
    Fields::from(&gate.peek(Request::new(request.domain(), &at_no_cost(request))))
}

/// The descriptors of a finished request, with no cost, so that the answer has no `retry_after`.
pub(super) fn at_no_cost<'a>(request: &Request<'a>) -> Vec<Descriptor<'a>> {
    request.descriptors().iter().map(|one| one.cost(0)).collect()
}

/// The charge of a request, until its response is known. If it is dropped before, the charge stays.
pub(super) struct PendingCharge {
    counts: Arc<Counts>,
    question: Question<'static>,
    took: Took,
}

impl PendingCharge {
    pub(super) fn new(counts: Arc<Counts>, question: Question<'static>) -> Self {
        Self { counts, question, took: Took::default() }
    }

    /// Notes what the admitted request took; without this call nothing is given back.
    pub(super) fn admitted(&mut self, took: Took) {
        self.took = took;
    }

    /// Gives the cost back by `release` if the response does not count, and returns the result of
    /// `release`.
    pub(super) fn close<B, T>(
        self,
        response: Response<B>,
        release: impl FnOnce(&Question<'_>, &Took) -> T,
    ) -> (Response<B>, Option<T>) {
        let (parts, body) = response.into_parts();
        let fields = (!(self.counts)(&parts)).then(|| release(&self.question, &self.took));
        (Response::from_parts(parts, body), fields)
    }
}
