//! `GET /v1/top` at the admin listener: the keys that were refused most, or asked most, as sampled by
//! `limiters/top_keys.rs`.

use std::borrow::Cow;

use serde::Serialize;

use super::message::HttpResponse;
use super::table::AdmittedRequest;
use super::{answer, query};
use crate::limiters::{ONE_IN, Top, TopKeysBy};
use crate::refusal::{RefusalKind, RequestRefusal};

/// The number of keys by default, and the largest.
const USUAL: usize = 20;
const MOST: usize = 1_000;

/// The answer.
#[derive(Serialize)]
struct Keys {
    by: TopKeysBy,
    /// One in this many decisions was sampled.
    sampled_one_in: u32,
    since_us: u64,
    keys: Vec<Top>,
}

/// The fields of a query such as `rule=login&by=requests&n=5`.
#[derive(Debug)]
struct TopQuery<'a> {
    rule: Option<Cow<'a, str>>,
    by: TopKeysBy,
    n: usize,
}

/// Answers with the first keys.
pub(super) async fn top(asked: AdmittedRequest<'_>) -> Result<HttpResponse, RequestRefusal> {
    let TopQuery { rule, by, n } = wanted(asked.query())?;
    let limiters = &asked.app.limiters;
    let Some(keys) = limiters.watching.top_keys.get() else {
        let detail =
            "no keys are counted here, because `top_keys` of `[server]` is 0: expected 1 or more";
        return Err(RefusalKind::NotFound.because(detail));
    };
    query::check_rule(limiters, rule.as_deref())?;
    let (since, keys) =
        keys.top(by, n, |label| rule.as_ref().is_none_or(|name| label.rule == **name));
    answer::json(&Keys { by, sampled_one_in: ONE_IN, since_us: since.as_micros(), keys })
}

/// Reads the query.
fn wanted(query: Option<&str>) -> Result<TopQuery<'_>, RequestRefusal> {
    let mut wanted = TopQuery { rule: None, by: TopKeysBy::Refused, n: USUAL };
    let expected = format!(
        "`rule` with the name of a rule, `by` with refused or requests, or `n` from 1 to {MOST}"
    );
    for (name, value) in query::parse(query, &["rule", "by", "n"], &expected)? {
        match (&*name, &*value, value.parse()) {
            ("rule", ..) => wanted.rule = Some(value),
            ("by", "refused", _) => wanted.by = TopKeysBy::Refused,
            ("by", "requests", _) => wanted.by = TopKeysBy::Requests,
            ("n", _, Ok(n @ 1..=MOST)) => wanted.n = n,
            _ => return Err(query::wrong(&name, &value, &expected)),
        }
    }
    Ok(wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_is_read_whole_or_refused() {
        let TopQuery { rule, by, n } = wanted(Some("rule=per-user&by=requests&n=1000")).unwrap();
        assert_eq!((rule.as_deref(), by, n), (Some("per-user"), TopKeysBy::Requests, 1_000));
        let TopQuery { rule, by, n } = wanted(None).unwrap();
        assert_eq!((rule.as_deref(), by, n), (None, TopKeysBy::Refused, 20));
        for wrong in ["by=allowed", "n=0", "n=1001", "n=", "limit=3", "by"] {
            assert!(wanted(Some(wrong)).is_err(), "{wrong}");
        }
    }
}
