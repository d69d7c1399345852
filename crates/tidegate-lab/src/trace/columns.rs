//! Logs whose directive `#Fields` names their columns: of IIS (W3C), and of CloudFront.
//!
//! `LineParser` learns the columns from each directive, because a file may name others later.

use std::borrow::Cow;

use super::access_time::AccessTime;
use super::bad_lines::{BadLineReason, text};
use super::logged::{Logged, LoggedParts, LoggedSlot};

/// The directive that names the columns of the lines after it.
pub(super) const FIELDS: &[u8] = b"#Fields:";
const DIRECTIVES: [&[u8]; 7] =
    [FIELDS, b"#Version:", b"#Software:", b"#Date:", b"#Start-Date:", b"#End-Date:", b"#Remark:"];

/// The columns of a log, in order.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Columns {
    slots: Vec<Option<LoggedSlot>>,
    separator: u8,
}

/// Returns whether a line is a directive, and no request.
pub(super) fn is_directive(line: &[u8]) -> bool {
    DIRECTIVES.iter().any(|directive| line.starts_with(directive))
}

impl Columns {
    /// The columns that a directive `#Fields` names; `None` for another line.
    pub(super) fn from_directive(line: &[u8]) -> Option<Self> {
        let fields = std::str::from_utf8(line.strip_prefix(FIELDS)?).ok()?;
        let slots = fields.split_ascii_whitespace().map(slot).collect();
        // Both logs have this directive. Only CloudFront has this column, and only its lines have tabs.
        let is_cloudfront = fields.contains("x-edge-location");
        Some(Self { slots, separator: if is_cloudfront { b'\t' } else { b' ' } })
    }

    /// The name of the format.
    pub(super) const fn name(&self) -> &'static str {
        if self.separator == b'\t' { "CloudFront" } else { "W3C (IIS)" }
    }

    pub(super) fn parse<'a>(
        &self,
        line: &'a [u8],
        access: &mut AccessTime,
    ) -> Result<Logged<'a>, BadLineReason> {
        let values = line.split(|byte| *byte == self.separator);
        let count = values.clone().count();
        // One field too many would give each later value another meaning.
        if count != self.slots.len() {
            return Err(format!(
                "expected {} fields, as #Fields names them, and found {count}",
                self.slots.len()
            )
            .into());
        }
        let mut parts = LoggedParts::default();
        for (slot, value) in self.slots.iter().zip(values) {
            if let Some(slot) = *slot {
                let value = text(value);
                let has_spaces = matches!(
                    slot,
                    LoggedSlot::UserAgent | LoggedSlot::XForwardedFor | LoggedSlot::Forwarded
                );
                parts.set(slot, if has_spaces { self.decoded(value) } else { value });
            }
        }
        parts.finish(access)
    }

    /// A value that has no spaces because they are written as `%20` or as `+`.
    fn decoded<'a>(&self, value: Cow<'a, str>) -> Cow<'a, str> {
        match self.separator {
            b'\t' if value.contains('%') => Cow::Owned(percent_decoded(&value)),
            b' ' if value.contains('+') => Cow::Owned(value.replace('+', " ")),
            _ => value,
        }
    }
}

fn slot(name: &str) -> Option<LoggedSlot> {
    Some(match name.to_ascii_lowercase().as_str() {
        "date" => LoggedSlot::Date,
        "time" => LoggedSlot::TimeOfDay,
        "timestamp" => LoggedSlot::Time,
        "c-ip" => LoggedSlot::Peer,
        "x-forwarded-for" | "cs(x-forwarded-for)" => LoggedSlot::XForwardedFor,
        "cs(forwarded)" => LoggedSlot::Forwarded,
        "cs-method" => LoggedSlot::Method,
        "cs-uri-stem" => LoggedSlot::Target,
        "sc-status" => LoggedSlot::Status,
        "cs(user-agent)" => LoggedSlot::UserAgent,
        _ => return None,
    })
}

fn percent_decoded(value: &str) -> String {
    let mut bytes = Vec::with_capacity(value.len());
    let mut rest = value.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let hex = after.get(..2).filter(|_| *first == b'%');
        // Checked before, because a number in Rust may have a sign.
        let hex = hex.filter(|hex| hex.iter().all(u8::is_ascii_hexdigit));
        let code = hex.and_then(|hex| u8::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok());
        bytes.push(code.unwrap_or(*first));
        rest = if code.is_some() { &after[2..] } else { after };
    }
    text(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(directive: &str, line: &str) -> Result<[Option<String>; 5], String> {
        let columns = Columns::from_directive(directive.as_bytes()).unwrap();
        let logged = columns.parse(line.as_bytes(), &mut AccessTime::default());
        let logged = logged.map_err(Cow::into_owned)?;
        assert_eq!(logged.at_us, 1_431_857_103_000_000);
        let Logged { client, method, path, status, user_agent, .. } = logged;
        Ok([client.peer, method, path, status, user_agent].map(|value| value.map(Cow::into_owned)))
    }

    #[test]
    fn columns_are_read_by_their_names() {
        let iis = "#Fields: date time s-ip cs-method cs-uri-stem cs-uri-query c-ip cs(User-Agent) sc-status";
        let line = "2015-05-17 10:05:03 10.0.0.1 GET /a b=c 192.0.2.1 curl+8+(x) 200";
        let values = ["192.0.2.1", "GET", "/a", "200", "curl 8 (x)"];
        assert_eq!(read(iis, line), Ok(values.map(|value| Some(value.to_owned()))));
        let cloudfront = "#Fields: date time x-edge-location c-ip cs-method cs-uri-stem sc-status cs(User-Agent)";
        let line = "2015-05-17\t10:05:03\tLAX1\t192.0.2.1\tGET\t/a+b\t200\tcurl%208+x%+5%2";
        let values = ["192.0.2.1", "GET", "/a+b", "200", "curl 8+x%+5%2"];
        assert_eq!(read(cloudfront, line), Ok(values.map(|value| Some(value.to_owned()))));
    }

    #[test]
    fn spaces_in_the_field_of_proxies_are_decoded() {
        for (directive, line) in [
            (
                "#Fields: date time x-edge-location c-ip x-forwarded-for",
                "2015-05-17\t10:05:03\tLAX1\t10.0.0.1\t6.6.6.6,%20192.0.2.1",
            ),
            (
                "#Fields: date time c-ip X-Forwarded-For",
                "2015-05-17 10:05:03 10.0.0.1 6.6.6.6,+192.0.2.1",
            ),
        ] {
            let columns = Columns::from_directive(directive.as_bytes()).unwrap();
            let logged = columns.parse(line.as_bytes(), &mut AccessTime::default()).unwrap();
            let field = logged.client.x_forwarded_for;
            assert_eq!(field.as_deref(), Some("6.6.6.6, 192.0.2.1"), "{line}");
        }
    }

    #[test]
    fn a_line_with_more_or_fewer_fields_is_bad() {
        let fields = "#Fields: date time c-ip";
        for line in ["2015-05-17 10:05:03", "2015-05-17 10:05:03 192.0.2.1 x", ""] {
            assert!(read(fields, line).unwrap_err().contains("expected 3 fields"), "{line}");
        }
        let error = read("#Fields: time c-ip", "10:05:03 x").unwrap_err();
        assert!(error.contains("no time with a date"), "{error}");
    }
}
