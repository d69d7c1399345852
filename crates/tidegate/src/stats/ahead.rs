//! Units that are borrowed from half seconds which have not begun yet.

/// How many half seconds ahead units may be borrowed: the second after the current half second.
pub(super) const MOST_AHEAD: u64 = 2;

/// Units borrowed from each of the next half seconds, by the number of the half second modulo
/// [`MOST_AHEAD`]: those after the next ones hold none.
#[derive(Debug, Default)]
pub(super) struct Ahead([u64; MOST_AHEAD as usize]);

impl Ahead {
    const fn place(number: u64) -> usize {
        (number % MOST_AHEAD) as usize
    }

    /// Units borrowed from half second `number`, one of the next.
    pub(super) const fn from(&self, number: u64) -> u64 {
        self.0[Self::place(number)]
    }

    /// Borrows.
    pub(super) const fn borrow(&mut self, number: u64, units: u64) {
        let place = &mut self.0[Self::place(number)];
        *place = place.saturating_add(units);
    }

    /// Half second `number` begins: what was borrowed from it, which is then borrowed no more.
    pub(super) const fn take(&mut self, number: u64) -> u64 {
        std::mem::replace(&mut self.0[Self::place(number)], 0)
    }

    /// Units borrowed from all that come.
    pub(super) const fn all(&self) -> u64 {
        self.0[0].saturating_add(self.0[1])
    }
}
