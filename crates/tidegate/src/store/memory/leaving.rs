//! A limiter's state under another rule, and on its way from one table to another.

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

/// A state that has left its table, of any algorithm.
pub(crate) trait Leaving {
    /// The rule of the state.
    fn rule(&self) -> &Rule;

    /// Returns the state under `rule` from `at` on, by the type of that rule's algorithm; `None` if it is idle. A state
    /// that was made under the same values stays as it is.
    fn under(self: Box<Self>, rule: &Rule, at: Timestamp) -> Option<Box<dyn Any>>;

    /// Returns the state unchanged, by the type of its algorithm.
    fn as_it_is(self: Box<Self>) -> Box<dyn Any>;
}

/// A state and the algorithm of its `rule`.
pub(super) struct Left<R: Algorithm> {
    pub(super) algorithm: R,
    pub(super) state: R::State,
    pub(super) rule: Rule,
}

impl<R: Algorithm> Leaving for Left<R> {
    fn rule(&self) -> &Rule {
        &self.rule
    }

    fn under(self: Box<Self>, rule: &Rule, at: Timestamp) -> Option<Box<dyn Any>> {
        rule.visit(Carrying { left: *self, at })?
    }

    fn as_it_is(self: Box<Self>) -> Box<dyn Any> {
        Box::new(self.state)
    }
}

/// Returns a state under `rule` from the numbers that its algorithm wrote; `None` if they are not a state.
pub(super) fn restored(rule: &Rule, numbers: &[u64]) -> Option<Box<dyn Leaving>> {
    rule.visit(Restoring { rule, numbers })?
}

struct Restoring<'a> {
    rule: &'a Rule,
    numbers: &'a [u64],
}

impl Visitor for Restoring<'_> {
    type Out = Option<Box<dyn Leaving>>;

    fn visit<R: Algorithm>(self, algorithm: &R) -> Self::Out {
        let Self { rule, numbers } = self;
        let state = algorithm.restore(numbers)?;
        Some(Box::new(Left { algorithm: algorithm.clone(), state, rule: rule.clone() }))
    }
}

struct Carrying<R: Algorithm> {
    left: Left<R>,
    at: Timestamp,
}

impl<Old: Algorithm> Visitor for Carrying<Old> {
    type Out = Option<Box<dyn Any>>;

    fn visit<New: Algorithm>(self, algorithm: &New) -> Self::Out {
        let Self { left, at } = self;
        if (&left.algorithm as &dyn Any).downcast_ref() == Some(algorithm) {
            return Some(Box::new(left.state));
        }
        let mut state = carried(&left.algorithm, left.state, algorithm, at)?;
        // The table knows since when its rule has this meaning.
        algorithm.past_mut(&mut state).into_iter().for_each(Past::forget_rule);
        Some(Box::new(algorithm.worth_keeping(state, at)?))
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
