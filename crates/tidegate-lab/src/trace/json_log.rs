//! Logs of one JSON object per line: of Caddy, Traefik, Envoy, nginx, and lines of a log within JSON.
//!
//! The name of a field has a *slot*, its meaning, and a *rank*: of several names for one slot the name with the
//! lowest rank counts.

use std::borrow::Cow;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::access_time::AccessTime;
use super::bad_lines::BadLineReason;
use super::json_descriptor::JsonText;
use super::logged::{Logged, LoggedParts, LoggedSlot};
use super::ndjson;

/// Names of a field that has a whole line of a log, as Docker's json-file has it.
const WRAPPERS: [&str; 5] = ["log", "message", "MESSAGE", "line", "textPayload"];
/// Objects whose fields count as fields of the line.
const PARENTS: [&str; 6] = ["request", "response", "httpRequest", "req", "res", "properties"];
/// The field `response`, in which Logstash has the status.
const RESPONSE: (LoggedSlot, usize) = (LoggedSlot::Status, 1);
/// The object of header fields, whose names a caller may choose.
const HEADERS: &str = "headers";
/// The field with the name of Caddy's log.
const LOGGER: &str = "logger";
/// The beginning of the name that Caddy gives to an error which it also logs as a request.
const ERRORS: &str = "http.log.error";
/// The ranks of names for one slot: the best name of a line counts.
const RANKS: usize = 5;

/// A request has at least one slot of each list.
const CLIENT: [LoggedSlot; 3] =
    [LoggedSlot::Peer, LoggedSlot::XForwardedFor, LoggedSlot::Forwarded];
const REQUEST: [LoggedSlot; 3] = [LoggedSlot::Request, LoggedSlot::Target, LoggedSlot::Method];

/// The fields of a JSON object that are of use.
#[derive(Debug, Default)]
pub(super) struct LogObject<'a> {
    ranked: [LoggedParts<'a>; RANKS],
    /// A line of a log.
    pub(super) wrapped: Option<Cow<'a, str>>,
    /// It has a field that only a line of NDJSON has.
    pub(super) is_event: bool,
    /// It is about an error of a request that has a line of its own.
    is_error: bool,
}

/// Reads one object.
pub(super) fn read(line: &[u8]) -> Result<LogObject<'_>, BadLineReason> {
    let mut object = LogObject::default();
    let mut json = serde_json::Deserializer::from_slice(line);
    let read = ObjectFields { object: &mut object, place: FieldPlace::Line }.deserialize(&mut json);
    read.and_then(|()| json.end()).map_err(|error| ndjson::reason(&error))?;
    Ok(object)
}

/// The names of an object's own fields that are of no use. A line that is no object has none.
pub(super) fn not_read(line: &[u8]) -> Vec<String> {
    let object: serde_json::Map<_, _> = serde_json::from_slice(line).unwrap_or_default();
    let place = FieldPlace::Line;
    let mut names: Vec<_> = object.into_iter().map(|(name, _)| name).collect();
    names.retain(|name| {
        let is_used = place.slot(name).is_some() || place.within(name).is_some();
        !is_used && !WRAPPERS.contains(&name.as_str()) && name != LOGGER
    });
    names
}

impl<'a> LogObject<'a> {
    /// Returns whether it looks like a request.
    pub(super) fn is_request(&self) -> bool {
        self.has_one_of(CLIENT) && self.has_one_of(REQUEST)
    }

    fn has_one_of(&self, slots: [LoggedSlot; 3]) -> bool {
        slots.into_iter().any(|slot| self.ranked.iter().any(|parts| parts.has(slot)))
    }

    /// The request.
    pub(super) fn finish(self, access: &mut AccessTime) -> Result<Logged<'a>, BadLineReason> {
        if self.is_error {
            return Err(
                "the line is about an error of a request, which has a line of its own".into()
            );
        }
        let mut all = LoggedParts::default();
        // The best names first, because `fill` replaces no value.
        self.ranked.into_iter().for_each(|parts| all.fill(parts));
        if !CLIENT.into_iter().any(|slot| all.has(slot)) {
            return Err("the object has no client: expected a field such as remote_addr, \
                        client_ip or ClientHost"
                .into());
        }
        if !all.has(LoggedSlot::Time) && !all.has(LoggedSlot::Date) {
            return Err("the object has no time: expected a field such as time_iso8601, \
                        time_local, ts, StartUTC or @timestamp"
                .into());
        }
        if !REQUEST.into_iter().any(|slot| all.has(slot)) {
            return Err("the object has no request: expected a field such as request, method, \
                        uri or path"
                .into());
        }
        all.finish(access)
    }
}

