//! The checks of a rule before it becomes part of a policy.
//!
//! `Policy::new` runs them on all rules, and returns all mistakes.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::time::Duration;

use tidegate_core::{Limit, MAX_WINDOW, Micros, Rule, RuleErrors, Spec, is_whole};

use super::choices::{MOST_MAX_WAITERS, OnExcess, Usage};
use super::error::{Place, PolicyError, PolicyErrors, Problem, is_name};
use super::lease::LEASE_LIVES;
use super::override_spec::OverrideSpec;
use super::rule::{Checked, Names, Override, Overrides, PolicyRule};
use super::spec::{MOST_MAX_KEYS, RuleSpec, UP_TO_A_DAY};
use crate::key::canonical_text;

/// Checks all rules, and returns all mistakes.
pub(super) fn check(specs: Vec<RuleSpec>) -> Result<Vec<PolicyRule>, PolicyErrors> {
    let mut errors = Vec::new();
    let mut names = HashMap::new();
    let mut rules = Vec::with_capacity(specs.len());
    for (number, spec) in specs.into_iter().enumerate() {
        let mut mistakes = Mistakes { rule: number, name: spec.name.clone(), errors: &mut errors };
        // The first rule keeps its number, so that each later rule of the name refers to it.
        let earlier = *names.entry((spec.domain.clone(), spec.name.clone())).or_insert(number);
        if earlier != number {
            mistakes.add(Place::Rule, Problem::SameName(earlier));
        }
        rules.extend(checked(spec, &mut mistakes));
    }
    if errors.is_empty() { Ok(rules) } else { Err(PolicyErrors(errors)) }
}

/// The mistakes found so far, and the rule that is being checked.
struct Mistakes<'a> {
    rule: usize,
    name: String,
    errors: &'a mut Vec<PolicyError>,
}

impl Mistakes<'_> {
    fn add(&mut self, place: Place, problem: Problem) {
        self.errors.push(PolicyError { rule: self.rule, name: self.name.clone(), place, problem });
    }

    /// Returns the checked values; notes the mistakes if there are any.
    fn values(&mut self, place: Place, result: Result<Rule, RuleErrors>) -> Option<Rule> {
        result
            .map_err(|errors| {
                errors.iter().for_each(|error| self.add(place, Problem::Values(error.clone())));
            })
            .ok()
    }
}

fn checked(mut spec: RuleSpec, mistakes: &mut Mistakes<'_>) -> Option<PolicyRule> {
    // First, because the checks compare texts.
    make_canonical(&mut spec);
    check_identity(&spec, mistakes);
    check_excess(&spec, mistakes);
    check_usage(&spec, mistakes);
    check_entries(&spec, mistakes);
    // A text that was no rate has its errors already.
    let read = spec.unread.clone().map_or_else(|| Rule::new(values(&spec)), |errors| Err(*errors));
    let base = mistakes.values(Place::Rule, read);
    check_lease(&spec, base.as_ref(), mistakes);
    check_split(&spec, base.as_ref(), mistakes);
    let overrides = Overrides::new(checked_overrides(&spec, mistakes));
    let names = Names::of(&spec);
    // Invalid values end here, after every mistake has been noted.
    Some(PolicyRule::new(Checked { base: base?, overrides, spec, names }))
}

/// Gives each name and value of an entry the text that a request has for the same bytes.
fn make_canonical(spec: &mut RuleSpec) {
    let RuleSpec { when, key, hash_tag, overrides, .. } = spec;
    let of_overrides = overrides.iter_mut().flat_map(|other| &mut other.entries);
    let entries = when.iter_mut().chain(of_overrides).flat_map(|(name, value)| [name, value]);
    for text in entries.chain(key).chain(hash_tag).chain([&mut spec.domain]) {
        if let Cow::Owned(canonical) = canonical_text(text) {
            *text = canonical;
        }
    }
}

/// The values of a rule. Usage that is reported has happened, so its debt has no bound unless the rule has one.
fn values(spec: &RuleSpec) -> Spec {
    let is_reported = spec.usage == Usage::Reported && !spec.spec.algorithm.holds_permits();
    let max_debt = spec.spec.max_debt.or(is_reported.then_some(u64::MAX));
    let mut values = spec.spec;
    values.max_debt = max_debt;
    values
}

fn check_identity(spec: &RuleSpec, mistakes: &mut Mistakes<'_>) {
    if !is_name(&spec.name) {
        mistakes.add(Place::Rule, Problem::Name(spec.name.clone()));
    }
    if spec.domain.is_empty() {
        mistakes.add(Place::Rule, Problem::EmptyDomain);
    }
    // Each key would begin with `initial` again whenever its limiter was forgotten.
    if spec.spec.initial.is_some() && !spec.key.is_empty() {
        mistakes.add(Place::Rule, Problem::InitialWithKey);
    }
    if let Some(name) = spec.hash_tag.as_ref().filter(|name| !spec.key.contains(name)) {
        mistakes.add(Place::Rule, Problem::TagNotInKey(name.clone()));
    }
    if let Some(given) = spec.dedupe.filter(|time| !is_up_to_a_day(*time)) {
        mistakes.add(Place::Rule, Problem::Dedupe(given));
    }
    if let Some(given) = spec.max_life.filter(|time| !is_up_to_a_day(*time)) {
        mistakes.add(Place::Rule, Problem::MaxLife(given));
    }
    if let Some(given) = spec.max_keys.filter(|given| !(1..=MOST_MAX_KEYS).contains(given)) {
        mistakes.add(Place::Rule, Problem::MaxKeys(given));
    }
}

