//! A checked rule: which descriptors it matches, and which values apply to a key.
//!
//! For each descriptor a gate asks if the rule `matches`, then for the values of its `key`, then for the variant of
//! its values (`variant_for`).

use std::sync::Arc;

use tidegate_core::Rule;

use super::index::{Index, Required};
use super::spec::{Mode, RuleSpec};
use crate::key::key_bytes;
use crate::request::{Descriptor, RequestLimit, place_of, same, values_for};

/// A value that a `when` entry must have: a whole text, or a prefix written with a `*` at its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pattern<'a> {
    Whole(&'a str),
    Prefix(&'a str),
}

impl<'a> Pattern<'a> {
    /// The pattern of a text whose only `*`, if any, stands at its end.
    #[inline]
    fn of(text: &'a str) -> Self {
        match text.as_bytes() {
            [.., b'*'] => Self::Prefix(text.strip_suffix('*').unwrap_or(text)),
            _ => Self::Whole(text),
        }
    }

    /// Returns whether some value matches both.
    fn agrees(self, other: Self) -> bool {
        match (self, other) {
            (Self::Whole(whole), pattern) | (pattern, Self::Whole(whole)) => pattern.matches(whole),
            (Self::Prefix(one), Self::Prefix(other)) => {
                begins_with(one, other) || begins_with(other, one)
            }
        }
    }

    #[inline]
    fn matches(self, value: &str) -> bool {
        match self {
            Self::Whole(whole) => same(value, whole),
            Self::Prefix(prefix) => begins_with(value, prefix),
        }
    }
}

/// Returns whether the bytes of a value begin with the bytes of a prefix. A text with a backslash may stand for other
/// bytes, and a prefix may end within a character.
fn begins_with(value: &str, prefix: &str) -> bool {
    if value.contains('\\') || prefix.contains('\\') {
        return key_bytes(value).starts_with(&key_bytes(prefix));
    }
    value.starts_with(prefix)
}

/// Values for the keys that have these entries.
#[derive(Clone, Debug)]
pub(super) struct Override {
    pub(super) entries: Vec<(String, String)>,
    pub(super) rule: Rule,
}

impl Override {
    /// Returns whether the key with these values of entries has all of them.
    fn holds_for<'v>(&self, value_of: impl Fn(&str) -> Option<&'v str>) -> bool {
        self.entries.iter().all(|(name, value)| value_of(name) == Some(value))
    }
}

/// The overrides of a rule: the first that matches applies.
#[derive(Clone, Debug)]
pub(super) struct Overrides {
    all: Vec<Override>,
    index: Index,
}

impl Overrides {
    /// `None` without overrides, as in most of many rules.
    pub(super) fn new(all: Vec<Override>) -> Option<Box<Self>> {
        if all.is_empty() {
            return None;
        }
        let required = all.iter().enumerate().map(|(number, other)| {
            // A name with a place, such as `user#2`, may be the whole name of an entry: the index cannot require it.
            let entries = other.entries.iter().filter(|(name, _)| place_of(name).is_none());
            (number, entries.map(|(name, value)| (name.as_str(), Some(value.as_str()))).collect())
        });
        let index = Index::new(&required.collect::<Vec<_>>());
        Some(Box::new(Self { all, index }))
    }

    /// Returns the number of the override that applies to a descriptor, whose key has these values of entries.
    fn find<'v>(
        &self,
        descriptor: &Descriptor<'_>,
        value_of: impl Fn(&str) -> Option<&'v str>,
    ) -> Option<usize> {
        let mut first = None;
        self.index.visit(descriptor, |number| {
            // The index visits in no order, and the first override in the order of the rule applies.
            let is_earlier = first.is_none_or(|first| number < first);
            if is_earlier && self.all.get(number).is_some_and(|other| other.holds_for(&value_of)) {
                first = Some(number);
            }
        });
        first
    }
}

/// A rule of a policy, checked. A clone shares everything with it.
///
/// ```
/// use tidegate::{Mode, Policy, RuleSpec};
///
/// let policy = Policy::new(vec![RuleSpec::new("login", "5/m").mode(Mode::Shadow)])?;
/// for rule in policy.rules() {
///     println!("{} of {}: {:?}", rule.name(), rule.domain(), rule.mode());
/// }
/// # Ok::<(), tidegate::PolicyErrors>(())
/// ```
#[derive(Clone, Debug)]
pub struct PolicyRule {
    checked: Arc<Checked>,
}

/// A checked rule: its spec, and the values that were made from it.
#[derive(Debug)]
pub(super) struct Checked {
    pub(super) spec: RuleSpec,
    pub(super) base: Rule,
    pub(super) overrides: Option<Box<Overrides>>,
    pub(super) names: Names,
}

/// Properties of the entry names in `when` and `key` that a search by name does not handle.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Names {
    /// True if a name has a place, as `user#2`.
    have_places: bool,
    /// True if `when` names an entry of `key`: of several entries of that name, the key has one that `when` accepts.
    share_entries: bool,
}

