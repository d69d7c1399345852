//! `tidegate reservations`: the open reservations of a running server, which an operator lists, settles and drops.

use std::process::ExitCode;

use hyper::Method;
use serde_json::{Value, json};

use super::{
    AdminFlags, ListenerClient, OutputFormat, columns, items, number, run as run_client, seconds,
    tables, text,
};
use crate::failure::Failure;
use crate::stdout;

/// List, settle or drop a running server's reservations
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:  tidegate reservations --number 20",
    after_long_help = "The list begins with those that end first. `settle` gives back what the work did
not need; `drop` forgets reservations, whose units stay taken. Both are lines of
the audit log of the server. Flags come before these words.

Examples:
  tidegate reservations
  tidegate reservations settle 8f0e4c1d2b3a49586776859493a2b1c0 120
  tidegate reservations drop 8f0e4c1d2b3a49586776859493a2b1c0"
)]
pub(crate) struct ReservationsArgs {
    #[command(subcommand)]
    action: Option<ReservationAction>,

    /// The largest number of reservations to list
    #[arg(long, short, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    number: u32,

    /// Output: text, or the JSON of the server
    #[arg(long, value_enum, default_value_t = OutputFormat::Text)]
    format: OutputFormat,

    #[command(flatten)]
    admin: AdminFlags,
}

#[derive(Debug, clap::Subcommand)]
enum ReservationAction {
    /// Settle a reservation for the actual cost of its work
    Settle {
        /// The id of the reservation
        id: String,
        /// The actual cost, or the actual cost of each descriptor
        #[arg(required = true)]
        actual: Vec<u64>,
    },
    /// Forget reservations, whose units stay taken
    Drop {
        /// The ids of the reservations
        #[arg(required = true)]
        ids: Vec<String>,
    },
}

/// An id is pasted, so it is never cut, as numbers are not.
const COLUMNS: columns::TableColumns<'_> = columns::TableColumns {
    headings: &["BYTES", "ENDS IN", "COSTS", "RESERVATION", "KEYS"],
    numbers: 0..4,
    least: &[0, 2],
};

/// Asks the server, and prints its answer.
pub(crate) fn run(args: &ReservationsArgs) -> Result<ExitCode, Failure> {
    let listener = args.admin.listener()?;
    run_client(async {
        match &args.action {
            None => list(args, &listener).await,
            Some(ReservationAction::Settle { id, actual }) => {
                settle(args, &listener, id, actual).await
            }
            Some(ReservationAction::Drop { ids }) => {
                for id in ids {
                    let body = json!({ "reservation": id }).to_string();
                    let answer = listener.ask(Method::POST, "/v1/drop", &body).await?;
                    answer.print(args.format, |_| {
                        format!("{id} is dropped, and its units stay taken\n")
                    })?;
                }
                Ok(())
            }
        }
    })
}

/// Settles a reservation; the answer says for what, or that it waits for the store.
async fn settle(
    args: &ReservationsArgs,
    listener: &ListenerClient,
    id: &str,
    actual: &[u64],
) -> Result<(), Failure> {
    let actual = match actual {
        [one] => json!(one),
        each => json!(each),
    };
    let body = json!({ "reservation": id, "actual": actual }).to_string();
    let answer = listener.ask(Method::POST, "/v1/settle", &body).await?;
    answer.print(args.format, |json| match (json.get("settled"), json.get("cut")) {
        (Some(settled), Some(cut)) => format!("{id} is settled for {settled}; cut: {cut}\n"),
        _ => format!("{id} is settled as soon as the store answers\n"),
    })
}

async fn list(args: &ReservationsArgs, listener: &ListenerClient) -> Result<(), Failure> {
    let path = format!("/v1/reservations?n={}", args.number);
    listener.ask(Method::GET, &path, "").await?.print(args.format, listed)
}

/// The list for a person.
fn listed(answer: &Value) -> String {
    let mut text = format!(
        "{} open, {} wait for the store, {} bytes\n",
        number(answer, "open"),
        number(answer, "pending"),
        number(answer, "bytes")
    );
    let now_us = tidegate::Clock::now(&tidegate::SystemClock::new()).as_micros();
    let mut rows = Vec::new();
    for one in items(answer, "reservations") {
        let id = one["reservation"].as_str().unwrap_or("(hidden)");
        let costs = one.get("costs").map(Value::to_string).unwrap_or_default();
        // The clock here may be ahead of the server: then the rest is shown as 0.
        let ends = seconds(number(one, "ends_us").saturating_sub(now_us));
        rows.push(vec![number(one, "bytes").to_string(), ends, costs, id.to_owned(), keys(one)]);
    }
    if !rows.is_empty() {
        text.push('\n');
        text.push_str(&tables::table(stdout::width(), &COLUMNS, rows));
    }
    text
}

/// The rules that a reservation's request matches, each with its key.
fn keys(reservation: &Value) -> String {
    let shown = items(reservation, "keys").map(|one| {
        let rule = text(one, "rule");
        match tables::key(one.get("key")) {
            key if key.is_empty() => rule.to_owned(),
            key => format!("{rule} ({key})"),
        }
    });
    shown.collect::<Vec<_>>().join(", ")
}
