//! Packing the states of an algorithm into words.
//!
//! A store in memory keeps most states in this form, several in a cache line. `Pack` is the trait of the algorithms
//! that can do so.

use crate::time::Micros;

/// The smallest form of the states of an algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packing {
    /// One word of 63 bits.
    One,
    /// Two words, the first of 63 bits.
    Two,
    /// Six words, the first of 63 bits: with a fingerprint and a lock they fill a cache line.
    Six,
    /// States that cannot be packed.
    Unpacked,
}

/// The time for which a store of packed states can run: 2^48 microseconds, nearly nine years.
pub const HORIZON: Micros = Micros::from_micros(1 << 48);

/// The bits of a packed state's first word; a store uses the bit above them.
pub(crate) const WORD_BITS: u32 = 63;

/// Returns the words as an array of another length; missing words are zero.
#[inline]
pub(crate) fn resized<const FROM: usize, const TO: usize>(words: [u64; FROM]) -> [u64; TO] {
    let mut all = [0; TO];
    all.iter_mut().zip(words).for_each(|(to, word)| *to = word);
    all
}
