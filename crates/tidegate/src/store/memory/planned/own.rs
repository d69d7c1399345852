//! One limiter, kept with the figures that it was last under.

use std::any;
use std::fmt;

use tidegate_core::{Room, Rule, Timestamp, Visitor};

use crate::store::memory::budget::Need;
use crate::store::memory::estate::carried;
use crate::store::memory::whole::{heap_bytes, need_of};

/// What the allocator is taken to need beside what it is asked for.
const BYTES_OF_AN_ALLOCATION: usize = 16;

/// A limiter under the figures of one room.
#[derive(Clone, Debug)]
pub(super) struct Own<R: Room> {
    pub(super) room: R,
    /// What its state may take on the heap.
    heap: Need,
    /// Empty for one that is as good as new.
    pub(super) slot: Option<R::State>,
}

impl<R: Room> Own<R> {
    const BYTES: usize = size_of::<Self>() + BYTES_OF_AN_ALLOCATION;

    /// One that begins with its first step.
    pub(super) fn new(room: &R) -> Self {
        Self { heap: need_of(room), room: room.clone(), slot: None }
    }

    /// What it needs of a budget.
    pub(super) const fn need(&self) -> Need {
        Need { first: super::Kept::BYTES + Self::BYTES + self.heap.first, ..self.heap }
    }

    /// Bytes that its state may take more with one unit; 0 where states do not grow.
    pub(super) const fn growth(&self) -> usize {
        self.heap.next
    }
}

/// A limiter, whatever figures it is under.
pub(super) trait AnyOwn: any::Any + fmt::Debug + Send {
    /// Whether forgetting it would change no later decision.
    fn is_as_good_as_new(&self, now: Timestamp) -> bool;

    /// Bytes that it takes now.
    fn bytes(&self) -> usize;

    /// Another one like it.
    fn copy(&self) -> Box<dyn AnyOwn>;

    /// The limiter that it is under `rule` from `now` on: what was used stays used. `None` where that is
    /// unlimited.
    fn carried_to(self: Box<Self>, rule: &Rule, now: Timestamp) -> Option<Box<dyn AnyOwn>>;
}

impl<R: Room> AnyOwn for Own<R> {
    fn is_as_good_as_new(&self, now: Timestamp) -> bool {
        self.slot.as_ref().is_none_or(|state| self.room.is_as_good_as_new(state, now))
    }

    fn bytes(&self) -> usize {
        let heap = self.slot.as_ref().map_or(0, |state| heap_bytes(&self.room, state));
        Self::BYTES.saturating_add(heap)
    }

    fn copy(&self) -> Box<dyn AnyOwn> {
        Box::new(self.clone())
    }

    fn carried_to(self: Box<Self>, rule: &Rule, now: Timestamp) -> Option<Box<dyn AnyOwn>> {
        rule.visit(Carrying { old: self, now })
    }
}

struct Carrying<Old: Room> {
    old: Box<Own<Old>>,
    now: Timestamp,
}

impl<Old: Room> Visitor for Carrying<Old> {
    type Out = Box<dyn AnyOwn>;

    fn visit<New: Room>(self, room: &New) -> Box<dyn AnyOwn> {
        let Own { room: old, slot, .. } = *self.old;
        let mut own = Own::new(room);
        own.slot = slot.and_then(|state| carried(&old, state, room, self.now));
        Box::new(own)
    }
}

/// The limiter, if it is under just these figures.
#[inline]
pub(super) fn is_under<'o, R: Room>(own: &'o mut dyn AnyOwn, room: &R) -> Option<&'o mut Own<R>> {
    let own: &mut dyn any::Any = own;
    own.downcast_mut::<Own<R>>().filter(|own| own.room == *room)
}

/// What a limiter is under these figures, which are those of `rule`.
pub(super) fn under<R: Room>(
    mut own: Box<dyn AnyOwn>,
    room: &R,
    rule: &Rule,
    now: Timestamp,
) -> Option<Box<Own<R>>> {
    if is_under(&mut *own, room).is_none() {
        own = own.carried_to(rule, now)?;
    }
    let own: Box<dyn any::Any> = own;
    own.downcast().ok()
}
