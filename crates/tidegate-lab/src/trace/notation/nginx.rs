//! nginx's notation: `$remote_addr - $remote_user [$time_local] "$request" $status`.

use super::super::logged::Slot;
use super::super::template::{Item, Kind};
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
    parts(text).any(|part| matches!(part, Part::Variable(_)))
}

pub(super) fn items(text: &str) -> Vec<Item> {
    let has = |name: &str| parts(text).any(|part| part == Part::Variable(name));
    let client = ["remote_addr"].into_iter().chain(OTHER_CLIENTS).find(|name| has(name));
    let mut items = Vec::new();
    for part in parts(text) {
        match part {
            Part::Text(text) => push_text(&mut items, text),
            Part::Variable(name) if Some(name) == client => {
                push_field(&mut items, format!("${name}"), Kind::Slot(Slot::Peer));
            }
            Part::Variable(name) => push_field(&mut items, format!("${name}"), kind(name)),
        }
    }
    items
}

fn kind(name: &str) -> Kind {
    Kind::Slot(match name {
        "time_local" | "time_iso8601" | "msec" => Slot::Time,
        "proxy_add_x_forwarded_for" => Slot::XForwardedFor,
        "request" => Slot::Request,
        "request_method" => Slot::Method,
        "request_uri" | "uri" | "document_uri" => Slot::Target,
        "status" => Slot::Status,
        _ => return name.strip_prefix("http_").map_or(Kind::Ignored, of_header),
    })
}

/// A part of a format.
#[derive(Debug, PartialEq, Eq)]
enum Part<'a> {
    Text(&'a str),
    Variable(&'a str),
}

fn parts(text: &str) -> impl Iterator<Item = Part<'_>> {
    let mut rest = text;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        if let Some((name, after)) = variable(rest) {
            rest = after;
            return Some(Part::Variable(name));
        }
        // The first character is text, be it a dollar sign.
        let first = rest.chars().next().map_or(0, char::len_utf8);
        let end = rest[first..].find('$').map_or(rest.len(), |dollar| first + dollar);
        let (text, after) = rest.split_at(end);
        rest = after;
        Some(Part::Text(text))
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
