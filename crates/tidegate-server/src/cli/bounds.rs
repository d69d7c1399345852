//! The bounds of the listeners, and the time to close them, by flags of `serve` and fields of `[server]`; `cli/serve.rs`
//! passes them on.

use std::fmt::Display;
use std::num::NonZeroUsize;
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::thread;
use std::time::Duration;

use tidegate::config::{parse_duration, parse_size};

use crate::listener::Bounds;

/// The shortest and the longest time to close the listeners.
const DRAIN: RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_secs(600);

/// The smallest and the largest memory of reservations, and of records.
const MEMORY: RangeInclusive<u64> = 64 << 10..=1 << 40;

/// The options of `serve`.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Bounds")]
#[group(skip)]
pub(super) struct BoundsArgs {
    /// Open connections of each listener, 1 to 1000000, by default 10000; fewer if the process may not open as many
    /// files. More wait in the queue of the system
    #[arg(long, value_name = "N", env = "TIDEGATE_MAX_CONNECTIONS", allow_negative_numbers = true, value_parser = connections, hide_short_help = true)]
    max_connections: Option<u32>,

    /// Threads that answer over HTTP and RESP, 1 to 1024; by default half the number of cores,
    /// because clients and the network need the other half
    #[arg(long, value_name = "N", env = "TIDEGATE_THREADS", allow_negative_numbers = true, value_parser = some_threads, hide_short_help = true)]
    threads: Option<u16>,

    /// Threads that answer over gRPC, 1 to 1024; by default the number of cores, because a call
    /// takes several times as long as over HTTP or RESP
    #[arg(long, value_name = "N", env = "TIDEGATE_GRPC_THREADS", allow_negative_numbers = true, value_parser = some_threads, hide_short_help = true)]
    pub(super) grpc_threads: Option<u16>,

    /// Time for requests under way after the process is asked to stop, "100ms" to "10m"; those that
    /// still wait for a limiter near its end are refused
    #[arg(long, value_name = "TIME", env = "TIDEGATE_DRAIN", default_value = "8s", value_parser = drain, hide_short_help = true)]
    drain: Duration,

    /// Memory of the reservations that are not settled, "64KiB" to "1TiB"; without room for one
    /// more a reserve is refused
    #[arg(long, value_name = "SIZE", env = "TIDEGATE_RESERVATION_MEMORY", default_value = "64MiB", value_parser = memory, hide_short_help = true)]
    pub(super) reservation_memory: usize,
    /// Keys that GET /v1/top counts at a time, 0 to 100000, by refusals and by requests; 0 counts none
    #[arg(long, value_name = "N", env = "TIDEGATE_TOP_KEYS", default_value = "1000", allow_negative_numbers = true, value_parser = top_keys, hide_short_help = true)]
    pub(super) top_keys: u32,
}

impl BoundsArgs {
    /// Threads that answer over HTTP and RESP.
    pub(super) fn threads(&self) -> usize {
        self.threads.map_or_else(|| half_of(cores()), usize::from)
    }

    /// Threads that answer over gRPC.
    pub(super) fn grpc_threads(&self) -> usize {
        self.grpc_threads.map_or_else(|| cores().get(), usize::from)
    }

    /// The bounds of each listener.
    pub(super) fn of_listener(&self) -> Bounds {
        let usual = Bounds::default();
        let connections = self.max_connections.unwrap_or(usual.connections);
        Bounds { connections, drain: self.drain, ..usual }
    }
}

fn cores() -> NonZeroUsize {
    thread::available_parallelism().unwrap_or(NonZeroUsize::MIN)
}

/// Half the cores, but at least one.
const fn half_of(cores: NonZeroUsize) -> usize {
    cores.get().div_ceil(2)
}

fn drain(text: &str) -> Result<Duration, String> {
    within(text, &DRAIN, "expected a time from \"100ms\" to \"10m\"")
}

/// Reads a length of time in a range.
pub(super) fn within(
    text: &str,
    range: &RangeInclusive<Duration>,
    expected: &str,
) -> Result<Duration, String> {
    let time = parse_duration(text).map_err(|error| error.to_string())?;
    if range.contains(&time) { Ok(time) } else { Err(expected.to_owned()) }
}

pub(super) fn memory(text: &str) -> Result<usize, String> {
    let bytes = parse_size(text).map_err(|error| error.to_string())?;
    let bytes = usize::try_from(bytes).ok().filter(|bytes| MEMORY.contains(&(*bytes as u64)));
    bytes.ok_or_else(|| "expected a size from \"64KiB\" to \"1TiB\"".to_owned())
}

fn connections(text: &str) -> Result<u32, String> {
    number(text, 1..=1_000_000)
}

fn top_keys(text: &str) -> Result<u32, String> {
    number(text, 0..=100_000)
}

pub(super) fn one_in(text: &str) -> Result<u32, String> {
    number(text, 1..=1_000_000)
}

fn some_threads(text: &str) -> Result<u16, String> {
    number(text, 1..=1024)
}

fn number<N>(text: &str, expected: RangeInclusive<N>) -> Result<N, String>
where
    N: FromStr + PartialOrd + Display,
{
    text.parse().ok().filter(|number| expected.contains(number)).ok_or_else(|| {
        format!("expected a whole number from {} to {}", expected.start(), expected.end())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_the_cores_is_one_at_least() {
        let halves = [1, 2, 3, 8].map(|cores| half_of(NonZeroUsize::new(cores).unwrap()));
        assert_eq!(halves, [1, 1, 2, 4]);
    }

    #[test]
    fn a_size_that_holds_nothing_is_refused() {
        assert_eq!(memory("64KiB"), Ok(64 << 10));
        for wrong in ["63KiB", "0B", "2TiB", "64", "much"] {
            assert!(memory(wrong).unwrap_err().contains("expected"), "{wrong}");
        }
    }

    #[test]
    fn a_time_that_is_too_long_or_none_is_refused() {
        assert_eq!(drain("100ms"), Ok(Duration::from_millis(100)));
        assert_eq!(drain("10m"), Ok(Duration::from_secs(600)));
        for wrong in ["99ms", "11m", "8", "soon", ""] {
            assert!(drain(wrong).unwrap_err().contains("expected"), "{wrong}");
        }
    }
}
