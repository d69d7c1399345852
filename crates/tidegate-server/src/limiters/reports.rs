//! Reports of callers about the requests that were admitted: outcomes, times, and how many are in flight; of rules, and
//! of resources that they name. `POST /v1/report` counts here, and `GET /v1/stats` reads; no decision depends on it.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tidegate::{
    Clock, Policy, Resources, RuleStatistics, Statistics, StatisticsOfRule, SystemClock, Timestamp,
};

/// The maximum number of resources that callers can name, of some seven kilobytes each.
const MOST_RESOURCES: usize = 1_000;
/// The maximum number of reporters of all resources and rules whose requests in flight are remembered.
const MOST_IN_FLIGHT: usize = 10_000;
/// The time for which a number of requests in flight counts after it was reported, in microseconds.
const IN_FLIGHT_US: u64 = 60_000_000;

/// The subject of a report.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Subject {
    Resource(String),
    Rule { domain: String, rule: String },
}

/// One report, checked by itself.
#[derive(Debug)]
pub(crate) struct CallerReport {
    pub(crate) subject: Subject,
    pub(crate) pass: u64,
    pub(crate) block: u64,
    pub(crate) exception: u64,
    /// The time of each request that succeeded.
    pub(crate) took: Vec<Duration>,
    pub(crate) in_flight: Option<u64>,
    /// The caller that reports the number in flight.
    pub(crate) from: String,
}

/// Why nothing of a batch of reports was counted.
#[derive(Debug)]
pub(crate) enum Unreported {
    NoSuchRule { domain: String, rule: String },
    TooManyResources,
    TooManyReporters,
}

impl fmt::Display for Unreported {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSuchRule { domain, rule } => write!(
                f,
                "no rule in force is named {rule:?} in the domain {domain:?}: GET /v1/rules lists them"
            ),
            Self::TooManyResources => write!(
                f,
                "{MOST_RESOURCES} resources have been named since the start, as many as may be: name parts of a \
                 program, not callers"
            ),
            Self::TooManyReporters => write!(
                f,
                "{MOST_IN_FLIGHT} reporters have told what is in flight within a minute, as many as may be"
            ),
        }
    }
}

/// The numbers in flight: of each subject, by reporter, with the time of the report.
type InFlightByReporter = BTreeMap<Subject, BTreeMap<String, (u64, Timestamp)>>;

/// All that callers have reported.
#[derive(Debug)]
pub(crate) struct CallerReports {
    clock: SystemClock,
    resources: Resources,
    in_flight: Mutex<InFlightByReporter>,
}

impl Default for CallerReports {
    fn default() -> Self {
        let clock = SystemClock::new();
        let resources = Resources::with_clock(MOST_RESOURCES, clock.clone());
        Self { clock, resources, in_flight: Mutex::default() }
    }
}

impl CallerReports {
    /// Counts all reports of a batch, or none. A resource that a refused batch named first stays known.
    ///
    /// # Errors
    /// Returns why none was counted.
    pub(crate) fn count(
        &self,
        reports: Vec<CallerReport>,
        policy: &Policy,
        rules: &RuleStatistics,
    ) -> Result<(), Unreported> {
        let has_rule = reports.iter().any(|report| matches!(report.subject, Subject::Rule { .. }));
        // The statistics of rules are looked up only if a report names a rule.
        let policy = if has_rule { policy.rules() } else { &[] };
        let names = policy.iter().map(|rule| (rule.domain(), rule.name()));
        let of_rules: HashMap<_, _> = names.zip(rules.of(policy)).collect();
        // All subjects are found before any is counted, so that a mistake in the last counts nothing.
        let found = reports.iter().map(|report| self.find(&report.subject, &of_rules));
        let found = found.collect::<Result<Vec<_>, _>>()?;
        let at = self.clock.now();
        // From here on nothing can fail but the lack of space, which is seen before anything is counted.
        let mut in_flight = self.in_flight.lock().unwrap_or_else(PoisonError::into_inner);
        make_space(&mut in_flight, &reports, at)?;
        for (report, of) in reports.into_iter().zip(found) {
            report.count(of.windows(), at);
            if let Some(number) = report.in_flight {
                in_flight.entry(report.subject).or_default().insert(report.from, (number, at));
            }
        }
        Ok(())
    }

    /// The statistics of a subject; a resource that is new is added.
    fn find(
        &self,
        subject: &Subject,
        of_rules: &HashMap<(&str, &str), StatisticsOfRule>,
    ) -> Result<ReportedStatistics, Unreported> {
        match subject {
            Subject::Resource(name) => {
                let named = self.resources.named(name);
                named.map(ReportedStatistics::Resource).map_err(|_| Unreported::TooManyResources)
            }
            Subject::Rule { domain, rule } => {
                let of_rule = of_rules.get(&(domain.as_str(), rule.as_str())).cloned();
                of_rule.map(ReportedStatistics::Rule).ok_or_else(|| Unreported::NoSuchRule {
                    domain: domain.clone(),
                    rule: rule.clone(),
                })
            }
        }
    }

