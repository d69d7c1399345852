//! The report of a replay for a person: the number of refused requests, their callers, and the distance of each window
//! from its bound.
//!
//! Memory is bounded however many keys there are. The units admitted to each key within a window
//! are kept in [`WORST_BYTES`] over all rules (or, in a comparison, all algorithms): about four
//! million keys that are active within one window. Keys whose window has passed are dropped first,
//! which is exact; if that is not enough the fullest window is reported as "at least". Names of
//! refused keys are kept for [`NAMES`] keys of each rule.

mod drawn;
mod fingerprint;
mod fitted;
mod json;
mod key;
mod most;
mod name;
mod recent;
mod recent_by_key;
mod rule_report;
mod space;
mod table;
mod variant_report;
mod watched;
mod worst;

use serde::Serialize;
use tidegate::{Answer, Policy};

use crate::plot::{Bins, MAX_LANES, Timeline};
use crate::trace::Event;
pub(crate) use fitted::fitted;
pub(crate) use json::Fullest;
pub use json::json;
pub use most::{Counted, Most};
pub(crate) use name::cut_to;
pub use rule_report::RuleReport;
pub(crate) use table::{align_right, grouped, keep_together, new_table, overflow, percent};
pub use table::{limit_text, span_text, table};
pub use variant_report::VariantReport;
pub use worst::Worst;

/// The maximum number of bytes used to find the fullest windows, over all rules of a report or all algorithms of a
/// comparison: 256 MiB.
pub const WORST_BYTES: usize = 256 << 20;

/// The number of keys of a rule whose refusals are counted at a time; a key with more than this
/// part of all refusals is always among them.
pub const NAMES: u32 = 65_536;

/// The memory that the report of one rule may take.
#[derive(Clone, Copy, Debug)]
struct ReportMemory {
    names: u32,
    worst_bytes: usize,
}

/// Counts kept while a trace is replayed.
#[derive(Clone, Debug)]
pub struct Report {
    /// Requests decided.
    pub requests: u64,
    /// Requests refused.
    pub refused: u64,
    /// Requests that no enforced rule with a limit matched.
    pub unlimited: u64,
    /// How the decisions differ from those that the trace has.
    pub recorded: RecordedDecisions,
    /// Time of the first request.
    pub first_at_us: Option<u64>,
    /// Time of the last request.
    pub last_at_us: u64,
    /// One for each rule of the policy, in its order.
    pub rules: Vec<RuleReport>,
}

/// Decisions that a trace has, and those that differ from them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RecordedDecisions {
    /// Requests whose line says what was decided.
    pub decisions: u64,
    /// Requests that were admitted, and are refused in the replay.
    pub now_refused: u64,
    /// Requests that were refused, and are admitted in the replay.
    pub now_admitted: u64,
}

impl RecordedDecisions {
    fn record(&mut self, was_allowed: bool, is_allowed: bool) {
        self.decisions += 1;
        self.now_refused += u64::from(was_allowed && !is_allowed);
        self.now_admitted += u64::from(!was_allowed && is_allowed);
    }
}

impl Report {
    /// A report without counts.
    #[must_use]
    pub fn new(policy: &Policy) -> Self {
        let worst_bytes = WORST_BYTES / policy.rules().len().max(1);
        Self::within(policy, ReportMemory { names: NAMES, worst_bytes })
    }

    /// One of `reports` that share the memory of one, without names.
    pub(crate) fn one_of(reports: usize, policy: &Policy) -> Self {
        let worst_bytes = WORST_BYTES / (reports * policy.rules().len()).max(1);
        Self::within(policy, ReportMemory { names: 0, worst_bytes })
    }

    fn within(policy: &Policy, memory: ReportMemory) -> Self {
        Self {
            requests: 0,
            refused: 0,
            unlimited: 0,
            recorded: RecordedDecisions::default(),
            first_at_us: None,
            last_at_us: 0,
            rules: policy.rules().iter().map(|rule| RuleReport::new(rule, memory)).collect(),
        }
    }

    /// Also keeps the counts for a picture in these bins.
    #[must_use]
    pub fn drawn(mut self, bins: Bins) -> Self {
        self.rules.iter_mut().for_each(|rule| rule.draw(bins));
        self
    }

    /// The picture of the rules: one lane for each, for the first 64 if there are more.
    #[must_use]
    pub fn timeline(&self, title: String, bins: Bins) -> Timeline {
        let lanes = self.rules.iter().filter_map(RuleReport::lane).take(MAX_LANES);
        Timeline {
            title,
            subtitle: self.headline(),
            start_us: bins.start_us,
            bin_us: bins.bin_us,
            own_scales: true,
            lanes: if self.requests > 0 { lanes.collect() } else { Vec::new() },
        }
    }

    /// The number of requests, and their time span.
    #[must_use]
    pub fn headline(&self) -> String {
        match self.first_at_us {
            Some(first) => {
                format!("{} requests {}", grouped(self.requests), span_text(first, self.last_at_us))
            }
            None => "No requests in this trace".to_owned(),
        }
    }

    /// Counts one request and its answer.
    pub fn record(&mut self, event: &Event<'_>, answer: &Answer<'_>) {
        self.requests += 1;
        self.refused += u64::from(!answer.is_allowed());
        self.unlimited += u64::from(answer.is_unlimited());
        if let Some(was_allowed) = event.allowed {
            self.recorded.record(was_allowed, answer.is_allowed());
        }
        self.first_at_us.get_or_insert(event.at_us);
        self.last_at_us = self.last_at_us.max(event.at_us);
        for matched in answer.matched() {
            let mut reports = self.rules.iter_mut();
            if let Some(report) = reports.find(|report| report.is_of(matched.rule())) {
                report.record(event, answer, &matched);
            }
        }
    }
}
