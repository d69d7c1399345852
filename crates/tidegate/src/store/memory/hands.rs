//! Limiters taken in hand for one step over several.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tidegate_core::{Held, Room, Verbs};

use super::table::{Holding, OnFull, One, Part, Refusal, Step};
use crate::clock::Reading;

/// One limiter in hand: its state, if it exists.
#[derive(Debug)]
pub(super) struct Hand<R: Room> {
    pub(super) part: Part,
    pub(super) slot: Option<R::State>,
    pub(super) standing: Standing,
}

/// How a limiter stands to its table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// It is in the table.
    There,
    /// It is not, and a place is claimed for it.
    Claimed,
    /// It is not, and does not begin with this step.
    Absent,
    /// It is not, and there is no room.
    Beyond,
}

/// The limiter shared by all keys for which a table has no room.
#[derive(Debug)]
pub(super) struct Shared<R: Room> {
    slot: Mutex<Option<R::State>>,
    on_full: OnFull,
}

impl<R: Room> Shared<R> {
    pub(super) fn new(on_full: OnFull) -> Self {
        Self { slot: Mutex::new(None), on_full }
    }

    /// A step with it, for a key that is beyond the table.
    pub(super) fn one(&self, room: &R, cost: u64, step: Step, reading: Reading<'_>) -> One {
        let one = match self.lock() {
            Some(mut slot) => step.run(room, &mut slot, cost, reading.anew()).0,
            None => {
                let mut refusal = Refusal::of(room, cost, true);
                let decision = step.wants_figures().then(|| refusal.report());
                One { verdict: refusal.decide(), at: reading.early(), decision, overloaded: true }
            }
        };
        One { overloaded: true, ..one }
    }

    /// Holds it; `None` where keys without room are refused.
    pub(super) fn lock(&self) -> Option<MutexGuard<'_, Option<R::State>>> {
        let lock = || self.slot.lock().unwrap_or_else(PoisonError::into_inner);
        (self.on_full == OnFull::Share).then(lock)
    }
}

/// The verbs of all hands. The first that is beyond the table gets the shared limiter; what else is
/// beyond in the same request is refused.
pub(super) fn held<'a, R: Room>(
    room: &'a R,
    hands: &'a mut [Hand<R>],
    mut shared: Option<&'a mut Option<R::State>>,
) -> Vec<Holding<'a>> {
    let verbs = hands.iter_mut().map(|hand| {
        let Part { place, cost, enforced, .. } = hand.part;
        let overloaded = hand.standing == Standing::Beyond;
        let slot = if overloaded { shared.take() } else { Some(&mut hand.slot) };
        let verbs: Box<dyn Verbs + 'a> = match slot {
            Some(slot) if enforced => Box::new(Held::new(room, slot, cost)),
            Some(slot) => Box::new(Held::new(room, slot, cost).shadow()),
            None => Box::new(Refusal::of(room, cost, enforced)),
        };
        Holding { place, overloaded, verbs }
    });
    verbs.collect()
}
