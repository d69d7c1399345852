//! Colours, and text that is safe inside XML and fits its width without knowing the font.

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use tidegate::printable::is_obeyed;

pub(super) const INK: RGBColor = RGBColor(0x1f, 0x29, 0x37);
pub(super) const GREY: RGBColor = RGBColor(0x5f, 0x67, 0x73);
pub(super) const GRID: RGBColor = RGBColor(0xe3, 0xe6, 0xea);
pub(super) const AXIS: RGBColor = RGBColor(0x8a, 0x92, 0x9c);
/// Mid grey if there is no colour; refused requests are then pale in a dark outline.
pub(super) const ADMITTED: RGBColor = RGBColor(0x4a, 0x86, 0xb4);
pub(super) const REFUSED: RGBColor = RGBColor(0xf9, 0xcf, 0xb0);
/// Stands for a hatched [`REFUSED`] until the document is finished.
pub(super) const WOULD_REFUSE: RGBColor = RGBColor(0xf9, 0xcf, 0xb1);
pub(super) const REFUSED_LINE: RGBColor = RGBColor(0xc2, 0x41, 0x0c);

/// Plotters sets a text smaller than the given size, by this factor.
const EM_PER_SIZE: f64 = 1.24;

/// The font of a text; the size is in pixels.
#[derive(Clone, Copy, Debug)]
pub(super) struct Face {
    size: u8,
    bold: bool,
    ink: RGBColor,
}

impl Face {
    pub(super) const fn plain(size: u8, ink: RGBColor) -> Self {
        Self { size, bold: false, ink }
    }

    pub(super) const fn bold(size: u8, ink: RGBColor) -> Self {
        Self { size, bold: true, ink }
    }

    /// The style for a text anchored at `h` and `v`.
    pub(super) fn style(self, h: HPos, v: VPos) -> TextStyle<'static> {
        let weight = if self.bold { FontStyle::Bold } else { FontStyle::Normal };
        let family = FontFamily::Name("Helvetica, Arial, sans-serif");
        let font = FontDesc::new(family, f64::from(self.size) * EM_PER_SIZE, weight);
        font.color(&self.ink).pos(Pos::new(h, v))
    }

    /// An estimate, rather high, of the width of `c` in a common font; plotters counts bytes, which
    /// is far off for anything but English.
    fn advance(self, c: char) -> f64 {
        let em = match c {
            ' ' | '.' | ',' | ':' | ';' | '|' | '!' | '\'' | 'f' | 'i' | 'j' | 'l' | 'r' | 't' => {
                0.31
            }
            'm' | 'w' | 'M' | 'W' | '@' | '%' => 0.9,
            'A'..='Z' | '&' | '<' | '>' | '=' | '+' => 0.72,
            c if c.is_ascii() => 0.565,
            // Letters of full width begin there.
            c if c < '\u{1100}' => 0.75,
            _ => 1.0,
        };
        em * f64::from(self.size) * if self.bold { 1.06 } else { 1.0 }
    }

    /// An estimate of the width of `text`, in pixels.
    pub(super) fn width(self, text: &str) -> i32 {
        text.chars().map(|c| self.advance(c)).sum::<f64>().ceil() as i32
    }

    /// `text`, cleaned, and cut with an ellipsis when it may be wider than `most` pixels.
    pub(super) fn fit(self, text: &str, most: i32) -> String {
        let text = clean(text);
        if self.width(&text) <= most {
            return text;
        }
        let mut space = f64::from(most) - self.advance('\u{2026}');
        let kept = text.chars().take_while(|c| {
            space -= self.advance(*c);
            space >= 0.0
        });
        kept.collect::<String>().trim_end().to_owned() + "\u{2026}"
    }
}

/// `text` without characters that XML or a single line cannot hold: control characters become
/// spaces, marks that turn, shape or hide text are dropped, noncharacters are replaced.
fn clean(text: &str) -> String {
    // Control characters stay here, because the next step turns them into spaces.
    let kept = text.chars().filter(|c| c.is_control() || !is_obeyed(*c));
    let printable = kept.map(|c| match c {
        '\u{fffe}' | '\u{ffff}' => char::REPLACEMENT_CHARACTER,
        c if c.is_control() => ' ',
        c => c,
    });
    printable.collect()
}

/// The hatching, and the colours of a dark page in place of the colours above. Rules of a style go before attributes.
const STYLE: &str = r##"<defs><pattern id="would-refuse" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">
<rect width="6" height="6" fill="#FFFFFF"/><rect width="3" height="6" fill="#F9CFB0"/></pattern></defs>
<style>@media (prefers-color-scheme: dark) {
[fill="#FFFFFF"] { fill: #0d1117 } [stroke="#FFFFFF"] { stroke: #0d1117 }
[fill="#1F2937"] { fill: #e6e9ed } [stroke="#1F2937"] { stroke: #e6e9ed }
[fill="#5F6773"] { fill: #a9b1bb } [fill="#F9CFB0"] { fill: #8a4317 }
[stroke="#E3E6EA"] { stroke: #2b323b } [stroke="#8A929C"] { stroke: #6b7480 } [stroke="#C2410C"] { stroke: #fb923c }
}</style>
"##;

/// Gives the document a title for screen readers, edges as sharp as its pixels, hatching and colours for dark pages.
pub(super) fn with_title(picture: &str, title: &str) -> String {
    // plotters escapes the texts that it draws, and this is none of them.
    let title = clean(title).replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    let root = "<svg role=\"img\" shape-rendering=\"crispEdges\"";
    let picture = picture.replacen("<svg", root, 1);
    // The first line that ends is the opening tag of the document.
    let picture = picture.replacen(">\n", &format!(">\n<title>{title}</title>\n{STYLE}"), 1);
    // `WOULD_REFUSE` differs from `REFUSED` in one bit, so this finds its areas alone.
    picture.replace("fill=\"#F9CFB1\"", "fill=\"url(#would-refuse)\"")
}
