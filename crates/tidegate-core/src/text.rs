//! Rates and lengths of time as text, and the error of a text that is neither.

mod length;
mod rate;
mod value_error;

use alloc::format;
use alloc::string::String;

pub use length::{decimal, meant, parse_duration, spaceless, split_number};
pub use rate::parse_rate;
pub use value_error::ValueError;

/// The longest part of a text that a message shows.
const LONGEST_SHOWN: usize = 48;

/// Returns a text as a message shows it: short, and without control characters.
#[must_use]
pub fn shown(text: &str) -> String {
    let cut: String = text.chars().take(LONGEST_SHOWN).collect();
    let more = if cut.len() < text.len() { "..." } else { "" };
    format!("{}{more}", cut.escape_debug())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shown_texts_are_short_and_harmless() {
        assert_eq!(shown("a\u{1b}[2Jb"), "a\\u{1b}[2Jb");
        assert_eq!(shown(&"x".repeat(100)).len(), LONGEST_SHOWN + 3);
    }
}
