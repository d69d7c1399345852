//! `cargo xtask sim`: the simulator of the layers over a store, and of permits, over as many seeds as wanted, or over
//! mutants of the code.
//!
//! The library and the crates that it needs are copied below the target directory, without most of their tests, so that
//! the copy builds in seconds. A mutant is a replacement of text in the copy, and the code itself has no switches.

mod mutants;

use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use crate::context::Context;
use crate::process::{cargo, succeeds};
use crate::tree;
use mutants::Mutant;

/// The crates that are copied: the library, and the crates that it needs.
const CRATES: &str =
    "tidegate-core testkit tidegate-rules tidegate-config tidegate-store tidegate-redis tidegate";

/// The tests by cases in these folders stay in the copy, because they alone find some mutants.
const CASES: [&str; 2] = ["crates/tidegate/src/lease", "crates/tidegate/src/layers/carry"];

/// The profile of the copy: quick to build again, and quick enough for many seeds.
const PROFILE: &str = "
[profile.dev]
opt-level = 1
debug = false
incremental = true
";

/// The arguments of `cargo xtask sim`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The number of seeds to run, or the largest number for each mutant
    #[arg(long, value_name = "NUMBER", default_value_t = 2_000)]
    seeds: u64,

    /// The first seed, for example one that failed
    #[arg(long, value_name = "SEED", default_value_t = 0)]
    from: u64,

    /// Break the code in one place at a time; succeeds if the simulator finds each
    #[arg(long)]
    mutants: bool,

    /// Only the mutants whose names contain this text
    #[arg(long, value_name = "TEXT", default_value = "", requires = "mutants")]
    only: String,
}

/// Runs the seeds, or the mutants; returns whether no seed failed, or every mutant was found.
///
/// # Errors
///
/// Returns an error if the copy cannot be written, a replacement does not fit the code, or a mutant does not build.
pub(crate) fn run(args: &Args) -> Result<bool> {
    let context = Context::load()?;
    let copy = Copy::make(&context)?;
    if !args.mutants {
        let tests: BTreeSet<_> = mutants::all().iter().map(|mutant| mutant.test).collect();
        return succeeds(&mut copy.test(&context, args, tests));
    }
    let mut missed = 0;
    let mut all = 0;
    for mutant in mutants::all().iter().filter(|mutant| mutant.name.contains(&args.only)) {
        copy.write(mutant.file, &mutant.of(&copy.original(mutant.file)?)?)?;
        let found = copy.finds(&context, args, mutant)?;
        copy.mend(mutant.file)?;
        all += 1;
        missed += u64::from(found.is_none());
        println!("| {} | {} |", mutant.name, found.as_deref().unwrap_or("MISSED"));
    }
    println!("{} of {all} mutants found", all - missed);
    Ok(missed == 0)
}

/// The copied crates, in the folders that they have in the workspace.
struct Copy {
    root: PathBuf,
    folder: PathBuf,
}

impl Copy {
    fn make(context: &Context) -> Result<Self> {
        let root = context.root().to_owned();
        let folder = context.metadata.target_directory.as_std_path().join("sim");
        let copy = Self { root, folder };
        if copy.folder.join("crates").exists() {
            fs::remove_dir_all(copy.folder.join("crates")).context("emptying the copy")?;
        }
        for file in ["Cargo.toml", "Cargo.lock", "crates/tidegate-core/README.md"] {
            copy.mend(file)?;
        }
        for name in CRATES.split(' ') {
            copy.mend(&format!("crates/{name}/Cargo.toml"))?;
            for file in tree::files(&copy.root.join("crates").join(name).join("src"))? {
                let path = file.strip_prefix(&copy.root).unwrap_or(&file);
                copy.mend(&path.to_string_lossy())?;
            }
        }
        Ok(copy)
    }

    /// Writes a file, unless it has this text already: a file that is new is built again.
    fn write(&self, path: &str, text: &str) -> Result<()> {
        let text = adapted(path, text);
        let path = self.folder.join(path);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        if fs::read_to_string(&path).is_ok_and(|own| own == text) {
            return Ok(());
        }
        fs::write(&path, text).with_context(|| format!("writing {}", path.display()))
    }

