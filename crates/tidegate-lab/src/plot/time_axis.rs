//! The time axis: its ticks and their labels.
//!
//! A real log is labelled in UTC. A synthetic trace counts from zero.

use jiff::Timestamp;
use jiff::tz::TimeZone;

use super::bins::{DAY, HOUR, MINUTE, SECOND, round_durations};
use super::error::Extent;

/// A trace that begins before this (one year after the epoch) counts from zero.
const SYNTHETIC_BEFORE_US: u64 = 365 * DAY;

/// Room between two labels, and the smallest distance between two ticks, in pixels.
const LABELS_APART: i32 = 24;
const TICKS_APART: i32 = 60;

/// The labels of a picture's span of time.
#[derive(Clone, Copy, Debug)]
pub(super) struct TimeAxis {
    extent: Extent,
    step_us: u64,
    /// True if labels follow the calendar instead of counting from zero; never past the calendar's
    /// last year.
    wall: bool,
}

impl TimeAxis {
    /// The axis with the finest round step whose labels stay apart on `width` pixels.
    pub(super) fn of(extent: Extent, width: i32, label_width: impl Fn(&str) -> i32) -> Self {
        let wall = extent.start_us >= SYNTHETIC_BEFORE_US && calendar(extent.end_us).is_some();
        let mut axes = round_durations().map(|step_us| Self { extent, step_us, wall });
        let finest = axes.find(|axis| axis.labels_fit(width, &label_width));
        finest.unwrap_or(Self { extent, step_us: u64::MAX, wall })
    }

    /// Returns whether labels stay apart; the first and the last tick stand for all widths.
    fn labels_fit(&self, width: i32, label_width: impl Fn(&str) -> i32) -> bool {
        let Extent { start_us, end_us, .. } = self.extent;
        let ends = [start_us, end_us].map(|at_us| at_us / self.step_us * self.step_us);
        let widths = ends.map(|at_us| label_width(&self.label(at_us)));
        let apart = (widths[0].max(widths[1]) + LABELS_APART).max(TICKS_APART);
        self.step_us as f64 / (end_us - start_us) as f64 * f64::from(width) >= f64::from(apart)
    }

    /// The ticks in order, in microseconds after the start.
    pub(super) fn ticks(&self) -> Vec<u64> {
        let Extent { start_us, end_us, .. } = self.extent;
        let multiples = start_us.div_ceil(self.step_us)..=end_us / self.step_us;
        multiples.map(|i| i * self.step_us - start_us).collect()
    }

    /// The title of the axis: the date of a real log, or the unit of a synthetic trace.
    pub(super) fn title(&self) -> String {
        let first_us = self.extent.start_us;
        // The end is no part of the last bin: a picture that ends at midnight is of one day.
        let last_us = self.extent.end_us - 1;
        if self.wall {
            return format!("{}, UTC", date_range(first_us, last_us));
        }
        let unit = match self.extent.end_us {
            end_us if end_us < HOUR => "minutes:seconds",
            end_us if end_us < DAY && self.step_us < MINUTE => "hours:minutes:seconds",
            end_us if end_us < DAY => "hours:minutes",
            _ if first_us / DAY == last_us / DAY => {
                return format!("trace time, day {}, time of day", first_us / DAY);
            }
            _ => "days",
        };
        format!("trace time, {unit}")
    }

    pub(super) fn label(&self, at_us: u64) -> String {
        let many_days = self.extent.start_us / DAY != (self.extent.end_us - 1) / DAY;
        // Midnight shows the date in place of the hour, so that hours of several days are told apart.
        if self.step_us >= DAY || (many_days && at_us.is_multiple_of(DAY)) {
            return self.day_label(at_us);
        }
        let seconds = format!(":%S{}", self.decimals());
        let fine = if self.step_us < MINUTE { seconds.as_str() } else { "" };
        match self.extent.end_us {
            // A real log begins a year after the epoch or later, so it comes to the last arm.
            end_us if end_us < HOUR => utc(at_us, &format!("%-M{seconds}")),
            end_us if end_us < DAY => utc(at_us, &format!("%-H:%M{fine}")),
            _ => utc(at_us % DAY, &format!("%H:%M{fine}")),
        }
    }

    fn day_label(&self, at_us: u64) -> String {
        if !self.wall {
            return format!("{} d", at_us / DAY);
        }
        let [first, last] = [self.extent.start_us, self.extent.end_us].map(|at| utc(at, "%Y"));
        utc(at_us, if first == last { "%-d %b" } else { "%-d %b %Y" })
    }

    /// As many decimals of a second as the multiples of the step need.
    fn decimals(&self) -> String {
        let mut few = 0..6;
        let enough = few.find(|kept| self.step_us.is_multiple_of(SECOND / 10_u64.pow(*kept)));
        match enough.unwrap_or(6) {
            0 => String::new(),
            kept => format!("%.{kept}f"),
        }
    }
}

/// `14 March 2025`, `12 March to 15 March 2025`, `30 December 2024 to 2 January 2025`.
fn date_range(first_us: u64, last_us: u64) -> String {
    let [first, last] = [first_us, last_us].map(|at_us| utc(at_us, "%-d %B %Y"));
    if first == last {
        return last;
    }
    let same_year = utc(first_us, "%Y") == utc(last_us, "%Y");
    let first = if same_year { utc(first_us, "%-d %B") } else { first };
    format!("{first} to {last}")
}

/// `at_us` in UTC by a strftime format; empty past the last year of the calendar.
fn utc(at_us: u64, format: &str) -> String {
    let zoned = calendar(at_us).map(|at| at.to_zoned(TimeZone::UTC));
    zoned.map(|at| at.strftime(format).to_string()).unwrap_or_default()
}

fn calendar(at_us: u64) -> Option<Timestamp> {
    Timestamp::from_microsecond(i64::try_from(at_us).ok()?).ok()
}
