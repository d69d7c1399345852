//! Units taken ahead of work whose cost is known only afterwards.

use tidegate_core::Decision;

use super::{KeyedLimiter, Limiter};
use crate::clock::{Clock, Reading};
use crate::step::{One, Step, UNLIMITED};

/// Units that were taken for work that may turn out to cost more or less.
///
/// End it with `settle` of the limiter that gave it, with what the work did cost: what was too much
/// comes back, what was too little is taken then, even into debt. One that is dropped keeps its units
/// taken, as [`Limiter::check`](crate::Limiter::check) does.
#[derive(Debug)]
#[must_use = "units stay taken until the reservation is settled"]
pub struct Reservation {
    units: u64,
    decision: Decision,
    taken_from: TakenFrom,
}

/// Where the units of a reservation are missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TakenFrom {
    /// The limiter's own.
    Own,
    /// The one shared by keys for which there is no room.
    Shared,
    /// Nowhere: it was unlimited.
    Nothing,
}

impl Reservation {
    /// What was reserved by one step (`None` when unlimited), or its refusal.
    pub(super) fn of(units: u64, one: Option<One>) -> Result<Self, Decision> {
        let counted = one.and_then(|one| one.decision.map(|decision| (decision, one.elsewhere)));
        let counted = counted.filter(|(decision, _)| *decision != UNLIMITED);
        let (decision, taken_from) = match counted {
            None => (UNLIMITED, TakenFrom::Nothing),
            Some((decision, true)) => (decision, TakenFrom::Shared),
            Some((decision, false)) => (decision, TakenFrom::Own),
        };
        if decision.is_allowed() { Ok(Self { units, decision, taken_from }) } else { Err(decision) }
    }

    /// Units reserved.
    #[must_use]
    pub const fn units(&self) -> u64 {
        self.units
    }

    /// Whether it was unlimited, and took nothing.
    pub(super) fn took_nothing(&self) -> bool {
        self.taken_from == TakenFrom::Nothing
    }

    /// Whether they are missing where keys without room share a limiter.
    pub(super) fn took_elsewhere(&self) -> bool {
        self.taken_from == TakenFrom::Shared
    }

    /// The decision that let them be taken: a queue tells with it how long the work must be held.
    #[must_use]
    pub const fn decision(&self) -> &Decision {
        &self.decision
    }
}

impl<C: Clock> Limiter<C> {
    /// Takes `units` for work whose cost is known only afterwards.
    ///
    /// ```
    /// use tidegate::{AlgorithmKind, Limiter, Micros, Spec};
    ///
    /// let tokens = Limiter::new(Spec::new(AlgorithmKind::FixedWindow, 100, Micros::from_secs(86_400)))?;
    /// if let Ok(reservation) = tokens.reserve(60) {
    ///     // The work turns out to need less.
    ///     tokens.settle(reservation, 25);
    /// }
    /// assert_eq!(tokens.available(), 75);
    /// # Ok::<(), tidegate::RuleErrors>(())
    /// ```
    ///
    /// # Errors
    /// The decision that refuses, with when to come back; nothing is taken.
    pub fn reserve(&self, units: u64) -> Result<Reservation, Decision> {
        Reservation::of(units, self.take_or_refuse(units)?)
    }

    /// Ends a reservation with what the work did cost: gives back what was too much, to no fewer than
    /// none used, or takes what was too little, even into debt. Tells how the limiter stands then.
    ///
    /// A debt of any size is owed in full. One too large for the words in which the limiter keeps its
    /// state is kept under a lock instead, and so is the limiter from then on.
    pub fn settle(&self, reservation: Reservation, actual: u64) -> Decision {
        let Reservation { units, taken_from, .. } = reservation;
        match taken_from {
            TakenFrom::Nothing => self.peek(units),
            TakenFrom::Own | TakenFrom::Shared => self.step(units, Step::Settle { actual }),
        }
    }
}

impl<C: Clock> KeyedLimiter<C> {
    /// Takes `units` of the key's limiter for work whose cost is known only afterwards: see
    /// [`Limiter::reserve`].
    ///
    /// # Errors
    /// The decision that refuses, with when to come back; nothing is taken.
    pub fn reserve(&self, key: impl AsRef<[u8]>, units: u64) -> Result<Reservation, Decision> {
        let fingerprint = self.seed.of_bytes(key.as_ref());
        Reservation::of(units, self.take_or_refuse(fingerprint, units)?)
    }

    /// Ends a reservation of the same key with what the work did cost: see [`Limiter::settle`]. What was
    /// reserved where keys without room share a limiter is settled there.
    pub fn settle(&self, key: impl AsRef<[u8]>, reservation: Reservation, actual: u64) -> Decision {
        let Reservation { units, taken_from, .. } = reservation;
        let step = Step::Settle { actual };
        match taken_from {
            TakenFrom::Nothing => self.peek(key, units),
            TakenFrom::Own => self.step(key.as_ref(), units, step),
            TakenFrom::Shared => self.settle_shared(units, step),
        }
    }

    fn settle_shared(&self, units: u64, step: Step) -> Decision {
        let reading = Reading::of(&self.clock);
        let one = self.limiters.shared(units, step, reading);
        // Those who wait for it wait in the queues of their own keys.
        self.queues.wake_all();
        one.and_then(|one| one.decision).unwrap_or(UNLIMITED)
    }
}