/// The place of a field: in the object of the line, in an object of the request within it, or among the
/// header fields.
#[derive(Clone, Copy, PartialEq, Eq)]
enum FieldPlace {
    Line,
    Request,
    Headers,
}

impl FieldPlace {
    /// The place of the fields of an object here; `None` if they are of no use.
    fn within(self, name: &str) -> Option<Self> {
        match (self, name) {
            (Self::Headers, _) => None,
            (_, HEADERS) => Some(Self::Headers),
            _ => PARENTS.contains(&name).then_some(Self::Request),
        }
    }

    /// The slot of a field here, and the rank of its name: 0 goes first.
    fn slot(self, name: &str) -> Option<(LoggedSlot, usize)> {
        match self {
            Self::Line => slot(name, false),
            Self::Headers => of_header(name).map(|slot| (slot, 0)),
            Self::Request => match slot(name, true) {
                // Mostly how long something took.
                Some((LoggedSlot::Time, _)) => Some((LoggedSlot::Time, RANKS - 1)),
                found => found,
            },
        }
    }
}

/// The slot of a header field. A name with underscores is another field, which no proxy writes.
fn of_header(name: &str) -> Option<LoggedSlot> {
    match name.to_ascii_lowercase().as_str() {
        "user-agent" => Some(LoggedSlot::UserAgent),
        "x-forwarded-for" => Some(LoggedSlot::XForwardedFor),
        "forwarded" => Some(LoggedSlot::Forwarded),
        _ => None,
    }
}

/// The slot of a field of a line or of its request, and the rank of its name.
fn slot(name: &str, in_request: bool) -> Option<(LoggedSlot, usize)> {
    Some(match name {
        // Of Caddy, which knows its own proxies; elsewhere it may be any header field.
        "client_ip" => (LoggedSlot::Peer, if in_request { 0 } else { 2 }),
        "remote_addr" | "remote_ip" | "remoteIp" | "ClientHost" | "ClientIP" | "clientIP"
        | "clientIp" | "sourceIp" | "c-ip" => (LoggedSlot::Peer, 1),
        "downstream_remote_address" | "ClientAddr" | "clientip" | "remote_address" => {
            (LoggedSlot::Peer, 2)
        }
        "client" | "ip" | "client_addr" | "remote" | "remoteAddr" | "remoteAddress" => {
            (LoggedSlot::Peer, 3)
        }
        "StartUTC" | "time_iso8601" | "msec" | "start_time" | "EdgeStartTimestamp" => {
            (LoggedSlot::Time, 0)
        }
        "ts" | "time_local" | "@timestamp" | "StartLocal" | "requestTimeEpoch" => {
            (LoggedSlot::Time, 1)
        }
        "timestamp" | "datetime" | "requestTime" | "started_at" => (LoggedSlot::Time, 2),
        "time" => (LoggedSlot::Time, 3),
        "request" | "request_line" => (LoggedSlot::Request, 0),
        "method"
        | "request_method"
        | "RequestMethod"
        | "requestMethod"
        | "httpMethod"
        | "ClientRequestMethod"
        | "cs-method" => (LoggedSlot::Method, 0),
        "verb" => (LoggedSlot::Method, 1),
        "request_uri" | "RequestPath" | "requestUrl" | "requestUri" | "ClientRequestURI" => {
            (LoggedSlot::Target, 0)
        }
        "uri" | "path" | "url" | "cs-uri-stem" => (LoggedSlot::Target, 1),
        "resourcePath" => (LoggedSlot::Target, 2),
        "status" | "DownstreamStatus" | "response_code" | "status_code" | "statusCode"
        | "httpStatus" | "EdgeResponseStatus" | "response_status" | "sc-status" => {
            (LoggedSlot::Status, 0)
        }
        "response" => RESPONSE,
        "http_user_agent"
        | "user_agent"
        | "User-Agent"
        | "user-agent"
        | "userAgent"
        | "request_User-Agent"
        | "request_user_agent"
        | "ClientRequestUserAgent" => (LoggedSlot::UserAgent, 0),
        "agent" => (LoggedSlot::UserAgent, 1),
        "http_x_forwarded_for"
        | "x_forwarded_for"
        | "X-Forwarded-For"
        | "x-forwarded-for"
        | "request_X-Forwarded-For" => (LoggedSlot::XForwardedFor, 0),
        "http_forwarded" | "forwarded" | "Forwarded" | "request_Forwarded" => {
            (LoggedSlot::Forwarded, 0)
        }
        _ => return None,
    })
}

