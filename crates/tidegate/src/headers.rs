//! An answer as HTTP header fields.
//!
//! Two families describe rules that are enforced: `X-RateLimit-*`, which most clients parse,
//! describes the reported rule; `RateLimit-Policy` and `RateLimit` (IETF
//! draft-ietf-httpapi-ratelimit-headers, structured fields) list all rules that matched.
//! `Retry-After` comes with a refusal that will pass. All waits are whole seconds, rounded up, so
//! that no client comes back too early, and at most 2^31-1, which every client can read. A limit of 0 has no reset: its
//! window says nothing.
//!
//! If several descriptors of one request match a rule under different keys, the rule is one item of
//! `RateLimit-Policy`, and in `RateLimit` one item for each key, distinguished by `pk`, the draft's
//! partition key: `:MQ==:` is `1`, the first of these keys in the order of the descriptors,
//! `:Mg==:` is `2`, the second. The number reveals nothing about the key itself, and is valid for
//! one answer only. A name that occurs once has no `pk`.

use std::cmp::Reverse;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use tidegate_core::{Decision, Limit, Micros, Timestamp};

use crate::answer::{Answer, Matched};
use crate::inline_list::InlineList;
use crate::rules::ResetField;

/// The header fields of an answer, names in their usual spelling.
///
/// An unlimited answer has none. [`Policy::with_reset_field`](crate::Policy::with_reset_field) chooses between seconds
/// and a time for `X-RateLimit-Reset`. In a refusal `RateLimit` has a time (`t`) only for the rules that
/// refuse, so that `Retry-After` is never before any `t`.
///
/// ```
/// use std::time::Duration;
/// use tidegate::{
///     AlgorithmKind, Descriptor, Gate, Policy, Request, RuleSpec, Spec, Timestamp, headers,
/// };
///
/// let rule = RuleSpec::new("burst", Spec::new(AlgorithmKind::FixedWindow, 2, Duration::from_secs(60)));
/// let gate = Gate::with_clock(Policy::new(vec![rule])?, Timestamp::from_micros(90_000_000));
/// let descriptors = [Descriptor::new(&[])];
/// let fields = headers::of(&gate.check(&Request::new("default", &descriptors)));
/// assert_eq!(fields, [
///     ("X-RateLimit-Limit", "2".to_owned()),
///     ("X-RateLimit-Remaining", "1".to_owned()),
///     ("X-RateLimit-Reset", "30".to_owned()),
///     ("RateLimit-Policy", "\"burst\";q=2;w=60".to_owned()),
///     ("RateLimit", "\"burst\";r=1;t=30".to_owned()),
/// ]);
/// # Ok::<(), tidegate::PolicyErrors>(())
/// ```
#[must_use]
pub fn of(answer: &Answer<'_>) -> Vec<(&'static str, String)> {
    let mut fields = Vec::with_capacity(HeaderField::COUNT);
    each(answer, |name, value| fields.push((name, value.to_owned())));
    fields
}

/// Calls `emit` with each field of [`of`], in order, without allocating a list.
///
/// ```
/// # use std::time::Duration;
/// # use tidegate::{AlgorithmKind, Descriptor, Gate, Policy, Request, RuleSpec, Spec, headers};
/// # let rule = RuleSpec::new("burst", Spec::new(AlgorithmKind::FixedWindow, 2, Duration::from_secs(60)));
/// # let gate = Gate::new(Policy::new(vec![rule])?);
/// # let descriptors = [Descriptor::new(&[])];
/// # let answer = gate.check(&Request::new("default", &descriptors));
/// let mut head = String::new();
/// headers::each(&answer, |name, value| head += &format!("{name}: {value}\r\n"));
/// assert!(head.starts_with("X-RateLimit-Limit: 2\r\nX-RateLimit-Remaining: 1\r\n"));
/// # Ok::<(), tidegate::PolicyErrors>(())
/// ```
pub fn each(answer: &Answer<'_>, mut emit: impl FnMut(&'static str, &str)) {
    let mut text = String::with_capacity(USUAL_BYTES);
    let mut begins = 0;
    write(answer, true.into(), &mut text, |field, text| {
        emit(field.name(), text.get(begins..).unwrap_or_default());
        begins = text.len();
    });
}

