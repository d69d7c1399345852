//! Names for a person: not too long, and harmless to a terminal.

/// How much of a name is kept, in characters.
const NAME_CHARS: usize = 120;

/// The name, or the beginning of a long one with an ellipsis.
pub(super) fn shortened(mut name: String) -> String {
    if let Some((end, _)) = name.char_indices().nth(NAME_CHARS) {
        name.truncate(end);
        name.push('…');
        name.shrink_to_fit();
    }
    name
}

/// The text without control characters, because a log can contain anything.
pub(super) fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c }).collect()
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

    #[test]
    fn control_characters_are_not_sent_to_the_terminal() {
        assert_eq!(printable("a\u{1b}[31m\n\u{9b}é"), "a\u{fffd}[31m\u{fffd}\u{fffd}é");
    }
}
