//! A refusal, and the default response for it.
//!
//! Every `Decider` refuses by it, and it stays among the extensions of the response.

use std::time::Duration;

use http::header::{CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};
use tidegate_core::Micros;

use super::fields::{self, LimitFields};
use crate::answer::Answer;
use crate::headers::{self, FieldSet, HeaderField};
use crate::jitter::Jitter;

/// Why a request was refused.
///
/// ```
/// use tidegate::tower::{Reason, RateLimitLayer};
///
/// let layer = RateLimitLayer::per_ip("60/m")?.on_refused(|refusal, _| {
///     if refusal.reason() == Reason::NoAddress {
///         eprintln!("serve the program with `into_make_service_with_connect_info`");
///     }
///     let mut response = http::Response::new("".into());
///     *response.status_mut() = refusal.status();
///     response
/// });
/// # Ok::<(), tidegate::RuleErrors>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// A limit is used up for now.
    Limit,
    /// The request costs more than a limit could ever admit.
    Never,
    /// A limit is 0, so that no request is admitted while its rule is in force.
    Closed,
    /// The called service has asked for a pause that is longer than the request may wait.
    Held,
    /// No rule matches the request, and the policy refuses such requests ([`OnNoRule`](crate::OnNoRule)).
    NoRule,
    /// The allowed number of requests is in flight.
    InFlight,
    /// The shared store did not decide, and a rule is then closed; the caller did nothing wrong.
    Unavailable,
    /// The request has no address of a peer, which a rule with the entry `ip` or
    /// [`RateLimitLayer::per_ip`](super::RateLimitLayer::per_ip) needs; the program is to be mended.
    NoAddress,
}

impl Reason {
    /// The name of the type of problem, which clients may rely on, and its title.
    const fn problem(self) -> (&'static str, &'static str) {
        match self {
            Self::Limit => (
                "https://iana.org/assignments/http-problem-types#quota-exceeded",
                "Too many requests",
            ),
            // Only the first is a type that all programs share. The others are names of this project.
            Self::Never => (
                "urn:problem-type:tidegate:cost-never-fits",
                "The request costs more than its limit can hold",
            ),
            Self::Closed => ("urn:problem-type:tidegate:closed", "The limit is 0"),
            Self::Held => (
                "urn:problem-type:tidegate:held",
                "The service has asked for no requests until later",
            ),
            Self::NoRule => ("urn:problem-type:tidegate:no-rule", "No rule matches the request"),
            Self::InFlight => {
                ("urn:problem-type:tidegate:too-many-in-flight", "Too many requests at once")
            }
            Self::Unavailable => {
                ("urn:problem-type:tidegate:unavailable", "No decision can be taken")
            }
            Self::NoAddress => ("urn:problem-type:tidegate:internal-error", "Internal error"),
        }
    }
}

/// A refusal with all its data, owned. It is also left in the extensions of the response.
///
/// ```
/// use tidegate::tower::{RateLimitLayer, Reason};
///
/// let layer = RateLimitLayer::per_ip("60/m")?.on_refused(|refusal, _| {
///     let text = match (refusal.reason(), refusal.retry_after_seconds()) {
///         (Reason::Limit, Some(wait)) => format!("come back in {wait} s"),
///         (reason, _) => format!("{reason:?}"),
///     };
///     let mut response = http::Response::new(text.into());
///     *response.status_mut() = refusal.status();
///     response
/// });
/// # Ok::<(), tidegate::RuleErrors>(())
/// ```
#[derive(Clone, Debug)]
pub struct Refusal {
    reason: Reason,
    status: StatusCode,
    retry_after: Option<Micros>,
    rules: Vec<String>,
    fields: HeaderMap,
}

