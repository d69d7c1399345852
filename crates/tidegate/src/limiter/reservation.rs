//! Units reserved for work whose cost is known only afterwards: `reserve`, `settle` and `renew` of both limiters.

use tidegate_core::{Decision, Since, Token};

use super::key::ByKey;
use super::{KeyedLimiter, Limiter};
use crate::clock::Clock;
use crate::step::{Decided, One, Step};

/// Units that were taken for work that may turn out to cost more or less.
///
/// End it with `settle` of the limiter that created it and the actual cost: surplus units are given
/// back, missing ones are taken, even into debt. A dropped reservation keeps its units taken, as
/// [`Limiter::check`](crate::Limiter::check) does.
///
/// ```
/// use tidegate::Limiter;
///
/// let tokens = Limiter::new("1000/h")?;
/// if let Ok(reservation) = tokens.reserve(300) {
///     let settled = tokens.settle(reservation, 120);
///     assert_eq!(settled.remaining, 880);
/// }
/// # Ok::<(), tidegate::RuleErrors>(())
/// ```
#[derive(Debug)]
#[must_use = "units stay taken until the reservation is settled"]
pub struct Reservation {
    units: u64,
    decision: Decision,
    /// True if the limiter shared by keys for which there is no room took them.
    is_elsewhere: bool,
    token: Option<Token>,
    /// When they were taken.
    since: Option<Since>,
}

impl Reservation {
    /// The reservation that a step made, or its refusal.
    fn of(units: u64, one: &One) -> Result<Self, Decision> {
        let Decided { decision, elsewhere, taken, .. } = one.decided;
        if !decision.is_allowed() {
            return Err(decision);
        }
        let since = taken.as_known(true);
        Ok(Self { units, decision, is_elsewhere: elsewhere, token: taken.token, since })
    }

    /// The step that ends the reservation. From an unlimited key nothing was taken.
    const fn end(&self, actual: u64) -> Step {
        if self.decision.is_unlimited() {
            return Step::Peek;
        }
        Step::Settle { actual, token: self.token, since: self.since }
    }

    /// Units reserved.
    #[must_use]
    pub const fn units(&self) -> u64 {
        self.units
    }

    /// The token of the permit, if the limiter's algorithm is `concurrency`.
    #[must_use]
    pub const fn token(&self) -> Option<Token> {
        self.token
    }

    /// The decision that took the units; for a queue it holds the delay of the work.
    pub const fn decision(&self) -> &Decision {
        &self.decision
    }
}

impl<C: Clock> Limiter<C> {
    /// Takes `units` for work whose cost is known only afterwards.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tidegate::{AlgorithmKind, Limiter, Spec};
    ///
    /// let tokens = Limiter::new(Spec::new(AlgorithmKind::FixedWindow, 100, Duration::from_secs(86_400)))?;
    /// if let Ok(reservation) = tokens.reserve(60) {
    ///     // The work turns out to need less.
    ///     tokens.settle(reservation, 25);
    /// }
    /// assert_eq!(tokens.peek(1).remaining, 75);
    /// # Ok::<(), tidegate::RuleErrors>(())
    /// ```
    ///
    /// # Errors
    /// Returns the decision that refuses, with its `retry_after`; nothing is taken.
    pub fn reserve(&self, units: u64) -> Result<Reservation, Decision> {
        Reservation::of(units, &self.call(units).step(Step::Reserve))
    }

    /// Ends a reservation with the actual cost: gives surplus units back, as far as they still count, or takes missing
    /// ones, even into debt. Returns the state of the limiter afterwards as a decision.
    ///
    /// Units that were taken in a window that has passed do not come back to the window of today. A bucket gives back
    /// the units that cannot have drained since, and as many as it held all the time.
    ///
    /// ```
    /// let tokens = tidegate::Limiter::new("1000/h")?;
    /// if let Ok(reservation) = tokens.reserve(300) {
    ///     assert_eq!(tokens.settle(reservation, 450).remaining, 550);
    /// }
    /// # Ok::<(), tidegate::RuleErrors>(())
    /// ```
    pub fn settle(&self, reservation: Reservation, actual: u64) -> Decision {
        self.call(reservation.units).step(reservation.end(actual)).decided.decision
    }

