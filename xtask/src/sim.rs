//! `cargo xtask sim`: the simulators of leases, shares and permits and of the layers over a store, over as many seeds as
//! wanted, or the first of them over mutants of the protocol.
//!
//! That simulator and the core are copied below the target directory, as a package of their own that builds in seconds. So
//! a mutant is a replacement of text in the copy, and the code itself has no switches.

mod mutants;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail};

use crate::context::Context;
use crate::process::{cargo, succeeds};
use mutants::{MUTANTS, Mutant};

/// The manifest of the copied package.
const MANIFEST: &str = r#"[package]
name = "lease-sim"
version = "0.0.0"
edition = "2024"

[dependencies]
tidegate-core = { path = "tidegate-core" }
testkit = { path = "testkit" }

[workspace]

[profile.release]
debug-assertions = true
incremental = true
"#;

/// The folders that are copied: from the root of the workspace, and to the package.
const FOLDERS: &[(&str, &str)] = &[
    ("crates/tidegate-core/src", "tidegate-core/src"),
    ("crates/testkit/src", "testkit/src"),
    ("crates/tidegate/src/lease", "src/lease"),
];

/// The arguments of `cargo xtask sim`.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The number of seeds to run, or the largest number for each mutant
    #[arg(long, value_name = "NUMBER", default_value_t = 2_000)]
    seeds: u64,

    /// The first seed, for example one that failed
    #[arg(long, value_name = "SEED", default_value_t = 0)]
    from: u64,

    /// Break the protocol in one place at a time; succeeds if the simulator finds each
    #[arg(long)]
    mutants: bool,
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
        let tests: Vec<_> = MUTANTS.iter().map(|(test, _)| *test).collect();
        let of_leases = succeeds(&mut copy.test(&context, args, &tests))?;
        return Ok(succeeds(&mut layers(&context, args))? && of_leases);
    }
    let all = || MUTANTS.iter().flat_map(|(test, mutants)| mutants.iter().map(|one| (*test, one)));
    let mut missed = Vec::new();
    for (test, mutant) in all() {
        copy.mutate(mutant)?;
        let found = copy.finds(&context, args, test, mutant)?;
        copy.mend(mutant)?;
        println!("{}  {}", if found { "found " } else { "MISSED" }, mutant.name);
        if !found {
            missed.push(mutant.name);
        }
    }
    println!("{} of {} mutants found", all().count() - missed.len(), all().count());
    Ok(missed.is_empty())
}

/// The copied package.
struct Copy {
    root: PathBuf,
    folder: PathBuf,
}

impl Copy {
    fn make(context: &Context) -> Result<Self> {
        let root = context.root().to_owned();
        let folder = context.metadata.target_directory.as_std_path().join("sim");
        for (_, to) in FOLDERS {
            if folder.join(to).exists() {
                fs::remove_dir_all(folder.join(to)).context("emptying the copy")?;
            }
        }
        let copy = Self { root, folder };
        copy.write("Cargo.toml", MANIFEST)?;
        for name in ["tidegate-core", "testkit"] {
            let manifest =
                format!("[package]\nname = \"{name}\"\nversion = \"0.0.0\"\nedition = \"2024\"\n");
            copy.write(&format!("{name}/Cargo.toml"), &manifest)?;
        }
        copy.write("src/lib.rs", "#![allow(warnings)]\nmod lease;\n")?;
        for file in ["crates/tidegate/src/lease.rs", "crates/tidegate-core/README.md"] {
            copy.mend_file(file)?;
        }
        for (from, to) in FOLDERS {
            copy_folder(&copy.root.join(from), &copy.folder.join(to))?;
        }
        Ok(copy)
    }

    fn write(&self, path: &str, text: &str) -> Result<()> {
        let path = self.folder.join(path);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        if fs::read_to_string(&path).is_ok_and(|own| own == text) {
            return Ok(());
        }
        fs::write(&path, text).with_context(|| format!("writing {}", path.display()))
    }

    /// Copies a file once more, as it is.
    fn mend_file(&self, path: &str) -> Result<()> {
        self.write(&place(path), &self.original(path)?)
    }

