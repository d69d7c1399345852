//! The examples step: every example runs to its end, and finds what it expects.

use std::process::{Command, Stdio};

use anyhow::{Context as _, Result};
use cargo_metadata::{Package, TargetKind};

use crate::context::Context;
use crate::process::cargo;
use crate::step::Outcome;

/// Of what an example prints, as much is shown; one writes a whole access log.
const SHOWN_LINES: usize = 20;

/// Runs one example after the other, and goes on after one has failed.
pub(super) fn run(context: &mut Context) -> Result<Outcome> {
    let mut failed = Vec::new();
    for package in &context.metadata.packages {
        for example in examples(package) {
            let mut run = cargo(context, &arguments(&package.name, example));
            println!("$ cargo run --package {} --example {example}", package.name);
            if !ends_well(&mut run)? {
                failed.push(format!("{} {example}", package.name));
            }
        }
    }
    Ok(Outcome::from_failures(&failed))
}

fn ends_well(run: &mut Command) -> Result<bool> {
    let ended = run.stderr(Stdio::inherit()).output().context("can not start cargo")?;
    print!("{}", beginning(&String::from_utf8_lossy(&ended.stdout)));
    Ok(ended.status.success())
}

/// The first lines of a text, and how many there are behind them.
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

/// All features, so that what the tests have built is not built again.
const fn arguments<'a>(package: &'a str, example: &'a str) -> [&'a str; 8] {
    ["run", "--quiet", "--locked", "--all-features", "--package", package, "--example", example]
}

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
        let known = ["axum", "connections", "outgoing", "payment", "plans", "thread_pool", "tonic"];
        for name in known {
            assert!(all.contains(&name), "{name} is not in {all:?}");
        }
    }
}
