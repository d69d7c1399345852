//! The command `overload`: more load than a shared store decides in time, and what holds then.

pub mod cases;
mod polite;

use crate::harness::{Case, Entry, Options, Sample, least_above};
use crate::redis_server::{Did, RedisServer};
use crate::server::load::{self, Answered};
use crate::server::running::{self, Server};
use crate::table::{Column, median_of};
use cases::{Load, Scenario, Setting};
use polite::Polite;
use std::thread;
use std::time::Duration;

const RULES: &str = include_str!("rules.toml");
/// The time for which polite callers ask before the load begins.
const BEFORE: Duration = Duration::from_millis(500);
const COLUMNS: &[Column] = &[
    median_of("over", "over", 0),
    median_of("polite_over", "polite over", 0),
    median_of("polite_exact", "polite exact, %", 1),
    median_of("polite_p99_ms", "polite p99 ms", 2),
    median_of("exact_per_s", "exact/s", 0),
    median_of("least_share", "least server, %", 1),
    median_of("local_per_s", "local/s", 0),
    median_of("shed_per_s", "shed/s", 0),
    median_of("exact_p50_ms", "exact p50 ms", 2),
    median_of("exact_p99_ms", "exact p99 ms", 2),
    median_of("other_p50_ms", "local or shed p50 ms", 2),
    median_of("other_p99_ms", "local or shed p99 ms", 2),
    median_of("until_exact_ms", "until exact ms", 1),
    median_of("unanswered", "unanswered", 0),
    median_of("scripts_per_s", "scripts/s", 0),
    median_of("store_cpu_us", "store CPU us", 2),
];

/// The counting of limits that many callers ask for. All modes admit just their units in less than a window.
#[derive(Clone, Copy, Debug, Default, clap::ValueEnum)]
pub enum Mode {
    /// The store decides each request.
    #[default]
    Exact,
    /// Servers lease units.
    Leased,
    /// Servers hold shares of the limits.
    Split,
}

impl Mode {
    /// The fields of the rules.
    const fn fields(self) -> &'static str {
        match self {
            Self::Exact => "algorithm = \"sliding_log\"",
            Self::Leased => "algorithm = \"sliding_window\"\nstrict = true\nlease = \"auto\"",
            Self::Split => "algorithm = \"sliding_window\"\nstrict = true\nsplit = true",
        }
    }
}

/// A case for each scenario and load. Limits in memory are measured at one server.
pub fn cases(options: &'static Options) -> Vec<Case> {
    let mut all = Vec::new();
    for scenario in Scenario::ALL {
        for load in Load::ALL {
            let mut subjects = Vec::new();
            for servers in [1, 4] {
                let settings = Setting::ALL.into_iter();
                for setting in settings.filter(|one| *one != Setting::Memory || servers == 1) {
                    let row = Row { scenario, load, servers, setting };
                    let name = format!("{servers} servers/{setting}");
                    subjects.push(Entry::each(name, move |length| row.measure(options, length)));
                }
            }
            let case = Case::once(format!("{scenario}/{load}"), COLUMNS, subjects);
            all.push(Case { length: Duration::from_secs(10), ..case });
        }
    }
    all
}

/// One row of the measurements.
#[derive(Clone, Copy, Debug)]
struct Row {
    scenario: Scenario,
    load: Load,
    servers: usize,
    setting: Setting,
}

impl Row {
    /// Servers of its own, polite callers, and then the load next to them.
    fn measure(self, options: &Options, length: Duration) -> Result<Sample, String> {
        let tidegate = running::tidegate(options)?;
        let store = (self.setting != Setting::Memory).then(RedisServer::start).transpose()?;
        let rules = RULES.replace("SETTING", self.setting.word());
        let rules = rules.replace("COUNTED", options.mode.fields());
        let start = |_| Server::start(&tidegate, &rules, &running::ALL, store.as_ref());
        let servers = (0..self.servers).map(start).collect::<Result<Vec<_>, _>>()?;
        let listener = self.load.listener;
        let at = servers.iter().map(|server| server.at(listener.option()));
        let at = at.collect::<Result<Vec<_>, _>>()?;
        let polite = Polite::begin(listener, &at)?;
        thread::sleep(BEFORE);
        let before = did(store.as_ref())?;
        let answered = load::run(&cases::asks(self.scenario, self.load), &at, length)?;
        let stopped = answered.stopped.ok_or("the load never stopped")?;
        let did = did(store.as_ref())?.since(before);
        Ok(self.values(length, answered, polite.end(stopped)?, did))
    }

