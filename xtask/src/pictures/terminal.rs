//! A terminal as SVG: commands, and what they printed.

use std::fmt::Write;

/// The columns of the terminal; a longer line goes on in the next.
const COLUMNS: usize = 108;
/// The height of a line, in pixels.
const LINE: usize = 17;
/// The width of a character at 12 pixels, in tenths of a pixel.
const TENTHS: usize = 73;

/// Returns the picture of a terminal with these commands and outputs.
pub(super) fn svg(title: &str, runs: &[(String, String)]) -> String {
    let mut lines = Vec::new();
    for (command, output) in runs {
        lines.extend((!lines.is_empty()).then(|| ("out", String::new())));
        let output = output.trim_end().lines().map(|line| ("out", line.to_owned()));
        for (class, line) in [("command", format!("$ {command}"))].into_iter().chain(output) {
            let characters: Vec<_> = line.chars().collect();
            let parts = characters.chunks(COLUMNS).map(|part| (class, part.iter().collect()));
            lines.extend(parts.chain(line.is_empty().then(|| (class, String::new()))));
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

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_escaped_and_go_on_in_the_next_and_empty_ones_take_room() {
        let long = "é".repeat(COLUMNS + 1);
        let runs =
            [("a < b".to_owned(), format!("one\n\n{long}\n")), ("c".to_owned(), String::new())];
        let svg = svg("T & U", &runs);
        assert!(
            svg.contains("<title>T &amp; U</title>") && svg.contains(">$ a &lt; b</text>"),
            "{svg}"
        );
        assert!(svg.contains(&format!(">{}</text>", "é".repeat(COLUMNS))), "{svg}");
        assert!(svg.contains(">é</text>"), "{svg}");
        assert_eq!(svg.matches("<text").count(), 5, "{svg}");
        assert!(svg.contains(&format!("height=\"{}\"", 7 * LINE + 30)), "{svg}");
    }
}
