//! Charging by outcome: gives the cost of a request back if its response is free.

use std::sync::Arc;

use http::Response;
use http::response::Parts;

use super::entries::LayerQuestion;
use super::fields::LimitFields;
use crate::clock::Clock;
use crate::frontend::Taken;
use crate::gate::Gate;
use crate::headers::FieldSet;
use crate::request::{Descriptor, Request};

/// Decides by the response if a request counts.
pub(super) type IsCharged = dyn Fn(&Parts) -> bool + Send + Sync;

/// Gives back the units of a request in one atomic step; returns the state of its limits
/// afterwards.
pub(super) fn release<C: Clock>(
    gate: &Gate<C>,
    request: &Request<'_>,
    taken: &Taken,
    shown: FieldSet,
) -> LimitFields {
    let _ = gate.settle(request, taken, &[0]);
    let free = at_no_cost(request);
    LimitFields::of(&gate.peek(Request::new(request.domain(), &free)), shown, None)
}

/// The descriptors of a finished request, with no cost, so that the answer has no `retry_after`.
pub(super) fn at_no_cost<'a>(request: &Request<'a>) -> Vec<Descriptor<'a>> {
    request.descriptors().iter().map(|one| one.cost(0)).collect()
}

/// The charge of a request, until its response is known. If it is dropped before, the charge stays.
pub(super) struct PendingCharge {
    counts: Arc<IsCharged>,
    question: LayerQuestion<'static>,
    taken: Taken,
}

impl PendingCharge {
    pub(super) fn new(counts: Arc<IsCharged>, question: LayerQuestion<'static>) -> Self {
        Self { counts, question, taken: Taken::default() }
    }

    /// Notes the units that the admitted request took; without this call nothing is given back.
    pub(super) fn admitted(&mut self, taken: Taken) {
        self.taken = taken;
    }

    /// Gives the cost back by `release` if the response does not count, and returns the result of
    /// `release`.
    pub(super) fn close<B, T>(
        self,
        response: Response<B>,
        release: impl FnOnce(&LayerQuestion<'_>, &Taken) -> T,
    ) -> (Response<B>, Option<T>) {
        let (parts, body) = response.into_parts();
        let fields = (!(self.counts)(&parts)).then(|| release(&self.question, &self.taken));
        (Response::from_parts(parts, body), fields)
    }
}