/// The refusal by an answer of a gate that a handler asks itself. Its [fields](Refusal::fields) are all fields
/// that a layer adds.
///
/// ```
/// use tidegate::tower::{Reason, Refusal};
/// use tidegate::{Gate, Policy, RuleSpec};
///
/// let gate = Gate::new(Policy::new(vec![RuleSpec::new("all", "1/h")])?);
/// gate.check(&[]);
/// let refusal = Refusal::from(&gate.check(&[]));
/// assert_eq!(refusal.reason(), Reason::Limit);
/// let mut response = refusal.to_problem();
/// response.headers_mut().extend(refusal.fields().map(|(name, value)| (name.clone(), value.clone())));
/// assert_eq!(response.headers()["content-type"], "application/problem+json");
/// assert!(response.headers().contains_key("retry-after"));
/// # Ok::<(), tidegate::PolicyErrors>(())
/// ```
impl From<&Answer<'_>> for Refusal {
    fn from(answer: &Answer<'_>) -> Self {
        Self::of(answer, true.into())
    }
}

impl Refusal {
    /// The refusal by an answer, with the header fields that are `wanted` and `Retry-After`.
    pub(super) fn of(answer: &Answer<'_>, wanted: FieldSet) -> Self {
        let denying = answer.enforced().filter(|matched| !matched.decision().is_allowed());
        let mut rules: Vec<String> =
            denying.map(|matched| matched.rule().name().to_owned()).collect();
        // Limiters are in the order of their rules, so equal names are next to each other.
        rules.dedup();
        Self {
            // The first that holds: without a rule or the store, the decisions say nothing about limits.
            reason: match (answer.is_unavailable(), answer.is_never()) {
                _ if answer.is_no_rule() => Reason::NoRule,
                (true, _) => Reason::Unavailable,
                _ if answer.is_closed() => Reason::Closed,
                (false, true) => Reason::Never,
                (false, false) => Reason::Limit,
            },
            status: StatusCode::from_u16(headers::status(answer))
                .unwrap_or(StatusCode::TOO_MANY_REQUESTS),
            retry_after: answer.retry_after_micros(),
            rules,
            fields: LimitFields::of(answer, wanted.with(HeaderField::RetryAfter), None).into_map(),
        }
    }

    /// A refusal that no rule made; the request would pass after `wait`.
    pub(super) fn for_now(reason: Reason, wait: Micros) -> Self {
        Self {
            reason,
            status: StatusCode::TOO_MANY_REQUESTS,
            retry_after: Some(wait),
            rules: Vec::new(),
            fields: HeaderMap::from_iter([(RETRY_AFTER, headers::seconds(wait).into())]),
        }
    }

    /// A refusal because the caller's address is not known.
    pub(super) fn without_address() -> Self {
        Self {
            reason: Reason::NoAddress,
            status: StatusCode::INTERNAL_SERVER_ERROR,
            retry_after: None,
            rules: Vec::new(),
            fields: HeaderMap::new(),
        }
    }

    /// The reason.
    #[must_use]
    pub const fn reason(&self) -> Reason {
        self.reason
    }

    /// The status of the response: 429, 403 at a limit of 0 or if no rule matches, 422 if the cost can never fit, 503 if the shared store did
    /// not decide, or 500 if the caller's address is not known.
    #[must_use]
    pub const fn status(&self) -> StatusCode {
        self.status
    }

    /// Least wait after which the same request would be admitted if nothing else arrived; `None` is
    /// never.
    #[must_use]
    pub fn retry_after(&self) -> Option<Duration> {
        self.retry_after.map(Duration::from)
    }

    /// [`Refusal::retry_after`] in whole seconds, rounded up, as the header field `Retry-After` has it.
    #[must_use]
    pub fn retry_after_seconds(&self) -> Option<u64> {
        self.retry_after.map(headers::seconds)
    }

    /// Returns [`Refusal::retry_after`] in the engine's own unit.
    pub(super) const fn retry_after_micros(&self) -> Option<Micros> {
        self.retry_after
    }

    /// The names of the rules that refused, in file order.
    #[must_use]
    pub fn rules(&self) -> &[String] {
        &self.rules
    }

    /// The header fields that are added to the response: limits and `Retry-After`.
    pub fn fields(&self) -> impl Iterator<Item = (&HeaderName, &HeaderValue)> {
        self.fields.iter()
    }

