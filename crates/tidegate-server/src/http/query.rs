//! The query of a path: `name=value` pairs, percent-encoded. The `GET` handlers with a query read it here, and refuse
//! names that they do not know, so that a misspelt filter is not taken for none.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use crate::limiters::Limiters;
use crate::refusal::{RefusalKind, RequestRefusal};

/// Reads a query that may have these names, each once.
///
/// # Errors
/// Returns a problem that says `expected` if there is another name, or one twice.
pub(super) fn parse<'q>(
    query: Option<&'q str>,
    names: &[&str],
    expected: &str,
) -> Result<BTreeMap<Cow<'q, str>, Cow<'q, str>>, RequestRefusal> {
    let mut found = BTreeMap::new();
    for (name, value) in form_urlencoded::parse(query.unwrap_or_default().as_bytes()) {
        if !names.contains(&&*name) {
            let detail = format!("the query has \"{name}\": expected {expected}");
            return Err(RefusalKind::InvalidQuery.because(detail));
        }
        if let Some((name, _)) = found.get_key_value(&name) {
            let detail = format!("the query has \"{name}\" twice: expected it once");
            return Err(RefusalKind::InvalidQuery.because(detail));
        }
        found.insert(name, value);
    }
    Ok(found)
}

/// The number of this name, or the usual number if the query has none.
///
/// # Errors
/// Returns a problem if the value is not such a number.
pub(super) fn number(
    query: &BTreeMap<Cow<'_, str>, Cow<'_, str>>,
    name: &str,
    usual: u32,
    expected: RangeInclusive<u32>,
) -> Result<u32, RequestRefusal> {
    let Some(text) = query.get(name) else { return Ok(usual) };
    text.parse().ok().filter(|number| expected.contains(number)).ok_or_else(|| {
        wrong(name, text, &format!("a number from {} to {}", expected.start(), expected.end()))
    })
}

/// The problem of a value.
pub(super) fn wrong(name: &str, value: &str, expected: &str) -> RequestRefusal {
    let detail = format!("`{name}` of the query is \"{value}\": expected {expected}");
    RefusalKind::InvalidQuery.because(detail)
}

/// Refuses a name that no rule in force has.
pub(super) fn check_rule(limiters: &Limiters, name: Option<&str>) -> Result<(), RequestRefusal> {
    let Some(name) = name else { return Ok(()) };
    if limiters.policy().rules().iter().any(|rule| rule.name() == name) {
        return Ok(());
    }
    let detail = format!("no rule in force is named \"{name}\": GET /v1/rules lists them");
    Err(RefusalKind::InvalidQuery.because(detail))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_decoded_and_mistakes_are_named() {
        let read = |query| parse(query, &["rule", "n"], "`rule` or `n`");
        let found = read(Some("rule=per%2Duser+%E8%BD%89&n=3")).unwrap();
        assert_eq!((&*found["rule"], &*found["n"]), ("per-user 轉", "3"));
        assert!(read(None).unwrap().is_empty());
        for wrong in ["rul=1", "n=1&n=2", "n"] {
            let is_wrong = read(Some(wrong)).is_err();
            assert_eq!(is_wrong, wrong != "n", "{wrong}");
        }
    }

    #[test]
    fn what_a_caller_sent_is_escaped_once_in_an_error() {
        let problem = wrong("by", "a\"b\\c\n\u{202e}", "refused or requests");
        let document = String::from_utf8(problem.document()).unwrap();
        let expected = r#""detail":"`by` of the query is \"a\"b\\c\n\u202e\": expected"#;
        assert!(document.contains(expected), "{document}");
    }
}
