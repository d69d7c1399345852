//! A picture of a limit that several places share: the units admitted by each place, stacked, next to the limit.

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, VPos};

use super::canvas::{Area, DrawResult, LEFT, WIDTH, write};
use super::error::{self, Extent, PlotError};
use super::lane::{HEADING, Scale, chart, draw_bars};
use super::page::{BOTTOM, FOOT, draw_axis_title, draw_head, swatch};
use super::style::{Face, GREY, INK, REFUSED_LINE, with_title};
use super::{Lane, Timeline};

const TOP: i32 = 70;
/// The space of the legend.
const LEGEND: i32 = 22;
/// The space of one line of marks.
const LINE: i32 = 18;
const HEIGHT: i32 = 300;
/// Fills that differ in lightness as well, on a light and on a dark page.
const FILLS: [RGBColor; 6] = [
    RGBColor(0x2f, 0x5d, 0x8a),
    RGBColor(0x6f, 0xa8, 0xdc),
    RGBColor(0x3d, 0x8f, 0x6b),
    RGBColor(0xb5, 0xcf, 0x6b),
    RGBColor(0x8e, 0x6b, 0xbf),
    RGBColor(0xd9, 0xa4, 0x41),
];
const ENTRY: Face = Face::plain(12, INK);
const MARK: Face = Face::plain(11, GREY);

/// One picture: parts of a whole, whose time begins at zero.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stack {
    /// The headline.
    pub title: String,
    /// A smaller line below it.
    pub subtitle: String,
    /// The width of a bin in microseconds.
    pub bin_us: u64,
    /// The parts, the lowest first.
    pub parts: Vec<StackPart>,
    /// Requests in a bin that the limit admits, drawn as a line.
    pub limit: u64,
    /// The events.
    pub marks: Vec<Mark>,
}

/// The units that a place admitted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StackPart {
    /// Its name.
    pub title: String,
    /// Requests by the bin they were admitted in; as many bins as in the other parts.
    pub admitted: Vec<u64>,
}

/// Something that happened at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mark {
    /// In microseconds since the first bin begins.
    pub at_us: u64,
    /// The event, in a few words.
    pub text: String,
}

/// Draws a stack as one SVG document.
///
/// # Errors
/// Returns a [`PlotError`] for the reasons that [`svg`](super::svg) has.
///
/// ```
/// use tidegate_lab::plot::{StackPart, Stack, stacked};
///
/// let part = |title: &str, admitted: [u64; 3]| StackPart { title: title.into(), admitted: admitted.into() };
/// let parts = vec![part("one", [4, 5, 2]), part("two", [6, 5, 8])];
/// let stack = Stack { title: "10 in 100 ms".into(), bin_us: 100_000, limit: 10, parts, ..Stack::default() };
/// assert!(stacked(&stack)?.starts_with("<svg"));
/// # Ok::<(), tidegate_lab::plot::PlotError>(())
/// ```
pub fn stacked(stack: &Stack) -> Result<String, PlotError> {
    let lanes = stack.parts.iter().map(|part| Lane {
        title: part.title.clone(),
        admitted: part.admitted.clone(),
        refused: vec![0; part.admitted.len()],
        ..Lane::default()
    });
    let lanes = lanes.collect();
    let extent = error::check(&Timeline { bin_us: stack.bin_us, lanes, ..Timeline::default() })?;
    let mut picture = String::new();
    draw(&mut picture, stack, extent)?;
    Ok(with_title(&picture, &stack.title))
}

/// The sums of the first parts, for each number of them.
fn sums(stack: &Stack, bins: usize) -> Vec<Vec<u128>> {
    let mut sum = vec![0; bins];
    let sums = stack.parts.iter().map(|part| {
        sum.iter_mut().zip(&part.admitted).for_each(|(sum, n)| *sum += u128::from(*n));
        sum.clone()
    });
    sums.collect()
}

fn draw(picture: &mut String, stack: &Stack, extent: Extent) -> DrawResult {
    let rows = rows(stack, extent);
    let marks = LINE * rows.iter().map(|row| row + 1).max().unwrap_or(0);
    // Marks stand above the bars, where other charts have a heading.
    let charts = TOP + LEGEND + marks + 6 - HEADING;
    let size = (WIDTH as u32, (charts + HEADING + HEIGHT + FOOT + BOTTOM) as u32);
    let root = SVGBackend::with_string(picture, size).into_drawing_area();
    root.fill(&WHITE)?;
    draw_head(&root, &stack.title, &stack.subtitle)?;
    draw_axis_title(&root, stack.bin_us, charts + HEADING + HEIGHT / 2)?;
    draw_legend(&root, stack, TOP + LEGEND / 2)?;
    let sums = sums(stack, extent.bins);
    let highest = sums.last().into_iter().flatten().copied().max().unwrap_or(0);
    let limit = u128::from(stack.limit);
    let scale = Scale::up_to(highest.max(limit), extent, HEIGHT);
    let area = root.clone().shrink((0, charts), (WIDTH, HEADING + HEIGHT + FOOT));
    let mut chart = chart(&area, &scale, FOOT)?;
    let filled: Vec<_> = sums.iter().zip(FILLS.into_iter().cycle()).collect();
    // The highest sums first: each lower one covers its part of them.
    for (counts, fill) in filled.into_iter().rev() {
        draw_bars(&mut chart, extent.bin_us(), (&[], counts), (fill, TRANSPARENT))?;
    }
    let line = [(0, limit), (extent.end_us, limit)];
    chart.draw_series(LineSeries::new(line, REFUSED_LINE.stroke_width(2)))?;
    for (mark, row) in stack.marks.iter().zip(rows) {
        // A mark after the last bin stands at the edge, because the chart has no place for it.
        let (x, foot) = chart.backend_coord(&(mark.at_us.min(extent.end_us), 0));
        let y = TOP + LEGEND + LINE * row;
        root.draw(&PathElement::new([(x, y + 4), (x, foot)], GREY.stroke_width(1)))?;
        write(&root, MARK, &mark.text, (x + 4, y + LINE))?;
    }
    Ok(root.present()?)
}

/// The line of each mark: the first line with room to the right of the earlier marks.
fn rows(stack: &Stack, extent: Extent) -> Vec<i32> {
    let mut ends: Vec<i32> = Vec::new();
    let rows = stack.marks.iter().map(|mark| {
        // The chart does not exist yet, because its place depends on these rows, so its scale is repeated here.
        let inner = f64::from(super::canvas::INNER);
        let x = (mark.at_us as f64 / extent.end_us.max(1) as f64 * inner) as i32;
        let row = ends.iter().position(|end| *end <= x).unwrap_or(ends.len());
        let end = x + MARK.width(&mark.text) + 12;
        match ends.get_mut(row) {
            Some(last) => *last = end,
            None => ends.push(end),
        }
        row as i32
    });
    rows.collect()
}

fn draw_legend(root: &Area<'_>, stack: &Stack, y: i32) -> DrawResult {
    let style = ENTRY.style(HPos::Left, VPos::Center);
    let mut x = LEFT;
    for (part, fill) in stack.parts.iter().zip(FILLS.into_iter().cycle()) {
        root.draw(&Rectangle::new(swatch(x, y), fill.filled()))?;
        root.draw_text(&part.title, &style, (x + 22, y))?;
        x += 22 + ENTRY.width(&part.title) + 18;
    }
    root.draw(&PathElement::new([(x, y), (x + 16, y)], REFUSED_LINE.stroke_width(2)))?;
    Ok(root.draw_text("limit", &style, (x + 22, y))?)
}
