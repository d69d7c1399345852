//! `tidegate check`: is a configuration sound?

use std::path::PathBuf;
use std::process::ExitCode;

use super::Failure;
use crate::{policy, stdout};

/// Check a configuration: exit code 0, or 2 with its mistakes on standard error
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  tidegate check rules.toml && systemctl restart tidegate")]
pub(crate) struct Args {
    /// The configuration, TOML
    file: PathBuf,
}

/// Reads the file as `serve` would, and says how many rules it has.
pub(crate) fn run(args: &Args) -> Result<ExitCode, Failure> {
    let policy = policy::load(&args.file)?;
    let rules = policy::count(&policy);
    stdout::print(&format!("{}: {rules}, no mistakes\n", args.file.display()))?;
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    #[test]
    fn a_file_that_is_no_toml_at_all_is_told_of_briefly_and_is_exit_code_2() {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all("192.0.2.1 - - [17/May/2015] 200\n".repeat(300).as_bytes()).unwrap();
        let failure = run(&Args { file: file.path().to_owned() }).unwrap_err();
        let said = format!("{failure:?}");
        assert!(said.contains("and 200 more: ") && said.contains(" has 300 mistakes"), "{said}");
        assert!(said.contains("code: 2"), "{said}");
    }
}
