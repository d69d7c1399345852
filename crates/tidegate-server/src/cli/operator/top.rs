//! `tidegate top`: the rates of all rules, and the keys that are refused most and ask most.

use std::cmp::Ordering;
use std::process::ExitCode;

use hyper::Method;
use serde_json::Value;
use tidegate::Timestamp;
use tokio::time::sleep;

use super::columns::TableColumns;
use super::live::{self, PAUSE, Pages};
use super::page::{Page, PageTable, now};
use super::rates::{self, Decisions, RuleRate};
use super::tables::key;
use super::{
    AdminFlags, ListenerClient, OutputFormat, items, number, run as run_client, text, with_query,
};
use crate::failure::Failure;
use crate::stdout;

/// Show the rates of a running server's rules, and their top keys
#[derive(Debug, clap::Args)]
#[command(
    after_help = "On a terminal the view is live: ? shows its keys, q or Ctrl-C ends it.",
    after_long_help = "On a terminal the view is refreshed each second until q or Ctrl-C, and ? shows
its keys; in a file or a pipe it is printed once, after a second. Rates are
decisions a second; in shadow mode `refused` is what would have been. Counts of
keys are of one to two minutes, estimated from a sample.

Examples:
  tidegate top
  tidegate top --rule login -n 5 | cat
  tidegate top --format json | jq .keys"
)]
pub(crate) struct TopArgs {
    /// Only the keys of this rule
    #[arg(long, value_name = "NAME", value_parser = rule)]
    rule: Option<String>,

    /// The number of keys, 1 to 1000
    #[arg(short, long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u16).range(1..=1000))]
    number: u16,

    /// Output: tables, or the JSON of GET /v1/top, once
    #[arg(long, value_enum, default_value_t = OutputFormat::Text)]
    format: OutputFormat,

    #[command(flatten)]
    admin: AdminFlags,
}

/// Reads the name of a rule.
pub(super) fn rule(text: &str) -> Result<String, String> {
    let is_name = text.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c));
    if text.is_empty() || !is_name {
        return Err("expected the name of a rule: a-z, 0-9, `.`, `_` and `-`".to_owned());
    }
    Ok(text.to_owned())
}

/// Shows the view until the person ends it, or prints it once.
pub(crate) fn run(args: &TopArgs) -> Result<ExitCode, Failure> {
    let listener = args.admin.listener()?;
    run_client(async {
        if args.format == OutputFormat::Json {
            let answer = listener.ask(Method::GET, &path(args, "refused"), "").await?;
            return stdout::print(&format!("{}\n", answer.text));
        }
        // Before the view begins, so that an error is printed where it stays.
        if args.rule.is_some() {
            listener.ask(Method::GET, &path(args, "refused"), "").await?;
        }
        let mut reading = DecisionsAt::of(&listener).await?;
        let url = listener.connection.url();
        if live::is_possible() {
            let title = format!("tidegate top {url}");
            return live::show(title, |pages| feed(args, &listener, reading, pages)).await;
        }
        sleep(PAUSE).await;
        let page = read(args, &listener, &mut reading).await?;
        stdout::print(&format!("{url}\n\n{}", page.printed(stdout::width())))
    })
}

/// Sends a page each second. A server that is restarted comes back.
async fn feed(args: &TopArgs, listener: &ListenerClient, mut reading: DecisionsAt, pages: Pages) {
    loop {
        let page = match read(args, listener, &mut reading).await {
            Ok(page) => page.with_notice(listener).await,
            failed => failed,
        };
        if pages.send(page).await.is_err() {
            return;
        }
        sleep(PAUSE).await;
    }
}

const OF_RULES: TableColumns<'_> = TableColumns {
    headings: &["DOMAIN", "RULE", "MODE", "ASKED/S", "REFUSED/S", "ASKED", "REFUSED"],
    numbers: 3..7,
    least: &[2, 0, 5, 6],
};
const OF_KEYS: TableColumns<'_> = TableColumns {
    headings: &["COUNT", "TOO MANY BY", "DOMAIN", "RULE", "KEY"],
    numbers: 0..2,
    least: &[1, 2, 3],
};

/// The largest number of rules that are shown.
const MOST_RULES: usize = 10;

/// The decisions of all rules at one time.
struct DecisionsAt {
    at: Timestamp,
    rules: Vec<Decisions>,
}

impl DecisionsAt {
    async fn of(listener: &ListenerClient) -> Result<Self, Failure> {
        let stats = listener.ask(Method::GET, "/v1/stats", "").await?;
        Ok(Self { at: now(), rules: rates::read(&stats.json) })
    }
}

