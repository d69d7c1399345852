//! `cargo xtask` runs every check, test and measurement of the project.
//!
//! It needs nothing but the pinned toolchain, so that a laptop and the build machine run the
//! same thing. `cargo xtask --help` lists the subcommands; the checks are in [`steps`].

mod bench;
mod cli;
mod context;
mod count;
mod imports;
mod numbers;
mod pictures;
mod process;
mod runner;
mod sim;
mod step;
mod steps;
mod summary;
mod tally;
mod tree;

use std::process::ExitCode;

use clap::Parser;

use crate::cli::{Cli, Command};

fn main() -> ExitCode {
    let done = match Cli::parse().command {
        Command::Test(which) => runner::test(&which),
        Command::Bench(which) => bench::run(&which),
        Command::Count(which) => count::run(&which),
        Command::Numbers => numbers::run(),
        Command::Pictures => pictures::run(),
        Command::Sim(which) => sim::run(&which),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}
