//! `tidegate completions` prints the script with which a shell completes commands and flags.

use std::process::ExitCode;

use clap::Command;
use clap_complete::Shell;

use crate::failure::Failure;
use crate::stdout;

/// Print the script with which a shell completes commands and flags
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  tidegate completions bash > /etc/bash_completion.d/tidegate
  tidegate completions zsh > ~/.zfunc/_tidegate
  tidegate completions fish > ~/.config/fish/completions/tidegate.fish")]
pub(crate) struct CompletionsArgs {
    /// The shell
    shell: Shell,
}

/// Prints the completions of `command`.
pub(crate) fn run(args: &CompletionsArgs, mut command: Command) -> Result<ExitCode, Failure> {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut command, "tidegate", &mut text);
    stdout::write(&text)?;
    Ok(ExitCode::SUCCESS)
}
