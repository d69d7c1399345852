//! The parts of a large file, which are read one after another.
//!
//! The parser takes fifty times the bytes of a text. A text without a mistake is read in parts, so that only the tree of
//! one part is in memory at once; any other text is read as a whole, because its errors may span parts.

use std::collections::HashSet;
use std::mem;

use toml::de::DeTable;
use toml_parser::Source;
use toml_parser::lexer::TokenKind;

use super::syntax::is_header;
use super::table::TomlTable;

/// Gives the table of each part of a text to `read`, in their order, until it returns false. Returns whether `read` never
/// returned false, and the text is valid TOML in which no part adds to a table of another part, but for the list of rules.
/// The text is cut before its `headers`.
pub(super) fn read_each(
    text: &str,
    headers: &[usize],
    least_bytes: usize,
    mut read: impl FnMut(&str, &TomlTable<'_>) -> bool,
) -> bool {
    let mut names = HashSet::new();
    of(text, headers, least_bytes).into_iter().enumerate().all(|(number, part)| {
        let Ok(root) = DeTable::parse(part) else { return false };
        let table = TomlTable::new(0..0, root.get_ref());
        let is_apart = table.entries.iter().all(|entry| {
            // Only after the first part the rules are under headers, and a header adds to the list.
            names.insert(entry.name.to_owned()) || (number > 1 && entry.name == "rule")
        });
        is_apart && read(part, &table)
    })
}

/// Cuts a text before headers of rules: before the first, and then wherever a part has enough bytes.
fn of<'t>(text: &'t str, headers: &[usize], least_bytes: usize) -> Vec<&'t str> {
    let mut parts = Vec::new();
    let mut rest = text;
    for header in headers {
        let length = header - (text.len() - rest.len());
        if parts.is_empty() || length >= least_bytes {
            let (part, next) = rest.split_at(length);
            parts.push(part);
            rest = next;
        }
    }
    parts.push(rest);
    parts
}

/// The positions of the lines with headers of rules. A text or a list of several lines may have lines that look like
/// headers.
pub(super) fn headers(text: &str) -> Vec<usize> {
    let mut open = 0_usize;
    let mut begins_line = true;
    let lines = Source::new(text).lex().filter_map(move |token| {
        let is_end = token.kind() == TokenKind::Newline;
        let is_begin = mem::replace(&mut begins_line, is_end) && open == 0;
        match token.kind() {
            TokenKind::LeftSquareBracket | TokenKind::LeftCurlyBracket => open += 1,
            TokenKind::RightSquareBracket | TokenKind::RightCurlyBracket => {
                open = open.saturating_sub(1);
            }
            _ => {}
        }
        is_begin.then(|| token.span().start())
    });
    let headers = lines.filter(|start| {
        let line = text.get(*start..).and_then(|rest| rest.lines().next());
        line.is_some_and(is_header)
    });
    headers.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::document::{self, read_in_parts};
    use crate::source::{ConfigReport, ConfigSource};
    use tidegate_rules::rules::Policy;

    fn rule(name: &str) -> String {
        format!("[[rule]]\nname = \"{name}\"\nalgorithm = \"token_bucket\"\nrate = \"1/s\"\n")
    }

    /// The policy of a text that is cut before each rule; `None` if it can only be read as a whole.
    fn in_parts(text: &str) -> Option<String> {
        read_in_parts(text, 0, None).map(|(policy, _)| of_policy(&policy))
    }

    /// The policy of a text that is read as a whole, if the text has no mistake.
    fn as_a_whole(text: &str) -> Option<String> {
        let source = ConfigSource::new("test", text);
        let mut report = ConfigReport::new(&source);
        let read = document::read(text, None, &mut report);
        report.end().ok()?;
        read.map(|(policy, _)| of_policy(&policy))
    }

    fn of_policy(policy: &Policy) -> String {
        let rules: Vec<_> = policy.rules().iter().map(|rule| rule.spec()).collect();
        let on_no_rules: Vec<_> = policy.on_no_rules().collect();
        let settings = (policy.revision(), policy.max_keys(), policy.reset_field(), on_no_rules);
        format!("{rules:?} {settings:?} {:?}", policy.store())
    }

    #[test]
    fn a_text_is_cut_before_headers_of_rules_alone() {
        let text = "revision = 1\n[[rule]]\na = [\n[[rule]]\n]\n  [[ rule ]]\nb = '''\n[[rule]]\n'''\n[[rule.x]]\n";
        let parts = |least_bytes| of(text, &headers(text), least_bytes);
        assert_eq!(
            parts(0),
            [
                "revision = 1\n",
                "[[rule]]\na = [\n[[rule]]\n]\n",
                "  [[ rule ]]\nb = '''\n[[rule]]\n'''\n[[rule.x]]\n",
            ]
        );
        assert_eq!(parts(30).len(), 2, "a part has the bytes that it should have");
        assert_eq!(of("", &[], 0), [""]);
    }

    #[test]
    fn a_text_in_parts_gives_the_policy_of_the_whole() {
        let other = "[[rule.override]]\nmatch = { user = \"ada\" }\nrate = \"2/s\"\n";
        let keyed = rule("b").replace("rate", "key = [\n  \"user\",\n]\nrate") + other;
        let [a, c] = ["a", "c"].map(rule);
        for text in [
            a.clone(),
            format!("revision = 7\n\n{a}# a comment\n{keyed}[memory]\nmax_keys = 9\n{c}"),
            format!("reset = \"unix\"\n\n  {a}[on_no_rule]\npay = \"refuse\"\n{c}"),
            format!("\u{feff}{a}{}", rule("b").replace('\n', "\r\n")),
        ] {
            let policy = in_parts(&text);
            assert!(policy.is_some(), "{text}");
            assert_eq!(policy, as_a_whole(&text), "{text}");
        }
    }

    #[test]
    fn a_text_that_parts_do_not_show_whole_is_read_as_a_whole() {
        let [a, b] = ["a", "b"].map(rule);
        for (text, is_valid) in [
            // The same section, key or name in two parts.
            (format!("{a}[memory]\nmax_keys = 9\n{b}[memory]\nmax_keys = 9\n"), false),
            (format!("rule = []\n{a}"), false),
            (format!("{a}{a}"), false),
            // A mistake in one part, or no rule at all.
            (format!("{a}{b}limit = 1\n"), false),
            (format!("{a}{b}= 1\n"), false),
            ("revision = 1\n".to_owned(), false),
            // A header after other text on its line.
            (format!("revision = 1 {a}"), false),
            (format!("on_no_rule = \"admit\"{a}"), false),
            (format!("memory = {{ max_keys = 9 }} {a}"), false),
            (format!("{} {b}", a.trim_end()), false),
            (a.replacen("[[rule]]", "[[\"rule\"]]", 1) + &b, true),
        ] {
            assert_eq!(in_parts(&text), None, "{text}");
            assert_eq!(as_a_whole(&text).is_some(), is_valid, "{text}");
        }
    }
}
