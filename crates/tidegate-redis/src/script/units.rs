//! Units that come back: of a lease, whose record says which of its units are taken; by themselves; and by a
//! settlement, with its result.

use tidegate_core::{Settled, Timestamp, Token};

/// The purpose of taken units, by its number in a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    Use = 0,
    Reservation = 1,
    Lease = 2,
    /// Taken under another meaning: nothing comes back.
    OfOtherRule = 3,
}

/// One lease in the record of its limiter. The script that takes the lease writes it, and giving back consumes it,
/// whichever server has the record by then; without the record nothing comes back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseRecord {
    pub(super) key: Vec<u8>,
    whose: [u8; 16],
}

impl LeaseRecord {
    /// The lease with this `ticket` of a `node`, in the record at `key`, which lives in the slot of the limiter's key.
    #[must_use]
    pub fn new(key: Vec<u8>, node: u64, ticket: u64) -> Self {
        let mut whose = [0; 16];
        whose[..8].copy_from_slice(&node.to_le_bytes());
        whose[8..].copy_from_slice(&(ticket as f64).to_le_bytes());
        Self { key, whose }
    }

    /// The argument of a step on it, with two numbers of the step. Taking it: the lowest ticket of this node whose
    /// record stays, and 0. Giving units back: how many of its units stay taken, and how much earlier they count as
    /// taken.
    pub(super) fn argument(&self, numbers: [u64; 2]) -> Vec<u8> {
        let numbers = numbers.map(|number| (number as f64).to_le_bytes());
        [&self.whose[..], &numbers[0], &numbers[1]].concat()
    }
}

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
    pub(super) const fn of_core(self) -> Settled {
        match self {
            Self { cut: units @ 1.., .. } => Settled::Cut(units),
            Self { late: units @ 1.., .. } => Settled::Late(units),
            Self { .. } => Settled::Whole,
        }
    }
}
