//! A limiter's state under another rule, and on its way from one table to another.
//!
//! Tables of different algorithms have different types of states, so a state leaves as `dyn Any` with the rule that
//! says its type ([`Left`]), and the new table asks for it under its own algorithm. [`carried`] has the rule of a
//! change: usage stays.

use std::any::Any;

use tidegate_core::{Algorithm, Held, Past, Rule, Timestamp, Visitor};

use super::parameters::{bytes_beside_heap, heap_bytes};

/// Carries a limiter of the rule `old` over to the rule `new`; `None` if it is idle there.
pub(crate) fn carried<Old: Algorithm, New: Algorithm>(
    old: &Old,
    state: Old::State,
    new: &New,
    now: Timestamp,
) -> Option<New::State> {
    let mut left = Some(state);
    let mut slot = None;
    let states = (&mut left as &mut dyn Any).downcast_mut::<Option<New::State>>();
    // The same algorithm keeps the times of its units. Under another algorithm they count as taken now.
    match same_algorithm(old).zip(states) {
        Some((old, left)) => {
            slot = left.take();
            Held::new(new, &mut slot, 0).amend(now, old);
        }
        None => Held::new(new, &mut slot, 0).carry_over(now, old, left?),
    }
    new.worth_keeping(slot?, now)
}

/// Returns `old` if it has the type `New`.
fn same_algorithm<Old: Algorithm, New: Algorithm>(old: &Old) -> Option<&New> {
    (old as &dyn Any).downcast_ref()
}

/// A limiter that has left its table: a state of the algorithm of its rule.
pub(crate) struct Left {
    pub(super) rule: Rule,
    pub(super) state: Box<dyn Any>,
}

impl Left {
    /// Returns the limiter with the state that was written as these numbers; `None` if they are not a state.
    pub(super) fn restored(rule: &Rule, numbers: &[u64]) -> Option<Self> {
        let state = rule.visit(Restoring { numbers })??;
        Some(Self { rule: rule.clone(), state })
    }

    /// Returns its state under `new` from `at` on; `None` if it is idle. A state that was made under the same values
    /// stays as it is.
    pub(super) fn under<New: Algorithm>(self, new: &New, at: Timestamp) -> Option<New::State> {
        self.rule.visit(Carrying { state: self.state, new, at })?
    }
}

struct Restoring<'a> {
    numbers: &'a [u64],
}

impl Visitor for Restoring<'_> {
    type Out = Option<Box<dyn Any>>;

    fn visit<R: Algorithm>(self, algorithm: &R) -> Self::Out {
        Some(Box::new(algorithm.restore(self.numbers)?))
    }
}

struct Carrying<'a, New> {
    state: Box<dyn Any>,
    new: &'a New,
    at: Timestamp,
}

impl<New: Algorithm> Visitor for Carrying<'_, New> {
    type Out = Option<New::State>;

    fn visit<Old: Algorithm>(self, old: &Old) -> Self::Out {
        let Self { state, new, at } = self;
        if same_algorithm(old) == Some(new) {
            return state.downcast().ok().map(|state| *state);
        }
        let mut state = carried(old, *state.downcast().ok()?, new, at)?;
        // The table knows since when its rule has this meaning.
        new.past_mut(&mut state).into_iter().for_each(Past::forget_rule);
        new.worth_keeping(state, at)
    }
}

/// Returns the bytes of a limiter with this state in a sharded table under `rule`.
pub(super) fn bytes_under<Old: Algorithm>(
    old: &Old,
    state: &Old::State,
    rule: &Rule,
    at: Timestamp,
) -> usize {
    rule.visit(Weighing { old, state, at }).unwrap_or(0)
}

struct Weighing<'a, Old: Algorithm> {
    old: &'a Old,
    state: &'a Old::State,
    at: Timestamp,
}

impl<Old: Algorithm> Visitor for Weighing<'_, Old> {
    type Out = usize;

    fn visit<New: Algorithm>(self, new: &New) -> usize {
        let Self { old, state, at } = self;
        let heap = if same_algorithm::<Old, New>(old).is_some_and(|old| new.same_shape(old)) {
            heap_bytes(old, state)
        } else {
            // Units that are carried over are taken in one step, so the state is as large as after one unit.
            let mut begun = new.fresh(at);
            new.take(&mut begun, at, 1);
            heap_bytes(new, &begun)
        };
        bytes_beside_heap::<Option<New::State>>().saturating_add(heap)
    }
}
