//! The parts of a call of a script other than its limiters.

use tidegate_core::{Micros, Timestamp};

use crate::request::RequestIdentity;
use crate::store::redis::script::ScriptStep;

/// The id of a request, and how long its answer is remembered.
#[derive(Clone, Copy)]
pub(super) struct Remembered<'a> {
    pub(super) id: RequestIdentity<'a>,
    pub(super) time: Micros,
}

/// The parts of a call other than its limiters.
#[derive(Clone, Copy)]
pub(super) struct CallArgs<'a> {
    pub(super) step: ScriptStep,
    pub(super) at: Option<Timestamp>,
    pub(super) remembered: Option<Remembered<'a>>,
}
