//! Units that are given back by themselves, and the result of a settlement in a store.

use tidegate_core::{Timestamp, Token};

use super::limiter::Purpose;

/// Units for a limiter under whatever rule it was written.
#[derive(Clone, Copy, Debug, Default)]
pub struct Surplus<'a> {
    /// The key of the limiter.
    pub key: &'a [u8],
    /// Units to give back.
    pub units: u64,
    /// When they were taken, if that is known.
    pub since: Option<Timestamp>,
    /// True if a reservation took them, which ends.
    pub reserved: bool,
    /// The token of the permit that they are, if they are one.
    pub token: Option<Token>,
}

impl Surplus<'_> {
    pub(super) fn argument(&self) -> Vec<u8> {
        let units = self.units.min(Timestamp::MAX.as_micros());
        let token = self.token.map_or(0, Token::as_micros);
        let since = self.since.map_or(-1.0, |since| since.as_micros() as f64);
        let purpose = if self.reserved { Purpose::Reservation } else { Purpose::Use };
        let all = [units as f64, token as f64, since, f64::from(purpose as u8), -1.0, -1.0];
        all.into_iter().flat_map(f64::to_le_bytes).collect()
    }
}

/// The result of a settlement or an undo for one limiter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SettledUnits {
    /// Whole units that came back.
    pub returned: u64,
    /// Units that were to come back and did not, where it is known when they were taken: they count no more.
    pub late: u64,
    /// Units that were to be taken, and did not fit.
    pub cut: u64,
}

impl SettledUnits {
    /// The result in the terms of a limiter in memory.
    pub(super) const fn of_core(self) -> tidegate_core::Settled {
        match self {
            Self { cut: units @ 1.., .. } => tidegate_core::Settled::Cut(units),
            Self { late: units @ 1.., .. } => tidegate_core::Settled::Late(units),
            Self { .. } => tidegate_core::Settled::Whole,
        }
    }
}
