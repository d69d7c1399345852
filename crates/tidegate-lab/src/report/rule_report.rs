//! What is counted of one rule.

use tidegate::{Algorithm, Answer, Matched, Micros, PolicyRule};

use super::{Most, Worst};
use crate::trace::Event;

/// One rule's part of a report.
#[derive(Clone, Debug)]
pub struct RuleReport {
    rule: PolicyRule,
    /// Requests it had a say in.
    pub asked: u64,
    /// Requests it refused, or would have refused were it not in shadow mode.
    pub refused: u64,
    /// Whom it refused.
    pub refused_most: Most,
    /// The fullest window; of departures for a queue.
    pub worst: Worst,
    /// The longest time an admitted request had to be held.
    pub longest_delay: Micros,
    /// The largest cost it was asked for.
    pub largest_cost: u64,
}

impl RuleReport {
    /// Nothing counted yet.
    #[must_use]
    pub fn new(rule: &PolicyRule) -> Self {
        let window =
            (0..rule.variants()).filter_map(|number| rule.variant(number).spec().window).max();
        Self {
            rule: rule.clone(),
            asked: 0,
            refused: 0,
            refused_most: Most::default(),
            worst: Worst::new(window.unwrap_or_default().as_micros()),
            longest_delay: Micros::ZERO,
            largest_cost: 1,
        }
    }

    /// The rule.
    #[must_use]
    pub const fn rule(&self) -> &PolicyRule {
        &self.rule
    }

    /// The most units that any window can see under this rule, whatever the key.
    #[must_use]
    pub fn bound(&self) -> Option<u64> {
        (0..self.rule.variants())
            .map(|number| self.rule.variant(number).bound(self.largest_cost))
            .max()?
    }

    pub(super) fn is_of(&self, rule: &PolicyRule) -> bool {
        (self.rule.domain(), self.rule.name()) == (rule.domain(), rule.name())
    }

    pub(super) fn record(&mut self, event: &Event, answer: &Answer<'_>, matched: &Matched<'_>) {
        let decision = matched.decision();
        let key = key_text(&self.rule, event);
        self.asked += 1;
        if !decision.is_allowed() {
            self.refused += 1;
            self.refused_most.add(&key);
        } else if answer.is_allowed() {
            self.largest_cost = self.largest_cost.max(event.cost);
            self.longest_delay = self.longest_delay.max(decision.delay());
            let leaves_at_us = event.at_us.saturating_add(decision.delay().as_micros());
            self.worst.record(&key, leaves_at_us, event.cost);
        }
    }

    /// Whether it is departures, not admissions, that its bound is about.
    #[must_use]
    pub fn is_queue(&self) -> bool {
        self.rule.spec().spec.algorithm == Algorithm::LeakyQueue
    }
}

/// The key of a request as a person reads it: `ip=192.0.2.7, path=/login`; `all` for a rule without.
fn key_text(rule: &PolicyRule, event: &Event) -> String {
    let value = |name: &str| {
        event.descriptor.iter().find(|(entry, _)| entry == name).map(|(_, value)| value)
    };
    let parts = rule.spec().key.iter().filter_map(|name| Some(format!("{name}={}", value(name)?)));
    let text = parts.collect::<Vec<_>>().join(", ");
    if text.is_empty() { "all".to_owned() } else { text }
}