    /// The refusal as `application/problem+json` (RFC 9457), the default response.
    ///
    /// It has no header fields of limits and no `Retry-After`: the layer adds them to any response.
    #[must_use]
    pub fn to_problem(&self) -> Response<Vec<u8>> {
        let mut response = Response::new(self.document().into_bytes());
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        response
    }

    /// No text in it needs escaping: names of rules are letters, digits, `.`, `_` and `-`.
    fn document(&self) -> String {
        let (name, title) = self.reason.problem();
        let status = self.status.as_u16();
        let detail = self.detail();
        let mut text = String::with_capacity(USUAL_BYTES);
        let head = ["{\"type\":\"", name, "\",\"title\":\"", title, "\",\"status\":"];
        text.extend(head);
        text.extend([itoa::Buffer::new().format(status), ",\"detail\":\"", &detail, "\""]);
        for (number, rule) in self.rules.iter().enumerate() {
            text += if number == 0 { ",\"violated-policies\":[\"" } else { "\",\"" };
            text += rule;
        }
        text += if self.rules.is_empty() { "}" } else { "\"]}" };
        text
    }

    /// One sentence that says when the same request is admitted, or that it never is.
    pub(super) fn detail(&self) -> String {
        match self.retry_after_seconds() {
            // First, because a mistake of the server says nothing about a later request.
            _ if self.reason == Reason::NoAddress => {
                "the request was not decided because of an error of the server".to_owned()
            }
            Some(1) => "the same request may be admitted in 1 second".to_owned(),
            Some(wait) => {
                let mut number = itoa::Buffer::new();
                ["the same request may be admitted in ", number.format(wait), " seconds"].concat()
            }
            None if self.reason == Reason::Closed => {
                "no request is admitted while the limit is 0".to_owned()
            }
            None if self.reason == Reason::NoRule => {
                "no rule matches the request, and such requests are refused".to_owned()
            }
            None => "the same request is never admitted; ask for less at a time".to_owned(),
        }
    }

    /// Adds the header fields to a response.
    pub(super) fn put_fields(&self, headers: &mut HeaderMap) {
        fields::put(self.fields.clone(), headers);
    }

    /// The refusal with a longer wait in all forms of it, if it has one.
    pub(super) fn later_by(mut self, jitter: Jitter) -> Self {
        if let Some(wait) = &mut self.retry_after {
            *wait = jitter.after((*wait).into()).into();
            self.fields.insert(RETRY_AFTER, headers::seconds(*wait).into());
        }
        self
    }
}

/// Typical bytes of the default response.
const USUAL_BYTES: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    fn document(refusal: &Refusal) -> serde_json::Value {
        serde_json::from_slice(refusal.to_problem().body()).unwrap()
    }

    #[test]
    fn a_problem_names_the_rules_and_when_to_come_back() {
        let mut refusal = Refusal::for_now(Reason::Limit, Micros::from_millis(1_001));
        refusal.rules = vec!["per-ip".to_owned(), "all".to_owned()];
        let problem = document(&refusal);
        assert_eq!(problem["status"], 429);
        assert_eq!(problem["violated-policies"], serde_json::json!(["per-ip", "all"]));
        assert_eq!(problem["detail"], "the same request may be admitted in 2 seconds");
    }

    #[test]
    fn every_reason_has_a_type_of_its_own() {
        let all = [
            Reason::Limit,
            Reason::Never,
            Reason::Closed,
            Reason::Held,
            Reason::InFlight,
            Reason::Unavailable,
            Reason::NoAddress,
        ];
        let mut names = all.map(|reason| reason.problem().0);
        names.sort_unstable();
        assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "{names:?}");
        let held = document(&Refusal::for_now(Reason::Held, Micros::from_secs(1)));
        assert_eq!(held["type"], "urn:problem-type:tidegate:held");
        assert_eq!(held.get("violated-policies"), None);
    }
}
