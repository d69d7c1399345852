//! `tidegate check`: checks a configuration as `serve` would read it, without a store and without secrets.

mod json;

use std::env;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::ValueEnum;

use super::guard::file;
use super::serve;
use crate::failure::Failure;
use crate::policy::{self, Wrong};
use crate::stdout;

/// Check a configuration, and report all of its errors
#[derive(Debug, clap::Args)]
#[command(
    after_help = "The store is not contacted, and its password and certificates are not read: they
may be on another machine.

Example:
  tidegate check rules.toml && systemctl reload tidegate"
)]
pub(crate) struct CheckArgs {
    /// The configuration (TOML)
    #[arg(required_unless_present = "config", value_parser = file())]
    file: Option<PathBuf>,

    /// The same, named as for the other commands
    #[arg(short, long, value_name = "FILE", env = "TIDEGATE_CONFIG", value_parser = file())]
    config: Option<PathBuf>,

    /// Output: text, or one JSON object on standard output
    #[arg(long, value_enum, default_value_t = CheckFormat::Text)]
    format: CheckFormat,
}

impl CheckArgs {
    /// The file, named once; the bare argument goes before the variable.
    fn file(&self) -> Result<&Path, Failure> {
        let variable = env::var_os("TIDEGATE_CONFIG").map(PathBuf::from);
        match (&self.file, &self.config) {
            (Some(file), Some(config)) if variable.as_ref() != Some(config) => {
                Err(Failure::usage(format!(
                    "the configuration is named twice, by {} and by --config {}: expected one of them",
                    file.display(),
                    config.display()
                )))
            }
            (Some(file), _) | (None, Some(file)) => Ok(file),
            (None, None) => Err(Failure::usage("expected the path of a file")),
        }
    }
}

/// The output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum CheckFormat {
    /// One line, or the errors on standard error with the lines where they are
    Text,
    /// One JSON object, also of the errors
    Json,
}

/// Reads the file as `serve` would, without a store, and prints how many rules it has.
pub(crate) fn run(args: &CheckArgs) -> Result<ExitCode, Failure> {
    let file = args.file()?;
    if args.format == CheckFormat::Json {
        return json::print(file, &checked(file));
    }
    let sound = checked(file).map_err(Wrong::failure)?;
    for warning in &sound.warnings {
        Failure::configuration(format!("{}: warning: {warning}", file.display())).report();
    }
    stdout::print(&format!("{}: {}, no mistakes\n", file.display(), policy::rules(sound.rules)))?;
    Ok(ExitCode::SUCCESS)
}

/// The report of a sound file.
struct Sound {
    /// The number of its rules.
    rules: usize,
    /// Settings without effect.
    warnings: Vec<String>,
}

/// Reads and judges the file.
fn checked(file: &Path) -> Result<Sound, Wrong> {
    let (policy, server) = serve::load(file).map_err(Wrong::Text)?;
    serve::check(file, &server).map_err(Wrong::Whole)?;
    if let Some(store) = policy.store() {
        let fits = store.fits(&policy);
        fits.map_err(|error| Wrong::Whole(Failure::configuration(error).of(file)))?;
    }
    let mut warnings = policy::warnings(&policy);
    // Only the field: a flag of another command line is not known here.
    if server.iter().any(|(field, _)| field == "snapshot") {
        warnings.extend(policy::warning_of_snapshot(&policy));
    }
    Ok(Sound { rules: policy.rules().len(), warnings })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn of(file: &Path) -> CheckArgs {
        CheckArgs { file: Some(file.to_owned()), config: None, format: CheckFormat::Text }
    }

    #[test]
    fn a_rule_that_is_split_without_a_store_is_warned_of_because_it_may_be_served_over_one() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        let text = "[[rule]]\nname = \"r\"\nalgorithm = \"token_bucket\"\nrate = \"40/1s\"\nsplit = true\n";
        file.write_all(text.as_bytes()).unwrap();
        let Ok(Sound { warnings, .. }) = checked(file.path()) else { panic!("the file is sound") };
        let [warning] = &warnings[..] else { panic!("{warnings:?}") };
        assert!(warning.starts_with("`split = true` of the rule `r`"), "{warning}");
    }

    #[test]
    fn what_can_not_be_with_its_store_is_a_mistake_of_the_file() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        let text = "[store]\nurl = \"redis://127.0.0.1\"\nnodes = 8\npassword_env = \"TIDEGATE_NOWHERE\"\n\
                    [[rule]]\nname = \"few\"\nalgorithm = \"token_bucket\"\nlimit = 15\nwindow = \"1d\"\n\
                    capacity = 1_500_000\n";
        file.write_all(text.as_bytes()).unwrap();
        let said = format!("{:?}", run(&of(file.path())).unwrap_err());
        assert!(said.contains("rule 1 (`few`)") && said.contains("code: 2"), "{said}");
        std::fs::write(file.path(), text.replace("1_500_000", "5")).unwrap();
        assert!(
            run(&of(file.path())).is_ok(),
            "no password is looked up, and less than a unit each is no mistake"
        );
    }
}
