//! Finds the values of fields whose names promise a secret, or a URL that may contain a secret. In `[store]` these are
//! all values except the values of its harmless fields, because names may be misspelt.
//!
//! They are found in the lines of the text and not in its tree, because an invalid text has none.

use std::ops::Range;

/// The ends of such names, as letters and digits in lower case.
const SECRETS: &[&str] = &[
    "password",
    "passwords",
    "passwd",
    "passphrase",
    "pwd",
    "pass",
    "auth",
    "secret",
    "secrets",
    "token",
    "tokens",
    "apikey",
    "credentials",
    "url",
    "urls",
    "uri",
    "uris",
    "dsn",
];
/// Further ends: the name of a secret's place, where people also write the secret itself.
const PLACES: &[&str] = &["env", "variable", "file", "path"];

/// The table in which secrets belong.
const STORE: &str = "[store]";
/// The fields of that table that hold no secret.
const HARMLESS: &[&str] = &[
    "username",
    "sentinel_username",
    "tls_roots",
    "tls_cert",
    "tls_key",
    "timeout",
    "key_prefix",
    "max_in_flight",
    "nodes",
    "denial_memory",
];

/// The quotes and brackets in which a value can go on over several lines.
const LONG: &[(&str, &str)] = &[("\"\"\"", "\"\"\""), ("'''", "'''"), ("[", "]"), ("{", "}")];

/// Returns the values of all such fields, in order, each to the end of its last line.
pub(super) fn find(text: &str) -> Vec<Range<usize>> {
    let mut found: Vec<Range<usize>> = Vec::new();
    let mut start = 0;
    let mut in_store = false;
    for line in text.split_inclusive('\n') {
        // A line inside a value of several lines is neither a header nor a field.
        let hidden = found.last().is_some_and(|last| start < last.end);
        if line.trim_start().starts_with('[') && !hidden {
            in_store = line.trim().starts_with(STORE);
        }
        let values = [value_in(line), value_after_name(line, in_store)];
        // If a line looks like both, the earlier position hides more of it.
        if let Some(at) = values.into_iter().flatten().min().filter(|_| !hidden) {
            found.push(start + at..end_of_value(text, start + at));
        }
        start += line.len();
    }
    found
}

/// The position after the first `=` of a line whose name promises a secret.
fn value_in(line: &str) -> Option<usize> {
    let signs = line.match_indices('=').map(|(at, _)| at);
    // Each `=` of the line, because an inline table has several.
    let mut secret = signs.filter(|at| line.get(..*at).is_some_and(ends_in_name));
    let value = line.get(secret.next()? + 1..)?;
    Some(line.len() - value.trim_start_matches([' ', '\t']).len())
}

/// The position after the first word of a line, if the word is the name of a secret and no `=` follows, or if the line
/// is in `[store]` and the word is not a harmless field of `[store]`.
fn value_after_name(line: &str, in_store: bool) -> Option<usize> {
    let text = line.trim_start();
    if text.starts_with(['#', '[']) {
        return None;
    }
    let (name, rest) = text.split_once(|c: char| c.is_whitespace() || matches!(c, '=' | ':'))?;
    let is_secret = if in_store {
        !HARMLESS.contains(&name.trim_matches(['"', '\'']))
    } else {
        // With an `=` the other search decides.
        !line.contains('=') && ends_in_name(name)
    };
    let value = rest.trim_start_matches([' ', '\t', '=', ':']);
    (is_secret && !value.trim().is_empty()).then(|| line.len() - value.len())
}

/// Returns whether a text ends in the name of a secret.
fn ends_in_name(before: &str) -> bool {
    let name = before.trim_end().trim_end_matches(['"', '\'']).chars().rev();
    let name = name.take_while(|c| c.is_alphanumeric() || matches!(c, '_' | '-'));
    let letters = name.filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase);
    let name: String = letters.collect::<Vec<_>>().into_iter().rev().collect();
    let places = PLACES.iter().filter_map(|place| name.strip_suffix(place));
    let mut names = places.chain([&*name]);
    names.any(|name| SECRETS.iter().any(|end| name.ends_with(end)))
}

/// The end of the line on which a value ends that begins at `start`, without a line break; the end
/// of the text if it is not closed.
fn end_of_value(text: &str, start: usize) -> usize {
    let rest = text.get(start..).unwrap_or_default();
    // A secret is a text, and goes over several lines only in one of these quotes.
    let opened = LONG.iter().find(|(open, _)| rest.starts_with(open));
    let closed = match opened {
        Some((open, close)) => {
            let inside = rest.get(open.len()..).unwrap_or_default();
            inside.find(close).map_or(rest.len(), |at| rest.len() - inside.len() + at)
        }
        None => 0,
    };
    let end = rest.get(closed..).and_then(|rest| rest.find('\n'));
    let end = start + end.map_or(rest.len(), |end| closed + end);
    if text.get(..end).is_some_and(|text| text.ends_with('\r')) { end - 1 } else { end }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hidden(text: &str) -> Vec<&str> {
        find(text).into_iter().map(|span| text.get(span).unwrap_or_default()).collect()
    }

    #[test]
    fn values_are_hidden_to_the_end_of_their_lines() {
        for (text, expected) in [
            ("token = \"a\"\nname = 1\n", &["\"a\""][..]),
            ("a = 1\r\nAPI-Key=x\r\nb = 2", &["x"]),
            ("store.password = 1 # two", &["1 # two"]),
            ("when = { \"token\" = \"a\", b = \"c\" }", &["\"a\", b = \"c\" }"]),
            ("url = \"\"\"a\nb\"\"\" # c\nd = 1", &["\"\"\"a\nb\"\"\" # c"]),
            ("tokens = [\n\"a\",\n]\nb = 1\npass = 2", &["[\n\"a\",\n]", "2"]),
            ("password = '''a\nb", &["'''a\nb"]),
            ("password_file = \"a\"", &["\"a\""]),
            ("password =", &[""]),
            ("password: \"a\"", &["\"a\""]),
            ("[store]\npasword = \"a\"\nkey = 'b'", &["\"a\"", "'b'"]),
            ("[store] # here\npasswort \"a\"\n[server]\nkey = 1", &["\"a\""]),
        ] {
            assert_eq!(hidden(text), expected, "{text}");
        }
    }

    #[test]
    fn other_values_are_not_hidden() {
        for text in [
            "",
            "=",
            "limit = 5",
            "algorithm = \"token_bucket\"",
            "tokens_per_second = 1",
            "file = \"a\"",
            "[store]\ntimeout = 5\n# pasword = 1\n",
            "# the password is elsewhere",
        ] {
            assert!(hidden(text).is_empty(), "{text}");
        }
    }
}