    fn original(&self, path: &str) -> Result<String> {
        fs::read_to_string(self.root.join(path)).with_context(|| format!("reading {path}"))
    }

    fn mutate(&self, mutant: &Mutant) -> Result<()> {
        let text = mutant.of(&self.original(mutant.file)?)?;
        self.write(&place(mutant.file), &text)
    }

    fn mend(&self, mutant: &Mutant) -> Result<()> {
        self.mend_file(mutant.file)
    }

    /// Runs tests of the simulator.
    fn test(&self, context: &Context, args: &Args, tests: &[&str]) -> Command {
        let mut test = self.cargo(context, &["test", "--release", "--quiet", "--", "--nocapture"]);
        test.args(tests);
        with_seeds(test, args)
    }

    fn cargo(&self, context: &Context, words: &[&str]) -> Command {
        let mut command = cargo(context, words);
        command.current_dir(&self.folder);
        command.env("CARGO_TARGET_DIR", self.folder.join("target"));
        command
    }

    /// Returns whether the test fails with the mutant, of a seed or of a case by itself. One that does not build is an error,
    /// not a find.
    fn finds(&self, context: &Context, args: &Args, test: &str, mutant: &Mutant) -> Result<bool> {
        let words = ["test", "--release", "--quiet", "--no-run"];
        let built = self.cargo(context, &words).output().context("building a mutant")?;
        if !built.status.success() {
            let errors = String::from_utf8_lossy(&built.stderr);
            bail!("the mutant \"{}\" does not build:\n{errors}", mutant.name);
        }
        let ran = self.test(context, args, &[test]).output().context("running a mutant")?;
        let error = String::from_utf8_lossy(&ran.stderr);
        let seed = error.lines().find(|line| line.starts_with("seed "));
        seed.inspect(|line| println!("        {}", line.get(..120).unwrap_or(line)));
        let is_found = seed.is_some() || error.contains("panicked at");
        Ok(!ran.status.success() && is_found)
    }
}

/// Runs the simulator of the layers, which is a test of the library: a copy of it would take minutes to build.
fn layers(context: &Context, args: &Args) -> Command {
    let words = ["test", "--release", "--quiet", "-p", "tidegate", "--all-features", "--lib"];
    let mut test = cargo(context, &words);
    test.args(["layers::sim", "--", "--nocapture"]);
    with_seeds(test, args)
}

fn with_seeds(mut test: Command, args: &Args) -> Command {
    test.env("TIDEGATE_SIM_SEEDS", args.seeds.to_string());
    test.env("TIDEGATE_SIM_FROM", args.from.to_string());
    test
}

/// Where a file of the workspace lies in the copy.
fn place(path: &str) -> String {
    let of_engine = path.strip_prefix("crates/tidegate/");
    of_engine.or(path.strip_prefix("crates/")).unwrap_or(path).to_owned()
}

fn copy_folder(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from).with_context(|| format!("reading {}", from.display()))? {
        let path = entry?.path();
        let target = to.join(path.file_name().unwrap_or_default());
        if path.is_dir() {
            copy_folder(&path, &target)?;
        } else {
            fs::copy(&path, &target).with_context(|| format!("copying {}", path.display()))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree;

    #[test]
    fn every_mutant_fits_the_code_as_it_is_and_is_listed() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let files = tree::read(&root).unwrap();
        let mutants = || MUTANTS.iter().flat_map(|(_, mutants)| mutants.iter());
        for mutant in mutants() {
            let file = files.iter().find(|file| file.path == Path::new(mutant.file)).unwrap();
            assert_ne!(mutant.of(&file.text).unwrap(), file.text, "{}", mutant.name);
        }
        let page =
            files.iter().find(|file| file.path == Path::new("bench/results/simulator.md")).unwrap();
        let listed = page.text.lines().filter_map(|line| line.strip_prefix("- "));
        let listed: Vec<_> = listed.filter(|line| mutants().any(|one| one.name == *line)).collect();
        assert_eq!(listed, mutants().map(|mutant| mutant.name).collect::<Vec<_>>());
    }
}
