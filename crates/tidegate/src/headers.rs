//! What a caller is told in HTTP header fields.
//!
//! Two families, both for rules that are enforced: `X-RateLimit-*`, which most clients parse, tells of
//! the reported rule; `RateLimit-Policy` and `RateLimit` (IETF draft-ietf-httpapi-ratelimit-headers,
//! structured fields) list all rules that matched. `Retry-After` comes with a refusal that will pass.
//! All waits are whole seconds, rounded up: nobody is told to come back too early.

use sfv::{KeyRef, ListSerializer, StringRef};
use tidegate_core::{Limit, Micros};

use crate::answer::{Answer, Matched};

/// The header fields of an answer, names in their usual spelling.
///
/// Nothing for an unlimited answer. On a refusal `RateLimit` tells a time (`t`) only for the rules
/// that refuse, so that `Retry-After` is never before any `t`.
///
/// ```
/// use tidegate::{Algorithm, Descriptor, Gate, Micros, Policy, Request, RuleSpec, Spec, Timestamp, headers};
///
/// let rule = RuleSpec::new("burst", Spec::new(Algorithm::FixedWindow, 2, Micros::from_secs(60)));
/// let gate = Gate::with_clock(Policy::new(vec![rule])?, Timestamp::from_micros(90_000_000));
/// let descriptors = [Descriptor::new(&[])];
/// let told = headers::of(&gate.check(&Request::new("default", &descriptors)));
/// assert_eq!(told, [
///     ("X-RateLimit-Limit", "2".to_owned()),
///     ("X-RateLimit-Remaining", "1".to_owned()),
///     ("X-RateLimit-Reset", "120".to_owned()),
///     ("RateLimit-Policy", "\"burst\";q=2;w=60".to_owned()),
///     ("RateLimit", "\"burst\";r=1;t=30".to_owned()),
/// ]);
/// # Ok::<(), tidegate::PolicyErrors>(())
/// ```
#[must_use]
pub fn of(answer: &Answer<'_>) -> Vec<(&'static str, String)> {
    let Some(reported) = answer.reported() else { return Vec::new() };
    let decision = reported.decision();
    let mut fields = vec![
        ("X-RateLimit-Limit", decision.limit.to_string()),
        ("X-RateLimit-Remaining", decision.remaining.to_string()),
        ("X-RateLimit-Reset", reset_at(answer, reported).to_string()),
    ];
    fields.extend(policies(answer).map(|list| ("RateLimit-Policy", list)));
    fields.extend(limits(answer).map(|list| ("RateLimit", list)));
    if let Some(wait) = answer.retry_after().filter(|_| !answer.is_allowed()) {
        fields.push(("Retry-After", wait.as_secs_ceil().to_string()));
    }
    fields
}

/// When the reported limiter is as good as new: Unix seconds, rounded up.
fn reset_at(answer: &Answer<'_>, reported: &Matched<'_>) -> u64 {
    let at = answer.at().plus(reported.decision().reset_after);
    Micros::from_micros(at.as_micros()).as_secs_ceil()
}

/// `"name";q=100;w=60`: q units in w seconds. For a bucket or queue q is what it holds and w the time
/// it takes to fill, so that q/w is its rate whatever its capacity.
fn policies(answer: &Answer<'_>) -> Option<String> {
    let mut list = ListSerializer::new();
    let mut told: Vec<(&str, usize)> = Vec::new();
    for matched in answer.enforced() {
        let identity = (matched.rule().name(), matched.variant());
        if told.contains(&identity) {
            continue;
        }
        told.push(identity);
        let Ok(name) = StringRef::from_str(identity.0) else { continue };
        let item = list.bare_item(name).parameter(key("q"), integer(matched.decision().limit));
        if let Some(window) = seconds_to_fill(matched) {
            item.parameter(key("w"), integer(window));
        }
    }
    list.finish()
}

/// `"name";r=50;t=30`: r units left, t seconds until there are more (a refusal) or all (else).
fn limits(answer: &Answer<'_>) -> Option<String> {
    let mut list = ListSerializer::new();
    for matched in answer.enforced() {
        let Ok(name) = StringRef::from_str(matched.rule().name()) else { continue };
        let item = list.bare_item(name);
        let item = item.parameter(key("r"), integer(matched.decision().remaining));
        if let Some(wait) = time_told(answer, matched) {
            item.parameter(key("t"), integer(wait.as_secs_ceil()));
        }
    }
    list.finish()
}

fn time_told(answer: &Answer<'_>, matched: &Matched<'_>) -> Option<Micros> {
    let decision = matched.decision();
    match (answer.is_allowed(), decision.is_allowed()) {
        (true, _) => Some(decision.reset_after),
        (false, true) => None,
        (false, false) => decision.retry_after(),
    }
}

fn seconds_to_fill(matched: &Matched<'_>) -> Option<u64> {
    let spec = matched.rule().variant(matched.variant()).spec();
    let (Limit::Units(limit @ 1..), Some(window)) = (spec.limit, spec.window) else { return None };
    let whole = u128::from(matched.decision().limit) * u128::from(window.as_micros());
    let us = u64::try_from(whole.div_ceil(u128::from(limit))).unwrap_or(u64::MAX);
    Some(Micros::from_micros(us).as_secs_ceil())
}

/// A structured field's integer has at most 15 digits.
fn integer(value: u64) -> sfv::Integer {
    const LARGEST: u64 = 999_999_999_999_999;
    i64::try_from(value.min(LARGEST))
        .ok()
        .and_then(|value| value.try_into().ok())
        .unwrap_or(sfv::Integer::MAX)
}

const fn key(name: &'static str) -> &'static KeyRef {
    KeyRef::constant(name)
}
