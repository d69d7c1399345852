//! nginx's notation: `$remote_addr - $remote_user [$time_local] "$request" $status`.
//!
//! It becomes the items of a template: texts, and fields with their meaning.

use super::super::logged::LoggedSlot;
use super::super::template::{FieldKind, TemplateItem};
use super::{of_header, push_field, push_text};

/// Variables with a client's address, best first, in place of the connection's.
const OTHER_CLIENTS: [&str; 5] = [
    "realip_remote_addr",
    "proxy_protocol_addr",
    "http_x_real_ip",
    "http_cf_connecting_ip",
    "http_true_client_ip",
];

/// Returns whether a text has a variable such as `$status` or `${status}`.
pub(super) fn has_variables(text: &str) -> bool {
    parts(text).any(|part| matches!(part, FormatPart::Variable(_)))
}

pub(super) fn items(text: &str) -> Vec<TemplateItem> {
    let mut clients = ["remote_addr"].into_iter().chain(OTHER_CLIENTS);
    // Of several addresses only the best is the client.
    let client = clients.find(|name| parts(text).any(|part| part == FormatPart::Variable(name)));
    let mut items = Vec::new();
    for part in parts(text) {
        match part {
            FormatPart::Text(text) => push_text(&mut items, text),
            FormatPart::Variable(name) if Some(name) == client => {
                push_field(&mut items, format!("${name}"), FieldKind::Slot(LoggedSlot::Peer));
            }
            FormatPart::Variable(name) => push_field(&mut items, format!("${name}"), kind(name)),
        }
    }
    items
}

fn kind(name: &str) -> FieldKind {
    FieldKind::Slot(match name {
        "time_local" | "time_iso8601" | "msec" => LoggedSlot::Time,
        "proxy_add_x_forwarded_for" => LoggedSlot::XForwardedFor,
        "request" => LoggedSlot::Request,
        "request_method" => LoggedSlot::Method,
        "request_uri" | "uri" | "document_uri" => LoggedSlot::Target,
        "status" => LoggedSlot::Status,
        _ => return name.strip_prefix("http_").map_or(FieldKind::Ignored, of_header),
    })
}

/// A part of a format.
#[derive(Debug, PartialEq, Eq)]
enum FormatPart<'a> {
    Text(&'a str),
    Variable(&'a str),
}

fn parts(text: &str) -> impl Iterator<Item = FormatPart<'_>> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        if let Some((name, after)) = variable(rest) {
            rest = after;
            return Some(FormatPart::Variable(name));
        }
        // The first character is text, be it a dollar sign.
        let first = rest.chars().next().map_or(0, char::len_utf8);
        let end = rest[first..].find('$').map_or(rest.len(), |dollar| first + dollar);
        let (text, after) = rest.split_at(end);
        rest = after;
        Some(FormatPart::Text(text))
    })
}

/// The name of the variable that a text begins with, and the rest after it.
fn variable(text: &str) -> Option<(&str, &str)> {
    let after = text.strip_prefix('$')?;
    if let Some(inside) = after.strip_prefix('{') {
        return inside.split_once('}').filter(|(name, _)| !name.is_empty());
    }
    let end = after.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(after.len());
    let is_name = after.starts_with(|c: char| c.is_ascii_alphabetic());
    is_name.then(|| after.split_at(end))
}
