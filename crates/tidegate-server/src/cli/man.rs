//! `tidegate man`: the manual pages, made from the help of all commands.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Command;
use clap_mangen::Man;

use crate::failure::Failure;
use crate::stdout;

/// Print the manual page, or write the pages of all commands
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  tidegate man | man -l -
  tidegate man /usr/local/share/man/man1")]
pub(crate) struct ManArgs {
    /// A folder for the pages of all commands, made if it is not there
    dir: Option<PathBuf>,
}

/// Prints or writes the pages of `command`.
pub(crate) fn run(args: &ManArgs, command: Command) -> Result<ExitCode, Failure> {
    // A page has room for the flags that the short help leaves out.
    let command = command.mut_subcommands(|one| one.mut_args(|arg| arg.hide_short_help(false)));
    match &args.dir {
        Some(dir) => {
            write_all(command, dir).map_err(|error| {
                Failure::new(format!("cannot write the manual to {}: {error}", dir.display()))
            })?;
        }
        None => {
            let mut text = Vec::new();
            Man::new(command)
                .render(&mut text)
                .map_err(|error| Failure::new(format!("cannot write the manual: {error}")))?;
            stdout::write(&text)?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Writes a page for each command.
fn write_all(command: Command, dir: &Path) -> io::Result<()> {
    fs::create_dir_all(dir)?;
    // In a folder of its own first: `clap_mangen` would write through a link.
    let made = tempfile::tempdir_in(dir)?;
    clap_mangen::generate_to(command, made.path())?;
    let pages = fs::read_dir(made.path())?.collect::<io::Result<Vec<_>>>()?;
    // Another user may have put a link there, so that this user writes a file of its own choice.
    for page in &pages {
        let name = page.file_name();
        if fs::symlink_metadata(dir.join(&name)).is_ok_and(|there| !there.is_file()) {
            let why = format!("{} is there and is no file, such as a link", name.display());
            return Err(io::Error::other(why));
        }
    }
    pages.iter().try_for_each(|page| fs::rename(page.path(), dir.join(page.file_name())))
}
