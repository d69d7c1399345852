//! The format of a trace, recognised by its first good line.

use super::access_log;
use super::access_time::AccessTime;
use super::bad_lines::Reason;
use super::event::LineEvent;
use super::ndjson;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Format {
    Ndjson,
    AccessLog,
}

/// Parses one line after another, and learns the format from the first good one.
#[derive(Debug, Clone, Default)]
pub(super) struct LineParser {
    settled: Option<Format>,
    access_time: AccessTime,
}

impl LineParser {
    /// Returns whether a good line was read. Copies of the parser then read all lines alike.
    pub(super) fn knows_format(&self) -> bool {
        self.settled.is_some()
    }

    /// The event a line describes. The line is neither blank nor ends in a line end.
    pub(super) fn parse<'a>(&mut self, line: &'a [u8]) -> Result<LineEvent<'a>, Reason> {
        let format = self.settled.unwrap_or_else(|| looks_like(line));
        let event = match format {
            Format::Ndjson => ndjson::parse(line),
            Format::AccessLog => access_log::parse(line, &mut self.access_time),
        };
        match event {
            Ok(event) => {
                self.settled = Some(format);
                Ok(event)
            }
            Err(reason) => Err(self.with_format(format, reason)),
        }
    }

    /// Before the format is known, a line that does not begin with a brace can be anything.
    fn with_format(&self, format: Format, reason: Reason) -> Reason {
        match (self.settled, format) {
            (None, Format::AccessLog) => {
                format!("neither a JSON object nor a line of an access log: {reason}").into()
            }
            _ => reason,
        }
    }
}

/// A client's address never begins with a brace, and every JSON object does.
fn looks_like(line: &[u8]) -> Format {
    match line.trim_ascii_start().first() {
        Some(b'{') => Format::Ndjson,
        _ => Format::AccessLog,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const JSON: &[u8] = br#" {"at_us": 1, "descriptor": {}}"#;
    const LOG: &[u8] = br#"192.0.2.1 - - [17/May/2015:10:05:03 +0000] "GET / HTTP/1.1" 200 5"#;

    fn errors_after(first: &[u8], line: &'static [u8]) -> String {
        let mut parser = LineParser::default();
        parser.parse(first).unwrap();
        parser.parse(line).unwrap_err().into_owned()
    }

    #[test]
    fn the_first_good_line_settles_the_format() {
        assert!(errors_after(JSON, LOG).contains("expected a JSON object"));
        assert!(errors_after(LOG, JSON).contains("time"));
    }

    #[test]
    fn bad_lines_before_it_settle_nothing() {
        for good in [JSON, LOG] {
            let mut parser = LineParser::default();
            assert!(parser.parse(b"# a comment").unwrap_err().starts_with("neither"));
            parser.parse(b"{\"at_us\": -1}").unwrap_err();
            parser.parse(good).unwrap();
        }
    }
}
