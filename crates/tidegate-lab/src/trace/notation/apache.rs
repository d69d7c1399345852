//! Apache's notation: `%h %l %u %t \"%r\" %>s %b`.
//!
//! It becomes the items of a template: texts, and fields with their meaning.

use super::super::logged::LoggedSlot;
use super::super::template::{FieldKind, TemplateItem};
use super::{LogFormatError, of_header, push_field, push_text};

/// The letters of all directives.
const LETTERS: &str = "aABbCDeEfFhHiIklLmnoOpPqQrRsStTuUvVX";

pub(super) fn items(text: &str) -> Result<Vec<TemplateItem>, LogFormatError> {
    let mut items = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let end = rest.find(['%', '\\']).unwrap_or(rest.len());
        if end > 0 {
            push_text(&mut items, &rest[..end]);
            rest = &rest[end..];
        } else if first == '\\' {
            // A backslash at the very end stands for itself.
            let escaped = rest[1..].chars().next().unwrap_or('\\');
            let meant = match escaped {
                'n' => '\n',
                't' => '\t',
                other => other,
            };
            push_text(&mut items, meant.encode_utf8(&mut [0; 4]));
            rest = rest.get(1 + escaped.len_utf8()..).unwrap_or_default();
        } else {
            rest = directive(&mut items, rest)?;
        }
    }
    Ok(items)
}

/// Adds the directive that a text begins with, and returns the rest after it.
fn directive<'a>(items: &mut Vec<TemplateItem>, text: &'a str) -> Result<&'a str, LogFormatError> {
    if let Some(rest) = text.strip_prefix("%%") {
        push_text(items, "%");
        return Ok(rest);
    }
    // Modifiers such as `!200,304` and `>`, which say for which answers and which request a value is written.
    let mut rest = text[1..].trim_start_matches(|c: char| c.is_ascii_digit() || "<>!,".contains(c));
    let mut argument = None;
    if let Some(inside) = rest.strip_prefix('{') {
        let (inside, after) = inside.split_once('}').ok_or_else(|| unknown(text))?;
        argument = Some(inside);
        rest = after;
    }
    // Three letters of a request's or an answer's trailer.
    let rest = rest.strip_prefix("^t").unwrap_or(rest);
    let letter = rest.chars().next().filter(|letter| LETTERS.contains(*letter));
    let letter = letter.ok_or_else(|| unknown(text))?;
    let after = &rest[letter.len_utf8()..];
    let name = text[..text.len() - after.len()].to_owned();
    match (letter, argument) {
        ('t', None) => {
            // Apache writes a time without a form in brackets, which `%t` does not show.
            push_text(items, "[");
            push_field(items, name, FieldKind::Slot(LoggedSlot::Time));
            push_text(items, "]");
        }
        _ => push_field(items, name, kind(letter, argument)),
    }
    Ok(after)
}

fn unknown(text: &str) -> LogFormatError {
    let shown: String = text.chars().take(16).collect();
    LogFormatError(format!("{shown:?} begins with no directive of Apache's notation"))
}

fn kind(letter: char, argument: Option<&str>) -> FieldKind {
    FieldKind::Slot(match (letter, argument) {
        ('h' | 'a', _) => LoggedSlot::Peer,
        ('t', Some(form)) => return time(form),
        ('i', Some(header)) => return of_header(header),
        ('r', _) => LoggedSlot::Request,
        ('m', _) => LoggedSlot::Method,
        ('U', _) => LoggedSlot::Target,
        ('s', _) => LoggedSlot::Status,
        _ => return FieldKind::Ignored,
    })
}

/// The time of `%{form}t`, at the beginning or the end of the request.
fn time(form: &str) -> FieldKind {
    let form = form.strip_prefix("begin:").or_else(|| form.strip_prefix("end:")).unwrap_or(form);
    match form {
        "" | "sec" | "msec" | "usec" => FieldKind::Slot(LoggedSlot::Time),
        "msec_frac" | "usec_frac" => FieldKind::Ignored,
        form => FieldKind::TimeOf(form.to_owned()),
    }
}
