//! `tidegate reset` makes the limiters of one descriptor idle, after a question on a terminal.

use std::io::{BufRead, IsTerminal, Write};
use std::process::ExitCode;

use hyper::Method;
use serde_json::Value;
use tidegate::printable;

use super::entries::{self, EntryArg};
use super::{AdminFlags, OutputFormat, items, number, run as run_client};
use crate::failure::Failure;

/// Make the limiters of a descriptor idle at a running server
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:  tidegate reset user=ada --yes",
    after_long_help = "All limiters are reset that a request with these entries would ask, including
those that it shares with others, such as one limiter for all. On a terminal the
command asks before; elsewhere it needs --yes. The exit code is 1 if no limiter
matches.

Examples:
  tidegate reset user=ada
  tidegate reset ip=203.0.113.7 path=/login --domain web --yes"
)]
pub(crate) struct ResetArgs {
    /// The entries of the descriptor, as NAME=VALUE
    #[arg(value_name = "NAME=VALUE", value_parser = entries::parse)]
    entries: Vec<EntryArg>,

    /// The domain of the rules
    #[arg(long, default_value = "default")]
    domain: String,

    /// Do not ask before
    #[arg(long, short)]
    yes: bool,

    /// Output: text, or the JSON of the server
    #[arg(long, value_enum, default_value_t = OutputFormat::Text)]
    format: OutputFormat,

    #[command(flatten)]
    admin: AdminFlags,
}

/// Sends `POST /v1/reset`, if the person agrees.
pub(crate) fn run(args: &ResetArgs) -> Result<ExitCode, Failure> {
    let listener = args.admin.listener()?;
    if !args.yes && !agrees(args)? {
        return Err(Failure::new("nothing was reset"));
    }
    let body = entries::body(&args.domain, &args.entries, None);
    run_client(async {
        let answer = listener.ask(Method::POST, "/v1/reset", &body).await?;
        answer.print(args.format, text)?;
        if number(&answer.json, "reset") > 0 {
            return Ok(());
        }
        Err(Failure::new(format!(
            "no limiter matches {} in domain {}: `tidegate rules` lists the keys",
            entries::shown(&args.entries),
            args.domain
        )))
    })
}

/// The number of limiters, and the names of their rules; nothing if no limiter matches, which is an error.
fn text(answer: &Value) -> String {
    let reset = number(answer, "reset");
    if reset == 0 {
        return String::new();
    }
    let limiters = if reset == 1 { "limiter was" } else { "limiters were" };
    let rules: Vec<_> = items(answer, "rules").filter_map(Value::as_str).collect();
    // Limiters that are unlimited now were reset too, and the look that names rules does not see them.
    let of_rules = if rules.is_empty() { String::new() } else { format!(": {}", rules.join(", ")) };
    format!("{reset} {limiters} reset{of_rules}\n")
}

/// Asks the person at the terminal.
fn agrees(args: &ResetArgs) -> Result<bool, Failure> {
    let stdin = std::io::stdin();
    if !stdin.is_terminal() {
        return Err(Failure::usage(
            "cannot ask for confirmation without a terminal: expected a terminal, or --yes",
        ));
    }
    let question = format!(
        "Reset all limiters of {} in domain {} at {}, also those that others share? [y/N] ",
        entries::shown(&args.entries),
        args.domain,
        args.admin.admin
    );
    // On standard error, because standard output may be read by a program.
    let mut stderr = std::io::stderr();
    let asked = write!(stderr, "{}", printable::text(&question)).and_then(|()| stderr.flush());
    let mut line = String::new();
    let read = asked.and_then(|()| stdin.lock().read_line(&mut line));
    read.map_err(|error| Failure::new(format!("the terminal cannot be read: {error}")))?;
    Ok(["y", "yes"].contains(&line.trim().to_lowercase().as_str()))
}
