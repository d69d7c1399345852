//! `POST /v1/report`: the results of admitted requests, as callers report them. They are counted for the statistics
//! (`limiters/reports.rs`) and decide nothing.
//!
//! ```json
//! {"resource": "GET /orders", "pass": 40, "took_us": [1200, 950], "exception": 1, "in_flight": 3, "from": "api-7"}
//! [{"rule": "login", "took_us": 8300}, {"domain": "pay", "rule": "transfer", "exception": 1}]
//! ```

use std::time::Duration;

use serde::{Deserialize, Serialize};
use tidegate::printable::is_obeyed;

use super::message::HttpResponse;
use super::table::AdmittedRequest;
use super::{answer, body};
use crate::limiters::{CallerReport, Subject, Unreported};
use crate::refusal::{RefusalKind, RequestRefusal};

/// The most characters of a name.
const MOST_CHARS: usize = 120;

/// A report as written.
#[derive(Deserialize)]
#[serde(
    deny_unknown_fields,
    expecting = "an object such as {\"resource\": \"orders\", \"took_us\": 1200}"
)]
struct WrittenReport {
    resource: Option<String>,
    domain: Option<String>,
    rule: Option<String>,
    #[serde(default)]
    pass: u64,
    #[serde(default)]
    block: u64,
    #[serde(default)]
    exception: u64,
    took_us: Option<ResponseTimes>,
    in_flight: Option<u64>,
    from: Option<String>,
}

/// The time of one request that succeeded, or of several.
#[derive(Deserialize)]
#[serde(
    untagged,
    expecting = "microseconds as a whole number, or an array of them, one for each success"
)]
enum ResponseTimes {
    One(u64),
    Each(Vec<u64>),
}

/// The answer: the number of reports.
#[derive(Serialize)]
struct ReportedJson {
    reported: usize,
}

/// Counts one report or a batch, all or nothing.
pub(super) async fn report(asked: AdmittedRequest<'_>) -> Result<HttpResponse, RequestRefusal> {
    let AdmittedRequest { app, request, .. } = asked;
    let body = body::read(request, app.bounds).await?;
    // An untagged type would not say what is wrong in either form.
    let written: Result<Vec<WrittenReport>, _> = match body.trim_ascii_start().first() {
        Some(b'[') => serde_json::from_slice(&body),
        _ => serde_json::from_slice(&body).map(|one| vec![one]),
    };
    let written = written
        .map_err(|error| RequestRefusal::of_json(format!("not a report: {error}"), &error))?;
    let reports = written.into_iter().enumerate().map(|(number, one)| {
        one.check().map_err(|why| {
            RefusalKind::InvalidBody.because(format!("report {}: {why}", number + 1))
        })
    });
    let reports = reports.collect::<Result<Vec<_>, _>>()?;
    let reported = reports.len();
    app.limiters.report(reports).map_err(|why| {
        let kind = match why {
            Unreported::NoSuchRule { .. } => RefusalKind::InvalidBody,
            Unreported::TooManyResources | Unreported::TooManyReporters => {
                RefusalKind::TooManyResources
            }
        };
        kind.because(why.to_string())
    })?;
    answer::json(&ReportedJson { reported })
}

impl WrittenReport {
    /// The report, if its fields belong together.
    fn check(self) -> Result<CallerReport, String> {
        let Self { resource, domain, rule, pass, block, exception, took_us, in_flight, from } =
            self;
        let subject = match (resource, domain, rule) {
            (Some(resource), None, None) => Subject::Resource(name("resource", resource)?),
            (None, domain, Some(rule)) => {
                if pass > 0 || block > 0 {
                    let why = "`pass` and `block` of a rule are counted here: expected them with a `resource` only";
                    return Err(why.to_owned());
                }
                Subject::Rule { domain: domain.unwrap_or_else(|| "default".to_owned()), rule }
            }
            _ => {
                return Err(
                    "expected either `resource`, or `rule` with or without `domain`".to_owned()
                );
            }
        };
        let took = match took_us {
            None => Vec::new(),
            Some(ResponseTimes::One(us)) => vec![us],
            Some(ResponseTimes::Each(all)) => all,
        };
        // A number in flight of 0 is a report: it ends an earlier number.
        if pass == 0 && block == 0 && exception == 0 && took.is_empty() && in_flight.is_none() {
            return Err(
                "nothing is reported: expected `pass`, `block`, `exception`, `took_us` or `in_flight`"
                    .to_owned(),
            );
        }
        let from = match from {
            Some(_) if in_flight.is_none() => {
                return Err("`from` means nothing without `in_flight`: remove it".to_owned());
            }
            Some(from) => name("from", from)?,
            // Callers without a name are one reporter: each replaces the number of the last.
            None => String::new(),
        };
        let took = took.into_iter().map(Duration::from_micros).collect();
        Ok(CallerReport { subject, pass, block, exception, took, in_flight, from })
    }
}

/// A name that can be shown in a table.
fn name(field: &str, given: String) -> Result<String, String> {
    let chars = given.chars().count();
    if (1..=MOST_CHARS).contains(&chars) && !given.chars().any(is_obeyed) {
        return Ok(given);
    }
    Err(format!(
        "`{field}` has {chars} characters: expected 1 to {MOST_CHARS}, and no control characters"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(json: &str) -> Result<CallerReport, String> {
        serde_json::from_str::<WrittenReport>(json).unwrap().check()
    }

    #[test]
    fn a_report_is_about_a_resource_or_a_rule_and_says_something() {
        let report = check(r#"{"resource": "a", "took_us": [1, 2], "in_flight": 0}"#).unwrap();
        assert_eq!((report.subject, report.took.len()), (Subject::Resource("a".to_owned()), 2));
        let rule = check(r#"{"rule": "r", "took_us": 3}"#).unwrap().subject;
        assert_eq!(rule, Subject::Rule { domain: "default".to_owned(), rule: "r".to_owned() });
        for (wrong, said) in [
            (r#"{"took_us": 3}"#, "either `resource`"),
            (r#"{"resource": "a", "rule": "r", "took_us": 3}"#, "either `resource`"),
            (r#"{"rule": "r", "pass": 3}"#, "with a `resource` only"),
            (r#"{"resource": "a"}"#, "nothing is reported"),
            (r#"{"resource": "", "pass": 1}"#, "0 characters"),
            (r#"{"resource": "a\n", "pass": 1}"#, "no control characters"),
            (r#"{"resource": "a", "pass": 1, "from": "x"}"#, "without `in_flight`"),
        ] {
            let why = check(wrong).unwrap_err();
            assert!(why.contains(said), "{wrong}: {why}");
        }
    }
}
