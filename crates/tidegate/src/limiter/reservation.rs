//! Units taken ahead of work whose cost is known only afterwards.

use tidegate_core::Decision;

use super::key::Key;
use super::{KeyedLimiter, Limiter};
use crate::clock::Clock;
use crate::step::{One, Step};

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
    /// What was reserved by one step, or its refusal.
    fn of(units: u64, one: &One) -> Result<Self, Decision> {
        let decision = one.or_unlimited();
        let taken_from = match (one.decision, one.elsewhere) {
            (None, _) => TakenFrom::Nothing,
            (Some(_), true) => TakenFrom::Shared,
            (Some(_), false) => TakenFrom::Own,
        };
        if decision.is_allowed() { Ok(Self { units, decision, taken_from }) } else { Err(decision) }
    }

    /// The step that ends it.
    fn end(&self, actual: u64) -> Step {
        match self.taken_from {
            TakenFrom::Nothing => Step::Peek,
            TakenFrom::Own | TakenFrom::Shared => Step::Settle { actual },
        }
    }

    /// Units reserved.
    #[must_use]
    pub const fn units(&self) -> u64 {
        self.units
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
        Reservation::of(units, &self.call(units).step(Step::Ask))
    }

    /// Ends a reservation with what the work did cost: gives back what was too much, to no fewer than
    /// none used, or takes what was too little, even into debt. Tells how the limiter stands then.
    ///
    /// A debt of any size is owed in full. One too large for the words in which the limiter keeps its
    /// state is kept under a lock instead, and so is the limiter from then on.
    pub fn settle(&self, reservation: Reservation, actual: u64) -> Decision {
        self.call(reservation.units).step(reservation.end(actual)).or_unlimited()
    }
}

impl<C: Clock> KeyedLimiter<C> {
    /// Takes `units` of the key's limiter for work whose cost is known only afterwards: see
    /// [`Limiter::reserve`].
    ///
    /// # Errors
    /// The decision that refuses, with when to come back; nothing is taken.
    pub fn reserve<'r>(&self, key: impl Key<'r>, units: u64) -> Result<Reservation, Decision> {
        Reservation::of(units, &self.one(&key, units, Step::Ask))
    }

    /// Ends a reservation of the same key with what the work did cost: see [`Limiter::settle`]. What was
    /// reserved where keys without room share a limiter is settled there.
    pub fn settle<'r>(&self, key: impl Key<'r>, reservation: Reservation, actual: u64) -> Decision {
        let (units, step) = (reservation.units, reservation.end(actual));
        let one = match reservation.taken_from {
            TakenFrom::Shared => self.shared(units, step),
            TakenFrom::Own | TakenFrom::Nothing => self.one(&key, units, step),
        };
        one.or_unlimited()
    }

    /// One step with the overflow limiter.
    fn shared(&self, units: u64, step: Step) -> One {
        let reading = self.reading(&self.clock);
        let one = self.limiters.shared(units, step, reading);
        // Those who wait for it wait in the queues of their own keys.
        self.queues.wake_all();
        one.unwrap_or_else(|| One::unlimited(self.clock.now()))
    }
}
