//! The command line: its subcommands, and their help.

use clap::builder::{PossibleValue, PossibleValuesParser};
use clap::{Args, Parser, Subcommand};

use crate::step::When;
use crate::{bench, count, sim, steps};

/// The project's own checks, tests and benchmarks, in one command.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask", arg_required_else_help = true)]
pub(crate) struct Cli {
    /// The subcommand to run.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The subcommands; `main` has a line for each that runs it.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run every check and every test, and end with a table of what passed
    ///
    /// All steps run, in the order of the list below, even after one has failed: an unformatted line does not hide a
    /// broken test. The exit code is 0 only if none failed. The last line adds up the tests' own results: `N passed, N
    /// failed, N skipped`.
    Test(TestArgs),
    /// Measure the project's costs, compared with its peers
    ///
    /// The benchmarks are a workspace of their own, in `bench/`: its README.md says how they measure.
    Bench(bench::Args),
    /// Count the code, its names, its style and its English, and compare each figure with its ceiling
    ///
    /// The ceilings are in `xtask/ledger.toml`. A figure fails if it is more than half a percent above its ceiling.
    Count(count::Args),
    /// Write the numbers of the pages from the tables of the results
    Numbers,
    /// Draw every picture of the documents, each from a run of this build
    Pictures,
    /// Simulate nodes that lease from one store or hold its permits, and check every bound
    ///
    /// Virtual time, and a network, nodes and a store that fail. A seed that fails is printed, and is the same run again.
    Sim(sim::Args),
}

/// The choice of steps for `cargo xtask test`.
#[derive(Debug, Args)]
pub(crate) struct TestArgs {
    /// Also run the long steps: licences, advisories, the model checker and the longer property
    /// tests
    ///
    /// The first run installs cargo-deny and mdBook below the target directory, which takes some minutes.
    #[arg(long)]
    pub(crate) all: bool,

    /// Run only this step; may be repeated
    #[arg(long, value_name = "STEP", value_parser = step_names(), conflicts_with = "all")]
    pub(crate) only: Vec<String>,
}

impl TestArgs {
    /// Why a step is left out; `None` if it runs.
    pub(crate) fn left_out(&self, name: &str, when: When) -> Option<&'static str> {
        if !self.only.is_empty() {
            return (!self.only.iter().any(|only| only == name)).then_some("not asked for");
        }
        (when == When::All && !self.all).then_some("long: runs with --all")
    }
}

fn step_names() -> PossibleValuesParser {
    let named = |step: &crate::step::Step| PossibleValue::new(step.name).help(step.what);
    PossibleValuesParser::new(steps::LIST.iter().map(named))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    fn args(words: &[&str]) -> TestArgs {
        let words = [&["cargo xtask", "test"], words].concat();
        match Cli::try_parse_from(words).unwrap().command {
            Command::Test(args) => args,
            other => panic!("{other:?} is not a test"),
        }
    }

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn long_steps_wait_for_all_or_for_their_name() {
        let long = Some("long: runs with --all");
        let not_asked = Some("not asked for");
        let only = &["--only", "format", "--only", "long"][..];
        for (words, name, when, expected) in [
            (&[][..], "tests", When::Always, None),
            (&[], "long", When::All, long),
            (&["--all"], "long", When::All, None),
            (only, "format", When::Always, None),
            (only, "long", When::All, None),
            (only, "clippy", When::Always, not_asked),
        ] {
            assert_eq!(args(words).left_out(name, when), expected, "{words:?} {name}");
        }
        let unknown = Cli::try_parse_from(["cargo xtask", "test", "--only", "fromat"]);
        assert!(unknown.unwrap_err().to_string().contains("format"));
    }

    #[test]
    fn every_word_behind_bench_is_passed_on() {
        let words = ["in-process", "--json", "--filter", "1 key", "--rounds", "7", "--help"];
        let line = ["cargo xtask", "bench"].iter().chain(&words);
        let Command::Bench(args) = Cli::try_parse_from(line).unwrap().command else {
            panic!("not a benchmark");
        };
        assert_eq!(args.words, words);
    }

    #[test]
    fn every_command_line_in_a_page_is_valid() {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let pages = crate::tree::read(&root).unwrap().into_iter().filter(|file| file.is("md"));
        let (mut tried, mut wrong) = (0, Vec::new());
        for page in pages {
            for line in page.text.lines().filter_map(|line| line.strip_prefix("cargo xtask ")) {
                let line = line.split([';', '|', '#']).next().unwrap_or_default();
                let words = std::iter::once("cargo xtask").chain(line.split_whitespace());
                let error = Cli::try_parse_from(words).err();
                wrong
                    .extend(error.map(|error| format!("{}: {line}\n{error}", page.path.display())));
                tried += 1;
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
        assert!(tried > 10, "only {tried} command lines were found");
    }
}
