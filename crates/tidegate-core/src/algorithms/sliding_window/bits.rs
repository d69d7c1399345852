//! Numbers of a few bits each in words, the lowest bits in the last word, so that the highest bit of the first stays
//! free.

/// Packs the `numbers`, of less than 64 `bits` each, and `last` in the bits above them. Bits beyond the words are lost.
#[inline]
pub(super) fn packed<const WORDS: usize>(
    numbers: impl Iterator<Item = u64>,
    bits: u32,
    last: u64,
) -> [u64; WORDS] {
    let (mut words, mut to) = ([0; WORDS], WORDS);
    let (mut word, mut used) = (0_u64, 0);
    let mut store = |word| {
        to = to.wrapping_sub(1);
        words.get_mut(to).into_iter().for_each(|to| *to = word);
    };
    let mut push = |number: u64, bits: u32| {
        word |= number << used;
        used += bits;
        if used >= u64::BITS {
            store(word);
            used -= u64::BITS;
            word = number.checked_shr(bits - used).unwrap_or(0);
        }
    };
    numbers.for_each(|number| push(number, bits));
    push(last, u64::BITS - 1);
    store(word);
    words
}

/// Reads numbers of so many `bits` from words, and passes one to `give` for each of `into`; returns the number in the
/// bits above them.
#[inline]
pub(super) fn unpacked<const WORDS: usize, T>(
    words: [u64; WORDS],
    bits: u32,
    into: impl Iterator<Item = T>,
    mut give: impl FnMut(T, u64),
) -> u64 {
    let mut rest = words.into_iter().rev();
    let (mut window, mut left) = (0_u128, 0);
    let mut read = |bits: u32| {
        if left < bits {
            window |= u128::from(rest.next().unwrap_or(0)) << left;
            left += u64::BITS;
        }
        let number = window as u64 & ((1 << bits) - 1);
        window >>= bits;
        left = left.saturating_sub(bits);
        number
    };
    for one in into {
        give(one, read(bits));
    }
    read(u64::BITS - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_packed_is_unpacked_whatever_the_length_of_the_numbers() {
        for bits in 1..=32 {
            for count in 0..=(6 * 64 - 1 - 40) / bits {
                let most = (1_u64 << bits) - 1;
                let number =
                    |index: u32| u64::from(index).wrapping_mul(0x9e37_79b9_7f4a_7c15) & most;
                let words: [u64; 6] = packed((0..count).map(number), bits, (1 << 40) - 3);
                assert!(words[0] < 1 << 63);
                let last =
                    unpacked(words, bits, 0..count, |index, read| assert_eq!(read, number(index)));
                assert_eq!(last, (1 << 40) - 3, "{count} of {bits} bits");
            }
        }
    }

    #[test]
    fn the_lowest_bits_are_in_the_last_word() {
        assert_eq!(packed([1, 2].into_iter(), 4, 7), [0, 0x721]);
        assert_eq!(packed([1, 2].into_iter(), 32, 7), [7, 2 << 32 | 1]);
        assert_eq!(packed([1, 2, 3].into_iter(), 31, 7), [7 << 29, 3 << 62 | 2 << 31 | 1]);
    }
}
