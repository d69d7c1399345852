//! The rule of events: the page of errors has every event that the server logs and every problem over HTTP, and nothing
//! that the code does not say.

use std::path::Path;

use proc_macro2::{Ident, TokenStream, TokenTree};
use syn::visit::{self, Visit};
use syn::{Item, LitStr, Macro};

use super::{Findings, House, markdown};
use crate::count::source::{attributes, is_for_tests};
use crate::tree::{self, SourceFile};

const PAGE: &str = "docs/errors.md";
const CHINESE_PAGE: &str = "docs/zh/errors.md";
/// The file with the types of problems over HTTP, each of which has a part of the page.
const PROBLEMS: &str = "crates/tidegate-server/src/refusal.rs";
/// The heads of the columns of texts.
const HEADS: [&str; 2] = ["text", "level, text"];
/// Levels of events that everybody's log has.
const LEVELS: [&str; 3] = ["error", "warn", "info"];
/// Stand in a row for what differs from message to message.
const GAPS: [&str; 5] = ["...", "FILE", "FLAG", "VARIABLE", "N"];

/// An event that the code logs.
struct Event {
    place: String,
    level: String,
    message: String,
}

/// A text of the page; without a level if it is no event.
struct Row<'a> {
    line: usize,
    level: Option<&'a str>,
    text: &'a str,
}

impl Row<'_> {
    /// Returns whether the message has each part of the text, in this order.
    fn fits(&self, message: &str) -> bool {
        let words: Vec<_> = self.text.split(' ').collect();
        let parts = words.split(|word| GAPS.contains(word)).map(|part| part.join(" "));
        let mut rest = Some(message);
        for part in parts {
            rest = rest.and_then(|rest| rest.split_once(&*part)).map(|(_, after)| after);
        }
        rest.is_some()
    }
}

/// Compares the page with the sources of all crates.
pub(super) fn check(house: &House<'_>) -> Findings {
    judge(&house.files).into()
}

fn judge(files: &[SourceFile]) -> Vec<String> {
    let page = tree::text_of(files, PAGE);
    let sources = || files.iter().filter(|file| is_shipped(&file.path));
    let (rows, texts) = (rows(page), sources().map(said).collect::<Vec<_>>());
    let events = sources().filter(|file| file.text.contains("tracing::")).flat_map(logged);
    let mut complaints = problems(files);
    for Event { place, level, message } in events {
        let is_row = |row: &Row<'_>| row.level == Some(&*level) && row.fits(&message);
        if !rows.iter().any(is_row) {
            complaints.push(format!("{place}: `{level}: {message}` is not in {PAGE}: add a row"));
        }
    }
    for Row { line, text, .. } in rows.iter().filter(|row| !texts.iter().any(|text| row.fits(text)))
    {
        complaints.push(format!("{PAGE}:{line}: no message in the code says `{text}`"));
    }
    complaints
}

/// Types of problems without a heading on a page, and headings of no type.
fn problems(files: &[SourceFile]) -> Vec<String> {
    let names = names_after(tree::text_of(files, PROBLEMS), "(\"", '"');
    let mut complaints = Vec::new();
    for page in [PAGE, CHINESE_PAGE] {
        let headings = names_after(tree::text_of(files, page), "\n### `", '`');
        for name in names.iter().filter(|name| !headings.contains(name)) {
            complaints.push(format!("{page}: the problem `{name}` has no heading: add its part"));
        }
        for name in headings.iter().filter(|name| !names.contains(name)) {
            complaints.push(format!("{page}: no problem has the type `{name}`"));
        }
    }
    complaints
}

/// The words between two marks that can be the type of a problem.
fn names_after<'a>(text: &'a str, start: &str, end: char) -> Vec<&'a str> {
    let words = text.split(start).skip(1).filter_map(|rest| rest.split(end).next());
    words
        .filter(|word| word.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-'))
        .collect()
}

fn is_shipped(path: &Path) -> bool {
    let mut parts = path.iter();
    let is_source = parts.next().is_some_and(|first| first == "crates");
    is_source
        && parts.nth(1).is_some_and(|third| third == "src")
        && path.extension().is_some_and(|own| own == "rs")
}

/// The texts in the first columns of the page; those in italics describe messages that differ as a whole.
fn rows(page: &str) -> Vec<Row<'_>> {
    let (mut rows, mut head) = (Vec::new(), None);
    for (line, text) in markdown::read(page).prose {
        let Some(cell) = text.strip_prefix('|').and_then(|cells| cells.split('|').next()) else {
            head = None;
            continue;
        };
        let is_text = HEADS.contains(head.get_or_insert(cell.trim()));
        if !is_text || HEADS.contains(&cell.trim()) || cell.starts_with(" --") {
            continue;
        }
        for one in cell.trim().split("; ").filter(|one| !one.contains('*')) {
            let (level, text) = match one.split_once(": ") {
                Some((level, text)) if LEVELS.contains(&level) => (Some(level), text),
                _ => (None, one),
            };
            rows.push(Row { line, level, text });
        }
    }
    rows
}

