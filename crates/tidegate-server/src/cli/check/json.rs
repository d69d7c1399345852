//! The outcome of `tidegate check` as one JSON object, for editors and pipelines.

use std::path::Path;
use std::process::ExitCode;

use serde::Serialize;
use tidegate::config::ConfigError;

use super::super::lab;
use super::Sound;
use crate::failure::Failure;
use crate::policy::Wrong;

/// The outcome as it is printed.
#[derive(Serialize)]
struct CheckJson<'a> {
    file: String,
    is_sound: bool,
    /// The number of its rules; `None` if there is an error.
    rules: Option<usize>,
    errors: Vec<CheckMistake<'a>>,
    /// Settings without effect.
    warnings: &'a [String],
}

/// One error. Without a place it is about the file as a whole.
#[derive(Serialize)]
struct CheckMistake<'a> {
    line: Option<usize>,
    column: Option<usize>,
    message: &'a str,
    /// The expected text, or the text that was probably meant.
    hint: Option<&'a str>,
}

/// Prints the outcome. The exit code is the same as for the text format.
pub(super) fn print(file: &Path, checked: &Result<Sound, Wrong>) -> Result<ExitCode, Failure> {
    let errors = match checked {
        Ok(_) => Vec::new(),
        Err(Wrong::Text(found)) => found.iter().map(CheckMistake::of).collect(),
        Err(Wrong::Whole(failure)) => {
            let (message, hint) = parts(failure.message());
            vec![CheckMistake { line: None, column: None, message, hint }]
        }
    };
    let rules = checked.as_ref().ok().map(|sound| sound.rules);
    let warnings = checked.as_ref().map_or(&[][..], |sound| &sound.warnings);
    let file = file.display().to_string();
    lab::print_json(serde_json::to_string(&CheckJson {
        file,
        is_sound: checked.is_ok(),
        rules,
        errors,
        warnings,
    }))?;
    Ok(if checked.is_ok() { ExitCode::SUCCESS } else { ExitCode::from(2) })
}

impl<'a> CheckMistake<'a> {
    fn of(error: &'a ConfigError) -> Self {
        let (message, hint) = parts(&error.message);
        let is_placed = error.line > 0;
        let line = is_placed.then_some(error.line);
        let column = is_placed.then_some(error.column);
        Self { line, column, message, hint }
    }
}

/// A message, and the part of it with the expected or the suggested text.
fn parts(message: &str) -> (&str, Option<&str>) {
    let hints = [": expected ", ": did you mean "].into_iter();
    // At the first of them: a message may have both.
    match hints.filter_map(|hint| message.find(hint)).min() {
        Some(at) => {
            let (message, hint) = message.split_at(at);
            (message, Some(hint.trim_start_matches(": ")))
        }
        None => (message, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_without_a_hint_is_whole() {
        let text = "wrong, and nothing was expected";
        assert_eq!(parts(text), (text, None));
    }
}
