//! A line of an access log in common or combined format.
//!
//! ```text
//! host ident user [time] "request" status size                          common
//! host ident user [time] "request" status size "referer" "user agent"   combined
//! site host ident user [time] ...                                        vhost_combined
//! ```

use std::borrow::Cow;

use memchr::{memchr, memchr_iter, memchr2, memmem};

use super::access_time::{AccessTime, TIME_BYTES};
use super::bad_lines::{BadLineReason, text};
use super::clients::{WrittenClient, is_address, is_client, is_host};
use super::logged::{Logged, split_request, status, unquoted};
use super::times;

pub(super) fn parse<'a>(
    line: &'a [u8],
    access: &mut AccessTime,
) -> Result<Logged<'a>, BadLineReason> {
    // The time is found first, because the number of words before it differs.
    let (before, at_us, rest) = match split_at_time(line) {
        Some((before, at, rest)) => (before, access.parse(at)?, rest),
        None => split_at_other_time(line, access)?,
    };
    let text = LineText { line, valid: std::str::from_utf8(line).ok() };
    let peer = client(before)?;
    let request = quoted(rest, "the request")?;
    let (of_status, rest) = word(request.rest);
    let (size, rest) = word(rest);
    let status = status(text.part(of_status))?;
    check_size(size)?;
    let (method, path) = split_request(request.plain(text));
    let mut client = WrittenClient { peer: Some(text.part(peer)), ..WrittenClient::default() };
    let mut user_agent = None;
    if let Some(agent) = agent(rest)? {
        user_agent = Some(agent.plain(text));
        proxies(agent.rest, text, &mut client);
    }
    Ok(Logged {
        at_us,
        client,
        method: Some(method),
        path: Some(path),
        status: Some(status),
        user_agent,
    })
}

/// A line, and its text if all of it is valid: to check that once takes less than for each part.
#[derive(Clone, Copy)]
struct LineText<'a> {
    line: &'a [u8],
    valid: Option<&'a str>,
}

impl<'a> LineText<'a> {
    /// A part of the line as text.
    fn part(self, part: &'a [u8]) -> Cow<'a, str> {
        let start = part.as_ptr().addr().wrapping_sub(self.line.as_ptr().addr());
        // A part that is not of the line has no place in its text, and is checked by itself.
        let cut = self.valid.and_then(|valid| valid.get(start..start.wrapping_add(part.len())));
        cut.map_or_else(|| text(part), Cow::Borrowed)
    }
}

/// The text before the time, the time without its brackets, and the text after it.
type LineParts<'a> = (&'a [u8], &'a [u8; TIME_BYTES], &'a [u8]);

/// A user's name may hold spaces and brackets, so the first bracket that has a time's length
/// decides.
fn split_at_time(line: &[u8]) -> Option<LineParts<'_>> {
    for open in memchr_iter(b'[', line) {
        let Some(before) = line[..open].strip_suffix(b" ") else { continue };
        if let Some((time, [b']', rest @ ..])) = line[open + 1..].split_first_chunk() {
            return Some((before, time, rest));
        }
    }
    None
}

/// Takes also a time with a fraction or without a zone, in the first brackets that hold a time.
fn split_at_other_time<'a>(
    line: &'a [u8],
    access: &mut AccessTime,
) -> Result<(&'a [u8], u64, &'a [u8]), BadLineReason> {
    for open in memmem::find_iter(line, b" [") {
        let after = &line[open + 2..];
        let Some(close) = memchr(b']', after) else { break };
        if let Ok(at_us) = times::of_access_log(&after[..close], access) {
            return Ok((&line[..open], at_us, &after[close + 1..]));
        }
    }
    Err("no time found, expected one such as [17/May/2015:10:05:03 +0000]".into())
}

