//! The parser of the lines of a trace, which learns their format from the first good line.
//!
//! A *prefix* is text that a program such as syslog wrote before the line of the server's log. A line may be *within*
//! a JSON object, as one of its texts: that text is `inner`. A *piece* is a part of the file, of whole lines, that a
//! thread reads.

use std::sync::Arc;

use memchr::memmem;

use super::access_time::AccessTime;
use super::bad_lines::BadLineReason;
use super::clients::ClientFinder;
use super::columns::{self, Columns};
use super::event::LineEvent;
use super::explained::Explained;
use super::format::{
    FoundFormat, LineContent, TraceFormat, discover, escaped, is_object, read_as, unwrapped,
};
use super::json_log;
use super::notation::LogFormat;
use super::prefix;

/// The largest number of bytes of a line that its explanation shows.
const MOST_SHOWN: usize = 500;

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
        let last = memmem::find_iter(piece, columns::FIELDS)
            // A directive begins its line; within a line the same text may come from a caller.
            .filter(|at| *at == 0 || piece[at - 1] == b'\n')
            .last();
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
        // Only after the client was found: a line that is no request must not decide how others are read.
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
        // Directives come again within a file, as IIS writes them at each start. In other formats such a line is a bad
        // line.
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
        // A format that was found says whether its lines are within JSON; one that was given does not.
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
        let shown = String::from_utf8_lossy(line.get(..MOST_SHOWN).unwrap_or(line));
        let mut explained = Explained { line: shown.into_owned(), ..Explained::default() };
        if line.trim_ascii().is_empty() {
            explained.problem = Some("the line is blank".to_owned());
            return explained;
        }
        // Bytes are escaped only in a line that cannot be read as it is, as they are in pieces.
        let json = self.read(line, &mut String::new()).err().and_then(|_| escaped(line));
        let line = json.as_deref().unwrap_or(line);
        explained.prefixes.extend(prefix::names(line));
        let mut is_logged = false;
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
                is_logged = true;
                match logged.into_event(&self.clients) {
                    Ok(event) => explained.entries(&event),
                    Err(reason) => explained.problem = Some(reason.into_owned()),
                }
            }
        }
        // Without its apparent prefix the line has no format, so the prefix is a part of the line.
        if explained.problem.is_none() && self.begins_as_a_prefix(line) {
            explained.prefixes.clear();
        }
        if is_logged {
            let object = if inner.is_empty() { prefix::strip(line) } else { Ok(inner.as_bytes()) };
            explained.not_read = object.map(json_log::not_read).unwrap_or_default();
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
