//! A terminal as SVG: commands, and their output.

use std::fmt::Write;

/// The columns of the terminal; a longer line goes on in the next, after a space or a comma.
const COLUMNS: usize = 110;
/// The height of a line, in pixels.
const LINE: usize = 17;
/// The width of a character at 12 pixels, in tenths of a pixel.
const TENTHS: usize = 73;

/// Returns the picture of a terminal with these commands and outputs. A command may have several lines.
pub(super) fn svg(title: &str, runs: &[(String, String)]) -> String {
    let mut lines = Vec::new();
    for (command, output) in runs {
        lines.extend((!lines.is_empty()).then(|| ("out", String::new())));
        let command = format!("$ {command}");
        let command = command.lines().map(|line| ("command", line));
        for (class, line) in command.chain(output.trim_end().lines().map(|line| ("out", line))) {
            lines.extend(parts(line).into_iter().map(|part| (class, part)));
        }
    }
    let (width, height) = (COLUMNS * TENTHS / 10 + 32, lines.len() * LINE + 30);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" width=\"{width}\" height=\"{height}\" \
         viewBox=\"0 0 {width} {height}\" font-family=\"ui-monospace, SFMono-Regular, Menlo, Consolas, monospace\" \
         font-size=\"12\">\n<title>{}</title>\n<style>.page{{fill:#f6f8fa;stroke:#d0d7de}}.out{{fill:#1f2937}}\
         .command{{fill:#0b5394;font-weight:bold}}@media (prefers-color-scheme:dark){{\
         .page{{fill:#161b22;stroke:#30363d}}.out{{fill:#d1d7de}}.command{{fill:#8ec5ef}}}}</style>\n\
         <rect class=\"page\" x=\"0.5\" y=\"0.5\" width=\"{}\" height=\"{}\" rx=\"6\"/>\n",
        escaped(title),
        width - 1,
        height - 1,
    );
    for (number, (class, line)) in
        lines.iter().enumerate().filter(|(_, (_, line))| !line.is_empty())
    {
        let y = 26 + number * LINE;
        // Every viewer's font gets the same width, so that columns stand below each other.
        let length = line.chars().count() * TENTHS;
        let _ = writeln!(
            svg,
            "<text class=\"{class}\" x=\"16\" y=\"{y}\" xml:space=\"preserve\" textLength=\"{}.{}\">{}</text>",
            length / 10,
            length % 10,
            escaped(line)
        );
    }
    svg + "</svg>\n"
}

/// The lines that a line takes, one if it is empty.
fn parts(line: &str) -> Vec<String> {
    let mut parts = Vec::new();
    let mut rest: Vec<_> = line.chars().collect();
    while let Some(columns) = rest.get(..COLUMNS).filter(|_| rest.len() > COLUMNS) {
        let end = columns.iter().rposition(|c| matches!(c, ' ' | ',')).map_or(COLUMNS, |at| at + 1);
        let next = rest.split_off(end);
        parts.push(rest.into_iter().collect());
        rest = next;
    }
    parts.push(rest.into_iter().collect());
    parts
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_escaped_and_empty_ones_take_space() {
        let runs = [
            ("a < b \\\n  d".to_owned(), "one\n\ntwo\n".to_owned()),
            ("c".to_owned(), String::new()),
        ];
        let svg = svg("T & U", &runs);
        assert!(
            svg.contains("<title>T &amp; U</title>") && svg.contains(">$ a &lt; b \\</text>"),
            "{svg}"
        );
        assert_eq!(svg.matches("<text").count(), 5, "{svg}");
        assert!(svg.contains(&format!("height=\"{}\"", 7 * LINE + 30)), "{svg}");
    }

    #[test]
    fn a_long_line_goes_on_in_the_next_after_a_space_or_a_comma() {
        let (word, full) = ("é".repeat(COLUMNS - 1), "é".repeat(COLUMNS));
        assert_eq!(parts(""), [""]);
        assert_eq!(parts(&full), [full.as_str()]);
        assert_eq!(parts(&format!("{full}é")), [full.as_str(), "é"]);
        assert_eq!(parts(&format!("a {word}")), ["a ", word.as_str()]);
        assert_eq!(parts(&format!("a,b,{word}")), ["a,b,", word.as_str()]);
    }
}
