//! The log line of a decision, at the level `debug`.

use std::fmt;

use tidegate::{Answer, Request};

use super::RequestVerb;
use crate::counts::RequestOutcome;
use crate::listener::source;

/// Logs who decided a request of a rule's domain, and how; at `trace` also the entries of the request,
/// which name the caller.
#[cold]
pub(super) fn log(verb: RequestVerb, request: &Request<'_>, answer: &Answer<'_>) {
    let reported = answer.reported();
    let rule = reported.as_ref().map(|matched| matched.rule().name());
    let entries =
        tracing::enabled!(tracing::Level::TRACE).then(|| ShownEntries(request).to_string());
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

/// The descriptors of a request: `user=ann, path=/a; ip=192.0.2.1`.
struct ShownEntries<'a>(&'a Request<'a>);

impl fmt::Display for ShownEntries<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, descriptor) in self.0.descriptors().iter().enumerate() {
            f.write_str(if number == 0 { "" } else { "; " })?;
            for (number, (name, value)) in descriptor.entries().iter().enumerate() {
                let comma = if number == 0 { "" } else { ", " };
                write!(f, "{comma}{name}={value}")?;
            }
        }
        Ok(())
    }
}
