//! The report as one JSON object, for programs.
//!
//! `table.rs` is the same report for a person.

use serde::Serialize;
use serde_json::Error;
use tidegate::{Limit, Micros};

use super::{RecordedDecisions, Report, RuleReport, VariantReport};
use crate::labels;

/// The number of keys that are listed under `refused_most`.
const TOP: usize = 5;

#[derive(Serialize)]
struct ReportJson<'a> {
    requests: u64,
    refused: u64,
    unlimited: u64,
    first_at_us: Option<u64>,
    last_at_us: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    recorded: Option<RecordedDecisions>,
    rules: Vec<RuleReportJson<'a>>,
}

#[derive(Serialize)]
struct RuleReportJson<'a> {
    domain: &'a str,
    name: &'a str,
    mode: &'static str,
    algorithm: &'static str,
    asked: u64,
    refused: u64,
    overflow: u64,
    longest_delay_us: u64,
    refused_most: Vec<RefusedKeyJson<'a>>,
    variants: Vec<OfVariant<'a>>,
}

/// A key, and between which numbers its refusals lie.
#[derive(Serialize)]
struct RefusedKeyJson<'a> {
    key: &'a str,
    at_least: u64,
    at_most: u64,
}

/// The values of the rule, or of an override that applied.
#[derive(Serialize)]
struct OfVariant<'a> {
    #[serde(rename = "match")]
    matched: Option<&'a str>,
    limit: Option<u64>,
    window_us: Option<u64>,
    asked: u64,
    refused: u64,
    #[serde(flatten)]
    fullest: Fullest,
}

/// The fullest window of a key next to its bound; not exact, but at least so full, if memory ran out.
#[derive(Serialize)]
pub(crate) struct Fullest {
    fullest_window: u64,
    is_exact: bool,
    bound: Option<u64>,
}

impl Fullest {
    pub(crate) fn of(variant: &VariantReport) -> Self {
        Self {
            fullest_window: variant.worst.units(),
            is_exact: variant.worst.forgotten() == 0,
            bound: variant.bound(),
        }
    }
}

/// The whole report; the command line's page documents its fields.
///
/// # Errors
/// No error is known.
pub fn json(report: &Report) -> Result<String, Error> {
    let whole = ReportJson {
        requests: report.requests,
        refused: report.refused,
        unlimited: report.unlimited,
        first_at_us: report.first_at_us,
        // Without requests it is 0, which would read as a time.
        last_at_us: report.first_at_us.map(|_| report.last_at_us),
        recorded: Some(report.recorded).filter(|recorded| recorded.decisions > 0),
        rules: report.rules.iter().map(of_rule).collect(),
    };
    serde_json::to_string(&whole)
}

fn of_rule(report: &RuleReport) -> RuleReportJson<'_> {
    let rule = report.rule();
    let most = report.refused_most.top(TOP).into_iter().map(|counted| RefusedKeyJson {
        key: counted.name,
        at_least: counted.at_least,
        at_most: counted.at_most,
    });
    RuleReportJson {
        domain: rule.domain(),
        name: rule.name(),
        mode: labels::mode(rule.mode()),
        algorithm: rule.spec().spec.algorithm.name(),
        asked: report.asked,
        refused: report.refused,
        overflow: report.overflow,
        longest_delay_us: Micros::from(report.longest_delay).as_micros(),
        refused_most: most.collect(),
        variants: report.variants().map(of_variant).collect(),
    }
}

fn of_variant(variant: &VariantReport) -> OfVariant<'_> {
    let spec = variant.rule().spec();
    let (limit, window_us) = match spec.limit {
        // A rule without a limit may still name a window, which has no effect.
        Limit::Unlimited => (None, None),
        Limit::Units(units) => {
            (Some(units), spec.window.map(|window| Micros::from(window).as_micros()))
        }
    };
    OfVariant {
        matched: variant.matched(),
        limit,
        window_us,
        asked: variant.asked,
        refused: variant.refused,
        fullest: Fullest::of(variant),
    }
}
