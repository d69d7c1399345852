//! `tidegate peek` shows the answer that a check would get. It asks the public listener, as a client does.

use std::path::PathBuf;
use std::process::ExitCode;

use hyper::Method;
use serde_json::Value;

use super::entries::{self, EntryArg};
use super::http_client::HttpClient;
use super::server_url::{self, ServerUrl};
use super::{ListenerClient, OutputFormat, items, run as run_client, seconds, token};
use crate::cli::guard::{CLIENT_TOKEN, file};
use crate::failure::Failure;

/// Show what a check would return, taking nothing
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:  tidegate peek user=ada path=/login --cost 3",
    after_long_help = "The exit code is 0 whatever the answer is.

Examples:
  tidegate peek user=ada
  tidegate peek ip=203.0.113.7 path=/login --domain web --cost 3
  tidegate peek user=ada --format json | jq .retry_after_us"
)]
pub(crate) struct PeekArgs {
    /// The entries of the descriptor, as NAME=VALUE
    #[arg(value_name = "NAME=VALUE", value_parser = entries::parse)]
    entries: Vec<EntryArg>,

    /// The domain of the rules
    #[arg(long, default_value = "default")]
    domain: String,

    /// The units to ask for
    #[arg(long, value_name = "UNITS", default_value_t = 1)]
    cost: u64,

    /// Output: text, or the JSON of the server
    #[arg(long, value_enum, default_value_t = OutputFormat::Text)]
    format: OutputFormat,

    /// The listener for clients over HTTP
    #[arg(long, value_name = "URL", env = "TIDEGATE_URL", default_value = "http://127.0.0.1:8080", value_parser = server_url::parse)]
    url: ServerUrl,

    /// A file with a token of a client; or TIDEGATE_CLIENT_TOKEN, the token itself
    #[arg(long, value_name = "FILE", env = "TIDEGATE_CLIENT_TOKEN_FILE", value_parser = file())]
    token_file: Option<PathBuf>,

    /// Authorities of an https:// server in place of the system's, PEM
    #[arg(long, value_name = "FILE", env = "TIDEGATE_TLS_ROOTS", value_parser = file())]
    tls_roots: Option<PathBuf>,
}

/// Prints the answer of `POST /v1/peek`.
pub(crate) fn run(args: &PeekArgs) -> Result<ExitCode, Failure> {
    let listener = ListenerClient {
        connection: HttpClient::new(&args.url, args.tls_roots.as_deref())?,
        token: token(args.token_file.as_deref(), CLIENT_TOKEN)?,
        kind: "the HTTP listener",
        flag: "--url URL or TIDEGATE_URL",
        variable: CLIENT_TOKEN,
    };
    let body = entries::body(&args.domain, &args.entries, Some(args.cost));
    run_client(async {
        let answer = listener.ask(Method::POST, "/v1/peek", &body).await?;
        answer.print(args.format, |json| match unavailable(json) {
            Some(text) if answer.is_unavailable => text,
            _ => text(json),
        })
    })
}

/// A line for a refusal without a decision of the store; its numbers of units would say nothing.
fn unavailable(answer: &Value) -> Option<String> {
    let rule = answer["rule"].as_str()?;
    let us = answer["retry_after_us"].as_u64()?;
    let why = if answer["overloaded"] == true { "is overloaded" } else { "does not answer" };
    Some(format!(
        "unavailable: the store {why}, and rule {rule} refuses without it; ask again in {}\n",
        seconds(us)
    ))
}

/// A line for the decision, one for each enforced rule if there are several, and one for each rule in shadow mode.
fn text(answer: &Value) -> String {
    let enforced: Vec<_> = items(answer, "enforced").collect();
    let mut text = decision(answer, if enforced.len() > 1 { "all limiters idle" } else { "idle" });
    for name in ["degraded", "overflow", "overloaded"] {
        if answer[name] == true {
            text.push_str(&format!("; {name}"));
        }
    }
    text.push('\n');
    // The first line has the decision of the only rule already.
    let several = if enforced.len() > 1 { &enforced[..] } else { &[] };
    let several = several.iter().map(|rule| ("enforce", *rule));
    for (mode, rule) in several.chain(items(answer, "shadow").map(|rule| ("shadow", rule))) {
        text.push_str(&format!("{mode}: {}\n", decision(rule, "idle")));
    }
    text
}

/// The decision of an answer or of one rule, on one line. The answer says when all limiters are `idle`, a rule when its
/// own is.
fn decision(answer: &Value, idle: &str) -> String {
    let is_allowed = answer["allowed"] == true;
    let allowed = if is_allowed { "allowed" } else { "refused" };
    let (Some(rule), Some(limit), Some(remaining)) =
        (answer["rule"].as_str(), answer["limit"].as_u64(), answer["remaining"].as_u64())
    else {
        let why = if is_allowed { "no rule with a limit matches" } else { "no rule has decided" };
        return format!("{allowed}: {why}");
    };
    let mut text = format!("{allowed}: rule {rule}, {remaining} of {limit} remaining");
    match (answer["delay_us"].as_u64(), answer["retry_after_us"].as_u64()) {
        (None | Some(0), _) if is_allowed => {}
        (Some(us), _) if is_allowed => text.push_str(&format!(", after {}", seconds(us))),
        (_, Some(us)) => text.push_str(&format!(", fits in {}", seconds(us))),
        // A cost that never fits has no time at which it would.
        (_, None) => text.push_str(", never fits"),
    }
    if let Some(us) = answer["reset_after_us"].as_u64() {
        text.push_str(&format!(", {idle} in {}", seconds(us)));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn each_kind_of_answer_is_a_line() {
        let mut answer = json!({
            "allowed": true, "rule": "r", "limit": 5, "remaining": 4, "retry_after_us": 0,
            "reset_after_us": 1_500_000, "delay_us": 0,
        });
        assert_eq!(text(&answer), "allowed: rule r, 4 of 5 remaining, idle in 1.5 s\n");
        answer["delay_us"] = json!(250_000);
        assert_eq!(
            text(&answer),
            "allowed: rule r, 4 of 5 remaining, after 0.25 s, idle in 1.5 s\n"
        );
        answer["allowed"] = json!(false);
        answer["retry_after_us"] = json!(999_001);
        answer["degraded"] = json!(true);
        let refused = "refused: rule r, 4 of 5 remaining, fits in 1 s, idle in 1.5 s; degraded\n";
        assert_eq!(text(&answer), refused);
        let closed = "unavailable: the store does not answer, and rule r refuses without it; ask again in 1 s\n";
        assert_eq!(unavailable(&answer).as_deref(), Some(closed));
        answer["retry_after_us"] = Value::Null;
        assert!(text(&answer).contains("never fits"));
        let all = json!({"allowed": true, "rule": "all", "limit": 9, "remaining": 0, "retry_after_us": 0});
        answer["enforced"] = json!([answer, all]);
        let each = text(&answer);
        assert!(
            each.lines().next().is_some_and(|line| line.contains("all limiters idle in 1.5 s"))
        );
        let rows: Vec<_> = each.lines().skip(1).collect();
        assert!(rows[0].starts_with("enforce: refused: rule r, 4 of 5"), "{each}");
        assert_eq!(rows[1..], ["enforce: allowed: rule all, 0 of 9 remaining"]);
        let unlimited = json!({"allowed": true, "rule": null, "shadow": [answer]});
        let lines = text(&unlimited);
        assert!(
            lines.starts_with("allowed: no rule with a limit matches\nshadow: refused: rule r"),
            "{lines}"
        );
    }
}