impl Names {
    pub(super) fn of(spec: &RuleSpec) -> Self {
        let mut names = spec.key.iter().chain(spec.when.iter().map(|(name, _)| name));
        Self {
            have_places: names.any(|name| place_of(name).is_some()),
            share_entries: spec
                .key
                .iter()
                .any(|name| spec.when.iter().any(|(when, _)| when == name)),
        }
    }
}

impl PolicyRule {
    pub(super) fn new(mut checked: Checked) -> Self {
        // Lists that were filled one by one have room for more.
        checked.spec.when.shrink_to_fit();
        checked.spec.key.shrink_to_fit();
        Self { checked: Arc::new(checked) }
    }

    /// Its name, unique in its domain.
    #[must_use]
    #[inline]
    pub fn name(&self) -> &str {
        &self.checked.spec.name
    }

    /// Its domain.
    #[must_use]
    #[inline]
    pub fn domain(&self) -> &str {
        &self.checked.spec.domain
    }

    /// Enforce, shadow or off.
    #[must_use]
    #[inline]
    pub fn mode(&self) -> Mode {
        self.checked.spec.mode
    }

    /// The rule as it was written.
    #[must_use]
    #[inline]
    pub fn spec(&self) -> &RuleSpec {
        &self.checked.spec
    }

    /// The checked values: variant 0 is the rule's own, then one for each override. A number without
    /// an override gives the rule's own.
    #[must_use]
    #[inline]
    pub fn variant(&self, number: usize) -> &Rule {
        number
            .checked_sub(1)
            .and_then(|i| self.checked.overrides.as_ref()?.all.get(i))
            .map_or(&self.checked.base, |o| &o.rule)
    }

    /// The number of variants of its values: 1 + the number of overrides.
    #[must_use]
    #[inline]
    pub fn variants(&self) -> usize {
        1 + self.checked.overrides.as_ref().map_or(0, |overrides| overrides.all.len())
    }

    /// The entries of `when`, each with the pattern of its value.
    #[inline]
    fn when(&self) -> impl Iterator<Item = (&str, Pattern<'_>)> {
        self.checked.spec.when.iter().map(|(name, value)| (name.as_str(), Pattern::of(value)))
    }

    /// Returns whether a descriptor has every entry that the rule requires, some of them in a place.
    #[cold]
    fn matches_in_places(&self, descriptor: &Descriptor<'_>) -> bool {
        let entries = descriptor.entries();
        self.when().all(|(name, pattern)| {
            entries.iter().any(|(entry, value)| same(entry, name) && pattern.matches(value))
                || descriptor.value_in_place(name).is_some_and(|value| pattern.matches(value))
        }) && self.checked.spec.key.iter().all(|name| descriptor.value(name).is_some())
    }

    /// Returns the entries that every matching descriptor has, each with its value where only one text matches. A name
    /// with a place is left out, because it may be the whole name of an entry.
    pub(super) fn required(&self) -> impl Iterator<Item = Required<'_>> {
        let when = self.when().map(|(name, pattern)| match pattern {
            Pattern::Whole(value) => (name, Some(value)),
            Pattern::Prefix(_) => (name, None),
        });
        let all = when.chain(self.checked.spec.key.iter().map(|name| (name.as_str(), None)));
        let have_places = self.checked.names.have_places;
        all.filter(move |(name, _)| !have_places || place_of(name).is_none())
    }

    /// Returns whether the rule requires an entry of this name, in a place or anywhere.
    pub(super) fn looks_at(&self, name: &str) -> bool {
        self.entry_names().into_iter().any(|required| {
            required == name || place_of(required).is_some_and(|(entry, _)| entry == name)
        })
    }

    /// Returns whether every entry can have a value that both rules accept.
    pub(super) fn when_agrees(&self, other: &Self) -> bool {
        self.when().all(|(name, pattern)| {
            // A name that only one rule requires may have any value for the other rule.
            let mut theirs = other.when().filter(|(theirs, _)| *theirs == name);
            theirs.all(|(_, theirs)| pattern.agrees(theirs))
        })
    }

    /// The entries that a descriptor must have: the entries of `when`, then the entries of `key` that `when` does not
    /// name.
    pub(super) fn entry_names(&self) -> Vec<&str> {
        let mut names: Vec<_> = self.when().map(|(name, _)| name).collect();
        for name in &self.checked.spec.key {
            if !names.contains(&name.as_str()) {
                names.push(name);
            }
        }
        names
    }

    /// Returns whether the descriptor has exactly the entries of [`entry_names`](Self::entry_names), in their order,
    /// with values that `when` accepts.
    fn matches_exactly(&self, descriptor: &Descriptor<'_>) -> bool {
        let when = self.when().map(|(name, pattern)| (name, Some(pattern)));
        let key = self.checked.spec.key.iter().map(String::as_str);
        // An entry of both is written once, where `when` names it.
        let key = key.filter(|name| self.when().all(|(when, _)| when != *name));
        let key = key.map(|name| (name, None));
        let entries = descriptor.entries();
        let mut expected = when.chain(key);
        let all = entries.iter().enumerate().all(|(number, (entry, value))| {
            expected.next().is_some_and(|(name, pattern)| {
                (same(entry, name) || is_in_place(name, entries, number))
                    && pattern.is_none_or(|pattern| pattern.matches(value))
            })
        });
        all && expected.next().is_none()
    }

    #[cold]
    fn picked_value<'d>(&self, descriptor: &Descriptor<'d>, name: &str) -> Option<&'d str> {
        let pattern = self.when().find(|(when, _)| *when == name).map(|(_, pattern)| pattern);
        let mut named = descriptor.entries().iter().filter(|(entry, _)| same(entry, name));
        let first = named.find(|(_, value)| pattern.is_none_or(|pattern| pattern.matches(value)));
        first.map_or_else(|| descriptor.value(name), |(_, value)| Some(*value))
    }

    /// The values of the entries of `key` in a descriptor that the rule matches: they identify its limiter.
    ///
    /// ```
    /// use tidegate::{Descriptor, Policy, RuleSpec};
    ///
    /// let policy = Policy::new(vec![RuleSpec::new("per-user", "10/s").key(["user", "path"])])?;
    /// let entries = [("path", "/login"), ("user", "ada")];
    /// let descriptor = Descriptor::new(&entries);
    /// assert!(policy.rules()[0].key(&descriptor).eq(["ada", "/login"]));
    /// # Ok::<(), tidegate::PolicyErrors>(())
    /// ```
    pub fn key<'a>(&'a self, descriptor: &'a Descriptor<'_>) -> impl Iterator<Item = &'a str> {
        let names = self.checked.spec.key.iter();
        names.map(|name| self.value(descriptor, name).unwrap_or_default())
    }
}

