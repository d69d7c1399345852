//! Rates and lengths of time as text, and the error of a text that is neither.
//!
//! Configurations and command lines have such texts. A message shows a text by `shown`, short and without a password.

mod credentials;
mod length;
mod rate;
mod value_error;

use alloc::borrow::Cow;
use alloc::format;
use alloc::string::String;

pub use credentials::credentials;
pub use length::{decimal, meant, parse_duration, spaceless, split_number};
pub use rate::parse_rate;
pub use value_error::ValueError;

/// The longest part of a text that a message shows.
const LONGEST_SHOWN: usize = 48;

/// The text in place of a password.
pub const HIDDEN: &str = "***";

/// Returns a text as a message shows it: short, without control characters and
/// [`without_credentials`].
#[must_use]
pub fn shown(text: &str) -> String {
    // Before the text is cut, because half a URL may not show that it has a password.
    let text = without_credentials(text);
    let cut: String = text.chars().take(LONGEST_SHOWN).collect();
    let more = if cut.len() < text.len() { "..." } else { "" };
    format!("{}{more}", cut.escape_debug())
}

/// Returns a text with [`HIDDEN`] in place of the user and password of a URL in it.
#[must_use]
pub fn without_credentials(text: &str) -> Cow<'_, str> {
    let parts = credentials(text).and_then(|at| Some((text.get(..at.start)?, text.get(at.end..)?)));
    parts.map_or(Cow::Borrowed(text), |(before, after)| format!("{before}{HIDDEN}{after}").into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shown_texts_are_short_and_harmless() {
        assert_eq!(shown("a\u{1b}[2Jb"), "a\\u{1b}[2Jb");
        assert_eq!(shown(&"x".repeat(100)).len(), LONGEST_SHOWN + 3);
    }

    #[test]
    fn passwords_are_not_shown_however_long_they_are() {
        assert_eq!(shown("redis://:pw@host"), "redis://***@host");
        let long = format!("redis://:{}@host", "p".repeat(100));
        assert_eq!(shown(&long), "redis://***@host");
    }
}
