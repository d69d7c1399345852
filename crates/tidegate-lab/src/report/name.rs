//! Names for a person: not too long.

/// The part of a name that is kept, in characters.
const NAME_CHARS: usize = 120;

/// The name, or the beginning of a long one with an ellipsis.
pub(super) fn shortened(name: String) -> String {
    cut_to(NAME_CHARS, name)
}

/// The text, or its first `most` characters and an ellipsis.
pub(crate) fn cut_to(most: usize, mut text: String) -> String {
    if let Some((end, _)) = text.char_indices().nth(most) {
        text.truncate(end);
        text.push('…');
        text.shrink_to_fit();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_name_is_cut_between_characters_and_gives_its_memory_back() {
        assert_eq!(shortened("é".repeat(120)), "é".repeat(120));
        let cut = shortened("é".repeat(1_000_000));
        assert_eq!(cut, "é".repeat(120) + "…");
        assert!(cut.capacity() < 1_000, "{}", cut.capacity());
    }
}
