//! A request as a log has it: where all formats of logs come together.
//!
//! A format puts the parts of a line into *slots*. The entries of the event follow from the slots.

use std::borrow::Cow;

use memchr::{memchr, memrchr};

use super::access_time::AccessTime;
use super::bad_lines::BadLineReason;
use super::clients::{ClientFinder, WrittenClient};
use super::event::{DEFAULT_DOMAIN, LineEntries, LineEvent};
use super::times;

/// A request as a line has it. A field that a log does not have is `None`.
#[derive(Debug)]
pub(super) struct Logged<'a> {
    pub(super) at_us: u64,
    pub(super) client: WrittenClient<'a>,
    pub(super) method: Option<Cow<'a, str>>,
    /// The target up to its query.
    pub(super) path: Option<Cow<'a, str>>,
    pub(super) status: Option<Cow<'a, str>>,
    pub(super) user_agent: Option<Cow<'a, str>>,
}

impl<'a> Logged<'a> {
    /// The event of this request.
    pub(super) fn into_event(self, clients: &ClientFinder) -> Result<LineEvent<'a>, BadLineReason> {
        let client = clients.find(self.client)?;
        let Self { at_us, method, path, status, user_agent, .. } = self;
        let entries = LineEntries::Logged([Some(client.ip), method, path, status, user_agent]);
        let event = LineEvent::of_one(at_us, Cow::Borrowed(DEFAULT_DOMAIN), entries, 1);
        Ok(LineEvent { of_proxy: client.is_proxy, ..event })
    }
}

/// The meaning of a part of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LoggedSlot {
    Time,
    Date,
    TimeOfDay,
    Peer,
    XForwardedFor,
    Forwarded,
    /// `GET /shop?page=2 HTTP/1.1`.
    Request,
    Method,
    /// `/shop?page=2`, or `/shop` alone.
    Target,
    Status,
    UserAgent,
}

const SLOTS: usize = LoggedSlot::UserAgent as usize + 1;

/// The parts of a line. The first value of a slot counts.
#[derive(Debug, Default)]
pub(super) struct LoggedParts<'a>([Option<Cow<'a, str>>; SLOTS]);

impl<'a> LoggedParts<'a> {
    pub(super) fn set(&mut self, slot: LoggedSlot, value: Cow<'a, str>) {
        self.0[slot as usize].get_or_insert(value);
    }

    /// Takes the values of `others` for slots that have none.
    pub(super) fn fill(&mut self, others: Self) {
        for (value, other) in self.0.iter_mut().zip(others.0) {
            *value = value.take().or(other);
        }
    }

    pub(super) fn has(&self, slot: LoggedSlot) -> bool {
        self.0[slot as usize].is_some()
    }

    fn take(&mut self, slot: LoggedSlot) -> Option<Cow<'a, str>> {
        self.0[slot as usize].take()
    }

    /// Puts the parts together.
    pub(super) fn finish(mut self, access: &mut AccessTime) -> Result<Logged<'a>, BadLineReason> {
        // A field with all of it goes before a date and a time of day.
        if let Some(time) = self.take(LoggedSlot::Time) {
            return self.finish_at(times::any(&time, access)?);
        }
        let date = self.take(LoggedSlot::Date);
        let time = self.take(LoggedSlot::TimeOfDay);
        match (date, time) {
            (Some(date), Some(time)) => {
                self.finish_at(times::any(&format!("{date}T{time}"), access)?)
            }
            (Some(_), None) => Err("the line has no time of day".into()),
            (None, Some(_)) => {
                Err("the line has no time with a date: expected the field date as well".into())
            }
            (None, None) => Err("the line has no time".into()),
        }
    }

    /// Puts the parts of a request at this time together.
    pub(super) fn finish_at(mut self, at_us: u64) -> Result<Logged<'a>, BadLineReason> {
        let (method, path) = match self.take(LoggedSlot::Request) {
            Some(request) => {
                let (method, path) = split_request(request);
                match self.take(LoggedSlot::Method).filter(|_| method == "-") {
                    // The request is its target alone, as Logstash names it.
                    Some(method) => (Some(method), Some(part(path, path_of))),
                    None => (Some(method), Some(path)),
                }
            }
            None => (
                self.take(LoggedSlot::Method),
                self.take(LoggedSlot::Target).map(|t| part(t, path_of)),
            ),
        };
        let status = self.take(LoggedSlot::Status).map(status).transpose()?;
        let client = WrittenClient {
            peer: self.take(LoggedSlot::Peer),
            x_forwarded_for: self.take_given(LoggedSlot::XForwardedFor),
            forwarded: self.take_given(LoggedSlot::Forwarded),
        };
        let user_agent = self.take(LoggedSlot::UserAgent);
        Ok(Logged { at_us, client, method, path, status, user_agent })
    }

    /// A field that proxies write, unless a log says that the request had none.
    fn take_given(&mut self, slot: LoggedSlot) -> Option<Cow<'a, str>> {
        self.take(slot).filter(|value| !value.is_empty() && value != "-")
    }
}

