//! Units borrowed from half seconds that have not begun; the history locks them, and counts them as passed when they
//! begin.

/// The number of half seconds ahead for which units can be borrowed: the second after the current half second.
pub(super) const MOST_AHEAD: u64 = 2;

/// Units borrowed from each of the next half seconds, by the number of the half second modulo
/// [`MOST_AHEAD`]: later slots hold none.
#[derive(Debug, Default)]
pub(super) struct Borrowed([u64; MOST_AHEAD as usize]);

impl Borrowed {
    const fn index(number: u64) -> usize {
        (number % MOST_AHEAD) as usize
    }

    /// Units borrowed from half second `number`, one of the next.
    pub(super) const fn from(&self, number: u64) -> u64 {
        self.0[Self::index(number)]
    }

    pub(super) const fn borrow(&mut self, number: u64, units: u64) {
        let borrowed = &mut self.0[Self::index(number)];
        *borrowed = borrowed.saturating_add(units);
    }

    /// Removes and returns the units borrowed from half second `number`, which begins.
    pub(super) const fn take(&mut self, number: u64) -> u64 {
        std::mem::replace(&mut self.0[Self::index(number)], 0)
    }

    pub(super) const fn all(&self) -> u64 {
        self.0[0].saturating_add(self.0[1])
    }
}
