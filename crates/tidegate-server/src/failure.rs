//! The failure of a command, with its exit code. Every subcommand returns it, and `cli.rs` prints it.

use std::fmt::Display;
use std::io::Write;
use std::path::Path;
use std::process::ExitCode;

use tidegate::printable;

/// A message for standard error, and an exit code.
#[derive(Debug)]
pub(crate) struct Failure {
    message: String,
    code: u8,
}

impl Failure {
    /// An ordinary failure: exit code 1.
    pub(crate) fn new(message: impl Display) -> Self {
        Self { message: format!("tidegate: {message}"), code: 1 }
    }

    /// A wrong flag, variable or setting: exit code 2.
    pub(crate) fn usage(message: impl Display) -> Self {
        Self { message: format!("tidegate: {message}"), code: 2 }
    }

    /// A configuration has errors: exit code 2, as for wrong usage.
    pub(crate) fn configuration(message: impl Display) -> Self {
        Self { message: message.to_string(), code: 2 }
    }

    /// The failure, in the settings of a file.
    pub(crate) fn of(self, file: &Path) -> Self {
        let message = self.message().trim_start_matches("error: ");
        Self { message: format!("{}: {message}", file.display()), ..self }
    }

    /// The message without the name of the program.
    pub(crate) fn message(&self) -> &str {
        self.message.trim_start_matches("tidegate: ")
    }

    /// The reader of standard output went away, which is not an error: no message, exit code 0.
    pub(crate) const fn nobody_reads() -> Self {
        Self { message: String::new(), code: 0 }
    }

    /// The failure with another exit code.
    pub(crate) fn with_code(self, code: u8) -> Self {
        Self { code, ..self }
    }

    /// Prints the message on standard error. An error of the write is ignored, because no reader is left.
    pub(crate) fn report(&self) -> ExitCode {
        self.report_to(|message| drop(writeln!(std::io::stderr(), "{message}")))
    }

    /// Passes the message to `write`, if there is one.
    pub(crate) fn report_to(&self, write: impl FnOnce(&str)) -> ExitCode {
        if !self.message.is_empty() {
            write(&printable::text(&self.message));
        }
        ExitCode::from(self.code)
    }
}
