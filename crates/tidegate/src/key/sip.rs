//! SipHash-1-3 of bytes that are all at hand, and 64 bits more of its last state.
//!
//! The state is not kept between calls, so a key of a length that the compiler knows is hashed without a loop.
//!
//! Two inputs with one hash have one SipHash-1-3 of 64 bits, so a client that makes two keys collide has broken that
//! function. The bits above it make chance collisions rarer. They differ from the bits that SipHash with 128 bits of
//! output adds, three rounds later: that protects an output which is shown, and a fingerprint is never shown.
//! SipHash-1-3 is a sum of other parts of the last state, so these bits are as good as random next to it.

use std::fmt;

/// The function under one secret: the state before the first byte.
#[derive(Clone)]
pub(super) struct Sip([u64; 4]);

impl Sip {
    pub(super) const fn with_keys(a: u64, b: u64) -> Self {
        // The bytes of "somepseudorandomlygeneratedbytes", which SipHash begins with.
        let [e, f, g, h] = [
            0x736f_6d65_7073_6575,
            0x646f_7261_6e64_6f6d,
            0x6c79_6765_6e65_7261,
            0x7465_6462_7974_6573,
        ];
        Self([a ^ e, b ^ f, a ^ g, b ^ h])
    }

    /// The secret, as [`Sip::from_words`] takes it.
    pub(super) const fn words(&self) -> [u64; 4] {
        self.0
    }

    pub(super) const fn from_words(words: [u64; 4]) -> Self {
        Self(words)
    }

    #[inline(always)]
    pub(super) fn hash(&self, bytes: &[u8]) -> u128 {
        let mut state = self.0;
        let (words, tail) = bytes.as_chunks();
        for word in words {
            state = absorbed(state, u64::from_le_bytes(*word));
        }
        // The last word has the length in its top byte, so that zeros at the end make a difference.
        let [a, b, c, d] = absorbed(state, (bytes.len() as u64) << 56 | last_word(tail));
        // SipHash marks the end of the input with 0xff; these three rounds are the 3 of SipHash-1-3.
        let [a, b, c, d] = round(round(round([a, b, c ^ 0xff, d])));
        u128::from(a ^ b ^ c ^ d) | u128::from(a ^ c) << 64
    }
}

/// Shows nothing of the secret.
impl fmt::Debug for Sip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sip").finish_non_exhaustive()
    }
}

#[inline(always)]
const fn round([mut a, mut b, mut c, mut d]: [u64; 4]) -> [u64; 4] {
    a = a.wrapping_add(b);
    b = b.rotate_left(13) ^ a;
    c = c.wrapping_add(d);
    d = d.rotate_left(16) ^ c;
    a = a.rotate_left(32).wrapping_add(d);
    c = c.wrapping_add(b);
    [a, b.rotate_left(17) ^ c, c.rotate_left(32), d.rotate_left(21) ^ a]
}

#[inline(always)]
const fn absorbed([a, b, c, d]: [u64; 4], word: u64) -> [u64; 4] {
    let [a, b, c, d] = round([a, b, c, d ^ word]);
    [a ^ word, b, c, d]
}

/// The bytes after the last full word, at most seven, as a word. Some of them are read twice, in place of a loop.
#[inline(always)]
fn last_word(tail: &[u8]) -> u64 {
    let at = |index: usize| tail.get(index).map_or(0, |byte| u64::from(*byte) << (8 * index));
    match (tail.first_chunk(), tail.last_chunk()) {
        (Some(first), Some(last)) => {
            let shift = 8 * (tail.len() - 4);
            u64::from(u32::from_le_bytes(*first)) | u64::from(u32::from_le_bytes(*last)) << shift
        }
        _ if tail.is_empty() => 0,
        // At most three bytes: the first, the middle and the last are all of them.
        _ => at(0) | at(tail.len() / 2) | at(tail.len() - 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use siphasher::sip::SipHasher13;

    #[test]
    fn every_length_is_hashed_as_by_the_reference() {
        let bytes: Vec<u8> = (1..=255).chain(0..=255).collect();
        let (ours, theirs) = (Sip::with_keys(3, 5), SipHasher13::new_with_keys(3, 5));
        for length in 0..bytes.len() {
            let bytes = &bytes[..length];
            assert_eq!(ours.hash(bytes) as u64, theirs.hash(bytes), "{length}");
        }
    }

    /// The largest distance of a count of heads from half of so many throws, with odds of 10^-9 against more.
    fn most_off(throws: u64) -> f64 {
        3.1 * (throws as f64).sqrt()
    }

    #[test]
    fn every_bit_of_a_number_turns_each_bit_of_the_hash_half_of_the_time() {
        const NUMBERS: u64 = 4_000;
        let sip = Sip::with_keys(7, 11);
        let hash = |number: u64| sip.hash(&number.to_le_bytes());
        for turned in 0..64 {
            let mut changes = [0_u64; 128];
            for number in 0..NUMBERS {
                let difference = hash(number) ^ hash(number ^ 1 << turned);
                changes
                    .iter_mut()
                    .zip(0..)
                    .for_each(|(count, bit)| *count += (difference >> bit) as u64 & 1);
            }
            for (bit, count) in changes.into_iter().enumerate() {
                let off = (count as f64 - NUMBERS as f64 / 2.0).abs();
                assert!(
                    off <= most_off(NUMBERS),
                    "bit {turned} turns bit {bit} {count} times of {NUMBERS}"
                );
            }
        }
    }

    #[test]
    fn the_upper_bits_say_nothing_of_the_lower_ones() {
        const NUMBERS: u64 = 20_000;
        let sip = Sip::with_keys(13, 17);
        let mut equal = vec![[0_u64; 64]; 64];
        for number in 0..NUMBERS {
            let hash = sip.hash(&number.to_le_bytes());
            let (low, high) = (hash as u64, (hash >> 64) as u64);
            for (turn, counts) in equal.iter_mut().enumerate() {
                let same = !(low.rotate_left(turn as u32) ^ high);
                counts.iter_mut().zip(0..).for_each(|(count, bit)| *count += same >> bit & 1);
            }
        }
        for count in equal.into_iter().flatten() {
            let off = (count as f64 - NUMBERS as f64 / 2.0).abs();
            assert!(off <= most_off(NUMBERS), "two bits are equal {count} times of {NUMBERS}");
        }
    }

    proptest! {
        #[test]
        fn bytes_are_hashed_as_by_the_reference(a: u64, b: u64, bytes: Vec<u8>) {
            let theirs = SipHasher13::new_with_keys(a, b).hash(&bytes);
            prop_assert_eq!(Sip::with_keys(a, b).hash(&bytes) as u64, theirs);
        }
    }
}
