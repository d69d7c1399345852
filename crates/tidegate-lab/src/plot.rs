//! Pictures of a replay: requests admitted and refused over time, one lane per algorithm or rule.
//!
//! Plain counts go in and one SVG document comes out, as a string; nothing here reads a clock or
//! writes a file ([`PictureFile`](crate::PictureFile) does). The same input gives the same bytes, so a picture can be kept under version
//! control and compared.

mod bins;
mod canvas;
mod error;
mod label;
mod lane;
mod page;
mod stack;
mod style;
mod time_axis;

pub use bins::{Bins, TARGET_BINS, bin_width};
pub use error::PlotError;
pub use label::{count_label, duration_label, length_label};
pub use stack::{Mark, Stack, StackPart, stacked};

/// The maximum number of bins one picture holds; more are not distinguishable on paper.
pub const MAX_BINS: usize = 4096;

/// The maximum number of lanes one picture holds.
pub const MAX_LANES: usize = 64;

/// One picture: lanes that share a time axis.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Timeline {
    /// The headline; cut with an ellipsis if it is too long for the page.
    pub title: String,
    /// A smaller line below the headline; may be empty.
    pub subtitle: String,
    /// When the first bin begins, in microseconds since the Unix epoch.
    ///
    /// A start within the first year after the epoch is taken to be a synthetic trace: its axis
    /// counts from zero (`0:58.5`). A later one is labelled with the hour and date in UTC.
    pub start_us: u64,
    /// The width of a bin in microseconds. At least 1, unless the lanes hold no bins.
    pub bin_us: u64,
    /// True if each lane has a scale of its own, as rules with different limits need; by default all share one, so that
    /// lanes over the same requests can be compared.
    pub own_scales: bool,
    /// The lanes from top to bottom, at most [`MAX_LANES`].
    pub lanes: Vec<Lane>,
}

/// One strip of a picture: the results of one algorithm or one rule.
///
/// All series of all lanes hold one count per bin, at most [`MAX_BINS`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lane {
    /// The name of the algorithm or rule.
    pub title: String,
    /// A remark, written small next to the title; may be empty.
    pub note: String,
    /// Requests admitted, by the bin they arrived in.
    pub admitted: Vec<u64>,
    /// Requests refused, by the bin they arrived in; drawn on top of the admitted ones.
    pub refused: Vec<u64>,
    /// True if the rule is in shadow mode, so that it would have refused: these requests are hatched.
    pub is_shadow: bool,
    /// Departures by the bin they leave in, drawn as a line: for a shaping queue, which admits now
    /// and releases later. `None` where requests leave when they arrive.
    pub leaves: Option<Vec<u64>>,
}

/// Draws `timeline` as one SVG document.
///
/// A timeline without bins (an empty trace) is drawn as a page with a note. A count above zero is at least a pixel high,
/// so that a single request still shows next to a million. Where the reader prefers dark pages, the colours are dark.
///
/// # Errors
///
/// Returns a [`PlotError`] if the series differ in length, the bin is zero wide, there are more
/// lanes or bins than a picture holds, or the last bin would end after the last possible
/// microsecond.
///
/// # Examples
///
/// ```
/// use tidegate_lab::plot::{Bins, Lane, TARGET_BINS, Timeline, svg};
///
/// let arrivals = [58_500_000, 59_200_000, 60_100_000];
/// let bins = Bins::cover(58_500_000, 60_100_000, TARGET_BINS);
/// let lane = Lane {
///     title: "sliding_log".into(),
///     note: "admitted 2, refused 1".into(),
///     admitted: bins.tally(arrivals[..2].iter().copied()),
///     refused: bins.tally(arrivals[2..].iter().copied()),
///     ..Lane::default()
/// };
/// let picture = svg(&Timeline {
///     title: "2 per minute".into(),
///     subtitle: String::new(),
///     start_us: bins.start_us,
///     bin_us: bins.bin_us,
///     own_scales: false,
///     lanes: vec![lane],
/// })?;
/// assert!(picture.starts_with("<svg"));
/// # Ok::<(), tidegate_lab::plot::PlotError>(())
/// ```
pub fn svg(timeline: &Timeline) -> Result<String, PlotError> {
    let extent = error::check(timeline)?;
    page::page(timeline, extent)
}
