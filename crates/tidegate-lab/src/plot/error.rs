//! The errors of a timeline, found before anything is drawn.
//!
//! `svg` and `stacked` check a picture first, so that all drawing relies on series of one length and a last bin that
//! ends in time.

use std::error::Error;
use std::fmt;

use super::{Lane, MAX_BINS, MAX_LANES, Timeline};

/// Why a timeline cannot be drawn.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum PlotError {
    /// A series is longer or shorter than the first lane's `admitted`.
    Length {
        /// Index of the lane, from 0.
        lane: usize,
        /// Title of the lane.
        title: String,
        /// Name of the series: `admitted`, `refused` or `leaves`.
        series: &'static str,
        /// The number of its bins.
        found: usize,
        /// The number of values of the first lane's `admitted`.
        expected: usize,
    },
    /// There are bins, and `bin_us` is 0.
    ZeroBin,
    /// More than [`MAX_BINS`] bins.
    TooManyBins {
        /// Their number.
        found: usize,
    },
    /// More than [`MAX_LANES`] lanes.
    TooManyLanes {
        /// Their number.
        found: usize,
    },
    /// The plotting library failed; no timeline is known to cause that.
    Drawing {
        /// Its message.
        reason: String,
    },
    /// The end of the last bin does not fit in 64 bits of microseconds.
    EndOfTime {
        /// When the first bin begins.
        start_us: u64,
        /// The width of a bin.
        bin_us: u64,
        /// The number of bins.
        bins: usize,
    },
}

impl fmt::Display for PlotError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Length { lane, title, series, found, expected } => write!(
                f,
                "lane {lane} ({title:?}): `{series}` has {found} bins, expected {expected} as in \
                 `admitted` of the first lane; give every series one count per bin"
            ),
            Self::ZeroBin => write!(f, "bin_us is 0; give a bin of at least 1 us"),
            Self::TooManyBins { found } => write!(
                f,
                "{found} bins, expected at most {MAX_BINS}; choose a wider bin with `bin_width`"
            ),
            Self::TooManyLanes { found } => {
                write!(f, "{found} lanes, expected at most {MAX_LANES}; draw fewer at a time")
            }
            Self::Drawing { reason } => write!(f, "the picture could not be drawn: {reason}"),
            Self::EndOfTime { start_us, bin_us, bins } => write!(
                f,
                "{bins} bins of {bin_us} us from {start_us} us end after the last time that fits \
                 in 64 bits; check the units of start_us and bin_us (microseconds)"
            ),
        }
    }
}

tidegate::debug_as_display!(PlotError);

impl From<Box<dyn Error>> for PlotError {
    fn from(error: Box<dyn Error>) -> Self {
        Self::Drawing { reason: error.to_string() }
    }
}

impl Error for PlotError {}

/// The checked span of time of a picture. `bins` is 0 for an empty trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Extent {
    pub(super) start_us: u64,
    pub(super) end_us: u64,
    pub(super) bins: usize,
}

impl Extent {
    pub(super) fn bin_us(self) -> u64 {
        (self.end_us - self.start_us) / self.bins.max(1) as u64
    }
}

/// Checks everything that drawing relies on.
pub(super) fn check(timeline: &Timeline) -> Result<Extent, PlotError> {
    let Timeline { start_us, bin_us, ref lanes, .. } = *timeline;
    let bins = lanes.first().map_or(0, |lane| lane.admitted.len());
    if lanes.len() > MAX_LANES {
        return Err(PlotError::TooManyLanes { found: lanes.len() });
    }
    for (index, lane) in lanes.iter().enumerate() {
        check_lane(index, lane, bins)?;
    }
    if bins > MAX_BINS {
        return Err(PlotError::TooManyBins { found: bins });
    }
    if bins > 0 && bin_us == 0 {
        return Err(PlotError::ZeroBin);
    }
    let span_us = bin_us.checked_mul(bins as u64);
    let end_us = span_us.and_then(|span_us| start_us.checked_add(span_us));
    let extent = end_us.map(|end_us| Extent { start_us, end_us, bins });
    extent.ok_or(PlotError::EndOfTime { start_us, bin_us, bins })
}

fn check_lane(index: usize, lane: &Lane, expected: usize) -> Result<(), PlotError> {
    let leaves = lane.leaves.as_ref().map_or(expected, Vec::len);
    let lengths =
        [("admitted", lane.admitted.len()), ("refused", lane.refused.len()), ("leaves", leaves)];
    match lengths.into_iter().find(|(_, found)| *found != expected) {
        None => Ok(()),
        Some((series, found)) => {
            let title = lane.title.clone();
            Err(PlotError::Length { lane: index, title, series, found, expected })
        }
    }
}
