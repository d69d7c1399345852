//! A line of NDJSON: `{"at_us": 100000, "descriptor": {"key": "a"}, "cost": 1}`.
//!
//! This is the project's own format: it alone has costs, ids, several descriptors and recorded decisions.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use serde::Deserialize;
use serde::de::{Deserializer, Error, Unexpected, Visitor};
use tidegate::{Limit, MAX_LIMIT};

use super::bad_lines::BadLineReason;
use super::event::{
    AT_US_MAX, COST_MAX, DEFAULT_DOMAIN, LineDescriptor, LineEntries, LineEvent, SuppliedLimit,
};
use super::json_descriptor::{DescriptorEntries, JsonText};

/// The value of `limit` that admits everything.
const UNLIMITED: i64 = -1;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Fields<'a> {
    at_us: WholeNumber<AT_US_MAX>,
    #[serde(borrow, default = "default_domain")]
    domain: JsonText<'a>,
    #[serde(borrow)]
    descriptor: Option<DescriptorEntries<'a>>,
    #[serde(borrow)]
    descriptors: Option<Vec<ListedDescriptor<'a>>>,
    #[serde(default = "default_cost")]
    cost: WholeNumber<COST_MAX>,
    #[serde(borrow, default, deserialize_with = "given")]
    request_id: Option<JsonText<'a>>,
    allowed: Option<bool>,
}

/// One of several descriptors: `{"descriptor": {"key": "a"}, "cost": 2, "limit": 30, "window_us": 60000000}`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ListedDescriptor<'a> {
    #[serde(borrow)]
    descriptor: DescriptorEntries<'a>,
    cost: Option<WholeNumber<COST_MAX>>,
    limit: Option<i64>,
    window_us: Option<WholeNumber<AT_US_MAX>>,
}

impl<'a> ListedDescriptor<'a> {
    /// The descriptor, which costs `usual` unless it says otherwise.
    fn read(self, usual: u64) -> Result<LineDescriptor<'a>, BadLineReason> {
        let limit = match (self.limit, self.window_us) {
            (None, None) => None,
            (Some(UNLIMITED), None) => {
                // An unlimited value has no window; any window stands for it.
                Some(SuppliedLimit { limit: Limit::Unlimited, window: Duration::from_secs(1) })
            }
            (Some(limit), Some(WholeNumber(us))) => {
                // A limit of -1 with a window comes here too, and is no number of units.
                let units = u64::try_from(limit).ok().filter(|units| *units <= MAX_LIMIT);
                let limit = units.map(Limit::Units).ok_or_else(|| {
                    format!("`limit` is {limit}: expected a whole number from 0 to {MAX_LIMIT}, or -1 without a window")
                })?;
                Some(SuppliedLimit { limit, window: Duration::from_micros(us) })
            }
            _ => return Err("expected `limit` and `window_us` together".into()),
        };
        let cost = self.cost.map_or(usual, |WholeNumber(cost)| cost);
        Ok(LineDescriptor { entries: self.descriptor.0, cost, limit })
    }
}

/// Reads an id that is present: `null` is an error, not an absence.
fn given<'de, D: Deserializer<'de>>(from: D) -> Result<Option<JsonText<'de>>, D::Error> {
    let id = JsonText::deserialize(from)?;
    let request = tidegate::Request::new(DEFAULT_DOMAIN, &[]);
    request.with_id(&id.0).map_err(D::Error::custom)?;
    Ok(Some(id))
}

fn default_domain<'a>() -> JsonText<'a> {
    JsonText(Cow::Borrowed(DEFAULT_DOMAIN))
}

fn default_cost() -> WholeNumber<COST_MAX> {
    WholeNumber(1)
}

pub(super) fn parse(line: &[u8]) -> Result<LineEvent<'_>, BadLineReason> {
    if line.trim_ascii_start().first() != Some(&b'{') {
        return Err("expected a JSON object, which begins with {".into());
    }
    let fields: Fields<'_> = serde_json::from_slice(line).map_err(|e| reason(&e))?;
    let WholeNumber(cost) = fields.cost;
    // Most lines have one descriptor, so only the further descriptors of a line are kept in a list.
    let mut more = Vec::new();
    let first = match (fields.descriptor, fields.descriptors) {
        (Some(DescriptorEntries(entries)), None) => LineDescriptor { entries, cost, limit: None },
        (None, Some(items)) => {
            let mut items = items.into_iter().map(|item| item.read(cost));
            let first = items.next().ok_or("`descriptors` is empty: expected one or more")??;
            more = items.collect::<Result<_, _>>()?;
            first
        }
        (Some(_), Some(_)) => return Err("expected `descriptor` or `descriptors`, not both".into()),
        (None, None) => return Err("missing field `descriptor`".into()),
    };
    Ok(LineEvent {
        limit: first.limit,
        more,
        request_id: fields.request_id.map(|id| id.0),
        allowed: fields.allowed,
        ..LineEvent::of_one(
            fields.at_us.0,
            fields.domain.0,
            LineEntries::Listed(first.entries),
            first.cost,
        )
    })
}

