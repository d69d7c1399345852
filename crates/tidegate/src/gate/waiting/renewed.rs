//! Plans of one who waits at a gate: looked up again whenever its turn may have come.

use std::sync::{Arc, Mutex, PoisonError};

use crate::clock::Clock;
use crate::dedupe::IdempotencyKey;
use crate::gate::Gate;
use crate::inline_list::InlineList;
use crate::request::Request;
use crate::step::Met;

/// The limiters as they were last asked; `None` until they were.
type Last = Arc<Mutex<Option<InlineList<Met>>>>;

/// What the plans of a request are looked up by, and what was found.
#[derive(Debug)]
pub(super) struct Renewed<'a> {
    request: Request<'a>,
    last: Last,
}

impl<'a> Renewed<'a> {
    /// `None` where the figures of no rule come with requests.
    pub(super) fn of<C: Clock>(gate: &Gate<C>, request: &Request<'a>) -> Option<Self> {
        gate.may_look_up().then(|| Self { request: *request, last: Arc::default() })
    }

    /// How the request is known if it is asked again, under these figures.
    pub(super) fn once<C: Clock>(&self, gate: &Gate<C>, met: &[Met]) -> Option<IdempotencyKey> {
        gate.once(&self.request, met)
    }

    /// The same limiters under the plans of now.
    pub(super) fn now<C: Clock>(&self, gate: &Gate<C>, met: &[Met]) -> InlineList<Met> {
        let met = gate.with_plans_of_now(met, &self.request);
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(met.clone());
        met
    }
}

/// The limiters of a request, as they will have been decided.
#[derive(Debug)]
pub(super) struct AsDecided {
    met: InlineList<Met>,
    last: Option<Last>,
}

impl AsDecided {
    /// Those of one who has yet to be decided.
    pub(super) fn of(met: &InlineList<Met>, renewed: Option<&Renewed<'_>>) -> Self {
        Self { met: met.clone(), last: renewed.map(|renewed| Arc::clone(&renewed.last)) }
    }

    /// Those that were decided.
    pub(super) fn met(self) -> InlineList<Met> {
        let last =
            self.last.and_then(|last| last.lock().unwrap_or_else(PoisonError::into_inner).take());
        last.unwrap_or(self.met)
    }
}
