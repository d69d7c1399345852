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
use crate::request::Request;
use crate::step::Descriptors;

/// Says of a response whether its request counts.
pub(super) type Counts = dyn Fn(&Parts) -> bool + Send + Sync;

/// Of each limiter that an admitted request met, whether it took the cost, and can give it back: not
/// where a rule in shadow mode would have refused, nor where keys without room may share it.
#[derive(Clone, Debug, Default)]
pub(super) struct Took(Vec<((usize, Descriptors), bool)>);

impl Took {
    /// Whether any of them did.
    pub(super) fn anything(&self) -> bool {
        self.0.iter().any(|(_, took)| *took)
    }
}

impl From<&Answer<'_>> for Took {
    fn from(answer: &Answer<'_>) -> Self {
        let matched = answer.matched().iter();
        let took =
            |one: &Matched<'_>| (one.decision().is_allowed() || one.report) && !one.elsewhere;
        Self(matched.map(|one| (known_by(one), took(one))).collect())
    }
}

/// Gives back what a request took, in one atomic step; tells how its limits stand then.
pub(super) fn release<C: Clock>(gate: &Gate<C>, request: &Request<'_>, took: &Took) -> Fields {
    let all = again(gate.met_at_all(request), |met| met, &took.0, |(known_by, _)| *known_by);
    let met: Vec<_> = all.into_iter().filter(|(_, (_, took))| *took).map(|(met, _)| met).collect();
    gate.settle_met(&met, &vec![0; met.len()]);
    // Of no cost, for the request is over: it is not to be told when it might come again.
    let free: Vec<_> = request.descriptors().iter().map(|one| one.cost(0)).collect();
    Fields::from(&gate.peek(&Request::new(request.domain(), &free)))
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

    /// Gives back the taken cost by `release` if the response does not count; returns how the limits stand then.
    pub(super) fn close<B>(
        self,
        response: Response<B>,
        release: impl FnOnce(&Question, &Took) -> Fields,
    ) -> (Response<B>, Option<Fields>) {
        let (parts, body) = response.into_parts();
        let fields = (!(self.counts)(&parts)).then(|| release(&self.question, &self.took));
        (Response::from_parts(parts, body), fields)
    }
}
