//! The format of a trace, recognised by its first good line.

use std::borrow::Cow;
use std::sync::Arc;

use memchr::memmem;
use tidegate::readable;

use super::access_log;
use super::access_time::AccessTime;
use super::bad_lines::BadLineReason;
use super::clients::{ClientFinder, is_client};
use super::columns::{self, Columns};
use super::event::LineEvent;
use super::explained::Explained;
use super::json_log;
use super::known;
use super::logged::Logged;
use super::ndjson;
use super::notation::LogFormat;
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
type FoundFormat = (TraceFormat, bool);

/// Parses one line after another, and learns the format from the first good one.
#[derive(Debug, Clone)]
pub(super) struct LineParser {
    /// The format that was given, that a directive names, or that the first good line has.
    settled: Option<TraceFormat>,
    /// The format was given: then each line may be within a JSON object or not.
    is_given: bool,
    /// Each line is within a JSON object.
    is_wrapped: bool,
    /// A good line was read.
    has_read: bool,
    access: AccessTime,
    clients: ClientFinder,
}

impl LineParser {
    pub(super) fn new(clients: ClientFinder, given: Option<LogFormat>) -> Self {
        let is_given = given.is_some();
        let settled = given.map(|LogFormat(template)| TraceFormat::Template(template));
        let access = AccessTime::default();
        Self { settled, is_given, is_wrapped: false, has_read: false, access, clients }
    }

    /// Returns whether a good line was read. Copies of the parser then read all lines alike.
    pub(super) fn knows_format(&self) -> bool {
        self.has_read
    }

    /// The columns of the lines after this piece; `None` if the format has none.
    pub(super) fn columns_after(&self, piece: &[u8]) -> Option<Arc<Columns>> {
        let Some(TraceFormat::Columns(columns)) = &self.settled else { return None };
        let is_line = |at: &usize| *at == 0 || piece[at - 1] == b'\n';
        let last = memmem::find_iter(piece, columns::FIELDS).filter(is_line).last();
        let line = last.and_then(|at| piece[at..].split(|byte| *byte == b'\n').next());
        let named = line.and_then(|line| Columns::from_directive(line.trim_ascii_end()));
        Some(named.map_or_else(|| Arc::clone(columns), Arc::new))
    }

    /// Sets the columns that lines have from here on.
    pub(super) fn set_columns(&mut self, columns: Arc<Columns>) {
        self.settled = Some(TraceFormat::Columns(columns));
    }

    /// Passes the event that a line describes to `then`; a directive describes none. The line is neither
    /// blank nor ends in a line end. A line within JSON is written to `inner`.
    pub(super) fn parse(
        &mut self,
        line: &[u8],
        inner: &mut String,
        then: impl FnOnce(&LineEvent<'_>),
    ) -> Result<(), BadLineReason> {
        let (read, found) = self.read(line, inner)?;
        match read {
            LineContent::Event(event) => then(&event),
            LineContent::Logged(logged) => then(&logged.into_event(&self.clients)?),
            LineContent::Directive => return Ok(()),
        }
        if let Some((format, is_wrapped)) = found {
            self.settled = Some(format);
            self.is_wrapped = is_wrapped;
        }
        self.has_read = true;
        Ok(())
    }

    /// Reads a line by the format that is settled, or by the format that it seems to have, which is
    /// then returned.
    fn read<'a>(
        &mut self,
        line: &'a [u8],
        inner: &'a mut String,
    ) -> Result<(LineContent<'a>, Option<FoundFormat>), BadLineReason> {
        let by_columns = matches!(self.settled, None | Some(TraceFormat::Columns(_)));
        if by_columns && columns::is_directive(line) {
            if let Some(columns) = Columns::from_directive(line) {
                self.set_columns(Arc::new(columns));
            }
            return Ok((LineContent::Directive, None));
        }
        let Some(format) = &self.settled else {
            return discover(line, inner, &mut self.access)
                .map(|(read, found)| (read, Some(found)));
        };
        let mut text = prefix::strip(line)?;
        if (self.is_given || self.is_wrapped) && is_object(text) {
            text = unwrapped(text, inner)?;
        }
        let reason = match read_as(format, text, &mut self.access) {
            Ok(read) => return Ok((read, None)),
            Err(reason) => reason,
        };
        if let TraceFormat::Template(template) = format
            && let Ok(logged) = template.parse(line, &mut self.access)
        {
            // A format may begin as a prefix does, such as with a time.
            return Ok((LineContent::Logged(logged), None));
        }
        let name = format.name();
        Err(match (format, is_object(text)) {
            (TraceFormat::Json, false) => {
                format!("this line is no JSON, and the format of the log is {name}: {reason}")
                    .into()
            }
            (TraceFormat::AccessLog | TraceFormat::Columns(_) | TraceFormat::Template(_), true) => {
                format!("this line is JSON, and the format of the log is {name}: {reason}").into()
            }
            _ => reason,
        })
    }

