//! Why a command could not do what it was asked to, and the exit code that says so.

use std::fmt::Display;
use std::io::Write;
use std::process::ExitCode;

use crate::printable;

/// What is told on standard error, and the exit code.
#[derive(Debug)]
pub(crate) struct Failure {
    said: String,
    code: u8,
}

impl Failure {
    /// It could not be done: exit code 1.
    pub(crate) fn new(said: impl Display) -> Self {
        Self { said: format!("tidegate: {said}"), code: 1 }
    }

    /// A configuration has mistakes: exit code 2, as for wrong usage.
    pub(crate) fn configuration(said: impl Display) -> Self {
        Self { said: said.to_string(), code: 2 }
    }

    /// Whoever read standard output went away and has seen enough: nothing is said, exit code 0.
    pub(crate) const fn nobody_reads() -> Self {
        Self { said: String::new(), code: 0 }
    }

    /// Tells it on standard error; nobody is left to tell when even that can not be written.
    pub(super) fn tell(&self) -> ExitCode {
        self.tell_with(|said| drop(writeln!(std::io::stderr(), "{said}")))
    }

    /// Tells it by `tell`, if there is anything to tell.
    pub(super) fn tell_with(&self, tell: impl FnOnce(&str)) -> ExitCode {
        if !self.said.is_empty() {
            tell(&printable::text(&self.said));
        }
        ExitCode::from(self.code)
    }
}