/// The questions of a gate to a rule, for the crates of Tidegate alone.
pub trait RuleInternals {
    /// Returns whether a descriptor has every entry that the rule requires.
    fn matches(&self, descriptor: &Descriptor<'_>) -> bool;

    /// Returns whether several rules that have the entries of this key in common may make different keys of one
    /// descriptor.
    fn picks_entries(&self) -> bool;

    /// The value that the key of the limiter for a matching descriptor has for an entry. Of several entries of that name
    /// it is the first that `when` accepts.
    fn value<'d>(&self, descriptor: &Descriptor<'d>, name: &str) -> Option<&'d str>;

    /// The values for this rule that a request supplies; `None` if the rule does not let requests supply any.
    fn values_in<'d>(&self, supplied: &'d RequestLimit) -> Option<&'d Rule>;

    /// The number of the variant that applies to a matching descriptor.
    fn variant_for(&self, descriptor: &Descriptor<'_>) -> usize;
}

impl RuleInternals for PolicyRule {
    #[inline]
    fn matches(&self, descriptor: &Descriptor<'_>) -> bool {
        if self.checked.spec.exact {
            return self.matches_exactly(descriptor);
        }
        // Few rules have places, and the usual search compares whole names alone.
        if self.checked.names.have_places {
            return self.matches_in_places(descriptor);
        }
        let entries = descriptor.entries();
        self.when().all(|(name, pattern)| {
            entries.iter().any(|(entry, value)| same(entry, name) && pattern.matches(value))
        }) && self
            .checked
            .spec
            .key
            .iter()
            .all(|name| entries.iter().any(|(entry, _)| same(entry, name)))
    }

    #[inline]
    fn picks_entries(&self) -> bool {
        self.checked.names.share_entries
    }

    #[inline]
    fn value<'d>(&self, descriptor: &Descriptor<'d>, name: &str) -> Option<&'d str> {
        if !self.checked.names.share_entries {
            return descriptor.value(name);
        }
        self.picked_value(descriptor, name)
    }

    #[inline]
    fn values_in<'d>(&self, supplied: &'d RequestLimit) -> Option<&'d Rule> {
        if self.spec().limit_from_request { values_for(supplied, self.name()) } else { None }
    }

    #[inline]
    fn variant_for(&self, descriptor: &Descriptor<'_>) -> usize {
        let Some(overrides) = &self.checked.overrides else { return 0 };
        let number = overrides.find(descriptor, |name| self.value(descriptor, name));
        number.map_or(0, |number| number + 1)
    }
}

/// Returns a rule of the default domain that matches everything, with these values.
pub fn rule_of_values(name: &str, values: &Rule) -> PolicyRule {
    let spec = RuleSpec::new(name, *values.spec());
    let checked = Checked { spec, base: values.clone(), overrides: None, names: Names::default() };
    PolicyRule { checked: Arc::new(checked) }
}

/// Returns whether `name` has a place, and the entry with this number is in it.
fn is_in_place(name: &str, entries: &[(&str, &str)], number: usize) -> bool {
    place_of(name).is_some_and(|(name, place)| {
        let named = entries.iter().take(number + 1).filter(|(entry, _)| same(entry, name)).count();
        named == place && entries.get(number).is_some_and(|(entry, _)| same(entry, name))
    })
}
