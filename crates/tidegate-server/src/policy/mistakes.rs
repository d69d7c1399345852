//! The errors of a configuration as printed on a terminal: a bounded number, with bounded lines.
//! [`Wrong`](super::Wrong) prints them.
//!
//! A file that is not TOML at all has an error on each line; the first few are enough.

use tidegate::config::{ConfigError, ConfigErrors};

/// The number of errors that are printed in full; the rest are only counted.
const MOST_SHOWN: usize = 100;
/// Longer lines are cut in the middle; they quote a long text of the file.
const LINE_CHARS: usize = 600;
/// The number of characters that are kept of the beginning of a cut line, which has the position.
const BEGINNING: usize = 400;
/// The number of characters that are kept of its end, which has the expected text.
const END: usize = LINE_CHARS - BEGINNING - 1;

/// The first errors, and the number of all if there are more.
pub(super) fn printed(mistakes: &ConfigErrors) -> String {
    let parts: Vec<_> = mistakes.iter().take(MOST_SHOWN).map(whole).chain(more(mistakes)).collect();
    parts.join("\n\n")
}

/// An error without the line of the file that it is in.
pub(super) fn line(mistake: &ConfigError) -> String {
    let text = mistake.to_string();
    cut(text.lines().next().unwrap_or_default())
}

fn whole(mistake: &ConfigError) -> String {
    let lines: Vec<_> = mistake.to_string().lines().map(cut).collect();
    lines.join("\n")
}

fn more(mistakes: &ConfigErrors) -> Option<String> {
    let file = &mistakes.iter().next()?.file;
    let all = mistakes.iter().count();
    let more = all.checked_sub(MOST_SHOWN).filter(|more| *more > 0)?;
    Some(format!("and {more} more: {file} has {all} mistakes"))
}

fn cut(line: &str) -> String {
    let chars = line.chars().count();
    if chars <= LINE_CHARS {
        return line.to_owned();
    }
    let mut text: String = line.chars().take(BEGINNING).collect();
    text.push('…');
    // Counted in characters, because a cut within the bytes of a character would panic.
    text.extend(line.chars().skip(chars - END));
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate::config;

    fn text_of(text: &str) -> String {
        printed(&config::parse("wrong.toml", text).unwrap_err())
    }

    fn positions(printed: &str) -> usize {
        printed.lines().filter(|line| line.starts_with("wrong.toml:")).count()
    }

    #[test]
    fn up_to_the_bound_errors_are_printed_as_by_the_library() {
        for lines in [1, MOST_SHOWN] {
            let text = "not TOML\n".repeat(lines);
            let all = config::parse("wrong.toml", &text).unwrap_err();
            assert_eq!((printed(&all), all.iter().count()), (all.to_string(), lines));
        }
    }

    #[test]
    fn of_more_the_first_are_printed_and_all_are_counted() {
        for lines in [MOST_SHOWN + 1, 345] {
            let printed = text_of(&"not TOML\n".repeat(lines));
            assert_eq!(positions(&printed), MOST_SHOWN);
            let closing =
                format!("\n\nand {} more: wrong.toml has {lines} mistakes", lines - MOST_SHOWN);
            assert!(printed.ends_with(&closing), "{printed}");
        }
    }

    #[test]
    fn a_mistake_on_a_line_of_a_megabyte_shows_what_is_around_its_column() {
        let ballast = "é".repeat(500_000);
        let printed =
            text_of(&format!("[[rule]]\nwhen = {{ a = \"{ballast}\" }} oops {ballast}\n"));
        assert!(printed.contains("é\" } oops é"), "{printed}");
        assert!(printed.lines().all(|line| line.chars().count() <= LINE_CHARS), "{printed}");
    }

    #[test]
    fn a_quoted_text_of_a_megabyte_is_cut_in_its_middle() {
        let name = "ö".repeat(1_000_000);
        let printed = text_of(&format!(
            "[[rule]]\nname = \"{name}\"\nalgorithm = \"fixed_window\"\nrate = \"1/s\"\n"
        ));
        let first = printed.lines().next().unwrap();
        assert_eq!(first.chars().count(), LINE_CHARS);
        assert!(first.starts_with("wrong.toml:2:8: `name` is \"ööö"), "{first}");
        assert!(first.contains("öö…öö") && first.contains("expected"), "{first}");
        assert!(printed.lines().all(|line| line.chars().count() <= LINE_CHARS), "{printed}");
    }
}