    fn original(&self, path: &str) -> Result<String> {
        fs::read_to_string(self.root.join(path)).with_context(|| format!("reading {path}"))
    }

    /// Copies a file once more.
    fn mend(&self, path: &str) -> Result<()> {
        self.write(path, &self.original(path)?)
    }

    fn cargo(&self, context: &Context) -> Command {
        let mut command = cargo(context, "test --quiet -p tidegate --lib --features redis");
        command.current_dir(&self.folder);
        command.env("CARGO_TARGET_DIR", self.folder.join("target"));
        command
    }

    /// Runs tests of the simulators.
    fn test<'a>(
        &self,
        context: &Context,
        args: &Args,
        tests: impl IntoIterator<Item = &'a str>,
    ) -> Command {
        let mut test = self.cargo(context);
        test.args(["--", "--nocapture"]).args(tests);
        test.env("TIDEGATE_SIM_SEEDS", args.seeds.to_string());
        test.env("TIDEGATE_SIM_FROM", args.from.to_string());
        test
    }

    /// Returns how many seeds it took until the test failed with the mutant, or that a case failed; `None` if none did.
    fn finds(&self, context: &Context, args: &Args, mutant: &Mutant) -> Result<Option<String>> {
        let built = self.cargo(context).arg("--no-run").output().context("building a mutant")?;
        if !built.status.success() {
            let errors = String::from_utf8_lossy(&built.stderr);
            bail!("the mutant \"{}\" does not build:\n{errors}", mutant.name);
        }
        let ran = self.test(context, args, [mutant.test]).output().context("running a mutant")?;
        let error = String::from_utf8_lossy(&ran.stderr);
        if ran.status.success() || !error.contains("panicked at") {
            return Ok(None);
        }
        let seed = error.lines().find_map(|line| line.strip_prefix("seed ")?.split_once(':'));
        let seed = seed.and_then(|(seed, _)| seed.parse::<u64>().ok());
        let seeds = seed.map(|seed| (seed + 1 - args.from).to_string());
        Ok(Some(seeds.unwrap_or("a case".to_owned())))
    }
}

/// Returns the text of a file in the copy: manifests without the parts that the copy lacks, and code without its tests.
fn adapted(path: &str, text: &str) -> String {
    let before = |text: &str, mark: &str| text.split(mark).next().unwrap_or_default().to_owned();
    match path {
        "Cargo.toml" => {
            let text = before(text, "[profile.").replace(", \"xtask\"]", "]");
            let lines = text.lines().filter(|line| !line.starts_with("default-members"));
            lines.collect::<Vec<_>>().join("\n") + PROFILE
        }
        _ if path.ends_with("Cargo.toml") => {
            let tokio = "tokio = { workspace = true, features = [\"test-util\"] }\n";
            let mark = "[target.'cfg(not(loom))'.dev-dependencies]";
            let kept = before(&before(text, "[lints]"), mark);
            if text.contains(mark) { format!("{kept}{mark}\n{tokio}") } else { kept }
        }
        _ if path.ends_with("/src/lib.rs") => text.replacen("#![", "#![allow(warnings)]\n#![", 1),
        _ if CASES.iter().any(|cases| path.starts_with(cases)) => text.to_owned(),
        _ => text.replace("#[cfg(test)]\nmod tests", "#[cfg(any())]\nmod tests"),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn every_mutant_fits_the_code_as_it_is_and_is_listed() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let files = tree::read(&root).unwrap();
        let mutants = mutants::all();
        assert!(mutants.len() > 70, "only {} mutants were read", mutants.len());
        for mutant in &mutants {
            let text = tree::text_of(&files, mutant.file);
            assert_ne!(mutant.of(text).unwrap(), text, "{}", mutant.name);
        }
        let page = tree::text_of(&files, "bench/results/simulator.md");
        let rows = page.lines().filter_map(|line| line.strip_prefix("| ")?.split_once(" |"));
        let names: Vec<_> = mutants.iter().map(|mutant| mutant.name).collect();
        let listed: Vec<_> =
            rows.map(|(name, _)| name).filter(|name| names.contains(name)).collect();
        assert_eq!(listed, names);
    }
}
