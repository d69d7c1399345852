//! A look ahead: a copy of a limiter's state, on which those who wait are played through in order.

use tidegate_core::{Micros, Room, Timestamp, Verdict};
#[cfg(feature = "redis")]
use tidegate_core::{Rule, Told, Visitor};

/// Waits taken one after another before what was found is told as it is. A room's wait is the least
/// that suffices, so that one is enough; more are for a sum that was rounded.
const MOST_WAITS: usize = 8;

/// When a cost would be admitted if only those before it came.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Foreseen {
    /// The wait until then.
    pub(crate) wait: Micros,
    /// How long the admitted request would still have to be held.
    pub(crate) delay: Micros,
}

/// A limiter as it will be, as far as it is known who comes.
pub(crate) trait Ahead {
    /// Lets `cost` be taken as soon as it fits, but not before what was taken already; `None` when it
    /// never does, and then nothing is taken.
    fn admit(&mut self, cost: u64) -> Option<Foreseen>;
}

/// The look ahead from a state; an empty slot is a limiter that does not exist yet.
pub(super) fn ahead<R: Room>(room: &R, slot: Option<R::State>, now: Timestamp) -> Box<dyn Ahead> {
    let room = room.clone();
    let mut state = slot.unwrap_or_else(|| room.fresh(now));
    let at = room.advance(&mut state, now);
    Box::new(Copied { room, state, now, at })
}

/// The look ahead from the numbers that a script told of a state; `None` where they are none.
#[cfg(feature = "redis")]
pub(crate) fn ahead_of_told(rule: &Rule, told: &Told) -> Option<Box<dyn Ahead>> {
    struct Recalled<'a>(&'a Told);
    impl Visitor for Recalled<'_> {
        type Out = Option<Box<dyn Ahead>>;
        fn visit<R: Room>(self, room: &R) -> Self::Out {
            Some(ahead(room, Some(room.recalled(&self.0.words)?), self.0.now))
        }
    }
    rule.visit(Recalled(told))?
}

/// A copy, and the instant it has been played to.
struct Copied<R: Room> {
    room: R,
    state: R::State,
    now: Timestamp,
    at: Timestamp,
}

impl<R: Room> Copied<R> {
    /// Goes on to when a denied cost fits.
    fn go_on(&mut self, cost: u64) {
        let wait = self.room.retry_after(&self.state, self.at, cost);
        let then = self.at.plus(wait.max(Micros::from_micros(1)));
        self.at = self.room.advance(&mut self.state, then);
    }
}

impl<R: Room> Ahead for Copied<R> {
    fn admit(&mut self, cost: u64) -> Option<Foreseen> {
        if cost == 0 {
            return Some(Foreseen::default());
        }
        for _ in 0..MOST_WAITS {
            match self.room.decide(&self.state, self.at, cost) {
                Verdict::Allow => break,
                Verdict::Deny => self.go_on(cost),
                Verdict::Never => return None,
            }
        }
        let delay = self.room.delay(&self.state, self.at, 0);
        self.room.take(&mut self.state, self.at, cost);
        Some(Foreseen { wait: self.at.since(self.now), delay })
    }
}

/// The look ahead of a rule that admits everything.
pub(super) fn ahead_of_none() -> Box<dyn Ahead> {
    Box::new(Unlimited)
}

struct Unlimited;

impl Ahead for Unlimited {
    fn admit(&mut self, _cost: u64) -> Option<Foreseen> {
        Some(Foreseen::default())
    }
}
