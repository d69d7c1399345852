//! The counts of one variant of a rule: of its own values, or of an override.
//!
//! It watches the fullest window (`worst.rs`) in its part of the rule's memory (`space.rs`).

use tidegate::{Micros, PolicyRule, Rule, Usage, printable};

use super::fingerprint::Fingerprint;
use super::name::shortened;
use super::space::Space;
use super::{Worst, grouped};

/// The part of a rule's report about its own values, or about one override.
#[derive(Clone, Debug)]
pub struct VariantReport {
    rule: Rule,
    /// True if its usage is reported, so that nothing bounds it.
    is_usage_reported: bool,
    matched: Option<String>,
    /// The number of requests that it decided about.
    pub asked: u64,
    /// The requests that it refused, or would have refused were the rule not in shadow mode.
    pub refused: u64,
    /// The largest cost it admitted.
    pub largest_cost: u64,
    /// The fullest window, of the length of these values; of departures for a queue.
    pub worst: Worst,
}

impl VariantReport {
    /// The report of a variant without counts, which takes no memory yet.
    pub(super) fn new(rule: &PolicyRule, number: usize) -> Self {
        let values = rule.variant(number).clone();
        let window = values.spec().window.unwrap_or_default();
        Self {
            rule: values,
            is_usage_reported: rule.spec().usage == Usage::Reported,
            matched: matched(rule, number),
            asked: 0,
            refused: 0,
            largest_cost: 1,
            worst: Worst::new(Micros::from(window).as_micros(), 0),
        }
    }

    /// The rule with the values of this variant.
    #[must_use]
    pub const fn rule(&self) -> &Rule {
        &self.rule
    }

    /// The entries that the override matches, as `channel=alipay, ip=192.0.2.7`, at most 120
    /// characters without control characters; `None` for the rule's own values.
    #[must_use]
    pub fn matched(&self) -> Option<&str> {
        self.matched.as_deref()
    }

    /// The maximum number of units that any window of one key can see under these values; `None` if unlimited, or
    /// reported.
    #[must_use]
    pub fn bound(&self) -> Option<u64> {
        let bounded = Some(&self.rule).filter(|_| !self.is_usage_reported)?;
        bounded.bound(self.largest_cost)
    }

    /// The units of the fullest window as text, with "at least" if memory ran out.
    #[must_use]
    pub fn fullest(&self) -> String {
        let at_least = if self.worst.forgotten() > 0 { "at least " } else { "" };
        format!("{at_least}{}", grouped(self.worst.units()))
    }

    /// The units of the fullest window as a part of the bound: 1 if it reached the bound, 0 without
    /// a bound.
    pub(super) fn fullness(&self) -> f64 {
        self.bound().map_or(0.0, |bound| self.worst.units() as f64 / bound.max(1) as f64)
    }

    /// Returns whether the bound is about departures instead of admissions.
    #[must_use]
    pub fn is_queue(&self) -> bool {
        self.rule.spec().algorithm.is_queue()
    }

    /// Counts `cost` units of a key, requested and (later for a queue) admitted at these times.
    pub(super) fn admit(
        &mut self,
        key: Fingerprint,
        name: impl FnOnce() -> String,
        times_us: (u64, u64),
        cost: u64,
        space: &mut Space,
    ) {
        self.largest_cost = self.largest_cost.max(cost);
        let held = self.worst.bytes();
        // Asked each time, because other variants may have taken or freed memory since.
        self.worst.hold_at_most(space.for_one(held));
        self.worst.record(key, name, times_us, cost);
        space.changed(held, self.worst.bytes());
    }
}

fn matched(rule: &PolicyRule, number: usize) -> Option<String> {
    let other = rule.spec().overrides.get(number.checked_sub(1)?)?;
    let entries: Vec<_> =
        other.entries.iter().map(|(name, value)| format!("{name}={value}")).collect();
    Some(printable::line(&shortened(entries.join(", "))).into_owned())
}
