//! Structured logs on standard error, a line for each event.

use std::io::stderr;

use clap::ValueEnum;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::registry;
use tracing_subscriber::util::SubscriberInitExt;

/// How a line is written.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Format {
    /// For people.
    Text,
    /// For machines: one JSON object a line.
    Json,
}

/// The least weighty event that is written.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Level {
    /// Nothing at all.
    Off,
    /// What went wrong.
    Error,
    /// What an operator should look at.
    Warn,
    /// Starting and stopping.
    Info,
    /// Every request.
    Debug,
    /// Everything.
    Trace,
}

impl From<Level> for LevelFilter {
    fn from(level: Level) -> Self {
        match level {
            Level::Off => Self::OFF,
            Level::Error => Self::ERROR,
            Level::Warn => Self::WARN,
            Level::Info => Self::INFO,
            Level::Debug => Self::DEBUG,
            Level::Trace => Self::TRACE,
        }
    }
}

/// Begins to log, panics included. Dependencies are heard from `warn` upward, or all at `trace`.
pub(crate) fn begin(format: Format, level: Level) {
    let ours = LevelFilter::from(level);
    let theirs = match level {
        Level::Trace => ours,
        _ => ours.min(LevelFilter::WARN),
    };
    let targets = Targets::new().with_target("tidegate", ours).with_default(theirs);
    // A line that can not be written is dropped: to complain about it on the same stream would panic.
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(stderr)
        .with_ansi(false)
        .log_internal_errors(false);
    let lines = match format {
        Format::Text => lines.boxed(),
        Format::Json => lines.json().flatten_event(true).boxed(),
    };
    registry().with(lines.with_filter(targets)).init();
    std::panic::set_hook(Box::new(|panic| tracing::error!(%panic, "a task panicked")));
}