/// The events of a file: `tracing`, a level, and the first text that is not the value of a field.
fn logged(file: &SourceFile) -> Vec<Event> {
    let mut reader = Reader { file, events: Vec::new() };
    // The compiler finds text that is not Rust.
    if let Ok(parsed) = syn::parse_file(&file.text) {
        reader.visit_file(&parsed);
    }
    // A message that is a variable as a whole is written elsewhere.
    reader
        .events
        .retain(|Event { message, .. }| !(message.starts_with('{') && message.ends_with('}')));
    reader.events
}

/// Collects the events of one file, without its tests.
struct Reader<'a> {
    file: &'a SourceFile,
    events: Vec<Event>,
}

impl Reader<'_> {
    fn note(&mut self, level: &Ident, arguments: TokenStream) {
        let arguments: Vec<_> = arguments.into_iter().collect();
        let place = format!("{}:{}", self.file.path.display(), level.span().start().line);
        let message = arguments.iter().enumerate().find_map(|(at, argument)| {
            let is_value = at > 0 && arguments[at - 1].to_string() == "=";
            syn::parse_str::<LitStr>(&argument.to_string()).ok().filter(|_| !is_value)
        });
        if let Some(message) = message.filter(|_| LEVELS.iter().any(|one| level == one)) {
            let (level, message) = (level.to_string(), message.value());
            self.events.push(Event { place, level, message });
        }
    }

    /// Events in the arguments of another macro.
    fn note_tokens(&mut self, tokens: TokenStream) {
        let tokens: Vec<_> = tokens.into_iter().collect();
        for part in tokens.windows(6) {
            if let [
                TokenTree::Ident(name),
                _,
                _,
                TokenTree::Ident(level),
                _,
                TokenTree::Group(group),
            ] = part
                && name == "tracing"
            {
                self.note(level, group.stream());
            }
        }
        for token in tokens {
            if let TokenTree::Group(group) = token {
                self.note_tokens(group.stream());
            }
        }
    }
}

impl<'ast> Visit<'ast> for Reader<'_> {
    fn visit_item(&mut self, item: &'ast Item) {
        if !attributes(item).iter().any(is_for_tests) {
            visit::visit_item(self, item);
        }
    }

    fn visit_macro(&mut self, invocation: &'ast Macro) {
        let names: Vec<_> = invocation.path.segments.iter().map(|part| &part.ident).collect();
        match names[..] {
            [name, level] if name == "tracing" => self.note(level, invocation.tokens.clone()),
            _ => self.note_tokens(invocation.tokens.clone()),
        }
    }
}

/// The file without its comments, the lines of texts joined.
fn said(file: &SourceFile) -> String {
    let code = file.text.lines().filter(|line| !line.trim_start().starts_with("//"));
    joined(&code.collect::<Vec<_>>().join("\n"))
}

fn joined(text: &str) -> String {
    let mut lines = text.split("\\\n");
    let first = lines.next().unwrap_or_default().to_owned();
    lines.fold(first, |text, line| text + line.trim_start())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::file;

    const SOURCE: &str = "crates/tidegate-server/src/a.rs";

    fn found(page: &str, source: &str) -> Vec<String> {
        let page = format!("| level, text | meaning |\n| --- | --- |\n{page}");
        judge(&[file(PAGE, &page), file(SOURCE, source)])
    }

    #[test]
    fn a_problem_without_a_heading_and_a_heading_without_a_problem_are_found() {
        let source = file(PROBLEMS, "Self::Stale => (\"stale\", \"Old\"), format!(\"{a}:{b}\")");
        let page = file(PAGE, "# Errors\n\n### `stale`\n\n## TOML\n\n### The file\n");
        let other = file(CHINESE_PAGE, "# 错误\n\n### `gone`\n");
        let found = problems(&[source, page, other]);
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].contains("`stale` has no heading"), "{found:?}");
        assert!(found[1].contains("type `gone`"), "{found:?}");
    }

    #[test]
    fn an_event_without_a_row_is_found() {
        let source = "fn f() {\n tracing::warn!(\"gone away\"); tracing::debug!(\"seen\") }";
        let found = found("| info: gone away | at another level |\n", source);
        assert_eq!(found, [format!("{SOURCE}:2: `warn: gone away` is not in {PAGE}: add a row")]);
    }

    #[test]
    fn an_event_inside_another_macro_is_found_and_an_event_of_a_test_is_not() {
        let source = "fn f() { select! { a => { tracing::info!(at, \"woken\"); } } }\n\
                      #[cfg(test)]\nmod tests { fn g() { tracing::warn!(\"x\") } }";
        let found = found("", source);
        assert_eq!(found, [format!("{SOURCE}:1: `info: woken` is not in {PAGE}: add a row")]);
    }

    #[test]
    fn a_row_that_no_message_says_is_found() {
        let source = "const A: &str = \"cannot read {path}: {error}\";";
        assert!(found("| cannot read FILE; error | |\n", source).is_empty());
        let found = found("| cannot read FILE; cannot write FILE | |\n", source);
        assert_eq!(found, [format!("{PAGE}:3: no message in the code says `cannot write FILE`")]);
    }
}
