//! The examples step: every example runs to its end, and its own checks hold.

use std::process::{Command, Stdio};

use anyhow::{Context as _, Result};
use cargo_metadata::camino::{Utf8Path, Utf8PathBuf};
use cargo_metadata::{Package, TargetKind};

use crate::context::Context;
use crate::process::{cargo, run_as_step};
use crate::step::Outcome;

/// The build of the tests, which contains the examples. Alone they would be built again with most of what they need: it
/// depends on all targets of a build how Cargo compiles what macros need.
const BUILD: &str = "test --workspace --all-features --locked --no-run";

/// Lines shown of an example's output; one example writes a whole access log.
const SHOWN_LINES: usize = 20;

/// Runs one example after another, and continues after a failure.
pub(super) fn run(context: &mut Context) -> Result<Outcome> {
    let built = run_as_step(&mut cargo(context, BUILD))?;
    if !matches!(built, Outcome::Passed(_)) {
        return Ok(built);
    }
    let mut failed = Vec::new();
    for package in &context.metadata.packages {
        for example in examples(package) {
            let program = program(&context.metadata.target_directory, example);
            println!("$ {program}");
            let mut run = Command::new(&program);
            if !ends_well(run.current_dir(context.root()))? {
                failed.push(format!("{} {example}", package.name));
            }
        }
    }
    Ok(Outcome::from_failures(&failed))
}

/// The path at which the build puts an example.
fn program(target: &Utf8Path, example: &str) -> Utf8PathBuf {
    target.join("debug/examples").join(format!("{example}{}", std::env::consts::EXE_SUFFIX))
}

fn ends_well(run: &mut Command) -> Result<bool> {
    let ended = run.stderr(Stdio::inherit()).output().context("cannot start what was built")?;
    print!("{}", beginning(&String::from_utf8_lossy(&ended.stdout)));
    Ok(ended.status.success())
}

/// The first lines of a text, and the number of lines after them.
fn beginning(text: &str) -> String {
    let mut shown: String = text.split_inclusive('\n').take(SHOWN_LINES).collect();
    let left = text.lines().count().saturating_sub(SHOWN_LINES);
    if left > 0 {
        shown.push_str(&format!("... {left} more lines\n"));
    }
    shown
}

fn examples(package: &Package) -> impl Iterator<Item = &str> {
    let examples = package.targets.iter().filter(|target| target.is_kind(TargetKind::Example));
    examples.map(|target| target.name.as_str())
}

/// All features are needed here, so that nothing is built twice.
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_long_text_the_beginning_is_shown() {
        assert_eq!(beginning("a\nb\n"), "a\nb\n");
        let shown = beginning(&"line\n".repeat(SHOWN_LINES + 3));
        assert!(shown.ends_with("line\n... 3 more lines\n"), "{shown}");
    }

    #[test]
    fn the_examples_of_the_library_are_found() {
        let context = Context::load().unwrap();
        let packages = context.metadata.packages.iter();
        let all: Vec<_> = packages.flat_map(examples).collect();
        for name in "axum connections observers outgoing payment plans thread_pool tonic".split(' ')
        {
            assert!(all.contains(&name), "{name} is not in {all:?}");
        }
    }
}