/// A part of a text, borrowed if the text is.
fn part<'a>(of: Cow<'a, str>, part: impl FnOnce(&str) -> &str) -> Cow<'a, str> {
    match of {
        Cow::Borrowed(text) => Cow::Borrowed(part(text)),
        Cow::Owned(text) => Cow::Owned(part(&text).to_owned()),
    }
}

/// The method and the path. A text that is not a request has the method `-`, and is its path.
pub(super) fn split_request(request: Cow<'_, str>) -> (Cow<'_, str>, Cow<'_, str>) {
    match request {
        Cow::Borrowed(request) => {
            let (method, path) = split(request);
            (method.into(), path.into())
        }
        Cow::Owned(request) => {
            let (method, path) = split(&request);
            (method.to_owned().into(), path.to_owned().into())
        }
    }
}

fn split(request: &str) -> (&str, &str) {
    match memchr(b' ', request.as_bytes()) {
        Some(space) if is_method(&request[..space]) => {
            (&request[..space], path_of(without_protocol(&request[space + 1..])))
        }
        _ => ("-", without_query(request)),
    }
}

/// The path of a target, which may be a whole URL.
fn path_of(target: &str) -> &str {
    let target = without_query(target);
    let Some(rest) = target.strip_prefix("http://").or_else(|| target.strip_prefix("https://"))
    else {
        return target;
    };
    memchr(b'/', rest.as_bytes()).map_or("/", |slash| &rest[slash..])
}

fn without_query(target: &str) -> &str {
    &target[..memchr(b'?', target.as_bytes()).unwrap_or(target.len())]
}

/// Removes the last word only if it is a protocol, because a target may contain spaces against all
/// rules.
fn without_protocol(target: &str) -> &str {
    match memrchr(b' ', target.as_bytes()) {
        Some(end) if target[end + 1..].starts_with("HTTP/") => &target[..end],
        _ => target,
    }
}

/// Returns whether this is a token as HTTP defines it, which every method is.
fn is_method(word: &str) -> bool {
    let mut bytes = word.bytes();
    !word.is_empty() && bytes.all(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b))
}

/// A status of three digits, or `-` for none.
pub(super) fn status(status: Cow<'_, str>) -> Result<Cow<'_, str>, BadLineReason> {
    match status.as_bytes() {
        b"-" | [b'0'..=b'9', b'0'..=b'9', b'0'..=b'9'] => Ok(status),
        b"-1" => Ok("-".into()),
        _ => Err("expected a status of three digits after the request".into()),
    }
}

/// Turns `\"` into `"` and leaves every other escape as written. A bare quote cannot occur in a
/// quoted field, so fields that differ stay different.
pub(super) fn unquoted(written: Cow<'_, str>) -> Cow<'_, str> {
    if memchr(b'\\', written.as_bytes()).is_none() {
        return written;
    }
    let mut plain = String::with_capacity(written.len());
    let mut chars = written.chars().peekable();
    while let Some(c) = chars.next() {
        match (c, chars.peek()) {
            ('\\', Some('"')) => {}
            // Both are kept together, so that the second escapes no quote after it.
            ('\\', Some('\\')) => {
                plain.push_str("\\\\");
                chars.next();
            }
            _ => plain.push(c),
        }
    }
    Cow::Owned(plain)
}
