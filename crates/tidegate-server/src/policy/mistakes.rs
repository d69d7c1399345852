//! The errors of a file as printed on a terminal: a bounded number, and no endless line.
//!
//! A file that is not TOML at all has an error on each of its lines; the first few are enough.

use tidegate::config::{ConfigError, ConfigErrors};

/// How many errors are printed in full; the rest are only counted.
const TOLD: usize = 100;
/// Longer lines are cut in their middle: they quote a long text of the file.
const LINE_CHARS: usize = 600;
/// How many characters of the beginning of a cut line are kept, with the position.
const BEGINNING: usize = 400;
/// How many of its end, with what was expected.
const END: usize = LINE_CHARS - BEGINNING - 1;

/// The first errors, and the number of all if there are more.
pub(super) fn told(mistakes: &ConfigErrors) -> String {
    let parts: Vec<_> = mistakes.iter().take(TOLD).map(one).chain(more(mistakes)).collect();
    parts.join("\n\n")
}

fn one(mistake: &ConfigError) -> String {
    let lines: Vec<_> = mistake.to_string().lines().map(cut).collect();
    lines.join("\n")
}

fn more(mistakes: &ConfigErrors) -> Option<String> {
    let (file, all) = (&mistakes.iter().next()?.file, mistakes.iter().count());
    let more = all.checked_sub(TOLD).filter(|more| *more > 0)?;
    Some(format!("and {more} more: {file} has {all} mistakes"))
}

fn cut(line: &str) -> String {
    let chars = line.chars().count();
    if chars <= LINE_CHARS {
        return line.to_owned();
    }
    let mut text: String = line.chars().take(BEGINNING).collect();
    text.push('…');
    text.extend(line.chars().skip(chars - END));
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate::config;

    fn told_of(text: &str) -> String {
        told(&config::parse("wrong.toml", text).unwrap_err())
    }

    fn places(told: &str) -> usize {
        told.lines().filter(|line| line.starts_with("wrong.toml:")).count()
    }

    #[test]
    fn up_to_so_many_mistakes_are_told_as_the_library_tells_them() {
        for lines in [1, TOLD] {
            let text = "not TOML\n".repeat(lines);
            let all = config::parse("wrong.toml", &text).unwrap_err();
            assert_eq!((told(&all), all.iter().count()), (all.to_string(), lines));
        }
    }

    #[test]
    fn of_more_the_first_are_told_and_all_are_counted() {
        for lines in [TOLD + 1, 345] {
            let told = told_of(&"not TOML\n".repeat(lines));
            assert_eq!(places(&told), TOLD);
            let closing = format!("\n\nand {} more: wrong.toml has {lines} mistakes", lines - TOLD);
            assert!(told.ends_with(&closing), "{told}");
        }
    }

    #[test]
    fn a_mistake_on_a_line_of_a_megabyte_shows_what_is_around_its_column() {
        let ballast = "é".repeat(500_000);
        let told = told_of(&format!("[[rule]]\nwhen = {{ a = \"{ballast}\" }} oops {ballast}\n"));
        assert!(told.contains("é\" } oops é"), "{told}");
        assert!(told.lines().all(|line| line.chars().count() <= LINE_CHARS), "{told}");
    }

    #[test]
    fn a_quoted_text_of_a_megabyte_is_cut_in_its_middle() {
        let name = "ö".repeat(1_000_000);
        let told = told_of(&format!(
            "[[rule]]\nname = \"{name}\"\nalgorithm = \"fixed_window\"\nrate = \"1/s\"\n"
        ));
        let first = told.lines().next().unwrap();
        assert_eq!(first.chars().count(), LINE_CHARS);
        assert!(first.starts_with("wrong.toml:2:8: `name` is \"ööö"), "{first}");
        assert!(first.contains("öö…öö") && first.contains("expected"), "{first}");
        assert!(told.lines().all(|line| line.chars().count() <= LINE_CHARS), "{told}");
    }
}
