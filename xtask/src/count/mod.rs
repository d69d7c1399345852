//! `cargo xtask count`: counts of the code, each with a ceiling in `xtask/ledger.toml`.

mod english;
mod ledger;
mod names;
mod sizes;
pub(crate) mod source;
mod style;
mod table;
mod tokens;
mod verbs;

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};

use self::ledger::Ledger;
use self::table::Count;
use crate::context::Context;
use crate::tree;

/// The arguments of `cargo xtask count`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Also print the twelve worst places of each count
    #[arg(long)]
    worst: bool,

    /// Lower each ceiling that is above its figure; raise none
    #[arg(long)]
    lower: bool,
}

/// Prints all counts with their ceilings; returns whether the ledger fits.
///
/// # Errors
/// Returns an error if the workspace or the ledger cannot be read.
pub(crate) fn run(which: &Args) -> Result<bool> {
    let context = Context::load()?;
    let counts = counts(context.root())?;
    let mut ledger = read(context.root())?;
    if which.lower {
        let (text, lowered) = ledger.lowered(&counts);
        fs::write(context.root().join(ledger::PATH), &text)?;
        ledger = Ledger::parse(&text)?;
        println!("lowered {lowered} ceilings of {}", ledger::PATH);
    }
    println!("{:<26}{:>9}{:>9}", "count", "figure", "ceiling");
    for count in &counts {
        print!("{}", count.text(|name| ledger.ceiling(count.section, name), which.worst));
    }
    let complaints = ledger.complaints(&counts);
    for complaint in &complaints {
        println!("\n{complaint}");
    }
    Ok(complaints.is_empty())
}

/// The complaints of the ledger about the code of a workspace.
///
/// # Errors
/// Returns an error if the workspace or the ledger cannot be read.
pub(crate) fn compare(root: &Path) -> Result<Vec<String>> {
    Ok(read(root)?.complaints(&counts(root)?))
}

fn read(root: &Path) -> Result<Ledger> {
    let text = fs::read_to_string(root.join(ledger::PATH));
    Ledger::parse(&text.with_context(|| format!("reading {}", ledger::PATH))?)
}

fn counts(root: &Path) -> Result<Vec<Count>> {
    let files = tree::read(root)?;
    let sources = source::read(&files)?;
    let lines = sizes::lines(&sources);
    let mut counts = Vec::from(sizes::count(&sources));
    counts.extend(names::count(&sources));
    counts.extend(verbs::count(&sources));
    counts.extend(style::count(&sources, &lines));
    counts.push(english::retired(&sources));
    counts.push(english::comments(&sources));
    Ok(counts)
}
