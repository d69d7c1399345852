//! What is counted of one rule.

use tidegate::{Algorithm, Answer, Matched, Micros, PolicyRule};

use super::drawn::Drawn;
use super::fingerprint::Seed;
use super::key::Key;
use super::{Memory, Most, Worst, grouped};
use crate::plot::{Bins, Lane, length_label};
use crate::trace::Event;

/// One rule's part of a report.
#[derive(Clone, Debug)]
pub struct RuleReport {
    rule: PolicyRule,
    /// Requests it had a say in.
    pub asked: u64,
    /// Requests it refused, or would have refused were it not in shadow mode.
    pub refused: u64,
    /// Decisions for which it had no room: the key shared a limiter, or was refused for that.
    pub overloaded: u64,
    /// Whom it refused.
    pub refused_most: Most,
    /// The fullest window; of departures for a queue.
    pub worst: Worst,
    /// The longest time an admitted request had to be held.
    pub longest_delay: Micros,
    /// The largest cost it was asked for.
    pub largest_cost: u64,
    seed: Seed,
    drawn: Option<Drawn>,
}

impl RuleReport {
    /// Nothing counted yet, and no more memory taken than that.
    pub(super) fn new(rule: &PolicyRule, memory: Memory) -> Self {
        let window =
            (0..rule.variants()).filter_map(|number| rule.variant(number).spec().window).max();
        Self {
            rule: rule.clone(),
            asked: 0,
            refused: 0,
            overloaded: 0,
            refused_most: Most::new(memory.names),
            worst: Worst::new(window.unwrap_or_default().as_micros(), memory.worst_bytes),
            longest_delay: Micros::ZERO,
            largest_cost: 1,
            seed: Seed::random(),
            drawn: None,
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

    pub(super) fn draw(&mut self, bins: Bins) {
        self.drawn = Some(Drawn::new(bins, self.is_queue()));
    }

    pub(super) fn record(&mut self, event: &Event, answer: &Answer<'_>, matched: &Matched<'_>) {
        self.asked += 1;
        self.overloaded += u64::from(matched.is_overloaded());
        if !matched.decision().is_allowed() {
            self.refuse(event);
        } else if answer.is_allowed() {
            self.admit(event, matched.decision().delay());
        }
    }

    fn refuse(&mut self, event: &Event) {
        self.refused += 1;
        let key = Key { rule: &self.rule, event };
        self.refused_most.add(key.fingerprint(&self.seed), || key.to_string());
        if let Some(drawn) = &mut self.drawn {
            drawn.refuse(event.at_us);
        }
    }

    fn admit(&mut self, event: &Event, delay: Micros) {
        self.largest_cost = self.largest_cost.max(event.cost);
        self.longest_delay = self.longest_delay.max(delay);
        let leaves_at_us = event.at_us.saturating_add(delay.as_micros());
        let key = Key { rule: &self.rule, event };
        let (print, times) = (key.fingerprint(&self.seed), (event.at_us, leaves_at_us));
        self.worst.record(print, || key.to_string(), times, event.cost);
        if let Some(drawn) = &mut self.drawn {
            drawn.admit(event.at_us, delay);
        }
    }

    /// The rule's lane of a picture, if one is drawn.
    #[must_use]
    pub fn lane(&self) -> Option<Lane> {
        let mut note = format!("refused {} of {}", grouped(self.refused), grouped(self.asked));
        note.push_str(&format!("; fullest window {}", self.fullest()));
        if let Some(bound) = self.bound() {
            note.push_str(&format!(" of at most {}", grouped(bound)));
        }
        if !self.longest_delay.is_zero() {
            note.push_str(&format!(
                "; held up to {}",
                length_label(self.longest_delay.as_micros())
            ));
        }
        self.drawn.as_ref().map(|drawn| drawn.lane(self.rule.name(), note))
    }

    /// The units of the fullest window as a person reads them, with "at least" where memory for
    /// more had run out.
    #[must_use]
    pub fn fullest(&self) -> String {
        let at_least = if self.worst.forgotten() > 0 { "at least " } else { "" };
        format!("{at_least}{}", grouped(self.worst.units()))
    }

    /// Whether it is departures, not admissions, that its bound is about.
    #[must_use]
    pub fn is_queue(&self) -> bool {
        self.rule.spec().spec.algorithm == Algorithm::LeakyQueue
    }
}
