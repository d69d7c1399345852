//! The time that the host of a virtual machine takes away, in which a core had something to do and was not given to it.

use crate::cores;
use std::fs;
use std::time::{Duration, Instant};

/// The time that a host took from all cores until a moment, and the moment.
#[derive(Clone, Copy, Debug)]
pub struct Stolen {
    at: Instant,
    in_all: Duration,
}

impl Stolen {
    /// `steal` of `/proc/stat`, in steps of a clock tick, which is 10 ms; 0 where no host tells it.
    ///
    /// # Errors
    /// When there is no `/proc/stat`.
    pub fn now() -> Result<Self, String> {
        let stat = fs::read_to_string("/proc/stat");
        let stat = stat.map_err(|error| format!("cannot read /proc/stat: {error}"))?;
        let seconds = ticks(&stat) as f64 / rustix::param::clock_ticks_per_second() as f64;
        Ok(Self { at: Instant::now(), in_all: Duration::from_secs_f64(seconds) })
    }

    /// The percentage of the cores' time since then that was taken.
    ///
    /// # Errors
    /// When there is no `/proc/stat`.
    pub fn percent_since(self) -> Result<f64, String> {
        let now = Self::now()?;
        let taken = now.in_all.saturating_sub(self.in_all).as_secs_f64();
        let had = now.at.duration_since(self.at).as_secs_f64() * cores::count() as f64;
        Ok(if had > 0.0 { (100.0 * taken / had).min(100.0) } else { 0.0 })
    }
}

/// The eighth number of the first line, which is of all cores together.
fn ticks(stat: &str) -> u64 {
    let line = stat.lines().next().unwrap_or_default();
    line.split_whitespace().nth(8).and_then(|ticks| ticks.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_has_all_cores_and_older_systems_do_not_tell() {
        assert_eq!(ticks("cpu  9 9 9 9 9 9 9 300 9 9\ncpu0 1 2 3 4 5 6 7 100 0 0\n"), 300);
        assert_eq!(ticks("cpu  1 2 3 4\nintr 7 8\n"), 0);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn no_more_is_stolen_than_there_was() {
        let percent = Stolen::now().unwrap().percent_since().unwrap();
        assert!((0.0..=100.0).contains(&percent), "{percent}");
    }
}
