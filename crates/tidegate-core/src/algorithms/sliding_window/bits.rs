//! Numbers of a few bits each in words, the lowest bits in the last word.
//!
//! They are the counters of a packed sliding window, each of as many bits as the limit needs.

/// Returns the number of `bits` bits that begins `from` bits above the lowest; `bits` is below 64. Bits beyond the words
/// are zero.
#[inline]
pub(super) fn number<const WORDS: usize>(words: &[u64; WORDS], from: u32, bits: u32) -> u64 {
    let word = (from / u64::BITS) as usize;
    let wide = u128::from(at(words, word)) | (u128::from(at(words, word + 1)) << u64::BITS);
    (wide >> (from % u64::BITS)) as u64 & ((1 << bits) - 1)
}

/// Puts a number of less than 64 bits where only zeros are. Bits beyond the words are lost.
#[inline]
pub(super) fn put<const WORDS: usize>(words: &mut [u64; WORDS], from: u32, number: u64) {
    let word = (from / u64::BITS) as usize;
    let wide = u128::from(number) << (from % u64::BITS);
    let mut rest = words.iter_mut().rev().skip(word);
    rest.next().into_iter().for_each(|low| *low |= wide as u64);
    rest.next().into_iter().for_each(|high| *high |= (wide >> u64::BITS) as u64);
}

/// Returns the words with every number `by` bits higher. Only the lowest `kept` bits of the result are kept.
#[inline]
pub(super) fn raised<const WORDS: usize>(words: &[u64; WORDS], by: u32, kept: u32) -> [u64; WORDS] {
    let whole = (by / u64::BITS) as usize;
    let part = by % u64::BITS;
    let mut raised = [0; WORDS];
    for (index, to) in raised.iter_mut().rev().enumerate() {
        let from = |below: usize| index.checked_sub(below).map_or(0, |index| at(words, index));
        // With the word below, because bits cross from one word to the next.
        let wide = (u128::from(from(whole)) << u64::BITS) | u128::from(from(whole + 1));
        let kept = kept.saturating_sub(index as u32 * u64::BITS);
        let mask = 1_u64.checked_shl(kept).map_or(u64::MAX, |over| over - 1);
        *to = ((wide << part) >> u64::BITS) as u64 & mask;
    }
    raised
}

/// Returns the word with so many others below it; zero beyond the first.
#[inline]
fn at<const WORDS: usize>(words: &[u64; WORDS], below: usize) -> u64 {
    WORDS.checked_sub(below + 1).and_then(|index| words.get(index)).copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Some number of so many bits.
    fn some(index: u32, bits: u32) -> u64 {
        u64::from(index + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15) & ((1 << bits) - 1)
    }

    fn filled(count: u32, bits: u32) -> [u64; 6] {
        let mut words = [0; 6];
        (0..count).for_each(|index| put(&mut words, index * bits, some(index, bits)));
        words
    }

    #[test]
    fn what_was_put_is_read_whatever_the_length_of_the_numbers() {
        for bits in 1..=63 {
            let count = 6 * u64::BITS / bits;
            let words = filled(count, bits);
            for index in 0..count {
                assert_eq!(number(&words, index * bits, bits), some(index, bits), "{bits} bits");
            }
        }
    }

    #[test]
    fn raised_numbers_are_higher_and_those_beyond_the_kept_bits_are_gone() {
        for bits in 1..=63 {
            let count = 6 * u64::BITS / bits;
            let words = filled(count, bits);
            for up in 0..=count {
                let raised = raised(&words, up * bits, count * bits);
                let expected = |index: u32| index.checked_sub(up).map_or(0, |old| some(old, bits));
                for index in 0..count {
                    let read = number(&raised, index * bits, bits);
                    assert_eq!(read, expected(index), "{index} of {bits} bits, {up} up");
                }
                assert_eq!(number(&raised, count * bits, 63), 0, "{bits} bits, {up} up");
            }
        }
    }

    #[test]
    fn the_lowest_bits_are_in_the_last_word() {
        let mut words = [0; 2];
        put(&mut words, 0, 1);
        put(&mut words, 60, 0x21);
        assert_eq!(words, [2, 1 << 60 | 1]);
        assert_eq!(raised(&words, 4, 128), [0x21, 0x10]);
        assert_eq!(raised(&words, 4, 65), [1, 0x10]);
    }
}
