//! A step, and the three ways it can end.

use anyhow::Result;

use crate::context::Context;

/// One entry of the list in [`crate::steps`].
pub(crate) struct Step {
    /// One lower-case word, the name for `--only`.
    pub(crate) name: &'static str,
    /// The purpose of the step, as a short phrase for its heading and the help.
    pub(crate) what: &'static str,
    /// The condition on which it runs.
    pub(crate) when: When,
    /// Runs it. An error is a failure of the step, never of the whole run.
    pub(crate) run: Run,
}

/// The function of a step.
pub(crate) type Run = fn(&mut Context) -> Result<Outcome>;

/// When a step runs without being named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum When {
    /// Every time.
    Always,
    /// Only with `--all`: it takes minutes, or needs more than crates.io.
    All,
}

/// The result of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// It passed; the text is a remark for the summary, usually empty.
    Passed(String),
    /// It failed; the text is the reason in one line, the details were printed before.
    Failed(String),
    /// It was not run; the text is the reason.
    NotRun(String),
}

impl Outcome {
    /// Passed, without a remark.
    pub(crate) fn passed() -> Self {
        Self::Passed(String::new())
    }

    /// Passed when the list of failures is empty.
    pub(crate) fn from_failures(failed: &[String]) -> Self {
        if failed.is_empty() {
            return Self::passed();
        }
        Self::Failed(failed.join(", "))
    }

    /// Returns whether the whole run must end with a failure.
    pub(crate) fn is_failure(&self) -> bool {
        matches!(self, Self::Failed(_))
    }
}
