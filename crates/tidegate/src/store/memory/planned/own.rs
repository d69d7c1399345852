//! One limiter, kept with the figures that it was last under.

use tidegate_core::{Micros, Room, Rule, Timestamp, Visitor};

use super::figures::{Figures, Recent};
use super::held::{AnyOwn, Held, Own};
use crate::step::{One, Step};
use crate::store::memory::budget::Need;
use crate::store::memory::estate::carried;
use crate::store::memory::heap::heap_bytes;

/// What the allocator is taken to need beside what it is asked for.
const BYTES_OF_AN_ALLOCATION: usize = 16;

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

    fn pass(&mut self, now: Timestamp) {
        if let Some(state) = &mut self.slot {
            self.figures.room.advance(state, now);
        }
    }

    fn reset_after(&self, now: Timestamp) -> Micros {
        let Some(mut state) = self.slot.clone() else { return Micros::ZERO };
        let room = &self.figures.room;
        let at = room.advance(&mut state, now);
        at.plus(room.reset_after(&state, at)).since(now)
    }

    fn until_used(&self, units: u64, now: Timestamp) -> Option<Micros> {
        let (room, mut state) = (&self.figures.room, self.slot.clone()?);
        let cost = room.remaining(&room.fresh(now), now).checked_sub(units)?;
        let at = room.advance(&mut state, now);
        let fits = room.decide(&state, at, cost).is_allowed();
        (!fits).then(|| at.plus(room.retry_after(&state, at, cost)).since(now))
    }

    fn give_back(&mut self, step: Step, cost: u64, now: Timestamp) -> Option<One> {
        self.slot.as_ref()?;
        Some(step.run_in_place(&self.figures.room, &mut self.slot, cost, now))
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