    /// The values of the callers' and the store's results.
    fn values(
        self,
        length: Duration,
        mut answered: Answered,
        mut polite: polite::Answered,
        did: Did,
    ) -> Sample {
        let per_s = |count: usize| (count as f64 / length.as_secs_f64()).round();
        let exact: u64 = answered.exact_by_server.iter().sum();
        let least = answered.exact_by_server.iter().min().copied().unwrap_or_default();
        let [exact_p50_ms, exact_p99_ms] = percentiles(&mut answered.exact_us);
        let [other_p50_ms, other_p99_ms] = percentiles(&mut answered.other_us);
        let other = per_s(answered.other_us.len());
        let is_shed = self.setting == Setting::Closed;
        vec![
            ("over", self.scenario.over(&answered.admitted) as f64),
            ("polite_over", polite.over as f64),
            ("polite_exact", 100.0 * polite.exact as f64 / polite.asked.max(1) as f64),
            ("polite_p99_ms", percentiles(&mut polite.us)[1]),
            ("exact_per_s", per_s(answered.exact_us.len())),
            ("least_share", 100.0 * (least * self.servers as u64) as f64 / exact.max(1) as f64),
            ("local_per_s", if is_shed { 0.0 } else { other }),
            ("shed_per_s", if is_shed { other } else { 0.0 }),
            ("exact_p50_ms", exact_p50_ms),
            ("exact_p99_ms", exact_p99_ms),
            ("other_p50_ms", other_p50_ms),
            ("other_p99_ms", other_p99_ms),
            ("until_exact_ms", polite.until_exact.as_secs_f64() * 1e3),
            ("unanswered", answered.unanswered as f64),
            ("scripts_per_s", per_s(did.scripts as usize)),
            ("store_cpu_us", did.cpu_us as f64 / exact.max(1) as f64),
        ]
    }
}

/// The work of a store so far; none where there is no store.
fn did(store: Option<&RedisServer>) -> Result<Did, String> {
    store.map_or_else(|| Ok(Did::default()), RedisServer::did)
}

/// Half of them, and 99 of 100, in milliseconds; 0 where there is none.
fn percentiles(us: &mut [u32]) -> [f64; 2] {
    us.sort_unstable();
    [0.5, 0.99].map(|share| least_above(us, share) / 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_says_what_was_over_and_who_decided() {
        let load = Load::ALL[0];
        let (scenario, setting) = (Scenario::OneKey, Setting::Local);
        let row = Row { scenario, load, servers: 4, setting };
        let answered = || Answered {
            admitted: vec![505],
            exact_us: vec![7_000; 300],
            other_us: vec![9_000; 100],
            exact_by_server: vec![100, 100, 60, 40],
            ..Answered::default()
        };
        let polite = || polite::Answered { asked: 10, exact: 9, ..polite::Answered::default() };
        let did = Did { scripts: 20, cpu_us: 600, network_bytes: 0 };
        let values = row.values(Duration::from_secs(10), answered(), polite(), did);
        for (name, expected) in [
            ("over", 5.0),
            ("polite_exact", 90.0),
            ("exact_per_s", 30.0),
            ("local_per_s", 10.0),
            ("shed_per_s", 0.0),
            ("exact_p99_ms", 7.0),
            ("other_p50_ms", 9.0),
            ("scripts_per_s", 2.0),
            ("store_cpu_us", 2.0),
        ] {
            assert!(values.contains(&(name, expected)), "{name}: {values:?}");
        }
        let closed = Row { setting: Setting::Closed, ..row };
        let values = closed.values(Duration::from_secs(10), answered(), polite(), did);
        assert!(values.contains(&("shed_per_s", 10.0)), "{values:?}");
    }
}
