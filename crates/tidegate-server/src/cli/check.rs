//! `tidegate check`: checks a configuration.

use std::path::PathBuf;
use std::process::ExitCode;

use tidegate::SharedGate;

use crate::failure::Failure;
use crate::{policy, stdout};

/// Check a configuration: exit code 0, or 2 with its errors on standard error
#[derive(Debug, clap::Args)]
#[command(
    after_help = "The store is not contacted, and its password and certificates are not read: they may be on another machine.

Example:
  tidegate check rules.toml && systemctl restart tidegate"
)]
pub(crate) struct Args {
    /// The configuration (TOML)
    file: PathBuf,
}

/// Reads the file as `serve` would, without a store, and prints how many rules it has.
pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let policy = policy::load(&args.file)?;
    if let Some(store) = policy.store() {
        let fits = SharedGate::fits(&policy, store);
        fits.map_err(|error| Failure::configuration(format!("{}: {error}", args.file.display())))?;
    }
    let rules = policy::count(&policy);
    stdout::print(&format!("{}: {rules}, no mistakes\n", args.file.display()))?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn a_file_that_is_not_toml_is_reported_briefly_with_exit_code_2() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all("192.0.2.1 - - [17/May/2015] 200\n".repeat(300).as_bytes()).unwrap();
        let failure = run(&Args { file: file.path().to_owned() }).unwrap_err();
        let said = format!("{failure:?}");
        assert!(said.contains("and 200 more: ") && said.contains(" has 300 mistakes"), "{said}");
        assert!(said.contains("code: 2"), "{said}");
    }

    #[test]
    fn what_can_not_be_with_its_store_is_a_mistake_of_the_file() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        let text = "[store]\nurl = \"redis://127.0.0.1\"\nnodes = 8\npassword_env = \"TIDEGATE_NOWHERE\"\n\
                    [[rule]]\nname = \"few\"\nalgorithm = \"token_bucket\"\nlimit = 15\nwindow = \"1d\"\n\
                    capacity = 1_500_000\n";
        file.write_all(text.as_bytes()).unwrap();
        let said = format!("{:?}", run(&Args { file: file.path().to_owned() }).unwrap_err());
        assert!(said.contains("rule 1 (`few`)") && said.contains("code: 2"), "{said}");
        std::fs::write(file.path(), text.replace("1_500_000", "5")).unwrap();
        assert!(
            run(&Args { file: file.path().to_owned() }).is_ok(),
            "no password is looked up, and less than a unit each is no mistake"
        );
    }
}
