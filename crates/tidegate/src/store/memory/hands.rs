//! Limiters taken in hand for one step over several.

use std::sync::MutexGuard;

use tidegate_core::{Held, Room};

use super::budget::Budget;
use super::overflow::{Overflow, Pressed, Shared, Told};
use super::table::{Grip, Holding, Part};

/// One limiter in hand: its state, if it exists.
#[derive(Debug)]
pub(super) struct Hand<R: Room> {
    pub(super) part: Part,
    pub(super) slot: Option<R::State>,
    pub(super) standing: Standing,
    /// Bytes claimed for what it may take more with this step.
    pub(super) claimed: usize,
}

/// How a limiter stands to its table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// It is in the table.
    There,
    /// It is, and there is no memory for a unit more.
    Cramped,
    /// It is not, and a place is claimed for it.
    Claimed,
    /// It is not, and leaves nothing behind with this step.
    Absent,
    /// It is not, and there is no room.
    Beyond,
}

impl Standing {
    /// Whether the limiter is in the table.
    pub(super) const fn is_there(self) -> bool {
        matches!(self, Self::There | Self::Cramped)
    }
}

/// All hands of a step in one table, and the shared limiter if one of them needs it.
#[derive(Debug)]
pub(super) struct Hands<'a, R: Room> {
    pub(super) hands: Vec<Hand<R>>,
    shared: Option<(MutexGuard<'a, Overflow<R>>, usize)>,
}

impl<'a, R: Room> Hands<'a, R> {
    pub(super) fn new(hands: Vec<Hand<R>>, shared: &'a Shared<R>, budget: &Budget) -> Self {
        let needed = hands.iter().any(|hand| hand.standing == Standing::Beyond);
        Self { hands, shared: if needed { shared.hold(budget) } else { None } }
    }

    /// The verbs of all hands. The first that has no room gets the shared limiter; the others of the
    /// same request are refused.
    pub(super) fn held<'h>(&'h mut self, room: &'h R) -> Vec<Holding<'h>> {
        let mut shared = self.shared.as_mut().map(|(slot, _)| &mut slot.state);
        let verbs = self.hands.iter_mut().map(|hand| {
            let Part { place, cost, enforced, .. } = hand.part;
            let verbs: Box<dyn Grip + 'h> = match hand.standing {
                Standing::Beyond => match shared.take() {
                    Some(slot) => Box::new(Pressed::shared(of(room, slot, cost, enforced))),
                    None => Box::new(Told::refusal(room, cost, enforced)),
                },
                Standing::Cramped => {
                    Box::new(Pressed::cramped(of(room, &mut hand.slot, cost, enforced)))
                }
                Standing::There | Standing::Claimed | Standing::Absent => {
                    Box::new(of(room, &mut hand.slot, cost, enforced))
                }
            };
            Holding { place, verbs }
        });
        verbs.collect()
    }

    /// Lets go of the shared limiter, counting what it takes now.
    pub(super) fn release_shared(&mut self, room: &R, budget: &Budget) {
        if let Some((mut slot, claimed)) = self.shared.take() {
            slot.weigh(room, budget, claimed);
        }
    }
}

fn of<'a, R: Room>(
    room: &'a R,
    slot: &'a mut Option<R::State>,
    cost: u64,
    enforced: bool,
) -> Held<'a, R> {
    let held = Held::new(room, slot, cost);
    if enforced { held } else { held.shadow() }
}
