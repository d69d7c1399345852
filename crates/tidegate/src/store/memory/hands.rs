//! Limiters taken in hand for one step over several.

use std::sync::MutexGuard;

use tidegate_core::{Decision, Held, Room, Timestamp, Verbs, Verdict};

use super::budget::Budget;
use super::shared::{Overflow, Refusal, Shared, Sharing};
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

    const fn may_need_shared(self) -> bool {
        matches!(self, Self::Cramped | Self::Beyond)
    }
}

/// All hands of a step in one table, and the shared limiter if one of them may need it.
#[derive(Debug)]
pub(super) struct Hands<'a, R: Room> {
    pub(super) hands: Vec<Hand<R>>,
    shared: Option<(MutexGuard<'a, Overflow<R>>, usize)>,
}

impl<'a, R: Room> Hands<'a, R> {
    pub(super) fn new(hands: Vec<Hand<R>>, shared: &'a Shared<R>, budget: &Budget) -> Self {
        let needed = hands.iter().any(|hand| hand.standing.may_need_shared());
        Self { hands, shared: if needed { shared.hold(budget) } else { None } }
    }

    /// The verbs of all hands. The first that has no room gets the shared limiter; the others of the
    /// same request are refused.
    pub(super) fn held<'h>(&'h mut self, room: &'h R) -> Vec<Holding<'h>> {
        let mut shared = self.shared.as_mut().map(|(slot, _)| &mut slot.state);
        let verbs = self.hands.iter_mut().map(|hand| {
            let Part { place, cost, enforced, .. } = hand.part;
            let elsewhere = hand.standing.may_need_shared().then(|| match shared.take() {
                Some(slot) => Box::new(Sharing(of(room, slot, cost, enforced))) as Box<dyn Grip>,
                None => Box::new(Refusal::of(room, cost, enforced)),
            });
            let own = of(room, &mut hand.slot, cost, enforced);
            let verbs: Box<dyn Grip + 'h> = match (hand.standing, elsewhere) {
                (Standing::Cramped, Some(elsewhere)) => Box::new(Cramped { own, elsewhere }),
                (_, Some(elsewhere)) => elsewhere,
                (_, None) => Box::new(own),
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

/// A limiter that has no memory to grow: what it denies is denied; what it would admit, the shared
/// limiter decides.
struct Cramped<'a, R: Room> {
    own: Held<'a, R>,
    elsewhere: Box<dyn Grip + 'a>,
}

impl<'a, R: Room> Cramped<'a, R> {
    /// Who has the last word.
    fn deciding(&self) -> &(dyn Grip + 'a) {
        if self.own.verdict().is_allowed() { &*self.elsewhere } else { &self.own }
    }
}

impl<R: Room> Verbs for Cramped<'_, R> {
    fn advance(&mut self, now: Timestamp) {
        self.own.advance(now);
        self.elsewhere.advance(now);
    }

    fn decide(&mut self) -> Verdict {
        let own = self.own.decide();
        let elsewhere = self.elsewhere.decide();
        if own.is_allowed() { elsewhere } else { own }
    }

    fn verdict(&self) -> Verdict {
        self.deciding().verdict()
    }

    fn take(&mut self) {
        self.elsewhere.take();
    }

    fn give_back(&mut self) {
        self.own.give_back();
    }

    fn report(&self) -> Decision {
        self.deciding().report()
    }

    fn is_enforced(&self) -> bool {
        self.own.is_enforced()
    }
}

impl<R: Room> Grip for Cramped<'_, R> {
    fn is_overloaded(&self) -> bool {
        self.deciding().is_overloaded()
    }

    fn settle(&mut self, now: Timestamp, reserved: u64, actual: u64) {
        if actual > reserved {
            self.elsewhere.settle(now, reserved, actual);
        } else {
            self.own.settle(now, reserved, actual);
        }
    }
}
