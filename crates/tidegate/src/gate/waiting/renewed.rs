//! Plans of one who waits at a gate: looked up again whenever its turn may have come.

use std::sync::{Mutex, PoisonError};

use crate::clock::Clock;
use crate::dedupe::IdempotencyKey;
use crate::gate::Gate;
use crate::inline_list::InlineList;
use crate::request::Request;
use crate::step::Met;

/// What the plans of a request are looked up by, and what was found.
#[derive(Debug)]
pub(super) struct Renewed<'a> {
    request: Request<'a>,
    /// The limiters as they were last asked; `None` until they were.
    last: Mutex<Option<InlineList<Met>>>,
}

impl<'a> Renewed<'a> {
    /// `None` where the figures of no rule come with requests.
    pub(super) fn of<C: Clock>(gate: &Gate<C>, request: &Request<'a>) -> Option<Self> {
        gate.may_look_up().then(|| Self { request: *request, last: Mutex::default() })
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

    /// Takes out the limiters as they were decided.
    pub(super) fn take(&self) -> Option<InlineList<Met>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}
