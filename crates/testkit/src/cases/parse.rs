//! Parses a file of tables, line by line. The tests of every store and of the models read the tables of the
//! algorithms so.

use super::row::{parse_fields, parse_row};
use super::{Case, Step};
use std::fmt;

const HEADER: [&str; 8] =
    ["at", "ask", "|", "answer", "remaining", "retry_after", "reset_after", "delay"];

/// Why a file of tables is invalid, with the line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseError {
    /// Line, from 1.
    pub line: usize,
    /// The error, and the expected form.
    pub message: String,
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.message)
    }
}

impl std::error::Error for ParseError {}

/// Reads every case of a file.
///
/// # Errors
/// Returns an error at the first invalid line, and at a case without a rule or without steps,
/// because a case that checks nothing is a mistake.
///
/// ```
/// let text = "case one a second\n\
///     algorithm = sliding_log, limit = 1, window = 1s\n\
///     at  ask | answer remaining retry_after reset_after delay\n\
///     5s  1   | yes    0         0           1s          0\n";
/// let cases = testkit::cases::parse(text)?;
/// assert_eq!(cases[0].steps[0].at_us, 5_000_000);
/// # Ok::<(), testkit::cases::ParseError>(())
/// ```
pub fn parse(text: &str) -> Result<Vec<Case>, ParseError> {
    let mut reader = Reader::default();
    for (index, raw) in text.lines().enumerate() {
        let line = index + 1;
        let text = without_comment(raw);
        if text.starts_with("case ") {
            reader.check_last()?;
        }
        reader.line(line, text).map_err(|message| ParseError { line, message })?;
    }
    reader.finish()
}

#[derive(Default)]
struct Reader {
    cases: Vec<Case>,
    in_table: bool,
}

impl Reader {
    fn line(&mut self, line: usize, text: &str) -> Result<(), String> {
        if text.is_empty() {
            return Ok(());
        }
        if let Some(title) = text.strip_prefix("case ") {
            return self.begin(line, title.trim());
        }
        let case = self.cases.last_mut().ok_or("expected `case TITLE` first")?;
        if self.in_table {
            case.steps.push(parse_row(line, text)?);
        } else if text.split_whitespace().eq(HEADER) {
            self.in_table = true;
        } else if text.contains('|') {
            return Err(format!("expected the header `{}` before the first row", HEADER.join(" ")));
        } else {
            extend(&mut case.rule, parse_fields(text)?)?;
        }
        Ok(())
    }

    fn begin(&mut self, line: usize, title: &str) -> Result<(), String> {
        if self.cases.iter().any(|case| case.title == title) {
            return Err(format!("`{title}` is the title of two cases"));
        }
        let (rule, steps): (Vec<(String, String)>, Vec<Step>) = (Vec::new(), Vec::new());
        self.cases.push(Case { title: title.into(), line, rule, steps });
        self.in_table = false;
        Ok(())
    }

    fn check_last(&self) -> Result<(), ParseError> {
        let Some(case) = self.cases.last() else {
            return Ok(());
        };
        let lacks = |what| {
            let message = format!("the case `{}` has no {what}", case.title);
            Err(ParseError { line: case.line, message })
        };
        match (case.rule.is_empty(), case.steps.is_empty()) {
            (true, _) => lacks("rule"),
            (_, true) => lacks("steps"),
            _ => Ok(()),
        }
    }

    fn finish(self) -> Result<Vec<Case>, ParseError> {
        self.check_last()?;
        Ok(self.cases)
    }
}

fn extend(rule: &mut Vec<(String, String)>, more: Vec<(String, String)>) -> Result<(), String> {
    for (key, value) in more {
        if rule.iter().any(|(known, _)| *known == key) {
            return Err(format!("`{key}` is given twice"));
        }
        rule.push((key, value));
    }
    Ok(())
}

fn without_comment(line: &str) -> &str {
    let line = line.trim();
    if line.starts_with('#') {
        return "";
    }
    line.split_once(" #").map_or(line, |(before, _)| before.trim_end())
}
