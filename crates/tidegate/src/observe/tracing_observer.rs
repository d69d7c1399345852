//! An observer for the facade crate `tracing`.
//!
//! A program that has a subscriber of that crate adds it to its gate.

use tidegate_core::Micros;
use tracing::Level;

use super::{Observer, RuleOutcome};
use crate::answer::{Answer, Matched};
use crate::request::Request;

/// An [`Observer`] that writes an event of the crate `tracing` for each rule of a decision, with the target `tidegate`.
///
/// The level depends on the [outcome](RuleOutcome): `WARN` for a request that a rule refused because the store did not
/// decide, `DEBUG` for other refusals and for those that a rule in shadow mode would make, and `TRACE` for the rest. The
/// fields are `domain`, `rule`, `outcome` ([`RuleOutcome::name`]), `cost`, `limit`, `remaining` and, if it is known,
/// `retry_after_us`; no field holds a value of a request. Answers that are [repeated](Answer::is_repeated) write nothing.
///
/// ```
/// use std::sync::Arc;
/// use std::time::Duration;
/// use tidegate::{AlgorithmKind, Descriptor, Gate, Policy, Request, RuleSpec, Setup, Spec, TracingObserver};
///
/// let rule = RuleSpec::new("all", Spec::new(AlgorithmKind::TokenBucket, 100, Duration::from_secs(1)));
/// let gate = Gate::new(Setup::new(Policy::new(vec![rule])?).observer(Arc::new(TracingObserver::new())));
///
/// let descriptors = [Descriptor::new(&[])];
/// assert!(gate.check(&Request::new("default", &descriptors)).is_allowed());
/// # Ok::<(), tidegate::PolicyErrors>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct TracingObserver {}

impl TracingObserver {
    /// Creates the observer.
    #[must_use]
    pub const fn new() -> Self {
        Self {}
    }
}

/// Writes one event; the level of an event is a constant.
macro_rules! event {
    ($level:ident, $matched:ident, $outcome:ident) => {{
        let rule = $matched.rule();
        let decision = $matched.decision();
        tracing::event!(
            target: "tidegate",
            Level::$level,
            domain = rule.domain(),
            rule = rule.name(),
            outcome = $outcome.name(),
            cost = $matched.cost(),
            limit = decision.limit,
            remaining = decision.remaining,
            retry_after_us = decision.retry_after_micros().map(Micros::as_micros),
            "decision"
        )
    }};
}

fn write(matched: &Matched<'_>, outcome: RuleOutcome) {
    match outcome {
        RuleOutcome::Unavailable => event!(WARN, matched, outcome),
        RuleOutcome::Refused | RuleOutcome::Never | RuleOutcome::ShadowRefused => {
            event!(DEBUG, matched, outcome);
        }
        _ => event!(TRACE, matched, outcome),
    }
}

impl Observer for TracingObserver {
    fn decided(&self, _: &Request<'_>, answer: &Answer<'_>) {
        if !answer.is_repeated() {
            answer.all().for_each(|matched| write(&matched, RuleOutcome::of(answer, &matched)));
        }
    }
}
