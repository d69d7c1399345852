//! Finds the limiters of a request, and the values of each.

use smallvec::{Array, SmallVec};

use super::Frontend;
use crate::key::{Fingerprint, Seed};
use crate::request::{Descriptor, Request, RequestInternals as _, same};
use crate::rules::{Mode, Policy, PolicyInternals as _, PolicyRule, RuleInternals as _, Usage};
use crate::step::{Ask, AskKind, AskValues, DescriptorSet, Lineage, TakenUnits, ValuesSource};

impl<C> Frontend<C> {
    /// Adds the limiters of a request under `policy` to the empty list `all`, in the order of the rules. A limiter that
    /// matches twice, by `known_by`, appears once with the sum of its costs.
    ///
    /// A rule whose own values admit everything is left out, unless `may_have_others` returns that plans or
    /// requests may supply values for it. The list includes limiters that are unlimited by such values; returns whether
    /// there may be some.
    pub(crate) fn resolve<'p, K: PartialEq, A: Array<Item = Ask<K>>>(
        &self,
        policy: &'p Policy,
        lineage_of: impl Fn(usize) -> Lineage,
        request: &Request<'_>,
        mut known_by: impl FnMut(&'p PolicyRule, &Descriptor<'_>) -> K,
        may_have_others: impl Fn(usize) -> bool,
        all: &mut SmallVec<A>,
    ) -> bool {
        let mut has_unlimited = false;
        let mut usage = Reported::default();
        for (place, descriptor) in request.descriptors().iter().enumerate() {
            policy.visit_candidates(request.domain(), descriptor, |number, rule| {
                if !counts(rule) || !rule.matches(descriptor) {
                    return;
                }
                // Also for a rule that is left out below: its usage may make the request a report.
                usage.note(rule, descriptor.units());
                let variant = rule.variant_for(descriptor);
                let supplied = descriptor.own_limit();
                let from_request = supplied.and_then(|supplied| rule.values_in(supplied));
                let own = rule.variant(variant);
                if own.is_unlimited() && from_request.is_none() && !may_have_others(number) {
                    return;
                }
                let lineage = lineage_of(number);
                let fingerprint = known_by(rule, descriptor);
                match all
                    .iter_mut()
                    .find(|ask| ask.rule == number && ask.fingerprint == fingerprint)
                {
                    // Two descriptors have the same limiter, which decides once, about the sum of their costs.
                    Some(ask) => {
                        ask.cost = ask.cost.saturating_add(descriptor.units());
                        // A descriptor without a cost may be followed by one with a cost.
                        ask.reserves = request.reserves() && ask.cost > 0;
                        ask.by.add(place);
                        // The first descriptor with values decides which hold.
                        if let Some(values) = from_request
                            && ask.values.source != ValuesSource::Request
                        {
                            has_unlimited |= values.is_unlimited();
                            ask.values = AskValues::of_request(ask.values.variant, values);
                        }
                    }
                    None => {
                        let values = match from_request {
                            Some(values) => AskValues::of_request(variant, values),
                            None => self.values_of(lineage, rule, variant, descriptor),
                        };
                        has_unlimited |= values.own.as_ref().unwrap_or(own).is_unlimited();
                        // The list is about to leave the stack: room for a few at once saves allocations.
                        if all.len() == all.inline_size() {
                            all.reserve(3);
                        }
                        all.push(Ask {
                            lineage,
                            rule: number,
                            fingerprint,
                            cost: descriptor.units(),
                            kind: AskKind::Question,
                            enforced: rule.mode() == Mode::Enforce,
                            values,
                            by: DescriptorSet::one(place),
                            reserves: request.reserves() && descriptor.units() > 0,
                            taken: TakenUnits::default(),
                        });
                    }
                }
            });
        }
        // Only after all rules is it known whether the request is a report.
        for ask in all.iter_mut() {
            let is_reported = usage.any && policy.rules().get(ask.rule).is_some_and(is_reported);
            ask.kind = usage.kind(ask.cost, is_reported);
        }
        // They were found by descriptor.
        all.sort_by_key(|ask| ask.rule);
        has_unlimited
    }

    /// Returns the values of a rule for a descriptor that supplies none.
    fn values_of(
        &self,
        lineage: Lineage,
        rule: &PolicyRule,
        variant: usize,
        descriptor: &Descriptor<'_>,
    ) -> AskValues {
        match self.plans.of_rule(lineage).map(|plan| plan(descriptor)) {
            Some(own) => AskValues::of_plan(variant, own),
            None if rule.spec().limit_from_request => AskValues::of_plan(variant, None),
            None => AskValues::of_variant(variant),
        }
    }
}