    /// Reads a line as [`parse`](Self::parse) does, and says how.
    pub(super) fn explain(&mut self, line: &[u8]) -> Explained {
        let mut inner = String::new();
        let mut explained = Explained::default();
        if line.trim_ascii().is_empty() {
            explained.problem = Some("the line is blank".to_owned());
            return explained;
        }
        let json = self.read(line, &mut String::new()).err().and_then(|_| escaped(line));
        let line = json.as_deref().unwrap_or(line);
        explained.prefixes.extend(prefix::names(line));
        match self.read(line, &mut inner) {
            Err(reason) => explained.problem = Some(reason.into_owned()),
            Ok((LineContent::Directive, _)) => explained.format = Some("directive"),
            Ok((LineContent::Event(event), found)) => {
                explained.format = self.name(found.as_ref());
                explained.event(&event);
            }
            Ok((LineContent::Logged(logged), found)) => {
                explained.format = self.name(found.as_ref());
                explained.written(&logged);
                match logged.into_event(&self.clients) {
                    Ok(event) => explained.entries(&event),
                    Err(reason) => explained.problem = Some(reason.into_owned()),
                }
            }
        }
        if explained.problem.is_none() && self.begins_as_a_prefix(line) {
            explained.prefixes.clear();
        }
        if !inner.is_empty() {
            explained.prefixes.push("JSON");
            explained.prefixes.extend(prefix::names(inner.as_bytes()));
        }
        explained
    }

    /// Returns whether an apparent prefix of a line is its own beginning.
    fn begins_as_a_prefix(&mut self, line: &[u8]) -> bool {
        let mut inner = String::new();
        let Ok(text) = prefix::strip(line) else { return false };
        text.len() < line.len() && self.read(text, &mut inner).is_err()
    }

    fn name(&self, found: Option<&FoundFormat>) -> Option<&'static str> {
        found.map(|(format, _)| format).or(self.settled.as_ref()).map(TraceFormat::name)
    }
}

/// Reads a line without a prefix in one format.
fn read_as<'a>(
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
fn discover<'a>(
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
    if object.is_event {
        return Ok((ndjson::parse(text).map(LineContent::Event)?, (TraceFormat::Ndjson, false)));
    }
    if object.is_request() || object.wrapped.is_none() {
        return Ok((LineContent::Logged(object.finish(access)?), (TraceFormat::Json, false)));
    }
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
fn is_object(line: &[u8]) -> bool {
    line.trim_ascii_start().first() == Some(&b'{')
}

/// Returns whether a line begins a JSON array of objects, or of nothing yet.
fn is_array(line: &[u8]) -> bool {
    let Some(inside) = line.trim_ascii_start().strip_prefix(b"[") else { return false };
    matches!(inside.trim_ascii_start().first(), None | Some(b'{'))
}

