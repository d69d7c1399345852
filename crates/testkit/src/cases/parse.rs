//! Parses a file of tables, line by line. The tests of every store and of the models read the tables of the
//! algorithms so.

use super::Case;
use super::row::{parse_fields, parse_row};

const HEADER: [&str; 8] =
    ["at", "ask", "|", "answer", "remaining", "retry_after", "reset_after", "delay"];

/// Reads every case of a file.
///
/// # Errors
/// Returns an error, which begins with `line N: `, at the first invalid line, and at a case without a rule or without steps,
/// because a case that checks nothing is a mistake.
///
/// ```
/// let text = "case one a second\n\
///     algorithm = sliding_log, limit = 1, window = 1s\n\
///     at  ask | answer remaining retry_after reset_after delay\n\
///     5s  1   | yes    0         0           1s          0\n";
/// let cases = testkit::cases::parse(text)?;
/// assert_eq!(cases[0].steps[0].at_us, 5_000_000);
/// # Ok::<(), String>(())
/// ```
pub fn parse(text: &str) -> Result<Vec<Case>, String> {
    let mut reader = Reader::default();
    for (index, raw) in text.lines().enumerate() {
        let line = index + 1;
        let text = without_comment(raw);
        if text.starts_with("case ") {
            reader.check_last()?;
        }
        reader.line(line, text).map_err(|message| format!("line {line}: {message}"))?;
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
            parse_fields(text, &mut case.rule)?;
        }
        Ok(())
    }

    fn begin(&mut self, line: usize, title: &str) -> Result<(), String> {
        if self.cases.iter().any(|case| case.title == title) {
            return Err(format!("`{title}` is the title of two cases"));
        }
        let title = title.to_owned();
        self.cases.push(Case { title, line, rule: Vec::new(), steps: Vec::new() });
        self.in_table = false;
        Ok(())
    }

    fn check_last(&self) -> Result<(), String> {
        let Some(Case { title, line, rule, steps }) = self.cases.last() else {
            return Ok(());
        };
        match (rule.is_empty(), steps.is_empty()) {
            (true, _) => Err(format!("line {line}: the case `{title}` has no rule")),
            (_, true) => Err(format!("line {line}: the case `{title}` has no steps")),
            _ => Ok(()),
        }
    }

    fn finish(self) -> Result<Vec<Case>, String> {
        self.check_last()?;
        Ok(self.cases)
    }
}

fn without_comment(line: &str) -> &str {
    let line = line.trim();
    if line.starts_with('#') {
        return "";
    }
    line.split_once(" #").map_or(line, |(before, _)| before.trim_end())
}