/// Keeps only limiters of rules that limit.
pub(crate) fn keep_limited<K, A: Array<Item = Ask<K>>>(asks: &mut SmallVec<A>, policy: &Policy) {
    // Most requests have no others, and are not moved in memory.
    if asks.iter().any(|one| one.is_unlimited(policy)) {
        asks.retain(|one| !one.is_unlimited(policy));
    }
}

/// The usage that a request reports.
#[derive(Clone, Copy, Default)]
struct Reported {
    /// A rule with reported usage matches.
    any: bool,
    /// The request reports usage to a rule that is enforced or in shadow mode.
    enforced: bool,
    shadow: bool,
    /// Another rule may refuse the request.
    refusable: bool,
}

impl Reported {
    fn note(&mut self, rule: &PolicyRule, units: u64) {
        let enforced = rule.mode() == Mode::Enforce;
        let reported = is_reported(rule);
        self.any |= reported;
        self.enforced |= reported && enforced && units > 0;
        self.shadow |= reported && !enforced && units > 0;
        self.refusable |= !reported && enforced && units > 0;
    }

    /// Returns whether the request is a report. A rule in shadow mode makes it one only if no other rule could refuse
    /// it.
    const fn is_report(self) -> bool {
        self.enforced || self.shadow && !self.refusable
    }

    /// Returns the use of a limiter that takes `cost`. A report of 0 units to a rule that counts requests asks nothing.
    const fn kind(self, cost: u64, reported: bool) -> AskKind {
        match (self.is_report(), cost) {
            (true, 1..) => AskKind::Report,
            (true, 0) if reported => AskKind::Report,
            (false, 0) if reported => AskKind::Look,
            _ => AskKind::Question,
        }
    }
}

fn is_reported(rule: &PolicyRule) -> bool {
    rule.spec().usage == Usage::Reported
}

fn counts(rule: &PolicyRule) -> bool {
    rule.mode() != Mode::Off
}

/// Hashes the keys of one request, and remembers the last, so that a key that several rules have is hashed once.
pub(crate) struct Fingerprints<'a> {
    seed: &'a Seed,
    last: Option<Last<'a>>,
}

/// The last key that was hashed.
struct Last<'a> {
    /// The entries that it is made of, and the descriptor that they were taken from.
    entries: &'a [String],
    descriptor: *const (),
    fingerprint: Fingerprint,
}

impl<'a> Fingerprints<'a> {
    pub(crate) const fn new(seed: &'a Seed) -> Self {
        Self { seed, last: None }
    }

    /// The fingerprint of the key that a rule makes of a matching descriptor, which outlives this.
    #[inline]
    pub(crate) fn of(&mut self, rule: &'a PolicyRule, descriptor: &Descriptor<'_>) -> Fingerprint {
        let entries = rule.spec().key.as_slice();
        if entries.is_empty() {
            return Fingerprint::FIRST;
        }
        let may_share = !rule.picks_entries();
        // By the address, which no other descriptor of the request has.
        let from = std::ptr::from_ref(descriptor).cast();
        if may_share
            && let Some(last) = &self.last
            && last.descriptor == from
            && last.entries.len() == entries.len()
            && last.entries.iter().zip(entries).all(|(one, other)| same(one, other))
        {
            return last.fingerprint;
        }
        let fingerprint = self.seed.of_parts(rule.key(descriptor));
        if may_share {
            self.last = Some(Last { entries, descriptor: from, fingerprint });
        }
        fingerprint
    }
}