/// The line within a JSON object, without its prefix.
fn unwrapped<'a>(line: &'a [u8], inner: &'a mut String) -> Result<&'a [u8], BadLineReason> {
    let Some(wrapped) = json_log::read(line)?.wrapped else { return Ok(line) };
    inner.clear();
    inner.push_str(wrapped.trim_end_matches(['\r', '\n']));
    prefix::strip(inner.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tidegate::ClientAddress;

    const JSON: &[u8] = br#" {"at_us": 1, "descriptor": {}}"#;
    const LOG: &[u8] = br#"192.0.2.1 - - [17/May/2015:10:05:03 +0000] "GET / HTTP/1.1" 200 5"#;

    fn parser() -> LineParser {
        LineParser::new(ClientFinder(ClientAddress::peer()), None)
    }

    /// Returns whether a line describes an event.
    fn is_event(parser: &mut LineParser, line: &[u8]) -> Result<bool, BadLineReason> {
        let mut is_event = false;
        parser.parse(line, &mut String::new(), |_| is_event = true)?;
        Ok(is_event)
    }

    fn errors_after(first: &[u8], line: &'static [u8]) -> String {
        let mut parser = parser();
        is_event(&mut parser, first).unwrap();
        is_event(&mut parser, line).unwrap_err().into_owned()
    }

    #[test]
    fn the_first_good_line_settles_the_format() {
        assert!(errors_after(JSON, LOG).contains("expected a JSON object"));
        assert!(errors_after(LOG, JSON).contains("time"));
        let request = br#"{"ts": 1431857103, "remote_addr": "192.0.2.1", "path": "/"}"#;
        let after_log = errors_after(LOG, request);
        assert!(
            after_log.starts_with("this line is JSON, and the format of the log is access log: ")
        );
        let after_json = errors_after(request, LOG);
        assert!(
            after_json.starts_with("this line is no JSON, and the format of the log is JSON: ")
        );
    }

    #[test]
    fn bad_lines_before_it_settle_nothing() {
        for good in [JSON, LOG] {
            let mut parser = parser();
            assert!(is_event(&mut parser, b"# a comment").unwrap_err().starts_with("neither"));
            is_event(&mut parser, b"{\"at_us\": -1}").unwrap_err();
            let no_client = b"stdout - - [17/May/2015:10:05:03 +0000] \"GET /\" 200 5";
            is_event(&mut parser, no_client).unwrap_err();
            assert!(!parser.knows_format());
            assert!(is_event(&mut parser, good).unwrap());
            assert!(parser.knows_format());
        }
    }

    #[test]
    fn an_array_of_objects_is_an_error_that_says_what_makes_lines_of_it() {
        let array: &[u8] = br#"[{"ts": 1431857103, "remote_addr": "192.0.2.1", "path": "/"},"#;
        for line in [array, b"[", b" [ "] {
            let reason = is_event(&mut parser(), line).unwrap_err();
            assert!(reason.contains("jq -c '.[]'"), "{reason}");
        }
    }

    #[test]
    fn columns_are_those_of_the_last_directive() {
        let mut parser = parser();
        assert!(parser.columns_after(b"#Fields: date time c-ip\n").is_none());
        assert!(!is_event(&mut parser, b"#Fields: date time c-ip").unwrap());
        assert!(is_event(&mut parser, b"2015-05-17 10:05:03 192.0.2.1").unwrap());
        let later = b"x #Fields: a\n#Fields: a b\r\n1 2\n#Fields: c-ip date time\nx #Fields: b\n";
        parser.set_columns(parser.columns_after(later).unwrap());
        assert!(is_event(&mut parser, b"192.0.2.1 2015-05-17 10:05:03").unwrap());
        let same = parser.columns_after(b"192.0.2.1 2015-05-17 10:05:03\n").unwrap();
        assert_eq!(Some(TraceFormat::Columns(same)), parser.settled);
    }
}
