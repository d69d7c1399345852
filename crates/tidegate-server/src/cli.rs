//! The command line: its subcommands, and their exit codes.
//!
//! A subcommand is one file with `Args` and `run`, and one line in [`Command`] and in [`run`].

mod address;
mod bounds;
mod check;
mod compare;
mod decider;
mod guard;
mod lab;
mod listeners;
mod replay;
mod script;
mod serve;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

const EXAMPLES: &str = "\
Examples:
  tidegate serve                          rules built in, to try things out
  tidegate serve --config rules.toml      your own rules
  tidegate check rules.toml               is the configuration sound?
  tidegate replay --config rules.toml --trace access.log.gz
                                          whom would these rules have refused?
  tidegate compare --rate 200/60s         every algorithm with one limit, side by side
  tidegate script token_bucket            the Lua by which it decides in Redis

Exit codes: 0 done, 1 it could not be done, 2 wrong usage or a mistake in the configuration.";

/// A rate limiter whose every algorithm has a bound that is proven and kept.
#[derive(Debug, Parser)]
#[command(name = "tidegate", version, after_help = EXAMPLES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Serve(Box<serve::Args>),
    Check(check::Args),
    Replay(replay::Args),
    Compare(compare::Args),
    Script(script::Args),
}

/// Runs the command line. Wrong usage ends the process here, with exit code 2.
pub(crate) fn run() -> ExitCode {
    let done = match Cli::parse().command {
        Command::Serve(args) => serve::run(&args),
        Command::Check(args) => check::run(&args),
        Command::Replay(args) => replay::run(&args),
        Command::Compare(args) => compare::run(&args),
        Command::Script(args) => script::run(&args),
    };
    done.unwrap_or_else(|failure| failure.report())
}

#[cfg(test)]
mod pages;

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
