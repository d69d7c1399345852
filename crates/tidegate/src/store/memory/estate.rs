//! What a closed limiter leaves to the rule that follows: what was used stays used.

use std::any::Any;
use std::sync::Arc;

use tidegate_core::{Algorithm, Held, Timestamp};

use super::budget::Budget;
use crate::key::Fingerprint;

/// What a limiter of the rule `old` is under the rule `new`; `None` where that is idle.
pub(super) fn carried<Old: Algorithm, New: Algorithm>(
    old: &Old,
    state: Old::State,
    new: &New,
    now: Timestamp,
) -> Option<New::State> {
    let (mut left, mut slot) = (Some(state), None);
    let states = (&mut left as &mut dyn Any).downcast_mut::<Option<New::State>>();
    match same_algorithm(old).zip(states) {
        Some((old, left)) => {
            slot = left.take();
            Held::new(new, &mut slot, 0).amend(now, old);
        }
        None => Held::new(new, &mut slot, 0).carry_over(now, old, left?),
    }
    slot.filter(|state| !new.is_idle(state, now))
}

/// The same algorithm, if it is of the type `New`.
pub(super) fn same_algorithm<Old: Algorithm, New: Algorithm>(old: &Old) -> Option<&New> {
    (old as &dyn Any).downcast_ref()
}

/// All limiters of a table that was closed.
pub(super) struct Estate<'a, R: Algorithm> {
    pub(super) algorithm: &'a R,
    pub(super) limiters: Vec<(Fingerprint, R::State)>,
    /// The one shared by keys without room.
    pub(super) shared: Option<R::State>,
    /// Under whose caps they were.
    pub(super) budget: &'a Arc<Budget>,
}
