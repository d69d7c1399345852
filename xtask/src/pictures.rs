//! `cargo xtask pictures`: draws every picture of the books, each from a run of this build.

mod recording;
mod terminal;

use std::fs;

use anyhow::{Context as _, Result};

use crate::context::Context;
use crate::process::{cargo, succeeds};

/// The commands that draw: a replay and a comparison.
const COMMANDS: [&str; 2] = [
    "run --quiet --bin tidegate -- replay --config examples/rules.toml \
     --trace crates/tidegate-lab/data/example-access.log --plot docs/img/replay-shop.svg",
    "run --quiet --bin tidegate -- compare --rate 200/60s --plot docs/img/compare-minute-edge.svg",
];

/// The program for most other pictures, and for the Chinese words of all pictures.
const OTHERS: &str = "run --quiet -p tidegate-lab --example make_pictures write";

/// Draws all pictures; returns whether all could be drawn.
///
/// # Errors
///
/// Returns an error if the workspace cannot be read or cargo cannot be started.
pub(crate) fn run() -> Result<bool> {
    let context = Context::load()?;
    let mut drawn = true;
    for command in COMMANDS {
        drawn &= succeeds(&mut cargo(&context, command))?;
    }
    let target = context.metadata.target_directory.as_std_path();
    let binary = target.join(format!("debug/tidegate{}", std::env::consts::EXE_SUFFIX));
    let picture = recording::record(context.root(), &binary, &target.join("pictures"))?;
    let file = context.root().join("docs/img/terminal.svg");
    fs::write(&file, picture).with_context(|| format!("writing {}", file.display()))?;
    drawn &= succeeds(&mut cargo(&context, OTHERS))?;
    Ok(drawn)
}