/// Adds the values of the `wanted` fields of an answer to `text`, one after the other; calls `ended` with each field
/// and the text up to the end of its value.
pub(crate) fn write(
    answer: &Answer<'_>,
    wanted: FieldSet,
    text: &mut String,
    mut ended: impl FnMut(HeaderField, &str),
) {
    let Some(numbers) = numbers(answer) else { return };
    let [(_, limit), ..] = numbers;
    for (field, number) in numbers {
        // A limit of 0 never resets.
        if wanted.has(field) && (field != HeaderField::Reset || limit > 0) {
            text.push_str(itoa::Buffer::new().format(number));
            ended(field, text);
        }
    }
    if wanted.has(HeaderField::Policies) || wanted.has(HeaderField::Limits) {
        let by_rule: InlineList<_> = answer.enforced().collect();
        if wanted.has(HeaderField::Policies) {
            policies(&by_rule, text);
            ended(HeaderField::Policies, text);
        }
        if wanted.has(HeaderField::Limits) {
            limits(answer, &by_rule, text);
            ended(HeaderField::Limits, text);
        }
    }
    let wait = answer.retry_after_micros().filter(|_| !answer.is_allowed());
    if let Some(wait) = wait.filter(|_| wanted.has(HeaderField::RetryAfter)) {
        text.push_str(itoa::Buffer::new().format(seconds(wait)));
        ended(HeaderField::RetryAfter, text);
    }
}

/// The fields of the reported rule, which are numbers; `None` if the answer reports none.
pub(crate) fn numbers(answer: &Answer<'_>) -> Option<[(HeaderField, u64); 3]> {
    let reported = answer.reported()?;
    Some(numbers_of(reported.decision(), reset(answer, &reported)))
}

/// The fields of a decision, which are numbers.
#[inline]
pub(crate) const fn numbers_of(decision: &Decision, reset: u64) -> [(HeaderField, u64); 3] {
    [
        (HeaderField::Limit, decision.limit),
        (HeaderField::Remaining, decision.remaining),
        (HeaderField::Reset, reset),
    ]
}

/// Typical bytes of all values of an answer of one or two rules.
pub(crate) const USUAL_BYTES: usize = 128;

/// The maximum number of seconds that a field has: a client may read a number of 32 bits.
const MOST_SECONDS: u64 = i32::MAX as u64;

/// A wait as the fields have it: whole seconds, rounded up.
pub(crate) fn seconds(wait: Micros) -> u64 {
    wait.as_secs_ceil().min(MOST_SECONDS)
}

/// The status of an answer: 200 for yes, 429 for no, 403 if a limit of 0 or the want of a rule refuses it, 422 for never
/// because of its cost, 503 if it is refused only because the store was unavailable or overloaded.
///
/// ```
/// use tidegate::{Gate, Policy, RuleSpec, Spec, headers};
///
/// let gate = Gate::new(Policy::new(vec![RuleSpec::new("all", Spec::per_minute(1))])?);
/// assert_eq!(headers::status(&gate.check(&[])), 200);
/// assert_eq!(headers::status(&gate.check(&[])), 429);
/// # Ok::<(), tidegate::PolicyErrors>(())
/// ```
#[must_use]
pub fn status(answer: &Answer<'_>) -> u16 {
    // The special reasons go first, because an answer with such a reason is also a refusal.
    match (answer.is_allowed(), answer.is_never()) {
        _ if answer.is_unavailable() => 503,
        _ if answer.is_no_rule() || answer.is_closed() => 403,
        (true, _) => 200,
        (false, false) => 429,
        (false, true) => 422,
    }
}