/// The client in `host ident user`, or in `site host ident user`, as `vhost_combined` begins.
fn client(before: &[u8]) -> Result<&[u8], BadLineReason> {
    if let Some(first) = before.strip_suffix(b" - -")
        && !first.is_empty()
        && memchr(b' ', first).is_none()
    {
        return Ok(first); // as nearly all lines begin
    }
    let mut words = before.split(|byte| *byte == b' ').filter(|word| !word.is_empty());
    let too_few = "expected the client, its identity and its user before the time";
    let first = words.next().ok_or(too_few)?;
    let second = words.next().ok_or(too_few)?;
    let third = words.next().ok_or(too_few)?;
    let fourth = words.next();
    let of_others = [Some(third), fourth].into_iter().flatten();
    // A format with the address of a proxy in it begins with text of the caller.
    let has_other = of_others.chain(words).any(|word| word != b"-" && is_address(word));
    let is_site_first = second != b"-" && is_client(second);
    if has_other && is_client(first) || is_site_first && is_address(first) && is_address(second) {
        return Err("two addresses are before the time, and nothing says which is the \
                     client's: give the log's format"
            .into());
    }
    // lighttpd has the site in place of the identity.
    if !is_site_first || is_address(first) {
        return Ok(first);
    }
    // Only `vhost_combined`, which has four words here, has the site first.
    if is_site(first) && fourth.is_some() {
        return Ok(second);
    }
    Err(format!(
        "expected the client, or a site and the client, but the line begins with {:?}",
        text(first)
    )
    .into())
}

/// Returns whether a word can name a site: a host, also with a port, or nginx's `_`.
fn is_site(word: &[u8]) -> bool {
    let Ok(word) = std::str::from_utf8(word) else { return false };
    let (name, has_port) = match word.rsplit_once(':') {
        Some((name, port)) if port.parse::<u16>().is_ok() => (name, true),
        _ => (word, false),
    };
    // A port shows that a name of one label is a host too; with a label more `is_host` takes it.
    name == "_" || is_host(name) || (has_port && is_host(&format!("{name}.a")))
}

/// The text up to the next space, and the rest from that space on.
fn word(from: &[u8]) -> (&[u8], &[u8]) {
    let from = from.strip_prefix(b" ").unwrap_or(from);
    match memchr(b' ', from) {
        Some(end) => (&from[..end], &from[end..]),
        None => (from, &[]),
    }
}

/// A quoted field.
struct Quoted<'a> {
    /// The text between the quotes, as written.
    inside: &'a [u8],
    has_escapes: bool,
    /// The bytes after it.
    rest: &'a [u8],
}

impl<'a> Quoted<'a> {
    /// The text without escapes of quotes.
    fn plain(&self, text: LineText<'a>) -> Cow<'a, str> {
        let written = text.part(self.inside);
        if self.has_escapes { unquoted(written) } else { written }
    }
}

fn quoted<'a>(from: &'a [u8], what: &str) -> Result<Quoted<'a>, BadLineReason> {
    let Some(inside) = from.strip_prefix(b" \"") else {
        return Err(format!("expected {what} in double quotes").into());
    };
    let mut end = 0;
    let mut has_escapes = false;
    // After a backslash at the very end `end` lies beyond the text, and the search ends.
    while let Some(found) = inside.get(end..).and_then(|tail| memchr2(b'"', b'\\', tail)) {
        end += found;
        if inside[end] == b'"' {
            let rest = &inside[end + 1..];
            return Ok(Quoted { inside: &inside[..end], has_escapes, rest });
        }
        has_escapes = true;
        end += 2; // the backslash and what it escapes
    }
    Err(format!("{what} has no closing quote").into())
}

fn check_size(size: &[u8]) -> Result<(), BadLineReason> {
    let digits = !size.is_empty() && size.iter().all(u8::is_ascii_digit);
    if digits || size == b"-" {
        return Ok(());
    }
    Err("expected the size of the answer, a number or -, after the status".into())
}

/// The user agent in combined format; `None` if the line ends as in common format.
fn agent(rest: &[u8]) -> Result<Option<Quoted<'_>>, BadLineReason> {
    if rest.trim_ascii().is_empty() {
        return Ok(None);
    }
    let referer = quoted(rest, "the referer")?;
    quoted(referer.rest, "the user agent").map(Some)
}

/// The field that proxies write, which the format `main` of nginx has next to the user agent.
fn proxies<'a>(more: &'a [u8], text: LineText<'a>, client: &mut WrittenClient<'a>) {
    if more.is_empty() {
        return;
    }
    let Ok(field) = quoted(more, "the field") else { return };
    let field = Some(text.part(field.inside)).filter(|field| !field.is_empty() && field != "-");
    // An element of `Forwarded` names its client so, and no address has an equals sign.
    if field.as_ref().is_some_and(|field| field.to_ascii_lowercase().contains("for=")) {
        client.forwarded = field.map(unquoted);
    } else {
        client.x_forwarded_for = field;
    }
}

#[cfg(test)]
mod tests;
