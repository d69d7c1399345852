//! Text in the width of a terminal.
//!
//! Reports and comparisons pass through it last. Without a width a text stays as it is.

use textwrap::{Options, WordSplitter};
use unicode_width::UnicodeWidthStr;

/// Returns a text whose lines take at most `width` columns each: longer ones go on in the next line,
/// with the same indent. They break at a space where there is one.
pub(crate) fn fitted(text: &str, width: Option<u16>) -> String {
    let Some(width) = width.map(usize::from).filter(|width| *width > 0) else {
        return text.to_owned();
    };
    let mut fitted = String::with_capacity(text.len());
    for line in text.lines() {
        // A line that fits keeps its indent, however narrow the terminal.
        if line.width() <= width {
            fitted.push_str(line);
        } else {
            fitted.push_str(&wrapped(line, width));
        }
        fitted.push('\n');
    }
    fitted
}

fn wrapped(line: &str, width: usize) -> String {
    let text = line.trim_start_matches(' ');
    // On a terminal that is too narrow for it there is no indent.
    let indent = Some(line.len() - text.len()).filter(|indent| *indent < width / 2).unwrap_or(0);
    let indent = " ".repeat(indent);
    let options = Options::new(width).initial_indent(&indent).subsequent_indent(&indent);
    // A hyphen is a part of a key, not a place to break it.
    textwrap::fill(text, options.word_splitter(WordSplitter::NoHyphenation))
}

#[cfg(test)]
mod tests {
    use super::*;

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
