//! The counts of one rule.
//!
//! A `Report` has it for each rule of its policy. `variant_report.rs` counts under the rule's own values, and under
//! each override.

use std::collections::BTreeMap;
use std::time::Duration;

use tidegate::{Answer, Matched, Micros, Mode, PolicyRule};

use super::drawn::Drawn;
use super::fingerprint::Seed;
use super::key::RuleKey;
use super::space::Space;
use super::{Most, ReportMemory, VariantReport, grouped};
use crate::plot::{Bins, Lane, length_label};
use crate::trace::Event;

/// The part of a report about one rule.
#[derive(Clone, Debug)]
pub struct RuleReport {
    rule: PolicyRule,
    /// The number of requests that it decided about.
    pub asked: u64,
    /// The requests that it refused, or would have refused were it not in shadow mode.
    pub refused: u64,
    /// Decisions without room: the key shared the overflow limiter, or was refused.
    pub overflow: u64,
    /// The keys that it refused.
    pub refused_most: Most,
    /// The longest time an admitted request had to be held.
    pub longest_delay: Duration,
    own: VariantReport,
    /// The overrides that applied to a request, by the number of their variant.
    others: BTreeMap<usize, VariantReport>,
    space: Space,
    seed: Seed,
    drawn: Option<Drawn>,
}

impl RuleReport {
    /// A report without counts, which takes no further memory.
    pub(super) fn new(rule: &PolicyRule, memory: ReportMemory) -> Self {
        Self {
            rule: rule.clone(),
            asked: 0,
            refused: 0,
            overflow: 0,
            refused_most: Most::new(memory.names),
            longest_delay: Duration::ZERO,
            own: VariantReport::new(rule, 0),
            others: BTreeMap::new(),
            space: Space::new(memory.worst_bytes, rule.variants()),
            seed: Seed::random(),
            drawn: None,
        }
    }

    /// The rule.
    #[must_use]
    pub const fn rule(&self) -> &PolicyRule {
        &self.rule
    }

    /// The counts under its own values, which may be none.
    #[must_use]
    pub const fn own(&self) -> &VariantReport {
        &self.own
    }

    /// The counts under its own values, then one for each override that applied to a request, in
    /// order.
    pub fn variants(&self) -> impl DoubleEndedIterator<Item = &VariantReport> {
        std::iter::once(&self.own).chain(self.others.values())
    }

    pub(super) fn is_of(&self, rule: &PolicyRule) -> bool {
        (self.rule.domain(), self.rule.name()) == (rule.domain(), rule.name())
    }

    pub(super) fn draw(&mut self, bins: Bins) {
        self.drawn = Some(Drawn::new(bins, self.own.is_queue()));
    }

    pub(super) fn record(&mut self, event: &Event<'_>, answer: &Answer<'_>, matched: &Matched<'_>) {
        self.asked += 1;
        self.overflow += u64::from(matched.is_overflow());
        let refused = !matched.decision().is_allowed();
        let (variant, _) = self.variant(matched.variant());
        variant.asked += 1;
        variant.refused += u64::from(refused);
        if refused {
            self.refuse(event, matched);
        }
        // A request takes from no rule if one refuses it; a report takes from all. A repeated
        // answer was counted when it was given first.
        let took = matched.is_report() || !refused && answer.is_allowed();
        if took && !answer.is_repeated() {
            self.admit(event, matched);
        }
    }

    /// The counts of a variant, created when it first decides, and the memory that all of them
    /// share.
    fn variant(&mut self, number: usize) -> (&mut VariantReport, &mut Space) {
        let variant = match number {
            0 => &mut self.own,
            _ => {
                self.others.entry(number).or_insert_with(|| VariantReport::new(&self.rule, number))
            }
        };
        (variant, &mut self.space)
    }

    fn refuse(&mut self, event: &Event<'_>, matched: &Matched<'_>) {
        self.refused += 1;
        let key = RuleKey { rule: &self.rule, descriptor: event.entries_of(matched) };
        self.refused_most.add(key.fingerprint(&self.seed), || key.to_string());
        if let Some(drawn) = &mut self.drawn {
            drawn.refuse(event.at_us);
        }
    }

    fn admit(&mut self, event: &Event<'_>, matched: &Matched<'_>) {
        let delay = matched.decision().delay_micros();
        self.longest_delay = self.longest_delay.max(delay.into());
        let leaves_at_us = event.at_us.saturating_add(delay.as_micros());
        // Not `self.rule`, which cannot be borrowed while the counts of a variant change.
        let key = RuleKey { rule: matched.rule(), descriptor: event.entries_of(matched) };
        let print = key.fingerprint(&self.seed);
        let times_us = (event.at_us, leaves_at_us);
        let (variant, space) = self.variant(matched.variant());
        variant.admit(print, || key.to_string(), times_us, matched.cost(), space);
        if let Some(drawn) = &mut self.drawn {
            drawn.admit(event.at_us, delay);
        }
    }

    /// The rule's lane of a picture, if one is drawn.
    #[must_use]
    pub fn lane(&self) -> Option<Lane> {
        let is_shadow = self.rule.mode() == Mode::Shadow;
        let refused = if is_shadow { "in shadow mode: would refuse" } else { "refused" };
        let mut note = format!("{refused} {} of {}", grouped(self.refused), grouped(self.asked));
        let fullest = self.fullest();
        note.push_str(&format!("; fullest window {}", fullest.fullest()));
        if let Some(bound) = fullest.bound() {
            note.push_str(&format!(" of at most {}", grouped(bound)));
        }
        if let Some(matched) = fullest.matched() {
            note.push_str(&format!(" for {matched}"));
        }
        if !self.longest_delay.is_zero() {
            note.push_str(&format!(
                "; held up to {}",
                length_label(Micros::from(self.longest_delay).as_micros())
            ));
        }
        self.drawn.as_ref().map(|drawn| drawn.lane(self.rule.name(), note, is_shadow))
    }

    /// The variant whose fullest window came nearest to its bound; the first of equal ones.
    fn fullest(&self) -> &VariantReport {
        // `max_by` returns the last of equal items, so they come in reverse.
        let fullest = self.variants().rev().max_by(|a, b| a.fullness().total_cmp(&b.fullness()));
        fullest.unwrap_or(&self.own)
    }
}

#[cfg(test)]
mod tests;
