//! One limiter, kept with the figures that it was last under.

use std::any;
use std::fmt;
use std::sync::Arc;

use tidegate_core::{Room, Rule, Timestamp, Visitor};

use super::figures::{Figures, Recent};
use super::held::Held;
use crate::store::memory::budget::Need;
use crate::store::memory::estate::carried;
use crate::store::memory::whole::heap_bytes;

/// What the allocator is taken to need beside what it is asked for.
const BYTES_OF_AN_ALLOCATION: usize = 16;

/// A limiter under the figures of one room.
#[derive(Clone, Debug)]
pub(super) struct Own<R: Room> {
    pub(super) figures: Arc<Figures<R>>,
    /// Empty for one that is as good as new.
    pub(super) slot: Option<R::State>,
}

impl<R: Room> Own<R> {
    /// As if nobody shared its figures, and it were never kept in place.
    const BYTES: usize = size_of::<Self>() + size_of::<Figures<R>>() + 2 * BYTES_OF_AN_ALLOCATION;

    /// What one under these figures needs of a budget.
    pub(super) const fn need(heap: Need) -> Need {
        Need { first: super::Kept::BYTES + Self::BYTES + heap.first, ..heap }
    }

    /// Bytes that its state may take more with one unit; 0 where states do not grow.
    pub(super) fn growth(&self) -> usize {
        self.figures.heap.next
    }
}

/// A limiter, whatever figures it is under.
pub(super) trait AnyOwn: any::Any + fmt::Debug + Send {
    /// Whether forgetting it would change no later decision.
    fn is_as_good_as_new(&self, now: Timestamp) -> bool;

    /// Bytes that it takes now.
    fn bytes(&self) -> usize;

    /// Another one like it.
    fn copy(&self) -> Held;

    /// The limiter that it is under `rule` from `now` on: what was used stays used. Empty where that is
    /// unlimited.
    fn carried_to(&mut self, rule: &Rule, recent: &mut Recent, now: Timestamp) -> Held;
}

impl<R: Room> AnyOwn for Own<R> {
    fn is_as_good_as_new(&self, now: Timestamp) -> bool {
        self.slot.as_ref().is_none_or(|state| self.figures.room.is_as_good_as_new(state, now))
    }

    fn bytes(&self) -> usize {
        let heap = self.slot.as_ref().map_or(0, |state| heap_bytes(&self.figures.room, state));
        Self::BYTES.saturating_add(heap)
    }

    fn copy(&self) -> Held {
        Held::new(self.clone())
    }

    fn carried_to(&mut self, rule: &Rule, recent: &mut Recent, now: Timestamp) -> Held {
        rule.visit(Carrying { old: self, recent, now }).unwrap_or_default()
    }
}

struct Carrying<'a, Old: Room> {
    old: &'a mut Own<Old>,
    recent: &'a mut Recent,
    now: Timestamp,
}

impl<Old: Room> Visitor for Carrying<'_, Old> {
    type Out = Held;

    fn visit<New: Room>(self, room: &New) -> Held {
        let Self { old, recent, now } = self;
        let state = old.slot.take();
        let slot = state.and_then(|state| carried(&old.figures.room, state, room, now));
        Held::new(Own { figures: recent.figures(room), slot })
    }
}
