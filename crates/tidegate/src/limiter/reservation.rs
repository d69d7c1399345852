//! Units reserved for work whose cost is known only afterwards.

use tidegate_core::Decision;

use super::key::Key;
use super::{KeyedLimiter, Limiter};
use crate::clock::Clock;
use crate::step::{One, Step};

/// Units that were taken for work that may turn out to cost more or less.
///
/// End it with `settle` of the limiter that created it and the actual cost: surplus units are given
/// back, missing ones are taken, even into debt. A dropped reservation keeps its units taken, as
/// [`Limiter::check`](crate::Limiter::check) does.
#[derive(Debug)]
#[must_use = "units stay taken until the reservation is settled"]
pub struct Reservation {
    units: u64,
    decision: Decision,
    taken_from: TakenFrom,
}

/// The limiter that the units were taken from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TakenFrom {
    /// The key's own limiter.
    Own,
    /// The limiter shared by keys for which there is no room.
    Shared,
    /// No limiter: the key was unlimited.
    Nothing,
}

impl Reservation {
    /// The reservation that one step made, or its refusal.
    fn of(units: u64, one: &One) -> Result<Self, Decision> {
        let decision = one.or_unlimited();
        let taken_from = match (one.decision, one.elsewhere) {
            (None, _) => TakenFrom::Nothing,
            (Some(_), true) => TakenFrom::Shared,
            (Some(_), false) => TakenFrom::Own,
        };
        if decision.is_allowed() { Ok(Self { units, decision, taken_from }) } else { Err(decision) }
    }

    /// The step that ends the reservation.
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

    /// The decision that took the units; for a queue it holds the delay of the work.
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
    /// Returns the decision that refuses, with its `retry_after`; nothing is taken.
    pub fn reserve(&self, units: u64) -> Result<Reservation, Decision> {
        Reservation::of(units, &self.call(units).step(Step::Ask))
    }

    /// Ends a reservation with the actual cost: gives surplus units back, at most as many as are
    /// used, or takes missing ones, even into debt. Returns the state of the limiter afterwards as
    /// a decision.
    ///
    /// A debt of any size is kept in full. If it is too large for a packed state, the limiter keeps
    /// its state under a lock from then on.
    pub fn settle(&self, reservation: Reservation, actual: u64) -> Decision {
        self.call(reservation.units).step(reservation.end(actual)).or_unlimited()
    }
}

impl<C: Clock> KeyedLimiter<C> {
    /// Takes `units` of the key's limiter for work whose cost is known only afterwards: see
    /// [`Limiter::reserve`].
    ///
    /// # Errors
    /// Returns the decision that refuses, with its `retry_after`; nothing is taken.
    pub fn reserve<'r>(&self, key: impl Key<'r>, units: u64) -> Result<Reservation, Decision> {
        Reservation::of(units, &self.one(&key, units, Step::Ask))
    }

    /// Ends a reservation of the same key with the actual cost: see [`Limiter::settle`]. Units of
    /// the overflow limiter are settled there.
    pub fn settle<'r>(&self, key: impl Key<'r>, reservation: Reservation, actual: u64) -> Decision {
        let (units, step) = (reservation.units, reservation.end(actual));
        let one = match reservation.taken_from {
            TakenFrom::Shared => self.shared(units, step),
            TakenFrom::Own | TakenFrom::Nothing => self.one(&key, units, step),
        };
        one.or_unlimited()
    }

    /// Runs one step with the overflow limiter.
    fn shared(&self, units: u64, step: Step) -> One {
        let reading = self.reading(&self.clock);
        let one = self.limiters.shared(units, step, reading);
        // Waiters for the overflow limiter wait in the queues of their own keys.
        self.queues.wake_all();
        one.unwrap_or_else(|| One::unlimited(self.clock.now()))
    }
}
