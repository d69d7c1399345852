//! `tidegate tail`: decisions of a running server as it takes them.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;
use std::time::Duration;

use serde_json::Value;
use tidegate::printable;
use tokio::signal::ctrl_c;
use tokio::time::sleep;

use super::columns::TableColumns;
use super::entries::{self, EntryArg};
use super::events::FollowedEvents;
use super::live::{self, PAUSE, Pages};
use super::page::{Page, PageTable, time_of_day};
use super::tables::key;
use super::top::rule;
use super::{
    AdminFlags, ListenerClient, OutputFormat, number, run as run_client, seconds, text, with_query,
};
use crate::failure::Failure;

/// Show decisions of a running server as it takes them
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:  tidegate tail --rule login --outcome refused --key user=ada
On a terminal the view is live: ? shows its keys, q or Ctrl-C ends it.",
    after_long_help = "On a terminal a live view of the newest decisions until q or Ctrl-C, and ? shows
its keys; in a file or a pipe a line for each rule of a decision. Decisions
beyond the rate are left out, evenly, and the next line says how many. Keys that
a rule hides (`hide_keys`) are fingerprints, as in `tidegate top`.

Examples:
  tidegate tail
  tidegate tail --rule login --outcome refused,never --key user=ada
  tidegate tail --format json | jq -r .key.user"
)]
pub(crate) struct TailArgs {
    /// Only this rule
    #[arg(long, value_name = "NAME", value_parser = rule)]
    rule: Option<String>,

    /// Only these outcomes, with commas: allowed, refused, never, shadow_refused, ...
    #[arg(long, value_name = "OUTCOME")]
    outcome: Option<String>,

    /// Only keys with this entry
    #[arg(long, value_name = "NAME=VALUE", value_parser = entries::parse)]
    key: Option<EntryArg>,

    /// The most decisions a second, 1 to 1000
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u16).range(1..=1000))]
    per_second: u16,

    /// Output: text, or the JSON of the server, one line for each decision
    #[arg(long, value_enum, default_value_t = OutputFormat::Text)]
    format: OutputFormat,

    #[command(flatten)]
    admin: AdminFlags,
}

/// Prints the events of `GET /v1/decisions`.
pub(crate) fn run(args: &TailArgs) -> Result<ExitCode, Failure> {
    let listener = args.admin.listener()?;
    run_client(async {
        let decisions = FollowedEvents::open(&listener, path(args)).await?;
        if args.format == OutputFormat::Text && live::is_possible() {
            let title = format!("tidegate tail {}", listener.connection.url());
            return live::show(title, |pages| feed(&listener, decisions, pages)).await;
        }
        let mut stderr = io::stderr();
        if stderr.is_terminal() {
            // An error of the write is ignored: decisions are printed without it.
            let _ = writeln!(stderr, "waiting for decisions of {}", listener.connection.url());
        }
        tokio::select! {
            ended = decisions.print(args.format, line) => ended,
            // The person ends what has no other end, which is no failure.
            _ = ctrl_c() => Ok(()),
        }
    })
}

/// The largest number of decisions that a view keeps.
const MOST_KEPT: usize = 1_000;
/// The time between two pages: decisions may come much more often.
const REFRESH: Duration = Duration::from_millis(500);

const COLUMNS: TableColumns<'_> = TableColumns {
    headings: &[
        "TIME",
        "OUTCOME",
        "DOMAIN",
        "RULE",
        "KEY",
        "COST",
        "REMAINING",
        "LIMIT",
        "FITS IN",
    ],
    numbers: 5..9,
    least: &[2, 7, 5, 8, 6, 0],
};

/// The decisions of a view, the newest first.
#[derive(Default)]
struct RecentDecisions {
    rows: VecDeque<Vec<String>>,
    skipped: u64,
    failure: Option<Failure>,
}

impl RecentDecisions {
    fn add(&mut self, decision: &Value) {
        self.skipped += number(decision, "skipped");
        self.rows.truncate(MOST_KEPT - 1);
        self.rows.push_front(row(decision));
    }

    /// The page, or why no decisions come.
    fn page(&self) -> Result<Page, Failure> {
        if let Some(failure) = &self.failure {
            return Err(Failure::new(failure.message()));
        }
        let title = match self.skipped {
            0 => "Newest first".to_owned(),
            skipped => format!("Newest first; {skipped} left out"),
        };
        let rows = self.rows.iter().cloned().collect();
        let table = PageTable { title, columns: &COLUMNS, rows, most: usize::MAX };
        Ok(Page { tables: vec![table], ..Page::default() })
    }
}

