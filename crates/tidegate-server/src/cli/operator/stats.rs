//! `tidegate stats` shows the requests that rules and resources passed and blocked, and their speed.

use std::process::ExitCode;

use hyper::Method;
use serde_json::Value;
use tokio::time::sleep;

use super::columns::TableColumns;
use super::events::FollowedEvents;
use super::live::{self, PAUSE, Pages};
use super::page::{Page, PageTable};
use super::top::rule;
use super::{
    AdminFlags, ListenerClient, OutputFormat, items, number, run as run_client, text, with_query,
};
use crate::failure::Failure;
use crate::stdout;

/// Show the statistics of a running server's rules and resources
#[derive(Debug, clap::Args)]
#[command(
    after_help = "With --watch, ? shows the keys of the view, q or Ctrl-C ends it.",
    after_long_help = "Units that were passed and blocked in the last second (1S) and minute (1M), and
what callers report of the requests (POST /v1/report). In shadow mode `blocked`
is what would have been.

Examples:
  tidegate stats
  tidegate stats --rule login --watch
  tidegate stats --watch --format json | jq -c '.rules[].minute'"
)]
pub(crate) struct StatsArgs {
    /// Only this rule
    #[arg(long, value_name = "NAME", value_parser = rule)]
    rule: Option<String>,

    /// Only this resource
    #[arg(long, value_name = "NAME")]
    resource: Option<String>,

    /// Show them each second: on a terminal live, else one after the other
    #[arg(long)]
    watch: bool,

    /// Output: tables, or the JSON of GET /v1/stats
    #[arg(long, value_enum, default_value_t = OutputFormat::Text)]
    format: OutputFormat,

    #[command(flatten)]
    admin: AdminFlags,
}

/// Prints the answer of `GET /v1/stats`, or its events.
pub(crate) fn run(args: &StatsArgs) -> Result<ExitCode, Failure> {
    let listener = args.admin.listener()?;
    run_client(async {
        if args.watch {
            return watch(args, &listener).await;
        }
        let answer = listener.ask(Method::GET, &path(args, "/v1/stats"), "").await?;
        // The server refuses the name of an unknown rule, and has empty lists for an unknown resource.
        if ["rules", "resources"].iter().all(|of| items(&answer.json, of).next().is_none()) {
            return Err(Failure::new("no resource has this name"));
        }
        answer.print(args.format, tables)
    })
}

/// Shows the statistics of each second: live on a terminal, else one after another.
async fn watch(args: &StatsArgs, listener: &ListenerClient) -> Result<(), Failure> {
    // Before the view begins, so that an error is printed where it stays.
    let events = FollowedEvents::open(listener, path(args, "/v1/stats/events")).await?;
    if args.format == OutputFormat::Json || !live::is_possible() {
        return events.print(args.format, tables).await;
    }
    let title = format!("tidegate stats {}", listener.connection.url());
    live::show(title, |pages| feed(listener, events, pages)).await
}

/// Sends a page for each event.
async fn feed(listener: &ListenerClient, mut events: FollowedEvents<'_>, pages: Pages) {
    loop {
        let page = match events.next().await {
            Ok(event) => page(&event.json).with_notice(listener).await,
            Err(_) => {
                sleep(PAUSE).await;
                match events.reopen().await {
                    Ok(()) => continue,
                    Err(failure) => Err(failure),
                }
            }
        };
        if pages.send(page).await.is_err() {
            return;
        }
    }
}

fn path(args: &StatsArgs, path: &str) -> String {
    let parameters = [("rule", args.rule.as_deref()), ("resource", args.resource.as_deref())];
    with_query(path, &parameters)
}

const OF_RULES: TableColumns<'_> = TableColumns {
    headings: &[
        "DOMAIN",
        "RULE",
        "MODE",
        "PASS 1S",
        "BLOCK 1S",
        "PASS 1M",
        "BLOCK 1M",
        "OK 1M",
        "FAIL 1M",
        "MEAN",
        "IN FLIGHT",
    ],
    numbers: 3..11,
    least: &[2, 0, 10, 9, 7, 8, 5, 6],
};
const OF_RESOURCES: TableColumns<'_> = TableColumns {
    headings: &[
        "RESOURCE",
        "PASS 1S",
        "BLOCK 1S",
        "PASS 1M",
        "BLOCK 1M",
        "OK 1M",
        "FAIL 1M",
        "MEAN",
        "IN FLIGHT",
    ],
    numbers: 1..9,
    least: &[5, 3, 4, 6, 7, 8],
};

/// The tables as a text.
fn tables(stats: &Value) -> String {
    page(stats).printed(stdout::width())
}

/// A table of the rules and a table of the resources, if there are any.
fn page(stats: &Value) -> Page {
    let rules = rows(items(stats, "rules"), &["domain", "rule", "mode"]);
    let resources = rows(items(stats, "resources"), &["resource"]);
    let mut tables = Vec::new();
    for (columns, rows) in [(&OF_RULES, rules), (&OF_RESOURCES, resources)] {
        if !rows.is_empty() {
            tables.push(PageTable { title: String::new(), columns, rows, most: usize::MAX });
        }
    }
    if tables.is_empty() {
        let title = "no rule or resource has this name".to_owned();
        tables.push(PageTable { title, columns: &OF_RULES, rows: Vec::new(), most: usize::MAX });
    }
    Page { tables, ..Page::default() }
}

/// A row for each item of a list: these names, and its numbers.
fn rows<'a>(items: impl Iterator<Item = &'a Value>, names: &[&str]) -> Vec<Vec<String>> {
    let rows = items.map(|one| {
        let names = names.iter().map(|name| text(one, name).to_owned());
        names.chain(numbers(one)).collect()
    });
    rows.collect()
}

/// The numbers of a rule or a resource, in the order of the columns.
fn numbers(of: &Value) -> [String; 8] {
    let second = &of["second"];
    let minute = &of["minute"];
    [
        number(second, "pass").to_string(),
        number(second, "block").to_string(),
        number(minute, "pass").to_string(),
        number(minute, "block").to_string(),
        number(minute, "success").to_string(),
        number(minute, "exception").to_string(),
        minute["rt_mean_us"].as_u64().map_or_else(|| "-".to_owned(), mean),
        number(of, "in_flight").to_string(),
    ]
}

/// A response time: `1.08ms`.
fn mean(us: u64) -> String {
    format!("{:.2}ms", us as f64 / 1_000.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn rules_and_resources_are_tables_of_their_own() {
        let window =
            json!({"pass": 40, "block": 2, "exception": 1, "success": 3, "rt_mean_us": 1_500});
        let rule = json!({"domain": "d", "rule": "r", "mode": "enforce", "second": window, "minute": window});
        let resource =
            json!({"resource": "GET /orders", "second": window, "minute": window, "in_flight": 7});
        let both = tables(&json!({"rules": [rule], "resources": [resource]}));
        let lines: Vec<_> =
            both.lines().map(|line| line.split_whitespace().collect::<Vec<_>>()).collect();
        assert_eq!(lines[1], ["d", "r", "enforce", "40", "2", "40", "2", "3", "1", "1.50ms", "0"]);
        assert_eq!(lines[4], ["GET", "/orders", "40", "2", "40", "2", "3", "1", "1.50ms", "7"]);
        assert_eq!(tables(&json!({"rules": []})), "no rule or resource has this name\n");
    }
}
