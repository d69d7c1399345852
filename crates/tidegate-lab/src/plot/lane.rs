//! One lane: heading, grid, bars and the line of departures, as a chart.
//!
//! A page draws a lane for each algorithm or rule. A stack uses the same chart, with bars of its own.

use std::error::Error;

use plotters::coord::combinators::WithKeyPoints;
use plotters::coord::types::{RangedCoordu64, RangedCoordu128};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, VPos};

use super::Lane;
use super::canvas::{Area, DrawResult, INNER, LEFT, RIGHT, write};
use super::error::Extent;
use super::label::wide_count_label;
use super::style::{ADMITTED, AXIS, Face, GREY, GRID, INK, REFUSED, REFUSED_LINE, WOULD_REFUSE};
use super::time_axis::TimeAxis;

/// Microseconds after the start of the picture, and requests.
pub(super) type Plane = Cartesian2d<WithKeyPoints<RangedCoordu64>, RangedCoordu128>;
pub(super) type Chart<'a> = ChartContext<'a, SVGBackend<'a>, Plane>;

/// The part of the left margin that holds the labels of the value axis.
pub(super) const VALUES: i32 = 50;
/// The space above each lane for its heading.
pub(super) const HEADING: i32 = 38;
const HEADING_GAP: i32 = 12;

const TITLE: Face = Face::bold(14, INK);
const SMALL: Face = Face::plain(12, GREY);
const TICK: Face = Face::plain(11, GREY);

/// The scale of a lane, or of all.
pub(super) struct Scale {
    extent: Extent,
    axis: TimeAxis,
    /// The round value that no bar and no point exceeds.
    top: u128,
    /// The height of a lane, in pixels.
    pub(super) height: i32,
}

impl Scale {
    pub(super) fn of(lanes: &[Lane], extent: Extent, height: i32) -> Self {
        Self::up_to(lanes.iter().map(highest).max().unwrap_or(0), extent, height)
    }

    /// The scale of bars that are at most so high.
    pub(super) fn up_to(highest: u128, extent: Extent, height: i32) -> Self {
        let highest = highest.max(1);
        let ticks = RangedCoordu128::from(0..highest).key_points(labels(height));
        let step = ticks.get(1).copied().unwrap_or(highest);
        Self {
            extent,
            axis: TimeAxis::of(extent, INNER, |label| TICK.width(label)),
            top: highest.next_multiple_of(step),
            height,
        }
    }

    /// `n`, raised if it would be too low to show: one request is visible next to a million.
    fn drawn(&self, n: u128) -> u128 {
        if n == 0 { 0 } else { n.max(self.top * 2 / self.height as u128) }
    }
}

/// The largest number of labels that the value axis has room for.
fn labels(height: i32) -> usize {
    (height / 19).min(7) as usize
}

fn highest(lane: &Lane) -> u128 {
    let line = lane.leaves.iter().flatten().map(|n| u128::from(*n));
    stacked(lane, |a, r| a + r).chain(line).max().unwrap_or(0)
}

fn stacked(lane: &Lane, sum: impl Fn(u128, u128) -> u128) -> impl Iterator<Item = u128> {
    let bars = lane.admitted.iter().zip(&lane.refused);
    bars.map(move |(admitted, refused)| sum(u128::from(*admitted), u128::from(*refused)))
}

/// Draws `lane` on an area with `foot` pixels below the chart for the time axis, or none.
pub(super) fn draw_lane<'a>(area: &Area<'a>, lane: &Lane, scale: &Scale, foot: i32) -> DrawResult {
    draw_heading(area, lane)?;
    let span_us = scale.extent.end_us - scale.extent.start_us;
    let mut chart = chart(area, scale, foot)?;
    let admitted: Vec<u128> = stacked(lane, |a, _| scale.drawn(a)).collect();
    let refused = stacked(lane, |a, r| if r == 0 { 0 } else { scale.drawn(a) + scale.drawn(r) });
    let refused: Vec<u128> = refused.collect();
    let bin_us = scale.extent.bin_us();
    let fill = if lane.is_shadow { WOULD_REFUSE } else { REFUSED };
    draw_bars(&mut chart, bin_us, (&admitted, &refused), (fill, REFUSED_LINE.to_rgba()))?;
    // After the refused bars, which reach down to zero: the admitted requests cover their lower part.
    draw_bars(&mut chart, bin_us, (&[], &admitted), (ADMITTED, TRANSPARENT))?;
    chart.draw_series(LineSeries::new([(0, 0), (span_us, 0)], AXIS))?;
    if let Some(leaves) = &lane.leaves {
        let counts: Vec<u128> = leaves.iter().map(|n| scale.drawn(u128::from(*n))).collect();
        let line = steps(0, &counts, bin_us);
        // The wide white line keeps the dark one apart from dark bars.
        chart.draw_series(LineSeries::new(line.clone(), WHITE.stroke_width(4)))?;
        chart.draw_series(LineSeries::new(line, INK.stroke_width(2)))?;
    }
    Ok(())
}

