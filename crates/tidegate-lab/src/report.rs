//! What a person asks of a replay: how many were refused, who, and how near the bound it came.

mod drawn;
mod most;
mod rule_report;
mod table;
mod worst;

use tidegate::{Answer, Policy};

use crate::plot::{Bins, MAX_LANES, Timeline};
use crate::trace::Event;
pub use most::Most;
pub use rule_report::RuleReport;
pub(crate) use table::{align_right, grouped, new_table, percent};
pub use table::{limit_text, span_text, table};
pub use worst::Worst;

/// Counts kept while a trace is replayed.
#[derive(Clone, Debug)]
pub struct Report {
    /// Requests decided.
    pub requests: u64,
    /// Requests refused.
    pub refused: u64,
    /// Requests that no enforced rule with a limit matched.
    pub unlimited: u64,
    /// Time of the first request.
    pub first_at_us: Option<u64>,
    /// Time of the last request.
    pub last_at_us: u64,
    /// One for each rule of the policy, in its order.
    pub rules: Vec<RuleReport>,
}

impl Report {
    /// Nothing counted yet.
    #[must_use]
    pub fn new(policy: &Policy) -> Self {
        Self {
            requests: 0,
            refused: 0,
            unlimited: 0,
            first_at_us: None,
            last_at_us: 0,
            rules: policy.rules().iter().map(RuleReport::new).collect(),
        }
    }

    /// Also keeps what a picture in these bins needs.
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
            lanes: if self.requests > 0 { lanes.collect() } else { Vec::new() },
        }
    }

    /// How many requests there were, and when.
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
    pub fn record(&mut self, event: &Event, answer: &Answer<'_>) {
        self.requests += 1;
        self.refused += u64::from(!answer.is_allowed());
        self.unlimited += u64::from(answer.is_unlimited());
        self.first_at_us.get_or_insert(event.at_us);
        self.last_at_us = self.last_at_us.max(event.at_us);
        for matched in answer.matched() {
            let same = |report: &&mut RuleReport| report.is_of(matched.rule());
            if let Some(report) = self.rules.iter_mut().find(same) {
                report.record(event, answer, matched);
            }
        }
    }
}
