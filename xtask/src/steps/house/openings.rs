//! The rule of openings: a file begins with its purpose.

use super::{Findings, House};

/// Checks the first line of every Rust file.
pub(super) fn check(house: &House<'_>) -> Findings {
    let files = house.files.iter().filter(|file| file.is("rs") && !says_its_purpose(&file.text));
    files.map(|file| complaint(&file.path.display())).collect::<Vec<_>>().into()
}

fn says_its_purpose(text: &str) -> bool {
    let first = text.lines().next().unwrap_or_default();
    first.strip_prefix("//!").is_some_and(|purpose| !purpose.trim().is_empty())
}

fn complaint(path: &impl std::fmt::Display) -> String {
    format!("{path}: the first line must be `//!` and what the file is for, in one sentence")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_purpose_is_on_the_first_line() {
        assert!(says_its_purpose("//! Time.\n\nuse x;"));
        for text in ["", "//!\n//! Time.", "use x;\n//! Time.", "// Time.", "/// Time."] {
            assert!(!says_its_purpose(text), "{text:?}");
        }
    }
}