fn is_up_to_a_day(time: Duration) -> bool {
    UP_TO_A_DAY.contains(&time) && is_whole(time)
}

fn check_usage(spec: &RuleSpec, mistakes: &mut Mistakes<'_>) {
    if spec.usage != Usage::Reported {
        return;
    }
    // Work that is reported has been done: it can hold no permit and wait for no turn.
    if spec.spec.algorithm.holds_permits() {
        mistakes.add(Place::Rule, Problem::ReportedPermits);
    }
    if spec.spec.algorithm.is_queue() {
        mistakes.add(Place::Rule, Problem::ReportedQueue);
    }
    if spec.on_excess != OnExcess::Reject {
        mistakes.add(Place::Rule, Problem::ReportedWait);
    }
}

fn check_lease(spec: &RuleSpec, base: Option<&Rule>, mistakes: &mut Mistakes<'_>) {
    let Some(lease) = spec.lease else { return };
    let life = lease.life;
    if !(1..=100).contains(&lease.max_percent) {
        mistakes.add(Place::Rule, Problem::LeaseMax(lease.max_percent));
    }
    let can_live = LEASE_LIVES.contains(&life) && is_whole(life);
    if !can_live {
        mistakes.add(Place::Rule, Problem::LeaseLife(life));
    }
    for field in decided_by_the_store(spec) {
        mistakes.add(Place::Rule, Problem::LeaseBeside(field));
    }
    let lacks_lease =
        // A lease of one unit asks the store as often as no lease.
        base.is_some_and(|base| base.leasable(life.into()).is_none_or(|lease| lease.units < 2));
    // Only if no other mistake explains it: without a limit or a valid life there is no lease either.
    if can_live && limits(spec) && lacks_lease {
        mistakes.add(Place::Rule, Problem::NoLease);
    }
}

fn check_split(spec: &RuleSpec, base: Option<&Rule>, mistakes: &mut Mistakes<'_>) {
    if !spec.split {
        return;
    }
    let lease = spec.lease.map(|_| "lease");
    for field in lease.into_iter().chain(decided_by_the_store(spec)) {
        mistakes.add(Place::Rule, Problem::SplitBeside(field));
    }
    // Of a limit of one unit there are no shares, but one can be had in the store.
    let shortest = Micros::from_millis(1);
    if limits(spec) && base.is_some_and(|base| base.leasable(shortest).is_none()) {
        mistakes.add(Place::Rule, Problem::NoSplit);
    }
}

/// Returns the fields that make the store decide each request of the rule.
fn decided_by_the_store(spec: &RuleSpec) -> impl Iterator<Item = &'static str> + use<> {
    let all = [
        ("usage", spec.usage == Usage::Reported),
        ("limit_from_request", spec.limit_from_request),
        ("across_slots", spec.across_slots),
        ("initial", spec.spec.initial.is_some()),
    ];
    all.into_iter().filter(|(_, is_there)| *is_there).map(|(field, _)| field)
}

const fn limits(spec: &RuleSpec) -> bool {
    !matches!(spec.spec.limit, Limit::Unlimited | Limit::Units(0))
}

fn check_excess(spec: &RuleSpec, mistakes: &mut Mistakes<'_>) {
    let OnExcess::Wait { wait, max_waiters } = spec.on_excess else { return };
    if wait.is_zero() || wait > MAX_WINDOW || !is_whole(wait) {
        mistakes.add(Place::Rule, Problem::Wait(wait));
    }
    if !(1..=MOST_MAX_WAITERS).contains(&max_waiters) {
        mistakes.add(Place::Rule, Problem::MaxWaiters(max_waiters));
    }
}

fn check_entries(spec: &RuleSpec, mistakes: &mut Mistakes<'_>) {
    let when: Vec<_> = spec.when.iter().map(|(name, _)| name).collect();
    let key: Vec<_> = spec.key.iter().collect();
    // Each list by itself: a name may be in both, and the key then has the value that `when` requires.
    for names in [when, key] {
        let mut seen = HashSet::new();
        for name in names {
            if name.is_empty() || !seen.insert(name) {
                mistakes.add(Place::Rule, Problem::EntryTwice(name.clone()));
            }
        }
    }
    let values = spec.when.iter().map(|(_, value)| value);
    for value in values.filter(|value| value.strip_suffix('*').unwrap_or(value).contains('*')) {
        mistakes.add(Place::Rule, Problem::StarInside(value.clone()));
    }
}

