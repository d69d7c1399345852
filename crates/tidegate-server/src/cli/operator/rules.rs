//! `tidegate rules`: the policy that a running server has in force, as the table that `serve` prints.

use std::process::ExitCode;

use hyper::Method;
use serde_json::Value;

use super::{AdminFlags, OutputFormat, in_force, number, run as run_client};
use crate::failure::Failure;
use crate::{banner, policy, stdout};

/// Show the rules that a running server has in force
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:  tidegate rules --admin http://10.0.0.7:8082",
    after_long_help = "`tidegate serve` prints the same table. Below it each override has a line.

Examples:
  tidegate rules
  tidegate rules --format json | jq .rules"
)]
pub(crate) struct RulesArgs {
    /// Output: a table, or the JSON of the server
    #[arg(long, value_enum, default_value_t = OutputFormat::Text)]
    format: OutputFormat,

    #[command(flatten)]
    admin: AdminFlags,
}

/// Prints the answer of `GET /v1/rules`.
pub(crate) fn run(args: &RulesArgs) -> Result<ExitCode, Failure> {
    let listener = args.admin.listener()?;
    run_client(async {
        let answer = listener.ask(Method::GET, "/v1/rules", "").await?;
        if args.format == OutputFormat::Json {
            return stdout::print(&format!("{}\n", answer.text));
        }
        let in_force = in_force::policy(&answer.json)?;
        let file = answer.json["file"].as_str();
        let overrides = match banner::overrides(&in_force, stdout::width()) {
            none if none.is_empty() => none,
            lines => format!("\n{lines}\n"),
        };
        stdout::print(&format!(
            "{} in force{}{}\n\n{}\n{overrides}",
            policy::count(&in_force),
            file.map(|file| format!(", of {file}")).unwrap_or_default(),
            reloads(&answer.json["reloads"]),
            banner::table(&in_force, answer.json.get("store").is_some(), stdout::width())
        ))
    })
}

/// The number of attempts to load another configuration, if there were any, and the error of the last attempt.
fn reloads(reloads: &Value) -> String {
    let succeeded = number(reloads, "succeeded");
    let failed = number(reloads, "failed");
    if succeeded + failed == 0 {
        return String::new();
    }
    let error = reloads["error"].as_str();
    let error = error.map(|error| format!("\nlast attempt failed: {error}")).unwrap_or_default();
    format!("; changes since the start: {succeeded}, failed attempts: {failed}{error}")
}
