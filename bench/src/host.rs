//! The time that the host of a virtual machine takes away, in which a core had something to do and was not given to it.

use std::collections::BTreeMap;
use std::fs;
use std::time::{Duration, Instant};

/// The time that a host took from all cores until a moment, and the moment.
#[derive(Clone, Copy, Debug)]
pub struct Stolen {
    at: Instant,
    in_all: Duration,
    cores: usize,
}

impl Stolen {
    /// As [`stolen_of_each`] tells it, all cores together.
    ///
    /// # Errors
    /// When there is no `/proc/stat`.
    pub fn now() -> Result<Self, String> {
        let each = stolen_of_each()?;
        Ok(Self { at: Instant::now(), in_all: each.values().sum(), cores: each.len() })
    }

    /// The part of the cores' time since then that was taken, from 0 to 1.
    ///
    /// # Errors
    /// When there is no `/proc/stat`.
    pub fn share_since(self) -> Result<f64, String> {
        let now = Self::now()?;
        let taken = now.in_all.saturating_sub(self.in_all).as_secs_f64();
        let had = now.at.duration_since(self.at).as_secs_f64() * self.cores as f64;
        Ok(if had > 0.0 { (taken / had).min(1.0) } else { 0.0 })
    }
}

/// The time that was stolen of each core since the system began, by the core's number: `steal` of `/proc/stat`, in steps of a
/// clock tick, which is 10 ms; 0 where no host tells it.
///
/// # Errors
/// When there is no `/proc/stat`.
pub fn stolen_of_each() -> Result<BTreeMap<usize, Duration>, String> {
    let stat = fs::read_to_string("/proc/stat");
    let stat = stat.map_err(|error| format!("cannot read /proc/stat: {error}"))?;
    Ok(per_core(&stat).collect())
}

/// The eighth figure of the lines `cpu0`, `cpu1` and so on; the line `cpu` is all of them together.
fn per_core(stat: &str) -> impl Iterator<Item = (usize, Duration)> {
    let per_second = rustix::param::clock_ticks_per_second();
    let of_line = move |line: &str| {
        let mut values = line.strip_prefix("cpu")?.split(' ');
        let core = values.next()?.parse().ok()?;
        let ticks: u64 = values.nth(7).and_then(|ticks| ticks.parse().ok()).unwrap_or(0);
        Some((core, Duration::from_secs_f64(ticks as f64 / per_second as f64)))
    };
    stat.lines().filter_map(of_line)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_core_has_a_line_and_older_systems_do_not_tell() {
        let answer = "cpu  9 9 9 9 9 9 9 300 9 9\ncpu0 1 2 3 4 5 6 7 100 0 0\ncpu3 1 2 3 4 5 6 7 200 0 0\nctxt 1\n";
        let ticks = |stat: &str| {
            let per_second = rustix::param::clock_ticks_per_second() as f64;
            per_core(stat)
                .map(|(core, stolen)| (core, (stolen.as_secs_f64() * per_second).round()))
                .collect::<Vec<_>>()
        };
        assert_eq!(ticks(answer), [(0, 100.0), (3, 200.0)]);
        assert_eq!(ticks("cpu0 1 2 3 4\nintr 7 8\n"), [(0, 0.0)]);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn no_more_is_stolen_than_there_was() {
        let began = Stolen::now().unwrap();
        let share = began.share_since().unwrap();
        assert!((0.0..=1.0).contains(&share), "{share}");
        assert!(!stolen_of_each().unwrap().is_empty());
    }
}
