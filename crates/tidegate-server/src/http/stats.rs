//! `GET /v1/stats` and its stream of events, at the admin listener: the statistics of rules, and of resources that
//! callers name in reports.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::Bytes;
use serde::Serialize;
use tidegate::{Clock, OutcomeCounts, RuleOutcome, Snapshot, SystemClock};
use tidegate_lab::labels;
use tokio::task::spawn_blocking;
use tokio::time::{MissedTickBehavior, interval};

use super::message::HttpResponse;
use super::table::AdmittedRequest;
use super::{answer, query};
use crate::limiters::{Limiters, Subject};
use crate::refusal::RequestRefusal;

/// The time between two events.
const EACH: Duration = Duration::from_secs(1);

/// The answer, and the data of each event.
#[derive(Serialize)]
struct Stats {
    at_us: u64,
    rules: Vec<RuleStatsJson>,
    resources: Vec<OfResource>,
}

/// The statistics of a rule.
#[derive(Serialize)]
struct RuleStatsJson {
    domain: String,
    rule: String,
    mode: &'static str,
    #[serde(flatten)]
    windows: Windows,
    /// Decisions by outcome since the start.
    decisions: BTreeMap<&'static str, u64>,
}

/// The statistics of a resource, which callers name.
#[derive(Serialize)]
struct OfResource {
    resource: String,
    #[serde(flatten)]
    windows: Windows,
}

/// The last second, the last minute, and the requests in flight now.
#[derive(Serialize)]
struct Windows {
    second: WindowJson,
    minute: WindowJson,
    in_flight: u64,
}

/// The statistics of one window. The names are the same as in [`Snapshot`].
#[derive(Serialize)]
struct WindowJson {
    pass: u64,
    block: u64,
    exception: u64,
    success: u64,
    rt_sum_us: u64,
    rt_min_us: Option<u64>,
    rt_mean_us: Option<u64>,
}

impl From<Snapshot> for WindowJson {
    fn from(of: Snapshot) -> Self {
        let Snapshot { pass, block, exception, success, rt_sum_us, rt_min_us, .. } = of;
        let rt_mean_us = of.rt_mean_us();
        Self { pass, block, exception, success, rt_sum_us, rt_min_us, rt_mean_us }
    }
}

impl Windows {
    fn of(second: Snapshot, minute: Snapshot, in_flight: u64) -> Self {
        Self { second: second.into(), minute: minute.into(), in_flight }
    }
}

/// The statistics that are asked for.
#[derive(Default)]
struct StatsFilter {
    rule: Option<String>,
    resource: Option<String>,
}

impl StatsFilter {
    fn of(asked: &AdmittedRequest<'_>) -> Result<Self, RequestRefusal> {
        let expected = "`rule` with the name of a rule, or `resource` with the name of a resource";
        let mut found = query::parse(asked.query(), &["rule", "resource"], expected)?;
        let [rule, resource] =
            ["rule", "resource"].map(|name| found.remove(name).map(|value| value.into_owned()));
        query::check_rule(&asked.app.limiters, rule.as_deref())?;
        Ok(Self { rule, resource })
    }

    const fn admits_all(&self) -> bool {
        self.rule.is_none() && self.resource.is_none()
    }

    /// With a filter of one kind the other kind is left out.
    fn admits_rule(&self, name: &str) -> bool {
        self.rule.as_deref().map_or(self.resource.is_none(), |rule| rule == name)
    }

    fn admits_resource(&self, name: &str) -> bool {
        self.resource.as_deref().map_or(self.rule.is_none(), |resource| resource == name)
    }
}

impl Stats {
    fn of(limiters: &Limiters, filter: &StatsFilter) -> Self {
        let policy = limiters.policy();
        let reports = &limiters.reports;
        // Summed once for all rules and resources, because it takes the lock of the reports.
        let in_flight = reports.in_flight();
        let mut rules = Vec::new();
        for (rule, of) in policy.rules().iter().zip(limiters.watching.statistics.of(policy.rules()))
        {
            if !filter.admits_rule(rule.name()) {
                continue;
            }
            let domain = rule.domain().to_owned();
            let name = rule.name().to_owned();
            let subject = Subject::Rule { domain: domain.clone(), rule: name.clone() };
            let in_flight = in_flight.get(&subject).copied().unwrap_or_default();
            rules.push(RuleStatsJson {
                domain,
                rule: name,
                mode: labels::mode(rule.mode()),
                windows: Windows::of(of.second(), of.minute(), in_flight),
                decisions: decisions(&of.counts()),
            });
        }
        let mut resources = Vec::new();
        for (name, of) in reports.resources() {
            if !filter.admits_resource(&name) {
                continue;
            }
            let resource = name.as_ref().to_owned();
            let subject = Subject::Resource(resource.clone());
            let in_flight = in_flight.get(&subject).copied().unwrap_or_default();
            let windows = Windows::of(of.second(), of.minute(), in_flight);
            resources.push(OfResource { resource, windows });
        }
        Self { at_us: SystemClock::new().now().as_micros(), rules, resources }
    }
}

/// The outcomes that were counted.
fn decisions(counts: &OutcomeCounts) -> BTreeMap<&'static str, u64> {
    let all = RuleOutcome::ALL.map(|outcome| (outcome.name(), counts.decisions(outcome)));
    all.into_iter().filter(|(_, count)| *count > 0).collect()
}

/// Answers with the statistics of now.
pub(super) async fn stats(asked: AdmittedRequest<'_>) -> Result<HttpResponse, RequestRefusal> {
    let filter = StatsFilter::of(&asked)?;
    let limiters = Arc::clone(&asked.app.limiters);
    answer::made_apart(move || answer::json(&Stats::of(&limiters, &filter))).await
}

/// Answers with the statistics of each second, until the client leaves or the server stops.
pub(super) async fn events(asked: AdmittedRequest<'_>) -> Result<HttpResponse, RequestRefusal> {
    let filter = Arc::new(StatsFilter::of(&asked)?);
    let app = asked.app;
    let limiters = Arc::clone(&app.limiters);
    // All streams without a filter share the statistics that one of them made.
    let latest = filter.admits_all().then(|| Arc::clone(&app.latest));
    app.streams.open(asked.role(), &app.limiters, async move |sink| {
        let mut ticks = interval(EACH);
        // A client that was slow gets no burst of events about the same second.
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        while sink.alive(ticks.tick()).await.is_some() {
            let made = made(Arc::clone(&limiters), Arc::clone(&filter));
            let json = match &latest {
                Some(latest) => latest.get(SystemClock::new().now(), made).await,
                None => made.await,
            };
            let Some(json) = json else { return };
            // The channel holds one write, so a slow client delays the next event and not other streams.
            if sink.send([json]).await.is_err() {
                return;
            }
        }
    })
}

/// The statistics as JSON, made on another thread: many rules take milliseconds, and the thread of the connection has to
/// decide.
async fn made(limiters: Arc<Limiters>, filter: Arc<StatsFilter>) -> Option<Bytes> {
    let json = spawn_blocking(move || serde_json::to_vec(&Stats::of(&limiters, &filter))).await;
    Some(Bytes::from(json.ok()?.ok()?))
}
