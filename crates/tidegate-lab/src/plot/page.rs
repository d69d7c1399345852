//! The page: headline, legend, and the lanes below each other.
//!
//! `svg` draws a timeline with it.

use std::slice;

use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, VPos};

use super::canvas::{Area, DrawResult, INNER, LEFT, WIDTH, write};
use super::error::{Extent, PlotError};
use super::label::rate_title;
use super::lane::{HEADING, Scale, draw_lane};
use super::style::{ADMITTED, Face, GREY, INK, REFUSED, REFUSED_LINE, WOULD_REFUSE, with_title};
use super::{Lane, Timeline};

/// The space above the first lane, for the legend.
const LEGEND: i32 = 24;
/// The space below the last lane, for the time axis and the edge of the page.
pub(super) const FOOT: i32 = 46;
pub(super) const BOTTOM: i32 = 16;

const HEADLINE: Face = Face::bold(18, INK);
const SUBTITLE: Face = Face::plain(14, GREY);
const ENTRY: Face = Face::plain(12, INK);
const AXIS_TITLE: Face = Face::plain(12, GREY);
const EMPTY: Face = Face::plain(16, GREY);

pub(super) fn page(timeline: &Timeline, extent: Extent) -> Result<String, PlotError> {
    let mut picture = String::new();
    draw(&mut picture, timeline, extent)?;
    Ok(with_title(&picture, &timeline.title))
}

fn draw(picture: &mut String, timeline: &Timeline, extent: Extent) -> DrawResult {
    let lanes = if extent.bins == 0 { &[] } else { timeline.lanes.as_slice() };
    let top = if timeline.subtitle.is_empty() { 48 } else { 70 };
    // An SVG needs its size before anything is drawn.
    let charts = lanes.len() as i32 * (HEADING + lane_height(lanes.len()));
    let size = (WIDTH as u32, (top + LEGEND + charts + FOOT + BOTTOM) as u32);
    let root = SVGBackend::with_string(picture, size).into_drawing_area();
    root.fill(&WHITE)?;
    draw_head(&root, &timeline.title, &timeline.subtitle)?;
    if lanes.is_empty() {
        let style = EMPTY.style(HPos::Center, VPos::Center);
        root.draw_text("no requests in this trace", &style, (WIDTH / 2, top + 30))?;
    } else {
        draw_legend(&root, lanes, top + 10)?;
        // Halfway between the heading of the first lane and the foot of the last.
        draw_axis_title(&root, timeline.bin_us, top + LEGEND + (HEADING + charts) / 2)?;
        draw_lanes(&root, timeline, extent, top + LEGEND)?;
    }
    Ok(root.present()?)
}

pub(super) fn draw_head(root: &Area<'_>, title: &str, subtitle: &str) -> DrawResult {
    for (face, text, y) in [(HEADLINE, title, 38), (SUBTITLE, subtitle, 62)] {
        write(root, face, &face.fit(text, INNER), (LEFT, y))?;
    }
    Ok(())
}

/// Writes the meaning of the heights, upwards around `middle`.
pub(super) fn draw_axis_title(root: &Area<'_>, bin_us: u64, middle: i32) -> DrawResult {
    let upward = AXIS_TITLE.style(HPos::Center, VPos::Center);
    let upward = upward.transform(FontTransform::Rotate270);
    Ok(root.draw_text(&rate_title(bin_us), &upward, (22, middle))?)
}

fn draw_legend(root: &Area<'_>, lanes: &[Lane], y: i32) -> DrawResult {
    let style = ENTRY.style(HPos::Left, VPos::Center);
    root.draw(&Rectangle::new(swatch(LEFT, y), ADMITTED.filled()))?;
    root.draw_text("admitted", &style, (LEFT + 22, y))?;
    let mut x = LEFT + 96;
    let shadows = lanes.iter().filter(|lane| lane.is_shadow).count();
    let kinds = [
        ("refused", REFUSED, 88, shadows < lanes.len()),
        ("would be refused (shadow)", WOULD_REFUSE, 200, shadows > 0),
    ];
    for (name, fill, width, _) in kinds.into_iter().filter(|(.., is_used)| *is_used) {
        root.draw(&Rectangle::new(swatch(x, y), fill.filled()))?;
        root.draw(&Rectangle::new(swatch(x, y), REFUSED_LINE))?;
        root.draw_text(name, &style, (x + 22, y))?;
        x += width;
    }
    if lanes.iter().any(|lane| lane.leaves.is_some()) {
        root.draw(&PathElement::new([(x, y), (x + 16, y)], INK.stroke_width(2)))?;
        root.draw_text("leaving the queue", &style, (x + 22, y))?;
    }
    Ok(())
}

/// The corners of a filled box in a legend.
pub(super) fn swatch(x: i32, y: i32) -> [(i32, i32); 2] {
    [(x, y - 6), (x + 16, y + 5)]
}

fn draw_lanes(root: &Area<'_>, timeline: &Timeline, extent: Extent, mut y: i32) -> DrawResult {
    let lanes = &timeline.lanes;
    for (index, lane) in lanes.iter().enumerate() {
        let scaled = if timeline.own_scales { slice::from_ref(lane) } else { lanes.as_slice() };
        let scale = Scale::of(scaled, extent, lane_height(lanes.len()));
        // All lanes share one time axis, below the last lane.
        let foot = if index + 1 == lanes.len() { FOOT } else { 0 };
        let height = HEADING + scale.height + foot;
        draw_lane(&root.clone().shrink((0, y), (WIDTH, height)), lane, &scale, foot)?;
        y += height;
    }
    Ok(())
}

/// Fewer lanes are higher, so that the page keeps a good shape.
fn lane_height(lanes: usize) -> i32 {
    match lanes {
        0 => 0,
        1 => 260,
        2 => 180,
        3 => 140,
        4..=5 => 108,
        6..=7 => 90,
        _ => 76,
    }
}