/// Reads decisions, and sends them as pages.
async fn feed(listener: &ListenerClient, mut decisions: FollowedEvents<'_>, pages: Pages) {
    let recent = RefCell::new(RecentDecisions::default());
    let reads = async {
        loop {
            match decisions.next().await {
                Ok(event) => recent.borrow_mut().add(&event.json),
                Err(failure) => {
                    // A stream that could not be opened again has ended; the reason for that stays.
                    recent.borrow_mut().failure.get_or_insert(failure);
                    sleep(PAUSE).await;
                    let reopened = decisions.reopen().await;
                    recent.borrow_mut().failure = reopened.err();
                }
            }
        }
    };
    // Reading does not wait for the view, which would hold up the server's stream.
    let sends = async {
        loop {
            let page = recent.borrow().page();
            let page = match page {
                Ok(page) => page.with_notice(listener).await,
                failed => failed,
            };
            if pages.send(page).await.is_err() {
                return;
            }
            sleep(REFRESH).await;
        }
    };
    // Both go on until the view is left.
    tokio::select! {
        () = reads => {}
        () = sends => {}
    }
}

/// The cells of a decision.
fn row(decision: &Value) -> Vec<String> {
    let degraded = if decision["degraded"] == true { ", degraded" } else { "" };
    let fits_us = number(decision, "retry_after_us");
    vec![
        time_of_day(number(decision, "at_us")),
        format!("{}{degraded}", text(decision, "outcome")),
        text(decision, "domain").to_owned(),
        text(decision, "rule").to_owned(),
        key(decision.get("key")),
        number(decision, "cost").to_string(),
        number(decision, "remaining").to_string(),
        number(decision, "limit").to_string(),
        if fits_us > 0 { seconds(fits_us) } else { "-".to_owned() },
    ]
}

fn path(args: &TailArgs) -> String {
    let key = args.key.as_ref().map(EntryArg::parameter);
    let parameters = [
        ("rule", args.rule.as_deref()),
        ("outcome", args.outcome.as_deref()),
        ("key", key.as_deref()),
        ("per_second", Some(&args.per_second.to_string())),
    ];
    with_query("/v1/decisions", &parameters)
}

/// `12:00:01.250 refused default/login user=ada: cost 1, 0 of 5 remaining, fits in 3.2 s`, at UTC.
fn line(decision: &Value) -> String {
    let mut line = format!(
        "{} {} {}/{}",
        time_of_day(number(decision, "at_us")),
        text(decision, "outcome"),
        text(decision, "domain"),
        text(decision, "rule")
    );
    let key = key(decision.get("key"));
    if !key.is_empty() {
        line.push_str(&format!(" {key}"));
    }
    line.push_str(&format!(
        ": cost {}, {} of {} remaining",
        number(decision, "cost"),
        number(decision, "remaining"),
        number(decision, "limit")
    ));
    let fits_us = number(decision, "retry_after_us");
    if fits_us > 0 {
        line.push_str(&format!(", fits in {}", seconds(fits_us)));
    }
    if decision["degraded"] == true {
        line.push_str(", degraded");
    }
    let skipped = number(decision, "skipped");
    if skipped > 0 {
        line.push_str(&format!(" ({skipped} left out before)"));
    }
    format!("{}\n", printable::line(&line))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_decision_is_a_line() {
        let mut decision = json!({
            "at_us": 1_700_000_001_250_000_u64, "domain": "default", "rule": "login", "key": {"user": "ada"},
            "outcome": "refused", "cost": 1, "limit": 5, "remaining": 0, "retry_after_us": 3_200_000, "skipped": 7,
        });
        let answer = "22:13:21.250 refused default/login user=ada: cost 1, 0 of 5 remaining, fits in 3.2 s \
                    (7 left out before)\n";
        assert_eq!(line(&decision), answer);
        decision["retry_after_us"] = Value::Null;
        decision["key"] = json!({});
        decision["skipped"] = json!(0);
        decision["degraded"] = json!(true);
        let answer = "22:13:21.250 refused default/login: cost 1, 0 of 5 remaining, degraded\n";
        assert_eq!(line(&decision), answer);
    }
}