    /// All resources by name.
    pub(crate) fn resources(&self) -> Vec<(Arc<str>, Arc<Statistics>)> {
        self.resources.all()
    }

    /// The sum of what reporters have in flight, of each subject that has some.
    pub(crate) fn in_flight(&self) -> BTreeMap<Subject, u64> {
        let mut in_flight = self.in_flight.lock().unwrap_or_else(PoisonError::into_inner);
        // A reporter that went away must not count for ever.
        drop_old(&mut in_flight, self.clock.now());
        let mut sums = BTreeMap::new();
        for (subject, reporters) in &*in_flight {
            let numbers = reporters.values().map(|(number, _)| *number);
            sums.insert(subject.clone(), numbers.fold(0, u64::saturating_add));
        }
        sums
    }
}

/// The statistics in which a report is counted.
enum ReportedStatistics {
    Resource(Arc<Statistics>),
    Rule(StatisticsOfRule),
}

impl ReportedStatistics {
    fn windows(&self) -> &Statistics {
        match self {
            Self::Resource(of) => of,
            Self::Rule(of) => of.windows(),
        }
    }
}

impl CallerReport {
    fn count(&self, of: &Statistics, at: Timestamp) {
        if self.pass > 0 {
            of.pass_at(self.pass, at);
        }
        if self.block > 0 {
            of.block_at(self.block, at);
        }
        if self.exception > 0 {
            of.exception_at(self.exception, at);
        }
        for took in &self.took {
            of.success_at(*took, at);
        }
    }
}

/// Makes sure that the numbers of these reports fit, if need be without old numbers.
fn make_space(
    in_flight: &mut InFlightByReporter,
    reports: &[CallerReport],
    now: Timestamp,
) -> Result<(), Unreported> {
    if fit(in_flight, reports) {
        return Ok(());
    }
    drop_old(in_flight, now);
    // They are counted again, because a reporter that was dropped may be one of them.
    if fit(in_flight, reports) { Ok(()) } else { Err(Unreported::TooManyReporters) }
}

fn fit(in_flight: &InFlightByReporter, reports: &[CallerReport]) -> bool {
    let new = reports.iter().filter(|report| {
        let known = in_flight.get(&report.subject);
        report.in_flight.is_some() && known.is_none_or(|one| !one.contains_key(&report.from))
    });
    let added = new.count();
    added == 0 || in_flight.values().map(BTreeMap::len).sum::<usize>() + added <= MOST_IN_FLIGHT
}

/// Drops numbers that are 0 or were reported too long ago.
fn drop_old(in_flight: &mut InFlightByReporter, now: Timestamp) {
    in_flight.retain(|_, reporters| {
        reporters.retain(|_, (number, at)| {
            *number > 0 && now.as_micros().saturating_sub(at.as_micros()) < IN_FLIGHT_US
        });
        !reporters.is_empty()
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tells(from: usize, number: u64) -> CallerReport {
        CallerReport {
            subject: Subject::Resource("a".to_owned()),
            pass: 0,
            block: 0,
            exception: 0,
            took: Vec::new(),
            in_flight: Some(number),
            from: from.to_string(),
        }
    }

    #[test]
    fn reporters_are_bounded_and_those_that_are_quiet_make_space() {
        let mut in_flight = InFlightByReporter::new();
        let at = |s: u64| Timestamp::from_micros(s * 1_000_000);
        let mut message = |from: usize, now: u64| {
            make_space(&mut in_flight, &[tells(from, 1)], at(now))?;
            let reporters = in_flight.entry(Subject::Resource("a".to_owned())).or_default();
            reporters.insert(from.to_string(), (1, at(now)));
            Ok::<_, Unreported>(())
        };
        assert!((0..MOST_IN_FLIGHT).all(|from| message(from, 100).is_ok()));
        assert!(message(MOST_IN_FLIGHT, 159).is_err());
        assert!(message(7, 159).is_ok(), "its last number is replaced");
        assert!(message(MOST_IN_FLIGHT, 160).is_ok());
        assert_eq!(in_flight.values().map(BTreeMap::len).sum::<usize>(), 2);
    }

    #[test]
    fn a_reporter_that_is_dropped_for_space_counts_again_when_it_comes_back() {
        let mut in_flight = InFlightByReporter::new();
        let at = |s: u64| Timestamp::from_micros(s * 1_000_000);
        let reporters = in_flight.entry(Subject::Resource("a".to_owned())).or_default();
        reporters.insert("0".to_owned(), (1, at(100)));
        reporters.extend((1..MOST_IN_FLIGHT).map(|from| (from.to_string(), (1, at(200)))));
        // The first reporter is dropped, and comes back in the same batch as a new reporter.
        let batch = [tells(0, 1), tells(MOST_IN_FLIGHT, 1)];
        assert!(make_space(&mut in_flight, &batch, at(201)).is_err());
    }
}