/// The error without its position: the parser saw only one line, and would call every line the
/// first.
pub(super) fn reason(error: &serde_json::Error) -> BadLineReason {
    let text = error.to_string();
    let position = format!(" at line {} column {}", error.line(), error.column());
    let hint = if error.is_eof() { ": expected a whole object on one line" } else { "" };
    match text.strip_suffix(&position) {
        Some(what) => format!("{what} (column {}){hint}", error.column()).into(),
        None => text.into(),
    }
}

/// A whole number from 0 to `MAX`.
struct WholeNumber<const MAX: u64>(u64);

impl<'de, const MAX: u64> Deserialize<'de> for WholeNumber<MAX> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_u64(WholeVisitor::<MAX>).map(WholeNumber)
    }
}

struct WholeVisitor<const MAX: u64>;

impl<const MAX: u64> Visitor<'_> for WholeVisitor<MAX> {
    type Value = u64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a whole number from 0 to {MAX}")
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<u64, E> {
        if number <= MAX {
            return Ok(number);
        }
        Err(E::invalid_value(Unexpected::Unsigned(number), &self))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Plain = (u64, String, Vec<(String, String)>, u64);

    fn read(line: &str) -> Result<Plain, String> {
        let e = parse(line.as_bytes()).map_err(Cow::into_owned)?;
        let entries = e.descriptor.iter().map(|(k, v)| (k.to_owned(), v.to_owned()));
        Ok((e.at_us, e.domain.into_owned(), entries.collect(), e.cost))
    }

    fn pairs(entries: &[(&str, &str)]) -> Vec<(String, String)> {
        entries.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
    }

    #[test]
    fn good_lines() {
        let cases: [(&str, Plain); 7] = [
            (
                r#"{"at_us": 100000, "descriptor": {"key": "a"}, "cost": 1}"#,
                (100_000, "default".into(), pairs(&[("key", "a")]), 1),
            ),
            (
                r#"{"cost":0,"descriptor":{"z":"1","a":"2"},"domain":"shop","at_us":0}"#,
                (0, "shop".into(), pairs(&[("z", "1"), ("a", "2")]), 0),
            ),
            (r#"{"at_us": 1, "descriptor": {}}"#, (1, "default".into(), pairs(&[]), 1)),
            (
                r#"{"at_us": 1, "descriptor": {"a": "1", "b": "2", "a": "3"}}"#,
                (1, "default".into(), pairs(&[("a", "1"), ("b", "2"), ("a", "3")]), 1),
            ),
            (
                r#"{"at_us": 9007199254740991, "descriptor": {}, "cost": 1000000000}"#,
                (AT_US_MAX, "default".into(), pairs(&[]), COST_MAX),
            ),
            (
                "\t{ \"at_us\" : 1 , \"descriptor\" : { \"k\" : \"\\u0000é\\n\" } }  ",
                (1, "default".into(), pairs(&[("k", "\0é\n")]), 1),
            ),
            (
                r#"{"at_us": 1, "domain": "a\"b", "descriptor": {"": ""}}"#,
                (1, "a\"b".into(), pairs(&[("", "")]), 1),
            ),
        ];
        for (line, expected) in cases {
            assert_eq!(read(line), Ok(expected), "{line}");
        }
    }

    #[test]
    fn a_line_has_several_descriptors_each_with_its_cost_and_its_limit() {
        let line = r#"{"at_us": 7, "descriptors": [
            {"descriptor": {"user": "a"}}, {"descriptor": {"ip": "b"}, "cost": 3, "limit": 30, "window_us": 60000000},
            {"descriptor": {}, "limit": -1}], "cost": 2, "allowed": false}"#;
        let event = parse(line.as_bytes()).unwrap();
        assert_eq!((event.cost, event.limit, event.allowed), (2, None, Some(false)));
        let asked = event.more.iter().map(|one| (one.entries.len(), one.cost, one.limit));
        let limit = |limit, s| Some(SuppliedLimit { limit, window: Duration::from_secs(s) });
        let expected = [(1, 3, limit(Limit::Units(30), 60)), (0, 2, limit(Limit::Unlimited, 1))];
        assert_eq!(asked.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn bad_lines_say_what_was_expected() {
        let at = "a whole number from 0 to 9007199254740991";
        let cost = "a whole number from 0 to 1000000000";
        let cases = [
            (r#"{"at_us": -1, "descriptor": {}}"#, at),
            (r#"{"at_us": 1.5, "descriptor": {}}"#, at),
            (r#"{"at_us": 1e3, "descriptor": {}}"#, at),
            (r#"{"at_us": "1", "descriptor": {}}"#, at),
            (r#"{"at_us": null, "descriptor": {}}"#, at),
            (r#"{"at_us": 9007199254740992, "descriptor": {}}"#, at),
            (r#"{"at_us": 18446744073709551616, "descriptor": {}}"#, at),
            (r#"{"at_us": 1, "descriptor": {}, "cost": -1}"#, cost),
            (r#"{"at_us": 1, "descriptor": {}, "cost": 0.5}"#, cost),
            (r#"{"at_us": 1, "descriptor": {}, "cost": 1000000001}"#, cost),
            (r#"{"at_us": 1, "descriptor": {}, "cost": true}"#, cost),
            (r#"{"at_us": 1, "descriptor": {}, "cost": null}"#, cost),
            (r#"{"at_us": 1, "descriptor": {}, "domain": 5}"#, "expected a string"),
            (r#"{"at_us": 1, "descriptor": {"a": 5}}"#, "expected a string"),
            (r#"{"at_us": 1, "descriptor": {"a": {}}}"#, "expected a string"),
            (r#"{"at_us": 1, "descriptor": []}"#, "an object of names and strings"),
            (r#"{"at_us": 1, "descriptors": []}"#, "`descriptors` is empty"),
            (r#"{"at_us": 1, "descriptors": [{"user": "a"}]}"#, "unknown field `user`"),
            (r#"{"at_us": 1, "descriptors": [{"cost": 2}]}"#, "missing field `descriptor`"),
            (r#"{"at_us": 1, "descriptor": {}, "descriptors": [{"descriptor": {}}]}"#, "not both"),
            (r#"{"at_us": 1, "descriptors": [{"descriptor": {}, "limit": 1}]}"#, "together"),
            (r#"{"at_us": 1, "descriptors": [{"descriptor": {}, "window_us": 1}]}"#, "together"),
            (
                r#"{"at_us": 1, "descriptors": [{"descriptor": {}, "limit": -2, "window_us": 1}]}"#,
                "`limit` is -2: expected a whole number from 0 to 1000000000",
            ),
            (r#"{"at_us": 1, "descriptor": {}, "allowed": 1}"#, "expected a boolean"),
            (r#"{"at_us": 1, "descriptor": "a"}"#, "an object of names and strings"),
            (r#"{"at_us": 1, "descriptor": {}, "request_id": ""}"#, "id is empty"),
            (r#"{"at_us": 1, "descriptor": {}, "request_id": 5}"#, "expected a string"),
            (r#"{"at_us": 1, "descriptor": {}, "request_id": null}"#, "expected a string"),
            (r#"{"at_us": 1}"#, "missing field `descriptor`"),
            (r#"{"descriptor": {}}"#, "missing field `at_us`"),
            (r#"{"at_us": 1, "descriptor": {}, "hits": 1}"#, "unknown field `hits`"),
            (r#"{"at_us": 1, "at_us": 1, "descriptor": {}}"#, "duplicate field `at_us`"),
            (r#"{"at_us": 1, "descriptor": {}} x"#, "trailing characters (column 32)"),
            (r#"{"at_us": 1, "descriptor": {}"#, "EOF while parsing an object"),
            ("[1]", "expected a JSON object"),
            ("nonsense", "expected a JSON object"),
            ("{", "EOF while parsing an object (column 1)"),
        ];
        for (line, expected) in cases {
            let reason = read(line).unwrap_err();
            assert!(reason.contains(expected), "{line}: {reason}");
            assert!(!reason.contains("line 1"), "{line}: {reason}");
        }
    }

    #[test]
    fn text_that_is_not_utf8_is_a_bad_line() {
        let reason = parse(b"{\"at_us\": 1, \"descriptor\": {\"a\": \"\xff\"}}").unwrap_err();
        assert!(reason.contains("unicode"), "{reason}");
    }

    #[test]
    fn deep_nesting_is_a_bad_line() {
        let line = "{\"at_us\":".repeat(100_000);
        assert!(read(&line).is_err());
    }
}
