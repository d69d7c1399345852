//! A whole directive of a server's configuration: `log_format main '...' '...';` or `LogFormat "..." main`.
//!
//! A user may give it in place of the format alone.

use std::borrow::Cow;

use super::LogFormatError;

/// The format in a directive, or the text itself if it is none.
pub(super) fn format(text: &str) -> Result<Cow<'_, str>, LogFormatError> {
    let mut words = text.split_ascii_whitespace();
    let name = words.next();
    let has_more = words.next().is_some();
    let parts = quoted(text);
    match name {
        Some("log_format") if has_more => match parts {
            Some(parts) => Ok(parts.into_iter().map(unescaped).collect::<String>().into()),
            None => Err(no_format("log_format main '$remote_addr [$time_local] \"$request\"';")),
        },
        // Apache's own notation has the escapes within its quotes.
        Some("LogFormat") if has_more => match parts.and_then(|parts| parts.first().copied()) {
            Some(format) => Ok(format.into()),
            None => Err(no_format(r#"LogFormat "%h %t \"%r\"" main"#)),
        },
        _ => Ok(text.into()),
    }
}

fn no_format(expected: &str) -> LogFormatError {
    LogFormatError(format!(
        "the directive has no format in quotes: expected one such as {expected}"
    ))
}

/// The insides of all quoted parts, with their escapes; `None` if there are none, or the last has no end.
fn quoted(text: &str) -> Option<Vec<&str>> {
    let mut parts = Vec::new();
    let mut rest = text;
    while let Some(open) = rest.find(['\'', '"']) {
        let quote = rest.as_bytes()[open];
        let inside = &rest[open + 1..];
        let mut escaped = false;
        let end = inside.bytes().position(|byte| {
            // Only the quote that opened the part closes it.
            let ends = byte == quote && !escaped;
            escaped = byte == b'\\' && !escaped;
            ends
        })?;
        parts.push(&inside[..end]);
        rest = &inside[end + 1..];
    }
    (!parts.is_empty()).then_some(parts)
}

/// A quoted part of nginx's configuration as nginx takes it.
fn unescaped(part: &str) -> String {
    let mut plain = String::with_capacity(part.len());
    let mut chars = part.chars();
    while let Some(first) = chars.next() {
        match (first, chars.clone().next()) {
            ('\\', Some(quoted @ ('"' | '\'' | '\\'))) => plain.push(quoted),
            ('\\', Some('t')) => plain.push('\t'),
            ('\\', Some('n')) => plain.push('\n'),
            ('\\', Some('r')) => plain.push('\r'),
            // A backslash before any other character stays, as in nginx.
            _ => {
                plain.push(first);
                continue;
            }
        }
        chars.next();
    }
    plain
}