/// When the reported limiter is idle, rounded up: in so many seconds, or at that second since 1970.
fn reset(answer: &Answer<'_>, reported: &Matched<'_>) -> u64 {
    let reset_after = reported.decision().reset_after;
    match answer.rules.reset_field() {
        ResetField::Seconds => seconds(reset_after),
        ResetField::Unix => {
            let in_seconds = |at: Timestamp| Micros::from_micros(at.as_micros()).as_secs_ceil();
            // From 2038 on the present time itself is above the maximum, and the reset must not be before it.
            let most = MOST_SECONDS.max(in_seconds(answer.at()));
            in_seconds(answer.at().plus(reset_after)).min(most)
        }
    }
}

/// `"name";q=100;w=60`: q units in w seconds. For a bucket or queue q is its capacity and w the
/// time it takes to fill, so that q/w is its rate. Each name occurs once; if overrides give several
/// keys of a rule different values, the values with the smallest capacity are shown.
fn policies(by_rule: &[Matched<'_>], list: &mut String) {
    let begins = list.len();
    // The limiters of an answer are in the order of the rules, so the keys of a rule are next to each other.
    for keys in by_rule.chunk_by(|a, b| same_rule(a, b)) {
        let matched = match keys {
            [one] => one,
            keys => match keys.iter().min_by_key(|matched| strictness(matched)) {
                Some(strictest) => strictest,
                None => continue,
            },
        };
        item(list, begins, matched);
        parameter(list, ";q=", matched.decision().limit);
        if let Some(window) = seconds_to_fill(matched) {
            parameter(list, ";w=", window);
        }
    }
}

/// `"name";r=50;t=30`: r units left; t seconds until the cost of a refused request fits, else until
/// the limiter is idle.
fn limits(answer: &Answer<'_>, by_rule: &[Matched<'_>], list: &mut String) {
    let begins = list.len();
    for keys in by_rule.chunk_by(|a, b| same_rule(a, b)) {
        for (number, matched) in (1_usize..).zip(keys) {
            item(list, begins, matched);
            parameter(list, ";r=", matched.decision().remaining);
            if let Some(wait) = time_shown(answer, matched) {
                parameter(list, ";t=", seconds(wait));
            }
            // Limiters of one rule share its name: a partition key tells them apart.
            if keys.len() > 1 {
                list.push_str(";pk=:");
                BASE64_STANDARD.encode_string(number.to_string(), list);
                list.push(':');
            }
        }
    }
}

/// Begins an item of the list that begins at `begins`. The name of a rule contains no character that has to be escaped
/// between quotes.
fn item(list: &mut String, begins: usize, matched: &Matched<'_>) {
    if list.len() > begins {
        list.push_str(", ");
    }
    list.push('"');
    list.push_str(matched.rule().name());
    list.push('"');
}

/// A structured field's integer has at most 15 digits.
fn parameter(list: &mut String, key: &str, value: u64) {
    const LARGEST: u64 = 999_999_999_999_999;
    list.push_str(key);
    list.push_str(itoa::Buffer::new().format(value.min(LARGEST)));
}

/// Names are unique in the domain of a request.
fn same_rule(one: &Matched<'_>, other: &Matched<'_>) -> bool {
    one.rule().name() == other.rule().name()
}

/// A sort key, which is smaller for stricter values.
fn strictness(matched: &Matched<'_>) -> (u64, Reverse<Option<u64>>) {
    // Of equal capacities, the capacity that takes longer to fill is stricter.
    (matched.decision().limit, Reverse(seconds_to_fill(matched)))
}

fn time_shown(answer: &Answer<'_>, matched: &Matched<'_>) -> Option<Micros> {
    let decision = matched.decision();
    match (answer.is_allowed(), decision.is_allowed()) {
        (true, _) if decision.limit == 0 => None,
        (true, _) => Some(decision.reset_after),
        // `Retry-After` is about the rules that refuse, and no `t` may be after it.
        (false, true) => None,
        (false, false) => decision.retry_after_micros(),
    }
}