/// The fields of an object, and of the objects in it that belong to the request.
struct ObjectFields<'o, 'a> {
    object: &'o mut LogObject<'a>,
    place: FieldPlace,
}

impl<'de> DeserializeSeed<'de> for ObjectFields<'_, 'de> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for ObjectFields<'_, 'de> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<(), M::Error> {
        while let Some(JsonText(name)) = map.next_key()? {
            let in_line = self.place == FieldPlace::Line;
            self.object.is_event |=
                in_line && matches!(&*name, "at_us" | "descriptor" | "descriptors");
            let object = &mut *self.object;
            let slot = self.place.slot(&name);
            let is_wrapper = in_line && WRAPPERS.contains(&&*name);
            let within = self.place.within(&name);
            // A field such as `request` is a slot if it is a text, and has fields of its own if it is an object.
            if slot.is_some() || is_wrapper || within.is_some() {
                map.next_value_seed(FieldValue { object, slot, is_wrapper, within })?;
            } else if in_line && name == LOGGER {
                let logger = map.next_value::<Element<'de>>()?.0;
                object.is_error |= logger.is_some_and(|logger| logger.starts_with(ERRORS));
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(())
    }
}

/// The value of a field that may be of use.
struct FieldValue<'o, 'a> {
    object: &'o mut LogObject<'a>,
    slot: Option<(LoggedSlot, usize)>,
    is_wrapper: bool,
    /// The place of the fields of an object.
    within: Option<FieldPlace>,
}

impl<'a> FieldValue<'_, 'a> {
    fn set(self, value: Cow<'a, str>) {
        if self.is_wrapper {
            self.object.wrapped.get_or_insert(value);
        } else if self.slot == Some(RESPONSE) && value.len() != 3 {
            // The answer itself, and no status.
        } else if let Some((slot, rank)) = self.slot {
            self.object.ranked[rank].set(slot, value);
        }
    }
}

impl<'de> DeserializeSeed<'de> for FieldValue<'_, 'de> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for FieldValue<'_, 'de> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value of a request")
    }

    fn visit_borrowed_str<E: Error>(self, text: &'de str) -> Result<(), E> {
        self.set(Cow::Borrowed(text));
        Ok(())
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<(), E> {
        self.set(Cow::Owned(text.to_owned()));
        Ok(())
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<(), E> {
        self.set(Cow::Owned(number.to_string()));
        Ok(())
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<(), E> {
        self.set(Cow::Owned(number.to_string()));
        Ok(())
    }

    fn visit_f64<E: Error>(self, number: f64) -> Result<(), E> {
        self.set(Cow::Owned(number.to_string()));
        Ok(())
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        Ok(())
    }

    /// Several lines of one header field are one list.
    fn visit_seq<S: SeqAccess<'de>>(self, mut values: S) -> Result<(), S::Error> {
        let mut list = Vec::new();
        while let Some(value) = values.next_element::<Element<'de>>()? {
            list.extend(value.0);
        }
        match list.len() {
            0 => {}
            1 => self.set(list.swap_remove(0)),
            _ => self.set(Cow::Owned(list.join(", "))),
        }
        Ok(())
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<(), M::Error> {
        if let Some(place) = self.within {
            return ObjectFields { object: self.object, place }.visit_map(map);
        }
        // Read to its end although nothing of it counts, because serde_json fails otherwise.
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(())
    }
}

/// An element of a list, if it is a text.
struct Element<'a>(Option<Cow<'a, str>>);

impl<'de> serde::Deserialize<'de> for Element<'de> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let mut object = LogObject::default();
        // A wrapper takes any text or number, and nothing within an object.
        let value = FieldValue { object: &mut object, slot: None, is_wrapper: true, within: None };
        value.deserialize(from)?;
        Ok(Self(object.wrapped))
    }
}

#[cfg(test)]
mod tests;
