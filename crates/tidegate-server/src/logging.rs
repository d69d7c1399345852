//! Structured logs on standard error, one line for each event. Logging never waits for a reader. `cli/serve.rs` begins the
//! log; a line passes the level, the limit on its source line ([`Often`]) and the queue.

mod often;
mod queue;

use std::io::stderr;

use clap::ValueEnum;
use tidegate::{SystemClock, printable};
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::FilterExt;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::{Layer, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{Registry, registry, reload};

use crate::failure::Failure;
pub(crate) use often::AUDIT;
use often::Often;
use queue::{Escape, LogQueue};

/// The format of a line.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum LineFormat {
    /// For people.
    Text,
    /// For machines: one JSON object per line.
    Json,
}

impl LineFormat {
    fn escape(self) -> Escape {
        match self {
            Self::Text => printable::line,
            Self::Json => printable::json,
        }
    }
}

/// The least severe event that is logged.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum LogLevel {
    /// Nothing.
    Off,
    /// Failures.
    Error,
    /// Events that an operator should look at.
    Warn,
    /// Start, stop, and changes of the store.
    Info,
    /// Every decision as well, with its domain and rule.
    Debug,
    /// Everything, also the entries of requests, which name callers.
    Trace,
}

impl From<LogLevel> for LevelFilter {
    fn from(level: LogLevel) -> Self {
        match level {
            LogLevel::Off => Self::OFF,
            LogLevel::Error => Self::ERROR,
            LogLevel::Warn => Self::WARN,
            LogLevel::Info => Self::INFO,
            LogLevel::Debug => Self::DEBUG,
            LogLevel::Trace => Self::TRACE,
        }
    }
}

/// Changes the level while the log runs; copies change the same log.
#[derive(Clone, Debug, Default)]
pub(crate) struct LevelSwitch(Option<reload::Handle<Targets, Registry>>);

impl LevelSwitch {
    pub(crate) fn set(&self, level: LogLevel) {
        // It fails only when the process ends.
        let _ = self.0.as_ref().map(|handle| handle.reload(targets(level)));
    }
}

/// Logs dependencies from `error` upward, at `debug` from `warn`, at `trace` all of them.
fn targets(level: LogLevel) -> Targets {
    let ours = LevelFilter::from(level);
    let theirs = match level {
        LogLevel::Trace => ours,
        LogLevel::Debug => LevelFilter::WARN,
        // `off` is below `error`, and is for dependencies, too.
        _ => ours.min(LevelFilter::ERROR),
    };
    Targets::new().with_target("tidegate", ours).with_default(theirs)
}

/// The log of this process. Dropping it waits for the last lines to be written, a second at most.
#[derive(Debug)]
pub(crate) struct Log {
    queue: LogQueue,
    often: Often,
    pub(crate) level: LevelSwitch,
    format: LineFormat,
}

impl Log {
    /// Starts logging, including panics.
    ///
    /// # Errors
    /// Returns an error if the thread of the log cannot be started.
    pub(crate) fn begin(format: LineFormat, level: LogLevel) -> Result<Self, Failure> {
        let (targets, switch) = reload::Layer::new(targets(level));
        let queue = LogQueue::to(stderr(), format.escape(), tell_of_dropped).map_err(|error| {
            Failure::new(format!("cannot start the thread of the log: {error}"))
        })?;
        let often = Often::by(SystemClock::new());
        // A line that cannot be written is dropped: a message about it on the same stream would
        // panic.
        let lines = tracing_subscriber::fmt::layer()
            .with_writer(queue.clone())
            .with_ansi(false)
            .log_internal_errors(false);
        let lines = match format {
            LineFormat::Text => lines.boxed(),
            LineFormat::Json => lines.json().flatten_event(true).boxed(),
        };
        registry().with(lines.with_filter(targets.and(often.clone()))).init();
        std::panic::set_hook(Box::new(|panic| tracing::error!(%panic, "a task panicked")));
        Ok(Self { queue, often, level: LevelSwitch(Some(switch)), format })
    }

    /// Logs how many events of each kind were withheld since the last call.
    pub(crate) fn log_withheld(&self) {
        for (place, times) in self.often.withheld() {
            tracing::warn!(place, times, "an event came too often to be logged each time");
        }
    }

    /// Writes the message of a failure: as it is for people, as an event for machines.
    pub(crate) fn write_failure(&self, message: &str) {
        match self.format {
            LineFormat::Text => self.queue.put(format!("{message}\n").into_bytes().into()),
            LineFormat::Json => tracing::error!("{message}"),
        }
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        self.queue.flush();
    }
}

fn tell_of_dropped(since: u64, in_all: u64) {
    tracing::warn!(
        lines = since,
        in_all,
        "log lines were dropped: standard error was not read in time"
    );
}
