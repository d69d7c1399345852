//! An SVG document: shapes and texts in a few colours, of a light and of a dark page.

use std::fmt::{Display, Write};

/// The colours; a viewer that knows no dark pages shows the colours of a light page.
const STYLE: &str = "\
.page{fill:#fff}.ink{fill:#1f2937}.grey{fill:#5f6773}.red{fill:#b91c1c}.blue{fill:#2f6d9c}
.box{fill:#eef3f8;stroke:#8a929c}.core{fill:#d6e6f3;stroke:#2f6d9c}
.bar{fill:#4a86b4}.other{fill:#b9c0c8}.grid{stroke:#e3e6ea}.line{stroke:#5f6773;fill:none}
.limit{stroke:#dc2626;fill:none}.a{stroke:#c2410c;fill:none}.b{stroke:#2f6d9c;fill:none}.orange{fill:#c2410c}
@media (prefers-color-scheme:dark){
.page{fill:#0d1117}.ink{fill:#e6e9ed}.grey{fill:#a9b1bb}.red{fill:#fca5a5}.blue{fill:#8ec5ef}
.box{fill:#161d27;stroke:#6b7480}.core{fill:#143049;stroke:#6ba6d3}
.other{fill:#4b5563}.grid{stroke:#2b323b}.line{stroke:#a9b1bb}
.limit{stroke:#f87171}.a{stroke:#fb923c}.b{stroke:#6ba6d3}.orange{fill:#fb923c}}";

/// A drawing that grows.
pub(crate) struct Drawing(String);

impl Drawing {
    pub(crate) fn new(width: u32, height: u32, title: &str) -> Self {
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" width=\"{width}\" height=\"{height}\" \
             viewBox=\"0 0 {width} {height}\" font-family=\"Helvetica, Arial, sans-serif\">\n\
             <title>{title}</title>\n<style>{STYLE}</style>\n\
             <defs><marker id=\"tip\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"8\" \
             markerHeight=\"8\" orient=\"auto-start-reverse\"><path class=\"grey\" d=\"M0 0 8 4 0 8z\"/></marker></defs>\n"
        );
        let _ = writeln!(svg, "<rect class=\"page\" width=\"{width}\" height=\"{height}\"/>");
        Self(svg)
    }

    /// Text of a size, with its base line at `y`; its `start`, `middle` or `end` is at `x`.
    pub(crate) fn text(
        &mut self,
        class: &str,
        size: u32,
        anchor: &str,
        (x, y): (f64, f64),
        text: impl Display,
    ) {
        let weight = if size > 15 { " font-weight=\"bold\"" } else { "" };
        let _ = writeln!(
            self.0,
            "<text class=\"{class}\" font-size=\"{size}\"{weight} text-anchor=\"{anchor}\" x=\"{x}\" y=\"{y}\">{text}</text>"
        );
    }

    /// A small grey text whose middle is at `x`.
    pub(crate) fn remark(&mut self, x: f64, y: f64, text: impl Display) {
        self.text("grey", 12, "middle", (x, y), text);
    }

    pub(crate) fn rect(&mut self, class: &str, (x, y): (f64, f64), (width, height): (f64, f64)) {
        let _ = writeln!(
            self.0,
            "<rect class=\"{class}\" x=\"{x}\" y=\"{y}\" width=\"{width:.1}\" height=\"{height}\" rx=\"3\"/>"
        );
    }

    /// A line through points.
    pub(crate) fn line(&mut self, class: &str, width: f64, dashes: &str, points: &[(f64, f64)]) {
        let points: Vec<_> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let _ = writeln!(
            self.0,
            "<polyline class=\"{class}\" stroke-width=\"{width}\" stroke-dasharray=\"{dashes}\" points=\"{}\"/>",
            points.join(" ")
        );
    }

    /// A line with a tip at its end, and one at its beginning if it goes both ways.
    pub(crate) fn arrow(&mut self, both: bool, (x1, y1): (f64, f64), (x2, y2): (f64, f64)) {
        let start = if both { " marker-start=\"url(#tip)\"" } else { "" };
        let _ = writeln!(
            self.0,
            "<path class=\"line\" stroke-width=\"1.5\" d=\"M{x1} {y1} {x2} {y2}\"{start} marker-end=\"url(#tip)\"/>"
        );
    }

    pub(crate) fn end(self) -> String {
        self.0 + "</svg>\n"
    }
}