/// Returns a chart below a heading, with its grid and `foot` pixels below it for the time axis, or none.
pub(super) fn chart<'a>(
    area: &Area<'a>,
    scale: &Scale,
    foot: i32,
) -> Result<Chart<'a>, Box<dyn Error>> {
    let span_us = scale.extent.end_us - scale.extent.start_us;
    let mut chart: Chart<'a> = ChartBuilder::on(area)
        .margin_top(HEADING)
        .margin_left(LEFT - VALUES)
        .margin_right(RIGHT)
        .y_label_area_size(VALUES)
        .x_label_area_size(foot)
        .build_cartesian_2d((0..span_us).with_key_points(scale.axis.ticks()), 0..scale.top)?;
    draw_mesh(&mut chart, scale)?;
    Ok(chart)
}

/// The title with the note next to it; a long title is cut down to two fifths to make room for the
/// note.
fn draw_heading(area: &Area<'_>, lane: &Lane) -> DrawResult {
    let quiet = highest(lane) == 0 && lane.note.is_empty();
    let note = if quiet { "no requests" } else { &lane.note };
    let beside = INNER.saturating_sub(SMALL.width(note)).saturating_sub(HEADING_GAP);
    let beside = if note.is_empty() { INNER } else { beside.max(INNER * 2 / 5) };
    let title = TITLE.fit(&lane.title, beside);
    let x = if title.is_empty() { 0 } else { TITLE.width(&title) + HEADING_GAP };
    write(area, TITLE, &title, (LEFT, HEADING - 9))?;
    write(area, SMALL, &SMALL.fit(note, INNER - x), (LEFT + x, HEADING - 9))
}

fn draw_mesh(chart: &mut Chart<'_>, scale: &Scale) -> DrawResult {
    let mut mesh = chart.configure_mesh();
    mesh.bold_line_style(GRID)
        .light_line_style(TRANSPARENT)
        .max_light_lines(1)
        .axis_style(AXIS)
        .set_all_tick_mark_size(4)
        .y_labels(labels(scale.height))
        .label_style(TICK.style(HPos::Center, VPos::Center))
        .axis_desc_style(SMALL.style(HPos::Center, VPos::Center))
        .x_desc(scale.axis.title());
    mesh.x_label_formatter(&|after_us| scale.axis.label(scale.extent.start_us + after_us))
        .y_label_formatter(&|n| wide_count_label(*n))
        .draw()?;
    Ok(())
}

/// One area for each run of bins that are not empty, outlined above `floor` (zero where `floor`
/// ends).
pub(super) fn draw_bars(
    chart: &mut Chart<'_>,
    bin_us: u64,
    (floor, counts): (&[u128], &[u128]),
    (fill, line): (RGBColor, RGBAColor),
) -> DrawResult {
    let mut from = 0;
    for run in counts.chunk_by(|a, b| (*a == 0) == (*b == 0)) {
        let to = from + run.len();
        // Empty bins get no area, because its border would be a line along the axis.
        if run.first().is_some_and(|n| *n > 0) {
            // The outline comes down to the floor at both ends; below the floor other bars are drawn over it.
            let left = (from as u64 * bin_us, at(floor, from));
            let right = (to as u64 * bin_us, at(floor, to - 1));
            let top = steps(from as u64, run, bin_us);
            let outline = std::iter::once(left).chain(top).chain([right]);
            let area = AreaSeries::new(outline, 0, fill.filled());
            chart.draw_series(area.border_style(line))?;
        }
        from = to;
    }
    Ok(())
}

fn at(floor: &[u128], bin: usize) -> u128 {
    floor.get(bin).copied().unwrap_or(0)
}

/// The steps of `counts`, the first of them in bin `from`.
fn steps(from: u64, counts: &[u128], bin_us: u64) -> Vec<(u64, u128)> {
    (from..)
        .zip(counts)
        .flat_map(|(bin, n)| [(bin * bin_us, *n), ((bin + 1) * bin_us, *n)])
        .collect()
}
