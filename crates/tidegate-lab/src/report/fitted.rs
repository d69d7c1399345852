//! Text in the width of a terminal.

use unicode_width::UnicodeWidthChar;

/// Returns a text whose lines take at most `width` columns each: longer ones go on in the next line,
/// with the same indent. They break at a space where there is one.
pub(crate) fn fitted(text: &str, width: Option<u16>) -> String {
    let Some(width) = width.map(usize::from).filter(|width| *width > 0) else {
        return text.to_owned();
    };
    let mut fitted = String::with_capacity(text.len());
    for line in text.lines() {
        match split(line, width) {
            Some(_) => fit(line, width, &mut fitted),
            None => fitted.push_str(line),
        }
        fitted.push('\n');
    }
    fitted
}

fn fit(line: &str, width: usize, fitted: &mut String) {
    let text = line.trim_start_matches(' ');
    // On a terminal that is too narrow for it there is no indent.
    let indent = Some(line.len() - text.len()).filter(|indent| *indent < width / 2).unwrap_or(0);
    let mut rest = text;
    loop {
        fitted.extend(std::iter::repeat_n(' ', indent));
        let Some((part, next)) = split(rest, width - indent) else { break };
        fitted.push_str(part);
        fitted.push('\n');
        rest = next;
    }
    fitted.push_str(rest);
}

/// The part of a text that fits, and the rest; `None` if all of it fits.
fn split(text: &str, width: usize) -> Option<(&str, &str)> {
    let mut columns = 0;
    let too_wide = |(_, c): &(usize, char)| {
        columns += c.width().unwrap_or(0);
        columns > width
    };
    let (end, _) = text.char_indices().find(too_wide)?;
    // At least one character, however wide it is.
    let end = end.max(text.chars().next().map_or(0, char::len_utf8));
    let (part, rest) = text.split_at_checked(end)?;
    if rest.starts_with(' ') {
        return Some((part, rest.trim_start()));
    }
    match part.rsplit_once(' ') {
        Some((words, _)) if !words.trim().is_empty() => {
            Some((words.trim_end(), text.get(words.len()..)?.trim_start()))
        }
        _ => Some((part, rest)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use unicode_width::UnicodeWidthStr;

    #[test]
    fn lines_break_at_spaces_and_keep_their_indent() {
        let text = "one two three\n  four five\n\n";
        assert_eq!(fitted(text, None), text);
        assert_eq!(fitted(text, Some(13)), text);
        assert_eq!(fitted("          end\n", Some(13)), "          end\n");
        assert_eq!(fitted(text, Some(8)), "one two\nthree\n  four\n  five\n\n");
    }

    #[test]
    fn words_that_do_not_fit_are_broken_and_nothing_is_lost() {
        for text in ["  鍵鍵鍵鍵 鍵鍵鍵鍵鍵鍵鍵鍵鍵鍵 key", "abcdefghij", "   ", "é鍵 a  b   c"]
        {
            let words = |text: &str| text.split_whitespace().collect::<String>();
            for width in 1..30 {
                let fitted = fitted(text, Some(width));
                assert_eq!(words(&fitted), words(text), "{fitted}");
                let columns = fitted.lines().map(UnicodeWidthStr::width).max().unwrap_or_default();
                assert!(columns <= usize::from(width.max(2)), "{width}: {fitted}");
            }
        }
    }
}
