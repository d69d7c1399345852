//! A line of an access log in common or combined format.
//!
//! ```text
//! host ident user [time] "request" status size                          common
//! host ident user [time] "request" status size "referer" "user agent"   combined
//! ```

use std::borrow::Cow;
use std::net::IpAddr;

use memchr::{memchr, memchr2, memmem};

use super::access_time::{AccessTime, TIME_BYTES};
use super::bad_lines::{Reason, text};
use super::event::{DEFAULT_DOMAIN, LineEvent};

pub(super) fn parse<'a>(line: &'a [u8], time: &mut AccessTime) -> Result<LineEvent<'a>, Reason> {
    let (caller, at, rest) = split_at_time(line)?;
    let ip = client(caller)?;
    let at_us = time.parse(at)?;
    let (request, rest) = quoted(rest, "the request")?;
    let (status, rest) = word(rest);
    let (size, rest) = word(rest);
    check_status(status)?;
    check_size(size)?;
    let (method, path) = split_request(request);
    let mut descriptor = Vec::with_capacity(5);
    descriptor.push(("ip".into(), text(ip)));
    descriptor.push(("method".into(), text(method)));
    descriptor.push(("path".into(), unquoted(path)));
    descriptor.push(("status".into(), text(status)));
    if let Some(agent) = user_agent(rest)? {
        descriptor.push(("user_agent".into(), unquoted(agent)));
    }
    Ok(LineEvent {
        at_us,
        domain: Cow::Borrowed(DEFAULT_DOMAIN),
        descriptor,
        cost: 1,
        request_id: None,
    })
}

/// The text before the time, the time without its brackets, and the text after it.
type Parts<'a> = (&'a [u8], &'a [u8; TIME_BYTES], &'a [u8]);

/// A user's name may hold spaces and brackets, so the first bracket that has a time's length
/// decides.
fn split_at_time(line: &[u8]) -> Result<Parts<'_>, Reason> {
    for open in memmem::find_iter(line, b" [") {
        let after = &line[open + 2..];
        if let Some((time, [b']', rest @ ..])) = after.split_first_chunk() {
            return Ok((&line[..open], time, rest));
        }
    }
    Err("no time found, expected one such as [17/May/2015:10:05:03 +0000]".into())
}

/// The client's address from `host ident user`.
fn client(caller: &[u8]) -> Result<&[u8], Reason> {
    let (host, rest) = word(caller);
    let (ident, user) = word(rest);
    if host.is_empty() || ident.is_empty() || user.is_empty() {
        return Err("expected the client, its identity and its user before the time".into());
    }
    if ident != b"-" && is_address(ident) && !is_address(host) {
        return Err("the client comes second, after a host's name; expected it first: leave out \
                    the first field"
            .into());
    }
    Ok(host)
}

fn is_address(word: &[u8]) -> bool {
    std::str::from_utf8(word).is_ok_and(|text| text.parse::<IpAddr>().is_ok())
}

/// The text up to the next space, and the rest after that space.
fn word(from: &[u8]) -> (&[u8], &[u8]) {
    let from = from.strip_prefix(b" ").unwrap_or(from);
    match memchr(b' ', from) {
        Some(end) => (&from[..end], &from[end..]),
        None => (from, &[]),
    }
}

/// The inside of a quoted field, with its escapes, and the rest after it.
fn quoted<'a>(from: &'a [u8], what: &str) -> Result<(&'a [u8], &'a [u8]), Reason> {
    let Some(inside) = from.strip_prefix(b" \"") else {
        return Err(format!("expected {what} in double quotes").into());
    };
    let mut end = 0;
    while let Some(found) = inside.get(end..).and_then(|tail| memchr2(b'"', b'\\', tail)) {
        end += found;
        if inside[end] == b'"' {
            return Ok((&inside[..end], &inside[end + 1..]));
        }
        end += 2; // the backslash and what it escapes
    }
    Err(format!("{what} has no closing quote").into())
}

fn check_status(status: &[u8]) -> Result<(), Reason> {
    match status {
        b"-" => Ok(()),
        [b'0'..=b'9', b'0'..=b'9', b'0'..=b'9'] => Ok(()),
        _ => Err("expected a status of three digits after the request".into()),
    }
}

fn check_size(size: &[u8]) -> Result<(), Reason> {
    let digits = !size.is_empty() && size.iter().all(u8::is_ascii_digit);
    if digits || size == b"-" {
        return Ok(());
    }
    Err("expected the size of the answer, a number or -, after the status".into())
}

/// The user agent in combined format; `None` if the line ends as in common format.
fn user_agent(rest: &[u8]) -> Result<Option<&[u8]>, Reason> {
    if rest.trim_ascii().is_empty() {
        return Ok(None);
    }
    let (_referer, rest) = quoted(rest, "the referer")?;
    let (agent, _more) = quoted(rest, "the user agent")?;
    Ok(Some(agent))
}

/// The method, and the target up to its query. A text that is not a request has the method `-`.
fn split_request(request: &[u8]) -> (&[u8], &[u8]) {
    let (method, target) = match memchr(b' ', request) {
        Some(space) if is_method(&request[..space]) => {
            (&request[..space], without_protocol(&request[space + 1..]))
        }
        _ => (&b"-"[..], request),
    };
    (method, &target[..memchr(b'?', target).unwrap_or(target.len())])
}

/// Removes the last word only if it is a protocol, because a target may contain spaces against all
/// rules.
fn without_protocol(target: &[u8]) -> &[u8] {
    match memmem::rfind(target, b" HTTP/") {
        Some(end) if !target[end + 1..].contains(&b' ') => &target[..end],
        _ => target,
    }
}

/// Returns whether this is a token as HTTP defines it, which every method is.
fn is_method(word: &[u8]) -> bool {
    let token = |b: &u8| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(b);
    !word.is_empty() && word.iter().all(token)
}

/// Turns `\"` into `"` and leaves every other escape as written. A bare quote cannot occur in a
/// quoted field, so fields that differ stay different.
fn unquoted(field: &[u8]) -> Cow<'_, str> {
    let written = text(field);
    if !written.contains("\\\"") {
        return written;
    }
    let mut plain = String::with_capacity(written.len());
    let mut chars = written.chars().peekable();
    while let Some(c) = chars.next() {
        match (c, chars.peek()) {
            ('\\', Some('"')) => {}
            ('\\', Some('\\')) => {
                plain.push_str("\\\\");
                chars.next();
            }
            _ => plain.push(c),
        }
    }
    Cow::Owned(plain)
}

#[cfg(test)]
mod tests;
