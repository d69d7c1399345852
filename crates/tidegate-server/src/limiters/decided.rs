//! The log line of a decision, at the level `debug`. [`Limiters`](super::Limiters) writes it for each answer.

use std::fmt;

use tidegate::{Answer, Policy, Request};

use super::RequestVerb;
use crate::counts::RequestOutcome;
use crate::listener::source;

/// Logs who decided a request of a rule's domain, and how; at `trace` also the entries of the request, which name the
/// caller. The values of a key that any rule of the domain hides are left out, whether that rule matched or not.
#[cold]
pub(super) fn log(policy: &Policy, verb: RequestVerb, request: &Request<'_>, answer: &Answer<'_>) {
    let reported = answer.reported();
    let rule = reported.as_ref().map(|matched| matched.rule().name());
    let entries = tracing::enabled!(tracing::Level::TRACE)
        .then(|| ShownEntries { request, policy }.to_string());
    tracing::debug!(
        verb = verb.name(),
        listener = source::listener(),
        domain = request.domain(),
        rule,
        outcome = RequestOutcome::of(answer).name(),
        is_degraded = answer.is_degraded(),
        entries,
        "decided"
    );
}

/// The descriptors of a request: `user=ann, path=/a; ip=192.0.2.1`, or `card=…` if a rule hides the key.
struct ShownEntries<'a> {
    request: &'a Request<'a>,
    policy: &'a Policy,
}

impl ShownEntries<'_> {
    fn is_hidden(&self, name: &str) -> bool {
        let domain = self.request.domain();
        let rules = self.policy.rules().iter().map(|rule| rule.spec());
        rules
            .filter(|spec| spec.hide_keys && spec.domain == domain)
            .any(|spec| spec.key.iter().any(|key| of_entry(key) == name))
    }
}

/// The name of the entries that a part of a rule's key names, without its place.
fn of_entry(key: &str) -> &str {
    match key.rsplit_once('#') {
        Some((name, place)) if place.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => key,
    }
}

impl fmt::Display for ShownEntries<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, descriptor) in self.request.descriptors().iter().enumerate() {
            f.write_str(if number == 0 { "" } else { "; " })?;
            for (number, (name, value)) in descriptor.entries().iter().enumerate() {
                let comma = if number == 0 { "" } else { ", " };
                let value = if self.is_hidden(name) { "…" } else { value };
                write!(f, "{comma}{name}={value}")?;
            }
        }
        Ok(())
    }
}