fn seconds_to_fill(matched: &Matched<'_>) -> Option<u64> {
    let spec = matched.values().spec();
    let (Limit::Units(limit @ 1..), Some(window)) = (spec.limit, spec.window.map(Micros::from))
    else {
        return None;
    };
    if matched.decision().limit == limit {
        return Some(seconds(window));
    }
    let whole = u128::from(matched.decision().limit) * u128::from(window.as_micros());
    // Rounded up, because a shorter time would claim a higher rate.
    let us = u64::try_from(whole.div_ceil(u128::from(limit))).unwrap_or(u64::MAX);
    Some(seconds(Micros::from_micros(us)))
}

/// A header field of an answer, in the order in which they are written.
///
/// ```
/// use tidegate::headers::{HeaderField, FieldSet};
///
/// let fields = FieldSet::from([HeaderField::Limits, HeaderField::RetryAfter]);
/// assert!(fields.has(HeaderField::RetryAfter));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeaderField {
    /// `X-RateLimit-Limit`: the limit of the reported rule.
    Limit,
    /// `X-RateLimit-Remaining`: the units left of it.
    Remaining,
    /// `X-RateLimit-Reset`: when its limiter is idle.
    Reset,
    /// `RateLimit-Policy`: the values of all rules that matched.
    Policies,
    /// `RateLimit`: the units left of each of them.
    Limits,
    /// `Retry-After`: the wait after a refusal that will pass.
    RetryAfter,
}

impl HeaderField {
    /// The number of fields.
    pub(crate) const COUNT: usize = 6;

    const fn name(self) -> &'static str {
        match self {
            Self::Limit => "X-RateLimit-Limit",
            Self::Remaining => "X-RateLimit-Remaining",
            Self::Reset => "X-RateLimit-Reset",
            Self::Policies => "RateLimit-Policy",
            Self::Limits => "RateLimit",
            Self::RetryAfter => "Retry-After",
        }
    }
}

/// A set of fields: all (`true`), none (`false`), or some (`[HeaderField::Limit, HeaderField::Remaining]`). The layers
/// choose by it which fields a response shows.
///
/// ```
/// use tidegate::headers::{HeaderField, FieldSet};
///
/// let two = FieldSet::from([HeaderField::Limit, HeaderField::Remaining]);
/// assert!(two.has(HeaderField::Limit) && !two.has(HeaderField::Reset));
/// assert!(FieldSet::from(true).has(HeaderField::Reset) && !FieldSet::from(false).has(HeaderField::Limit));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FieldSet(u8);

impl FieldSet {
    /// Returns whether a field belongs to the set.
    #[must_use]
    #[inline]
    pub const fn has(self, field: HeaderField) -> bool {
        self.0 & Self::bit(field) != 0
    }

    /// The set without the fields of `other`.
    #[cfg(feature = "tower")]
    pub(crate) const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Returns whether the set has no field.
    #[cfg(feature = "tower")]
    pub(crate) const fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// A bit for each of its fields.
    #[cfg(feature = "tower")]
    pub(crate) const fn bits(self) -> usize {
        self.0 as usize
    }

    /// The set with one more field.
    pub(crate) const fn with(self, field: HeaderField) -> Self {
        Self(self.0 | Self::bit(field))
    }

    const fn bit(field: HeaderField) -> u8 {
        1 << field as u8
    }
}

impl From<bool> for FieldSet {
    fn from(all: bool) -> Self {
        Self(if all { (1 << HeaderField::COUNT) - 1 } else { 0 })
    }
}

impl<const N: usize> From<[HeaderField; N]> for FieldSet {
    fn from(fields: [HeaderField; N]) -> Self {
        fields.into_iter().fold(Self(0), Self::with)
    }
}

#[cfg(test)]
mod tests;