    /// Makes the permit of a reservation last W from now, if the algorithm is `concurrency`. Returns whether it was
    /// still out: if not, the work has to stop, because another may have its place.
    ///
    /// A reservation of another algorithm needs no renewal; the result is true.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tidegate::{AlgorithmKind, Limiter, Spec};
    ///
    /// let life = Duration::from_secs(30);
    /// let exports = Limiter::new(Spec::new(AlgorithmKind::Concurrency, 5, life))?;
    /// if let Ok(permit) = exports.reserve(1) {
    ///     let mut is_mine = true;
    ///     for _part in 0..3 {
    ///         // Work on one part, then go on only if the permit is still out.
    ///         is_mine = is_mine && exports.renew(&permit);
    ///     }
    ///     assert!(is_mine);
    ///     exports.settle(permit, 0);
    /// }
    /// # Ok::<(), tidegate::RuleErrors>(())
    /// ```
    #[must_use]
    pub fn renew(&self, reservation: &Reservation) -> bool {
        let renew = Step::Renew { token: reservation.token };
        // Only a permit can end while the work goes on.
        reservation.token.is_none() || self.call(0).step(renew).verdict.is_allowed()
    }
}

impl<C: Clock> KeyedLimiter<C> {
    /// Takes `units` of the key's limiter for work whose cost is known only afterwards: see
    /// [`Limiter::reserve`].
    ///
    /// ```
    /// let tokens = tidegate::KeyedLimiter::new("1000/h")?;
    /// if let Ok(reservation) = tokens.reserve("ada", 300) {
    ///     tokens.settle("ada", reservation, 120);
    /// }
    /// assert_eq!(tokens.peek("ada", 1).remaining, 880);
    /// # Ok::<(), tidegate::RuleErrors>(())
    /// ```
    ///
    /// # Errors
    /// Returns the decision that refuses, with its `retry_after`; nothing is taken.
    pub fn reserve<'r>(&self, key: impl ByKey<'r>, units: u64) -> Result<Reservation, Decision> {
        Reservation::of(units, &self.one(&key, units, Step::Reserve))
    }

    /// Ends a reservation of the same key with the actual cost: see [`Limiter::settle`]. Units of
    /// the overflow limiter are settled there.
    ///
    /// ```
    /// let tokens = tidegate::KeyedLimiter::new("1000/h")?;
    /// if let Ok(reservation) = tokens.reserve("ada", 300) {
    ///     assert_eq!(tokens.settle("ada", reservation, 450).remaining, 550);
    /// }
    /// # Ok::<(), tidegate::RuleErrors>(())
    /// ```
    pub fn settle<'r>(
        &self,
        key: impl ByKey<'r>,
        reservation: Reservation,
        actual: u64,
    ) -> Decision {
        let step = reservation.end(actual);
        self.step_of(&key, reservation.is_elsewhere, reservation.units, step).decided.decision
    }

    /// Makes the permit of a reservation of the same key last W from now: see [`Limiter::renew`].
    ///
    /// ```
    /// use std::time::Duration;
    /// use tidegate::{AlgorithmKind, KeyedLimiter, Spec};
    ///
    /// let life = Duration::from_secs(30);
    /// let exports = KeyedLimiter::new(Spec::new(AlgorithmKind::Concurrency, 5, life))?;
    /// if let Ok(permit) = exports.reserve("acme", 1) {
    ///     assert!(exports.renew("acme", &permit));
    ///     exports.settle("acme", permit, 0);
    /// }
    /// # Ok::<(), tidegate::RuleErrors>(())
    /// ```
    #[must_use]
    pub fn renew<'r>(&self, key: impl ByKey<'r>, reservation: &Reservation) -> bool {
        let renew = Step::Renew { token: reservation.token };
        let is_elsewhere = reservation.is_elsewhere;
        reservation.token.is_none()
            || self.step_of(&key, is_elsewhere, 0, renew).verdict.is_allowed()
    }

    /// Runs one step with the limiter of the key, or the overflow limiter if that took the units.
    fn step_of<'r>(&self, key: &impl ByKey<'r>, elsewhere: bool, units: u64, step: Step) -> One {
        if !elsewhere {
            return self.one(key, units, step);
        }
        // Settled where the units were taken, even if the key has a limiter of its own by now.
        let one = self.limiters.shared(units, step, self.reading(&self.clock));
        // Waiters for the overflow limiter wait in the queues of their own keys.
        self.queues.wake_all();
        one
    }
}
