//! The formats of a line, and the format that a line seems to have: for [`LineParser`](super::line_parser::LineParser),
//! which discovers the format with the first good line and then reads all lines in it.

use std::borrow::Cow;
use std::sync::Arc;

use tidegate::readable;

use super::access_log;
use super::access_time::AccessTime;
use super::bad_lines::BadLineReason;
use super::clients::is_client;
use super::columns::Columns;
use super::event::LineEvent;
use super::json_log;
use super::known;
use super::logged::Logged;
use super::ndjson;
use super::prefix;
use super::template::Template;

/// The format of a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum TraceFormat {
    Ndjson,
    AccessLog,
    Json,
    /// As a directive `#Fields` says.
    Columns(Arc<Columns>),
    Template(Arc<Template>),
}

impl TraceFormat {
    /// The name for people.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Ndjson => "NDJSON",
            Self::AccessLog => "access log",
            Self::Json => "JSON",
            Self::Columns(columns) => columns.name(),
            Self::Template(template) => template.name,
        }
    }
}

/// The content of a line.
#[derive(Debug)]
pub(super) enum LineContent<'a> {
    Event(LineEvent<'a>),
    Logged(Logged<'a>),
    /// A line such as `#Fields: ...`, which is no request.
    Directive,
}

/// The format that a line turned out to have, and whether the line is within a JSON object.
pub(super) type FoundFormat = (TraceFormat, bool);

/// Reads a line without a prefix in one format.
pub(super) fn read_as<'a>(
    format: &TraceFormat,
    text: &'a [u8],
    access: &mut AccessTime,
) -> Result<LineContent<'a>, BadLineReason> {
    match format {
        TraceFormat::Ndjson => ndjson::parse(text).map(LineContent::Event),
        TraceFormat::AccessLog => access_log::parse(text, access).map(LineContent::Logged),
        TraceFormat::Json => json_log::read(text)?.finish(access).map(LineContent::Logged),
        TraceFormat::Columns(columns) => columns.parse(text, access).map(LineContent::Logged),
        TraceFormat::Template(template) => template.parse(text, access).map(LineContent::Logged),
    }
}

/// Reads a line in the format that it seems to have.
pub(super) fn discover<'a>(
    line: &'a [u8],
    inner: &'a mut String,
    access: &mut AccessTime,
) -> Result<(LineContent<'a>, FoundFormat), BadLineReason> {
    let text = prefix::strip(line)?;
    if is_array(text) {
        return Err(
            "a JSON array, and a log has an object on each line: `jq -c '.[]'` makes them of it"
                .into(),
        );
    }
    if !is_object(text) {
        let found = match discover_text(text, access) {
            // A format may begin as a prefix does, such as with a time.
            Err(reason) => by_template(line, access).ok_or(reason)?,
            Ok(found) => found,
        };
        return Ok((found.0, (found.1, false)));
    }
    let object = json_log::read(text)?;
    // Fields of NDJSON decide first, because its descriptor may have names that logs use.
    if object.is_event {
        return Ok((ndjson::parse(text).map(LineContent::Event)?, (TraceFormat::Ndjson, false)));
    }
    // A request may have a message too, and an object without either gets the error that names its
    // missing fields.
    if object.is_request() || object.wrapped.is_none() {
        return Ok((LineContent::Logged(object.finish(access)?), (TraceFormat::Json, false)));
    }
    // The object is read a second time, but only until the format is known.
    let text = unwrapped(text, inner)?;
    if is_object(text) {
        let logged = json_log::read(text)?.finish(access)?;
        return Ok((LineContent::Logged(logged), (TraceFormat::Json, true)));
    }
    let (read, format) = discover_text(text, access)?;
    Ok((read, (format, true)))
}

/// Reads a line that is no JSON object and has no prefix.
fn discover_text<'a>(
    text: &'a [u8],
    access: &mut AccessTime,
) -> Result<(LineContent<'a>, TraceFormat), BadLineReason> {
    // Its reason stands in the error, because most logs are access logs.
    let reason = match access_log::parse(text, access) {
        Ok(logged) => return Ok((LineContent::Logged(logged), TraceFormat::AccessLog)),
        Err(reason) => reason,
    };
    if let Some(found) = by_template(text, access) {
        return Ok(found);
    }
    Err(format!("neither a JSON object nor a line of a log that is known: {reason}").into())
}

fn by_template<'a>(
    line: &'a [u8],
    access: &mut AccessTime,
) -> Option<(LineContent<'a>, TraceFormat)> {
    known::templates().iter().find_map(|template| {
        let logged = template.parse(line, access).ok()?;
        let peer = logged.client.peer.as_deref();
        if !peer.is_none_or(|peer| is_client(peer.as_bytes())) {
            return None; // a line of another kind, which fits by chance
        }
        Some((LineContent::Logged(logged), TraceFormat::Template(Arc::clone(template))))
    })
}

/// A line of JSON with its bytes escaped that JSON cannot have, which a caller may have sent; `None` if it has none.
pub(super) fn escaped(line: &[u8]) -> Option<Vec<u8>> {
    match readable::json(line) {
        Cow::Owned(json) if prefix::strip(line).is_ok_and(is_object) => Some(json),
        _ => None,
    }
}

/// A client's address never begins with a brace, and every JSON object does.
pub(super) fn is_object(line: &[u8]) -> bool {
    line.trim_ascii_start().first() == Some(&b'{')
}

/// Returns whether a line begins a JSON array of objects, or of nothing yet.
fn is_array(line: &[u8]) -> bool {
    let Some(inside) = line.trim_ascii_start().strip_prefix(b"[") else { return false };
    matches!(inside.trim_ascii_start().first(), None | Some(b'{'))
}

/// The line within a JSON object, without its prefix.
pub(super) fn unwrapped<'a>(
    line: &'a [u8],
    inner: &'a mut String,
) -> Result<&'a [u8], BadLineReason> {
    let Some(wrapped) = json_log::read(line)?.wrapped else { return Ok(line) };
    inner.clear();
    inner.push_str(wrapped.trim_end_matches(['\r', '\n']));
    prefix::strip(inner.as_bytes())
}
