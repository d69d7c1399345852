//! Comparing short texts, such as the names of entries, without a call.

/// Returns whether two texts are equal. Up to 16 bytes are compared as two words that may overlap.
#[inline]
pub(crate) fn same(one: &str, other: &str) -> bool {
    let one = one.as_bytes();
    let other = other.as_bytes();
    if one.len() != other.len() {
        return false;
    }
    match one.len() {
        4..=8 => ends::<4>(one) == ends::<4>(other),
        9..=16 => ends::<8>(one) == ends::<8>(other),
        0..=3 => one.iter().eq(other),
        _ => one == other,
    }
}

/// The first and the last `LEN` bytes.
#[inline]
fn ends<const LEN: usize>(text: &[u8]) -> Option<(&[u8; LEN], &[u8; LEN])> {
    text.first_chunk().zip(text.last_chunk())
}

#[cfg(test)]
mod tests {
    use super::same;

    #[test]
    fn texts_of_every_length_are_equal_only_if_each_byte_is() {
        for length in 0..40 {
            let text = "abcdefghij".repeat(4)[..length].to_owned();
            assert!(same(&text, &text.clone()), "{text}");
            assert!(!same(&text, &format!("{text}x")) && !same(&format!("{text}x"), &text));
            for place in 0..length {
                let mut other = text.clone();
                other.replace_range(place..=place, "-");
                assert!(!same(&text, &other), "{text} and {other}");
            }
        }
    }
}
