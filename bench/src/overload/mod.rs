//! The command `overload`: more load than a shared store decides in time, and what holds then.

pub mod cases;

use crate::harness::{Case, Entry, Options, Sample, least_above};
use crate::redis_server::{Did, RedisServer, did};
use crate::server::asking::{Listener, Template};
use crate::server::load::{self, Answered, Asks, Pace};
use crate::server::running::{self, Server};
use crate::table::{Column, median_of};
use cases::{Load, OWN_LIMIT, Scenario, Setting};
use std::net::SocketAddr;
use std::thread;
use std::time::Duration;

const RULES: &str = include_str!("rules.toml");
/// The number of polite callers; each server has at least one connection of theirs.
const POLITE: usize = 4;
/// The time for which polite callers ask before the load begins, and after it.
const BEFORE: Duration = Duration::from_millis(500);
const AFTER: Duration = Duration::from_secs(1);
/// Their requests a second while there is load, and after it.
const SELDOM: f64 = 40.0;
const OFTEN: f64 = 2_000.0;
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
        thread::scope(|scope| {
            let polite = scope.spawn(|| {
                let during = politely(listener, &at, SELDOM, BEFORE + length)?;
                Ok::<_, String>([during, politely(listener, &at, OFTEN, AFTER)?])
            });
            thread::sleep(BEFORE);
            let before = did(store.as_ref())?;
            let answered = load::run(&cases::asks(self.scenario, self.load), &at, length)?;
            let did = did(store.as_ref())?.since(before);
            let polite = polite.join().map_err(|_| "a polite caller failed".to_owned())??;
            Ok(self.values(length, answered, polite, did))
        })
    }

    /// The values of the callers' and the store's results.
    fn values(
        self,
        length: Duration,
        mut answered: Answered,
        [polite, after]: [Answered; 2],
        did: Did,
    ) -> Sample {
        let per_s = |count: usize| (count as f64 / length.as_secs_f64()).round();
        let exact: u64 = answered.exact_by_server.iter().sum();
        let least = answered.exact_by_server.iter().min().copied().unwrap_or_default();
        let [exact_p50_ms, exact_p99_ms] = percentiles(&mut answered.exact_us);
        let [other_p50_ms, other_p99_ms] = percentiles(&mut answered.other_us);
        let other = per_s(answered.other_us.len());
        let is_shed = self.setting == Setting::Closed;
        let polite_over = polite.admitted.iter().zip(&after.admitted);
        let polite_over: u32 =
            polite_over.map(|(one, more)| (one + more).saturating_sub(OWN_LIMIT)).sum();
        let polite_exact = polite.exact_us.len() as f64;
        let mut polite_us = [polite.exact_us, polite.other_us].concat();
        let until_exact = after.last_other.zip(polite.stopped);
        let until_exact = until_exact.map(|(last, stopped)| last.duration_since(stopped));
        vec![
            ("over", self.scenario.over(&answered.admitted) as f64),
            ("polite_over", polite_over.into()),
            ("polite_exact", 100.0 * polite_exact / polite_us.len().max(1) as f64),
            ("polite_p99_ms", percentiles(&mut polite_us)[1]),
            ("exact_per_s", per_s(answered.exact_us.len())),
            ("least_share", 100.0 * (least * self.servers as u64) as f64 / exact.max(1) as f64),
            ("local_per_s", if is_shed { 0.0 } else { other }),
            ("shed_per_s", if is_shed { other } else { 0.0 }),
            ("exact_p50_ms", exact_p50_ms),
            ("exact_p99_ms", exact_p99_ms),
            ("other_p50_ms", other_p50_ms),
            ("other_p99_ms", other_p99_ms),
            ("until_exact_ms", until_exact.unwrap_or_default().as_secs_f64() * 1e3),
            ("unanswered", answered.unanswered as f64),
            ("scripts_per_s", per_s(did.scripts as usize)),
            ("store_cpu_us", did.cpu_us as f64 / exact.max(1) as f64),
        ]
    }
}

/// Callers who ask little next to those who ask much, each for a key of its own.
fn politely(
    listener: Listener,
    at: &[SocketAddr],
    per_s: f64,
    length: Duration,
) -> Result<Answered, String> {
    let template = Template::new(listener, "polite");
    let pace = Pace::Open { per_s };
    let asks = Asks { listener, template, callers: POLITE, connections: POLITE, pace };
    let answered = load::run(&asks, at, length)?;
    match answered.unanswered {
        0 => Ok(answered),
        lost => Err(format!("{lost} requests of polite callers were not answered")),
    }
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
        for (setting, local, shed) in [(Setting::Local, 10.0, 0.0), (Setting::Closed, 0.0, 10.0)] {
            let (scenario, load) = (Scenario::OneKey, Load::ALL[0]);
            let row = Row { scenario, load, servers: 4, setting };
            let mut answered = [(); 3].map(|()| Answered::default());
            let [all, polite, after] = &mut answered;
            all.admitted = vec![505];
            all.exact_us = vec![7_000; 300];
            all.other_us = vec![9_000; 100];
            all.exact_by_server = vec![100, 100, 60, 40];
            polite.admitted = vec![4, 6];
            polite.exact_us = vec![1_000; 9];
            polite.other_us = vec![2_000];
            polite.stopped = Some(std::time::Instant::now());
            after.admitted = vec![2, 0];
            after.last_other = polite.stopped.map(|at| at + Duration::from_millis(5));
            let did = Did { scripts: 20, cpu_us: 600, network_bytes: 0 };
            let [all, polite, after] = answered;
            let values = row.values(Duration::from_secs(10), all, [polite, after], did);
            for value in [
                ("over", 5.0),
                ("polite_over", 2.0),
                ("polite_exact", 90.0),
                ("polite_p99_ms", 2.0),
                ("until_exact_ms", 5.0),
                ("exact_per_s", 30.0),
                ("local_per_s", local),
                ("shed_per_s", shed),
                ("exact_p99_ms", 7.0),
                ("other_p50_ms", 9.0),
                ("scripts_per_s", 2.0),
                ("store_cpu_us", 2.0),
            ] {
                assert!(values.contains(&value), "{value:?}: {values:?}");
            }
        }
    }
}
