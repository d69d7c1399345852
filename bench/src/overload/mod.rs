//! The command `overload`: more load than a shared store decides in time, and what holds then.

mod asking;
pub mod cases;
pub mod closed_loop;
mod polite;
pub mod servers;
mod table;

use crate::rounds::Form;
use crate::server::running;
use cases::{Case, Setting};
use clap::Args;
use polite::Polite;
use servers::{Mode, Servers};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;
use table::Line;

/// The time that an answer may take, beyond which it is none.
const PATIENCE: Duration = Duration::from_secs(5);
/// The time for which polite callers ask before the load begins.
const BEFORE: Duration = Duration::from_millis(500);

/// The options of this command.
#[derive(Args)]
pub struct Overload {
    #[command(flatten)]
    form: Form,
    /// Only what has all these texts in `SCENARIO/LISTENER CONNECTIONSxDEPTH/N servers/SETTING`, such as
    /// `--filter "one key" --filter "resp 200x16" --filter /local`.
    #[arg(long, value_name = "TEXT")]
    filter: Vec<String>,
    /// The time for which each subject is asked.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..))]
    seconds: u64,
    /// The server's program, in place of one that is built from these sources.
    #[arg(long, value_name = "FILE")]
    tidegate: Option<PathBuf>,
    /// The counting of limits that many callers ask for.
    #[arg(long, value_enum, default_value_t)]
    mode: Mode,
    /// Print the cases, and measure none.
    #[arg(long)]
    list: bool,
}

/// Measures and prints.
///
/// # Errors
/// When a program is missing, an answer is not understood, or nothing is wanted.
pub fn run(wanted: &Overload) -> Result<(), String> {
    let is_wanted =
        |case: &Case| wanted.filter.iter().all(|text| case.to_string().contains(text.as_str()));
    let cases: Vec<_> = Case::all().into_iter().filter(is_wanted).collect();
    if cases.is_empty() {
        return Err("nothing measured: no case matched".to_owned());
    }
    if wanted.list {
        cases.iter().for_each(|case| println!("{case}"));
        return Ok(());
    }
    let tidegate = running::tidegate(wanted.tidegate.as_deref())?;
    let length = Duration::from_secs(wanted.seconds);
    for together in cases.chunk_by(|one, other| {
        one.scenario == other.scenario && one.load.to_string() == other.load.to_string()
    }) {
        let lines = together.iter().map(|case| {
            let line = measure(case, &tidegate, length, wanted.mode);
            line.map_err(|problem| format!("{case}: {problem}"))
        });
        table::print(&lines.collect::<Result<Vec<_>, _>>()?, wanted.form)?;
    }
    Ok(())
}

/// Servers of its own, polite callers, and then the load next to them.
fn measure(case: &Case, tidegate: &Path, length: Duration, mode: Mode) -> Result<Line, String> {
    let servers = Servers::start(tidegate, case.servers, case.setting, mode)?;
    let at = servers.at(case.load.listener);
    let polite = Polite::begin(case.load.listener, &at)?;
    thread::sleep(BEFORE);
    let before = servers.store_did()?;
    let answer = closed_loop::run(case, &at, length)?;
    let stopped = answer.stopped.ok_or("the load never stopped")?;
    let did = servers.store_did()?.since(before);
    let polite = polite.end(stopped)?;
    Ok(Line::of(case, length, answer, polite, did))
}

impl Setting {
    /// The name of a decision that the store did not take.
    const fn other(self) -> &'static str {
        match self {
            Self::Closed => "shed",
            Self::Open | Self::Local | Self::Memory => "local",
        }
    }
}