fn checked_overrides(spec: &RuleSpec, mistakes: &mut Mistakes<'_>) -> Vec<Override> {
    let own: Vec<_> = match Rule::new(values(spec)) {
        Ok(_) => Vec::new(),
        Err(errors) => errors.iter().cloned().collect(),
    };
    let mut sound = Vec::new();
    let mut earlier = Earlier::default();
    for (number, other) in spec.overrides.iter().enumerate() {
        let place = Place::Override(number);
        check_match(spec, number, other, &mut earlier, mistakes);
        match Rule::new(other.applied_to(&values(spec))) {
            Ok(rule) => sound.push(Override { entries: other.entries.clone(), rule }),
            // Only the rule reports its own mistakes.
            Err(errors) => errors
                .iter()
                .filter(|error| !own.contains(error))
                .for_each(|error| mistakes.add(place, Problem::Values(error.clone()))),
        }
    }
    sound
}

fn check_match<'a>(
    spec: &RuleSpec,
    number: usize,
    other: &'a OverrideSpec,
    earlier: &mut Earlier<'a>,
    mistakes: &mut Mistakes<'_>,
) {
    let place = Place::Override(number);
    if other.entries.is_empty() {
        mistakes.add(place, Problem::MatchesNothing);
        return;
    }
    for (name, _) in other.entries.iter().filter(|(name, _)| !spec.key.contains(name)) {
        mistakes.add(place, Problem::NotInKey(name.clone()));
    }
    let entries = other.entries.iter().map(|(name, value)| (name.as_str(), value.as_str()));
    let mut entries: Vec<_> = entries.collect();
    // Sorted, so that the same entries in another order are found.
    entries.sort_unstable();
    match earlier.covers(&entries) {
        Some(first) => mistakes.add(place, Problem::Unreachable(first)),
        // A covered override is not added: the first covers everything that it would cover.
        None => earlier.add(entries, number),
    }
}

/// Earlier overrides of the rule, by the names of their entries, then by the entries. There are few sets of names, so
/// a search does not compare with every override.
#[derive(Default)]
struct Earlier<'a> {
    by_names: HashMap<Vec<&'a str>, HashMap<Vec<EntryPair<'a>>, usize>>,
}

/// A name and its value.
type EntryPair<'a> = (&'a str, &'a str);

impl<'a> Earlier<'a> {
    /// Returns the first override whose entries are all among these.
    fn covers(&self, entries: &[EntryPair<'a>]) -> Option<usize> {
        let found = self.by_names.iter().filter_map(|(names, overrides)| {
            // Both lists are sorted, so these entries are equal to an earlier override's in the same order.
            let named = entries.iter().filter(|(name, _)| names.contains(name));
            overrides.get(&named.copied().collect::<Vec<_>>()).copied()
        });
        found.min()
    }

    /// Adds an override that no earlier one covers, with its entries sorted.
    fn add(&mut self, entries: Vec<EntryPair<'a>>, number: usize) {
        let names = entries.iter().map(|(name, _)| *name).collect();
        self.by_names.entry(names).or_default().insert(entries, number);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;
    use tidegate_core::{AlgorithmKind, Limit, Spec};

    use super::*;
    use crate::rules::Policy;

    /// An allowlist may be long: comparing all pairs would take minutes.
    #[test]
    fn a_hundred_thousand_overrides_are_looked_up_among_those_before_them() {
        const MANY: usize = 100_000;
        let entry = |name: &str, value: String| (name.to_owned(), value);
        let of = |entries: Vec<_>| OverrideSpec {
            entries,
            limit: Some(Limit::Units(9)),
            ..OverrideSpec::default()
        };
        let mut spec = RuleSpec::new(
            "calls",
            Spec::new(AlgorithmKind::FixedWindow, 5, Duration::from_secs(60)),
        );
        spec.key = vec!["user".to_owned(), "path".to_owned()];
        let numbered = |number: usize| {
            let user = entry("user", format!("u{number}"));
            let path = (number % 2 == 1).then(|| entry("path", "/".to_owned()));
            of(path.into_iter().chain([user]).collect())
        };
        spec.overrides = (0..MANY).map(numbered).collect();
        assert!(Policy::new(vec![spec.clone()]).is_ok());
        spec.overrides.extend([numbered(MANY - 1), numbered(MANY), numbered(7)]);
        let covered = of(vec![entry("user", "u2".to_owned()), entry("path", "/".to_owned())]);
        spec.overrides.push(covered);
        let errors = Policy::new(vec![spec]).unwrap_err();
        let found: Vec<_> =
            errors.iter().map(|error| (error.place, error.problem.clone())).collect();
        let covers = |number: usize, earlier: usize| {
            (Place::Override(number), Problem::Unreachable(earlier))
        };
        assert_eq!(found, [covers(MANY, MANY - 1), covers(MANY + 2, 7), covers(MANY + 3, 2)]);
    }
}
