//! An entry under the one rule of its table: only a state. The table keeps the rule, with the memory that states need.

#[cfg(all(test, not(loom)))]
mod tests;

use std::any::Any;

use tidegate_core::{Algorithm, Decision, Past, Rule, Timestamp};

use super::budget::Need;
use super::entry::Entry;
use super::leaving::{Left, bytes_under};
use super::preview::{Preview, preview};
use super::table::{Part, refusal};
use crate::clock::Clock;
use crate::key::Fingerprint;
use crate::snapshot::Records;
use crate::step::{One, Step};

/// By how much one unit may grow a state, in bytes: a quarter of a log's largest size, within these bounds.
const GROWTH: std::ops::RangeInclusive<usize> = 64..=16 << 10;

/// The values of one rule.
#[derive(Debug)]
pub(super) struct Parameters<R: Algorithm> {
    pub(super) algorithm: R,
    /// Heap bytes that a state needs.
    pub(super) heap: Need,
    /// True if the words of a state do not say when its last unit came.
    pub(super) are_packed: bool,
}

impl<R: Algorithm> Parameters<R> {
    /// Parameters of unpacked states; states of a fixed size never grow.
    pub(super) fn new(algorithm: R) -> Self {
        let fresh = heap_bytes(&algorithm, &algorithm.fresh(Timestamp::EPOCH));
        let most = most_heap_bytes(&algorithm);
        let next = if fresh == most { 0 } else { (most / 4).clamp(*GROWTH.start(), *GROWTH.end()) };
        Self { algorithm, heap: Need { first: fresh + next, next }, are_packed: false }
    }

    /// Parameters of packed states, which need no memory of their own.
    pub(super) const fn packed(algorithm: R) -> Self {
        Self { algorithm, heap: Need { first: 0, next: 0 }, are_packed: true }
    }
}

/// Returns the heap bytes of a state, including its memory of the past.
pub(super) fn heap_bytes<R: Algorithm>(algorithm: &R, state: &R::State) -> usize {
    let past = algorithm.past(state).map_or(0, Past::heap_bytes);
    usize::try_from(algorithm.heap_bytes(state)).unwrap_or(usize::MAX / 2) + past
}

pub(super) fn most_heap_bytes<R: Algorithm>(algorithm: &R) -> usize {
    usize::try_from(algorithm.most_heap_bytes()).unwrap_or(usize::MAX / 8)
}

/// Bytes of a limiter in the map and the queue of a shard, growth included, without its heap bytes.
pub(super) const fn bytes_beside_heap<E>() -> usize {
    3 * (size_of::<(Fingerprint, Option<E>, usize)>() + size_of::<Fingerprint>())
}

/// Returns whether packing a state into so many words cuts nothing off. The time of the last unit is not packed, so
/// both states are compared after one more unit.
pub(super) fn stays_whole<R: Algorithm, const WORDS: usize>(
    algorithm: &R,
    base: Timestamp,
    state: &R::State,
    now: Timestamp,
) -> bool {
    let (mut whole, mut packed) =
        (state.clone(), algorithm.unpack::<WORDS>(base, algorithm.pack(base, state)));
    let at = algorithm.advance(&mut whole, now);
    algorithm.take(&mut whole, at, 1);
    algorithm.take(&mut packed, at, 1);
    whole == packed
}

/// A state; `None` until it is created.
#[derive(Clone, Debug)]
pub(super) struct FixedEntry<R: Algorithm>(pub(super) Option<R::State>);

impl<R: Algorithm> Entry for FixedEntry<R> {
    type Rules = Parameters<R>;
    type Recent = ();

    fn new(_part: &Part<'_>, (): &mut (), _now: Timestamp) -> Option<Self> {
        Some(Self(None))
    }

    #[inline]
    fn need(&self, rules: &Parameters<R>) -> Need {
        match &self.0 {
            Some(state) if rules.algorithm.has_place(state) => Need { next: 0, ..rules.heap },
            _ => rules.heap,
        }
    }

    fn bytes(&self, rules: &Parameters<R>) -> usize {
        self.0.as_ref().map_or(0, |state| heap_bytes(&rules.algorithm, state))
    }

    fn is_idle(&self, rules: &Parameters<R>, now: Timestamp) -> bool {
        self.0.as_ref().is_none_or(|state| rules.algorithm.is_idle(state, now))
    }

    #[inline]
    fn run(
        &mut self,
        rules: &Parameters<R>,
        step: Step,
        cost: u64,
        now: Timestamp,
        in_place: bool,
    ) -> One {
        if in_place {
            step.run_in_place(&rules.algorithm, &mut self.0, cost, now)
        } else {
            step.run(&rules.algorithm, &mut self.0, cost, now)
        }
    }

    #[inline]
    fn ask(&mut self, rules: &Parameters<R>, cost: u64, clock: &dyn Clock) -> Option<bool> {
        let state = self.0.as_mut().filter(|state| rules.algorithm.has_place(state))?;
        Some(rules.algorithm.ask(state, clock.now(), cost).is_allowed())
    }

    fn preview(
        entry: Option<Self>,
        rules: &Parameters<R>,
        _part: &Part<'_>,
        now: Timestamp,
    ) -> Box<dyn Preview> {
        preview(&rules.algorithm, entry.and_then(|entry| entry.0), now)
    }

    fn share(_rules: &Parameters<R>, entry: &mut Option<Self>, _now: Timestamp) -> bool {
        entry.get_or_insert(Self(None));
        true
    }

    fn refusal(rules: &Parameters<R>, part: &Part<'_>, _alone: bool) -> Decision {
        refusal(&rules.algorithm, part)
    }

    fn into_state(self) -> Option<Box<dyn Any>> {
        Some(Box::new(self.0?))
    }

    fn bytes_under(&self, rules: &Parameters<R>, rule: &Rule, at: Timestamp) -> usize {
        self.0.as_ref().map_or(0, |state| bytes_under(&rules.algorithm, state, rule, at))
    }

    fn adopt(left: Left, rules: &Parameters<R>, at: Timestamp) -> Option<Self> {
        left.under(&rules.algorithm, at).map(|state| Self(Some(state)))
    }

    fn save(
        &self,
        rules: &Parameters<R>,
        fingerprint: Option<Fingerprint>,
        now: Timestamp,
        records: &mut Records<'_, '_>,
    ) {
        if let Some(state) = &self.0 {
            // The last unit of a packed state was not after this.
            let last = if rules.are_packed { now } else { rules.algorithm.last(state) };
            records.add(fingerprint, &rules.algorithm, state, last);
        }
    }
}
