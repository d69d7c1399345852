//! The canvas of a picture: its width, its side margins, and text at a position.
//!
//! Pages, lanes and stacks are drawn on it.

use std::error::Error;

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, VPos};

use super::style::Face;

pub(super) type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
pub(super) type DrawResult = Result<(), Box<dyn Error>>;

pub(super) const WIDTH: i32 = 960;
pub(super) const LEFT: i32 = 84;
pub(super) const RIGHT: i32 = 52;
pub(super) const INNER: i32 = WIDTH - LEFT - RIGHT;

/// Writes `text` from `at` on, above it.
pub(super) fn write(area: &Area<'_>, face: Face, text: &str, at: (i32, i32)) -> DrawResult {
    if !text.is_empty() {
        area.draw_text(text, &face.style(HPos::Left, VPos::Bottom), at)?;
    }
    Ok(())
}
