//! `tidegate tail`: decisions of a running server as it takes them.

use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;

use serde_json::Value;
use tidegate::printable;
use tokio::signal::ctrl_c;

use super::entries::{self, EntryArg};
use super::tables::key;
use super::top::rule;
use super::{AdminFlags, OutputFormat, number, run as run_client, seconds, text, with_query};
use crate::failure::Failure;

/// Print decisions of a running server as it takes them
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:  tidegate tail --rule login --outcome refused --key user=ada",
    after_long_help = "A line for each rule of a decision, until Ctrl-C. Decisions beyond the rate are
left out, evenly, and the next line says how many. Keys that a rule hides
(`hide_keys`) are fingerprints, as in `tidegate top`.

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
        let decisions = listener.events(&path(args)).await?;
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
    let all_ms = number(decision, "at_us") / 1_000;
    let s = all_ms / 1_000 % 86_400;
    let mut line = format!(
        "{:02}:{:02}:{:02}.{:03} {} {}/{}",
        s / 3_600,
        s / 60 % 60,
        s % 60,
        all_ms % 1_000,
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