/// Reads again, and returns the tables; `before` becomes the new reading.
async fn read(
    args: &TopArgs,
    listener: &ListenerClient,
    before: &mut DecisionsAt,
) -> Result<Page, Failure> {
    let after = DecisionsAt::of(listener).await?;
    let us = after.at.as_micros().saturating_sub(before.at.as_micros());
    // Each reading has the wall time, which may be set back between two of them.
    let rates = rates::between(&before.rules, after.rules.clone(), us.max(1) as f64 / 1e6);
    // Kept even if a request below fails: the next rates cover the time since this reading.
    *before = after;
    let mut tables = vec![of_rules(rates)];
    for (by, title) in [("refused", "Refused most"), ("requests", "Asking most")] {
        tables.push(match listener.ask(Method::GET, &path(args, by), "").await {
            Ok(answer) => {
                let rules = if by == "refused" { &before.rules[..] } else { &[] };
                of_keys(title, &answer.json, before.at, rules)
            }
            Err(failure) => keys(format!("{title}: {}", failure.message()), Vec::new()),
        });
    }
    Ok(Page { tables, ..Page::default() })
}

fn path(args: &TopArgs, by: &str) -> String {
    let number = args.number.to_string();
    let parameters = [("by", Some(by)), ("n", Some(&*number)), ("rule", args.rule.as_deref())];
    with_query("/v1/top", &parameters)
}

/// The rules in the order of the policy; of many, the busiest go first, so that the keys below
/// are on the screen.
fn of_rules(mut rates: Vec<RuleRate>) -> PageTable {
    if rates.len() > MOST_RULES {
        rates.sort_by(|a, b| busy(b).partial_cmp(&busy(a)).unwrap_or(Ordering::Equal));
    }
    let rows = rates.iter().map(|RuleRate { total, all, refused }| {
        vec![
            total.domain.clone(),
            total.rule.clone(),
            total.mode.clone(),
            format!("{all:.0}"),
            format!("{refused:.0}"),
            total.all.to_string(),
            total.refused.to_string(),
        ]
    });
    PageTable { title: String::new(), columns: &OF_RULES, rows: rows.collect(), most: MOST_RULES }
}

/// By how much a rule is worth a look: it refuses, or it is asked.
const fn busy(of: &RuleRate) -> [f64; 4] {
    [of.refused, of.all, of.total.refused as f64, of.total.all as f64]
}

/// A row for each key. A rule that `rules` has in shadow mode is marked: it refuses no request.
fn of_keys(title: &str, answer: &Value, now: Timestamp, rules: &[Decisions]) -> PageTable {
    let one_in = number(answer, "sampled_one_in").max(1);
    let seconds = now.as_micros().saturating_sub(number(answer, "since_us")) / 1_000_000;
    let mut rows = Vec::new();
    for one in items(answer, "keys") {
        // Counts are of the sample.
        let count = number(one, "count") * one_in;
        let error = number(one, "error") * one_in;
        let name = (text(one, "domain"), text(one, "rule"));
        let is_shadow = rules.iter().any(|rule| rule.name() == name && rule.mode == "shadow");
        let shadow = if is_shadow { " (shadow)" } else { "" };
        rows.push(vec![
            format!("~{count}"),
            if error == 0 { "-".to_owned() } else { error.to_string() },
            text(one, "domain").to_owned(),
            format!("{}{shadow}", text(one, "rule")),
            key(one.get("key")),
        ]);
    }
    let title = if rows.is_empty() {
        format!("{title}: none in the sample of 1 in {one_in}")
    } else {
        format!("{title} in {seconds} s, of 1 in {one_in}:")
    };
    keys(title, rows)
}

const fn keys(title: String, rows: Vec<Vec<String>>) -> PageTable {
    PageTable { title, columns: &OF_KEYS, rows, most: usize::MAX }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_sample_says_that_it_is_one_and_marks_rules_in_shadow_mode() {
        let now = Timestamp::from_micros(1_000_000);
        let none = of_keys("Refused most", &json!({"sampled_one_in": 16}), now, &[]).printed(None);
        assert_eq!(none, "Refused most: none in the sample of 1 in 16\n");
        let key = |rule: &str| json!({"domain": "d", "rule": rule, "key": {"ip": "x"}, "count": 2});
        let answer = json!({"sampled_one_in": 16, "keys": [key("a"), key("b")]});
        let rules =
            rates::read(&json!({"rules": [{"domain": "d", "rule": "b", "mode": "shadow"}]}));
        let shown = of_keys("Refused most", &answer, now, &rules).printed(None);
        assert!(shown.contains(" b (shadow)") && !shown.contains(" a (shadow)"), "{shown}");
    }

    #[test]
    fn of_many_rules_those_that_refuse_and_are_asked_most_are_shown() {
        let rate = |number: u32| {
            let total = Decisions { rule: format!("rule-{number}"), ..Decisions::default() };
            RuleRate { total, all: f64::from(number), refused: f64::from(u32::from(number == 3)) }
        };
        let shown = of_rules((0..41).map(rate).collect()).printed(None);
        let lines: Vec<_> = shown.lines().collect();
        assert_eq!(lines.len(), 12, "{shown}");
        assert!(lines[1].contains("rule-3 ") && lines[2].contains("rule-40 "), "{shown}");
        assert_eq!(lines[11], " and 31 more rules");
        let few = of_rules((0..10).map(rate).collect()).printed(None);
        assert!(few.lines().nth(1).is_some_and(|line| line.contains("rule-0 ")), "{few}");
    }
}
