//! Logs of one JSON object per line: of Caddy, Traefik, Envoy, nginx, and lines of a log within JSON.

use std::borrow::Cow;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::access_time::AccessTime;
use super::bad_lines::Reason;
use super::descriptor::Text;
use super::logged::{Logged, Parts, Slot};
use super::ndjson;

/// Names of a field that has a whole line of a log, as Docker's json-file has it.
const WRAPPERS: [&str; 5] = ["log", "message", "MESSAGE", "line", "textPayload"];
/// Objects whose fields count as fields of the line.
const PARENTS: [&str; 6] = ["request", "headers", "httpRequest", "req", "res", "properties"];
/// The ranks of names for one slot: the best name of a line counts.
const RANKS: usize = 4;

/// The fields of a JSON object that are of use.
#[derive(Debug, Default)]
pub(super) struct Object<'a> {
    ranked: [Parts<'a>; RANKS],
    /// A line of a log.
    pub(super) wrapped: Option<Cow<'a, str>>,
    /// It has a field that only a line of NDJSON has.
    pub(super) is_event: bool,
}

/// Reads one object.
pub(super) fn read(line: &[u8]) -> Result<Object<'_>, Reason> {
    let mut object = Object::default();
    let mut json = serde_json::Deserializer::from_slice(line);
    let read = Fields { object: &mut object, in_request: false }.deserialize(&mut json);
    read.and_then(|()| json.end()).map_err(|error| ndjson::reason(&error))?;
    Ok(object)
}

impl<'a> Object<'a> {
    /// Returns whether it looks like a request.
    pub(super) fn is_request(&self) -> bool {
        let has = |slot| self.ranked.iter().any(|parts| parts.has(slot));
        let has_client = has(Slot::Peer) || has(Slot::XForwardedFor) || has(Slot::Forwarded);
        has_client && (has(Slot::Request) || has(Slot::Target) || has(Slot::Method))
    }

    /// The request.
    pub(super) fn finish(self, access: &mut AccessTime) -> Result<Logged<'a>, Reason> {
        let mut all = Parts::default();
        self.ranked.into_iter().for_each(|parts| all.fill(parts));
        if !all.has(Slot::Peer) && !all.has(Slot::XForwardedFor) && !all.has(Slot::Forwarded) {
            return Err("the object has no client: expected a field such as remote_addr, \
                        client_ip or ClientHost"
                .into());
        }
        if !all.has(Slot::Time) && !all.has(Slot::Date) {
            return Err("the object has no time: expected a field such as time_iso8601, \
                        time_local, ts, StartUTC or @timestamp"
                .into());
        }
        all.finish(access)
    }
}

/// The slot of a field, and the rank of its name: 0 goes first.
fn slot(name: &str, in_request: bool) -> Option<(Slot, usize)> {
    Some(match name {
        // Of Caddy, which knows its own proxies; elsewhere it may be any header field.
        "client_ip" => (Slot::Peer, if in_request { 0 } else { 2 }),
        "remote_addr" | "remote_ip" | "remoteIp" | "ClientHost" | "ClientIP" | "clientIP"
        | "c-ip" => (Slot::Peer, 1),
        "downstream_remote_address" | "ClientAddr" | "clientip" | "remote_address" => {
            (Slot::Peer, 2)
        }
        "client" | "ip" | "client_addr" | "remote" | "remoteAddr" | "remoteAddress" => {
            (Slot::Peer, 3)
        }
        "StartUTC" | "time_iso8601" | "msec" | "start_time" | "EdgeStartTimestamp" => {
            (Slot::Time, 0)
        }
        "ts" | "time_local" | "@timestamp" => (Slot::Time, 1),
        "timestamp" | "datetime" | "requestTime" => (Slot::Time, 2),
        "time" => (Slot::Time, 3),
        "request" | "request_line" => (Slot::Request, 0),
        "method"
        | "request_method"
        | "RequestMethod"
        | "requestMethod"
        | "httpMethod"
        | "ClientRequestMethod"
        | "cs-method" => (Slot::Method, 0),
        "request_uri" | "RequestPath" | "requestUrl" | "requestUri" | "ClientRequestURI" => {
            (Slot::Target, 0)
        }
        "uri" | "path" | "url" | "cs-uri-stem" => (Slot::Target, 1),
        "status" | "DownstreamStatus" | "response_code" | "status_code" | "statusCode"
        | "httpStatus" | "EdgeResponseStatus" | "sc-status" => (Slot::Status, 0),
        "http_user_agent"
        | "user_agent"
        | "User-Agent"
        | "user-agent"
        | "userAgent"
        | "request_User-Agent"
        | "ClientRequestUserAgent" => (Slot::UserAgent, 0),
        "agent" => (Slot::UserAgent, 1),
        "http_x_forwarded_for"
        | "x_forwarded_for"
        | "X-Forwarded-For"
        | "x-forwarded-for"
        | "request_X-Forwarded-For" => (Slot::XForwardedFor, 0),
        "http_forwarded" | "forwarded" | "Forwarded" | "request_Forwarded" => (Slot::Forwarded, 0),
        _ => return None,
    })
}

/// The fields of an object, and of the objects in it that belong to the request.
struct Fields<'o, 'a> {
    object: &'o mut Object<'a>,
    in_request: bool,
}

impl<'de> DeserializeSeed<'de> for Fields<'_, 'de> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Fields<'_, 'de> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<(), M::Error> {
        while let Some(Text(name)) = map.next_key()? {
            self.object.is_event |= !self.in_request && matches!(&*name, "at_us" | "descriptor");
            let object = &mut *self.object;
            let slot = slot(&name, self.in_request);
            let is_wrapper = !self.in_request && WRAPPERS.contains(&&*name);
            let is_parent = PARENTS.contains(&&*name);
            if slot.is_some() || is_wrapper || is_parent {
                map.next_value_seed(Value { object, slot, is_wrapper, is_parent })?;
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(())
    }
}

/// The value of a field that may be of use.
struct Value<'o, 'a> {
    object: &'o mut Object<'a>,
    slot: Option<(Slot, usize)>,
    is_wrapper: bool,
    is_parent: bool,
}

impl<'a> Value<'_, 'a> {
    fn set(self, value: Cow<'a, str>) {
        if self.is_wrapper {
            self.object.wrapped.get_or_insert(value);
        } else if let Some((slot, rank)) = self.slot {
            self.object.ranked[rank].set(slot, value);
        }
    }
}

impl<'de> DeserializeSeed<'de> for Value<'_, 'de> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Value<'_, 'de> {
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
        if self.is_parent {
            return Fields { object: self.object, in_request: true }.visit_map(map);
        }
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(())
    }
}

/// An element of a list, if it is a text.
struct Element<'a>(Option<Cow<'a, str>>);

impl<'de> serde::Deserialize<'de> for Element<'de> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let mut object = Object::default();
        let value = Value { object: &mut object, slot: None, is_wrapper: true, is_parent: false };
        value.deserialize(from)?;
        Ok(Self(object.wrapped))
    }
}

#[cfg(test)]
mod tests;
