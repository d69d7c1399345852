//! The rules of a domain, or the overrides of a rule, found by an entry that they require.
//!
//! So a policy of thousands of rules compares few of them with each request.

use std::collections::{BTreeMap, HashMap};

use smallvec::SmallVec;

use crate::request::Descriptor;

/// Up to this many, looking at all of them is faster than the index.
const FEW: usize = 4;

/// The numbers of rules or overrides that may match a descriptor.
///
/// Each number is listed once: under an entry that it requires, with one value or with any, or as unindexed if it
/// requires none. If a rule requires several entries, it is listed under the entry that the fewest rules require. Up to
/// [`FEW`] numbers are all unindexed.
#[derive(Clone, Debug, Default)]
pub(super) struct Index {
    /// The numbers that are visited for every descriptor.
    unindexed: Vec<usize>,
    by_name: BTreeMap<String, NumbersByValue>,
}

/// The numbers listed under one entry.
#[derive(Clone, Debug, Default)]
struct NumbersByValue {
    with_any_value: Vec<usize>,
    /// Most values have one number.
    by_value: HashMap<Box<str>, SmallVec<[usize; 1]>>,
}

/// A required entry: its name, and its value if only one matches.
pub(super) type Required<'a> = (&'a str, Option<&'a str>);

impl Index {
    /// Lists numbers, each with the entries that it requires.
    pub(super) fn new(all: &[(usize, Vec<Required<'_>>)]) -> Self {
        let mut index = Self::default();
        if all.len() <= FEW {
            index.unindexed = all.iter().map(|(number, _)| *number).collect();
            return index;
        }
        // By name and value, because the value decides how many numbers a visit finds.
        let mut uses: HashMap<_, usize> = HashMap::new();
        for required in all.iter().flat_map(|(_, required)| required) {
            *uses.entry(required).or_default() += 1;
        }
        for (number, required) in all {
            // A number needs all its entries, so it is listed under one: where it is found in vain most seldom.
            let rarest = required.iter().min_by_key(|required| uses.get(required).copied());
            let Some(&(name, value)) = rarest else {
                index.unindexed.push(*number);
                continue;
            };
            let named = index.by_name.entry(name.to_owned()).or_default();
            match value {
                None => named.with_any_value.push(*number),
                Some(value) => named.by_value.entry(value.into()).or_default().push(*number),
            }
        }
        index
    }

    /// Calls `visit` with the numbers that may match a descriptor, each once and in no order; all others do not
    /// match it.
    #[inline]
    pub(super) fn visit(&self, descriptor: &Descriptor<'_>, mut visit: impl FnMut(usize)) {
        self.unindexed.iter().copied().for_each(&mut visit);
        if !self.by_name.is_empty() {
            self.visit_listed(descriptor, visit);
        }
    }

    fn visit_listed(&self, descriptor: &Descriptor<'_>, mut visit: impl FnMut(usize)) {
        let entries = descriptor.entries();
        for (number, entry) in entries.iter().enumerate() {
            let (name, value) = *entry;
            let earlier = &entries[..number];
            let Some(named) = self.by_name.get(name) else { continue };
            // An entry may be given several times, but each number is visited once.
            if !earlier.iter().any(|(earlier, _)| *earlier == name) {
                named.with_any_value.iter().copied().for_each(&mut visit);
            }
            if !earlier.contains(entry) {
                named.by_value.get(value).into_iter().flatten().copied().for_each(&mut visit);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;
    use testkit::traffic::Rng;
    use tidegate_core::{AlgorithmKind, Limit, Spec};

    use crate::request::Descriptor;
    use crate::rules::{OverrideSpec, Policy, PolicyInternals as _, RuleInternals as _, RuleSpec};

    fn entry(rng: &mut Rng) -> (String, String) {
        let (name, value) = (rng.pick(["a", "b", "c", "d"]), rng.pick(["1", "2", "12", "x"]));
        (name.to_owned(), value.to_owned())
    }

    /// A rule that requires some entries, with a value, a prefix or any value.
    fn rule(rng: &mut Rng, number: u64) -> RuleSpec {
        let spec = Spec::new(AlgorithmKind::TokenBucket, 1, Duration::from_secs(1));
        let mut rule = RuleSpec::new(format!("rule-{number}"), spec);
        for name in ["a", "b", "c", "d"] {
            match rng.below(8) {
                0 => rule.key.push(name.to_owned()),
                1 => rule.when.push((name.to_owned(), entry(rng).1)),
                2 => rule.when.push((name.to_owned(), entry(rng).1 + "*")),
                _ => {}
            }
        }
        rule.exact = rng.chance(10);
        rule
    }

    #[test]
    fn of_many_overrides_the_first_that_matches_holds() {
        let mut rng = Rng::new(77);
        let all: Vec<_> = ["a", "b", "c", "d"].map(str::to_owned).into();
        let mut spec = rule(&mut rng, 0);
        (spec.key, spec.when) = (all, Vec::new());
        for _ in 0..60 {
            let mut entries: Vec<_> = (0..=1 + rng.below(3)).map(|_| entry(&mut rng)).collect();
            entries.sort_unstable();
            entries.dedup_by(|one, other| one.0 == other.0);
            let limit = Some(Limit::Units(spec.overrides.len() as u64));
            spec.overrides.push(OverrideSpec { entries, limit, ..OverrideSpec::default() });
            if Policy::new(vec![spec.clone()]).is_err() {
                spec.overrides.pop();
            }
        }
        let overrides = spec.overrides.clone();
        assert!(overrides.len() > 16, "they are indexed");
        let policy = Policy::new(vec![spec]).unwrap();
        for _ in 0..1_000 {
            let entries = ["a", "b", "c", "d"].map(|name| (name, entry(&mut rng).1));
            let entries = entries.each_ref().map(|(name, value)| (*name, value.as_str()));
            let descriptor = Descriptor::new(&entries);
            let holds = |other: &OverrideSpec| {
                other.entries.iter().all(|(name, value)| descriptor.value(name) == Some(value))
            };
            let first = overrides.iter().position(holds).map_or(0, |number| number + 1);
            assert_eq!(policy.rules()[0].variant_for(&descriptor), first, "{entries:?}");
        }
    }

    #[test]
    fn an_index_finds_each_rule_that_matches_and_none_twice() {
        let mut rng = Rng::new(5_017);
        for rules in [3, 4, 5, 17, 100] {
            let specs = (0..rules).map(|number| rule(&mut rng, number)).collect();
            let policy = Policy::new(specs).unwrap();
            let mut looked_at = 0;
            for _ in 0..200 {
                let count = rng.below(5);
                let entries: Vec<_> = (0..count).map(|_| entry(&mut rng)).collect();
                let entries: Vec<_> =
                    entries.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
                let descriptor = Descriptor::new(&entries);
                let mut found = Vec::new();
                policy.visit_candidates("default", &descriptor, |number, _| found.push(number));
                looked_at += found.len();
                let mut once = found.clone();
                once.sort_unstable();
                once.dedup();
                assert_eq!(once.len(), found.len(), "{entries:?}: {found:?}");
                for (number, rule) in policy.rules().iter().enumerate() {
                    let is_found = found.contains(&number);
                    assert!(is_found || !rule.matches(&descriptor), "{entries:?}: {rule:?}");
                }
            }
            assert!(rules <= 17 || looked_at < 100 * rules as usize, "{looked_at} of {rules}");
        }
    }
}
