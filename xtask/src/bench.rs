//! `cargo xtask bench`: builds the benchmarks, optimised, and passes the remaining arguments to
//! them.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, Result};

use crate::context::Context;
use crate::process::cargo;

/// The workspace of the benchmarks, relative to the root.
const FOLDER: &str = "bench";

/// The arguments of `cargo xtask bench`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Its command and flags, such as `in-process --json`, `pauses`, `redis`, `server`, `scrape`, `overload`, `scale`, `--help`
    #[arg(
        value_name = "COMMAND",
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    pub(crate) words: Vec<OsString>,
}

/// Runs a benchmark to its end; returns whether it succeeded.
///
/// Only the benchmark writes to standard output: it may be JSON.
///
/// # Errors
///
/// Returns an error if the workspace cannot be read or cargo cannot be started.
pub(crate) fn run(which: &Args) -> Result<bool> {
    let context = Context::load()?;
    let mut run = in_bench(&context, "run --release --quiet --");
    let status = run.args(&which.words).status().context("cannot start cargo")?;
    Ok(status.success())
}

/// A cargo command in the workspace of the benchmarks.
pub(crate) fn in_bench(context: &Context, words: &str) -> Command {
    let mut command = cargo(context, words);
    command.current_dir(folder(context));
    command
}

fn folder(context: &Context) -> PathBuf {
    context.root().join(FOLDER)
}
