//! The rules that a store cannot hold, though each is valid alone.
//!
//! In a cluster, limiters are decided in one step only if their keys share a slot. If one descriptor can match two
//! rules in different slots, both must allow that they are taken one after the other.

use std::time::Duration;
use tidegate_core::{Field, Rule, Spec};

use super::choices::OnExcess;
use super::error::{Place, PolicyError, PolicyErrors, Problem};
use super::policy::Policy;
use super::rule::PolicyRule;
use super::spec::Mode;
use crate::request::place_of;
use crate::settings::StoreSettings;

/// The largest value that a store holds for one key: 512 MB, the default of Redis.
const MOST_VALUE_BYTES: u64 = 512 << 20;

impl Policy {
    /// Checks whether a store can hold the limiters of these rules.
    ///
    /// # Errors
    /// Returns every reason against it: a log that could outgrow one value of the store; in a cluster, rules that a
    /// descriptor can match with keys in different slots, unless both have `across_slots`; and rules that have it,
    /// and also remember answers or let requests wait.
    pub fn fits(&self, store: &StoreSettings) -> Result<(), PolicyErrors> {
        let rules = self.rules();
        let mut errors = Vec::new();
        for (number, rule) in rules.iter().enumerate() {
            let mut add = |place, problem| {
                let name = rule.name().to_owned();
                errors.push(PolicyError { rule: number, name, place, problem });
            };
            for variant in 0..rule.variants() {
                if let Some(problem) = too_large(rule.variant(variant)) {
                    add(variant.checked_sub(1).map_or(Place::Rule, Place::Override), problem);
                }
            }
            if store.url.is_cluster() {
                alone_across(rule).for_each(|problem| add(Place::Rule, problem));
                let apart = rules.iter().take(number).enumerate();
                let apart = apart.filter_map(|(earlier, other)| across(earlier, other, rule));
                // One such rule is enough to show the missing field.
                apart.take(1).for_each(|problem| add(Place::Rule, problem));
            }
        }
        if errors.is_empty() { Ok(()) } else { Err(PolicyErrors(errors)) }
    }
}

impl StoreSettings {
    /// Returns whether a store can hold limiters with these values: not a log whose string could exceed 512 MB. This is
    /// for values from outside a policy; [`Policy::fits`] checks a policy's rules.
    #[must_use]
    pub fn can_hold(&self, values: &Rule) -> bool {
        values.most_stored_bytes() <= MOST_VALUE_BYTES
    }
}

fn too_large(rule: &Rule) -> Option<Problem> {
    let bytes = rule.most_stored_bytes();
    (bytes > MOST_VALUE_BYTES).then(|| {
        let has_one = rule.spec().algorithm.fields().contains(&Field::Resolution);
        let resolution = has_one.then(|| fitting_resolution(rule.spec()));
        Problem::TooLargeForStore { bytes, resolution }
    })
}

/// Returns the finest resolution, among round ones, with which a log fits.
fn fitting_resolution(spec: &Spec) -> Duration {
    // Up to 5 * 10^13 us, which is longer than any window.
    let powers = (0..14).map(|power| 10_u64.pow(power));
    let mut nice =
        powers.flat_map(|power| [1, 2, 5].map(|digit| Duration::from_micros(digit * power)));
    let fitting = nice.find(|resolution| {
        let mut coarser = *spec;
        coarser.resolution = Some(*resolution);
        Rule::new(coarser).is_ok_and(|rule| rule.most_stored_bytes() <= MOST_VALUE_BYTES)
    });
    fitting.unwrap_or(spec.window.unwrap_or_default())
}

/// Returns the invalid fields of a rule that is taken slot by slot, and given back if another refuses.
fn alone_across(rule: &PolicyRule) -> impl Iterator<Item = Problem> {
    let spec = rule.spec();
    let remembers = spec.dedupe.is_some().then_some(Problem::DedupeAcrossSlots);
    let waits = (spec.on_excess != OnExcess::Reject).then_some(Problem::WaitAcrossSlots);
    remembers.into_iter().chain(waits).filter(|_| spec.across_slots)
}

/// Returns the mistake if one descriptor can match both rules, and their keys may be in different slots.
fn across(number: usize, earlier: &PolicyRule, later: &PolicyRule) -> Option<Problem> {
    // Both keys then have the value of one entry as their tag, so they share a slot.
    let tagged_alike =
        earlier.spec().hash_tag.is_some() && earlier.spec().hash_tag == later.spec().hash_tag;
    if tagged_alike || !can_meet(earlier, later) {
        return None;
    }
    let name = earlier.name().to_owned();
    if [earlier, later].iter().all(|rule| rule.spec().spec.algorithm.is_queue()) {
        return Some(Problem::QueuesAcrossSlots { earlier: number, name });
    }
    let both_say = earlier.spec().across_slots && later.spec().across_slots;
    (!both_say).then_some(Problem::AcrossSlots { earlier: number, name })
}

/// Returns whether a descriptor may match both rules; false only if certainly none does.
fn can_meet(one: &PolicyRule, other: &PolicyRule) -> bool {
    one.domain() == other.domain()
        && can_limit(one)
        && can_limit(other)
        && one.when_agrees(other)
        && names_agree(one, other)
}

fn can_limit(rule: &PolicyRule) -> bool {
    rule.mode() != Mode::Off
        && (0..rule.variants()).any(|variant| !rule.variant(variant).is_unlimited())
}

/// Returns whether a descriptor can have the entries that both rules require.
fn names_agree(one: &PolicyRule, other: &PolicyRule) -> bool {
    let ours = one.entry_names();
    let theirs = other.entry_names();
    // An exact rule matches no descriptor with further entries.
    match (one.spec().exact, other.spec().exact) {
        (true, true) => {
            ours.len() == theirs.len() && ours.iter().zip(&theirs).all(|(a, b)| can_be_one(a, b))
        }
        (true, false) => theirs.iter().all(|name| ours.iter().any(|our| can_be_one(our, name))),
        (false, true) => ours.iter().all(|name| theirs.iter().any(|their| can_be_one(their, name))),
        (false, false) => true,
    }
}

/// Returns whether one entry of a descriptor can have both names: `user` and `user#1` may name the same entry.
fn can_be_one(one: &str, other: &str) -> bool {
    without_place(one) == without_place(other)
}

/// The name of an entry without its place among entries of that name.
fn without_place(name: &str) -> &str {
    place_of(name).map_or(name, |(name, _)| name)
}

#[cfg(test)]
mod tests {
    use tidegate_core::AlgorithmKind;

    use super::*;
    use crate::rules::RuleSpec;
    use crate::settings::StoreUrl;

    fn settings(url: &str) -> StoreSettings {
        StoreSettings::new(url.parse::<StoreUrl>().unwrap())
    }

    fn rule(name: &str) -> RuleSpec {
        RuleSpec::new(name, Spec::new(AlgorithmKind::TokenBucket, 10, Duration::from_secs(1)))
    }

    fn queue(name: &str) -> RuleSpec {
        RuleSpec::new(name, Spec::new(AlgorithmKind::LeakyQueue, 10, Duration::from_secs(1)))
    }

    /// Returns the errors of rules in a cluster; one server reports none.
    fn errors(rules: &[RuleSpec]) -> String {
        let policy = Policy::new(rules.to_vec()).unwrap();
        assert_eq!(policy.fits(&settings("redis://a")), Ok(()));
        match policy.fits(&settings("redis+cluster://a")) {
            Ok(()) => String::new(),
            Err(errors) => errors.to_string(),
        }
    }

    #[test]
    fn rules_that_match_across_slots_are_refused_unless_they_may() {
        let (one, all) = (rule("one").key(["user"]), rule("all"));
        let both = errors(&[one.clone(), all.clone()]);
        assert!(both.starts_with("rule 2 (`all`)") && both.contains("rule `one`"), "{both}");
        assert!(both.contains("`hash_tag`") && both.contains("`across_slots = true`"), "{both}");
        assert!(errors(&[one.clone().across_slots(), all.clone()]).contains("rule 2"));
        assert_eq!(errors(&[one.clone().across_slots(), all.clone().across_slots()]), "");
        assert_eq!(errors(&[one.clone(), all.in_domain("another")]), "");
        assert_eq!(errors(&[one.clone(), rule("off").mode(Mode::Off)]), "");
        let open = RuleSpec::new("open", Spec::unlimited(AlgorithmKind::TokenBucket));
        assert_eq!(errors(&[one, open]), "");
    }

    #[test]
    fn rules_with_one_tag_share_a_slot_and_others_do_not() {
        let tagged = |name: &str, tag: &str| rule(name).key(["user", "ip"]).hash_tag(tag);
        assert_eq!(errors(&[tagged("a", "user"), tagged("b", "user")]), "");
        assert!(errors(&[tagged("a", "user"), tagged("b", "ip")]).contains("rule 2"));
        assert!(errors(&[tagged("a", "user"), rule("b").key(["user"])]).contains("rule 2"));
    }

    #[test]
    fn rules_that_no_descriptor_meets_together_are_let_be() {
        let when = |name: &str, value: &str| rule(name).when("path", value).key(["user"]);
        assert_eq!(errors(&[when("a", "x"), when("b", "y")]), "");
        assert_eq!(errors(&[when("a", "x*"), when("b", "y*")]), "");
        assert_eq!(errors(&[when("a", "x*"), when("b", "yx")]), "");
        for (one, other) in [("x", "x"), ("x*", "xy"), ("xy*", "x*"), ("*", "x")] {
            assert!(!errors(&[when("a", one), when("b", other)]).is_empty(), "{one} {other}");
        }
        let exact = |name: &str, key: &[&str]| rule(name).key(key.to_vec()).exact();
        assert_eq!(errors(&[exact("a", &["user"]), exact("b", &["user", "ip"])]), "");
        assert_eq!(errors(&[exact("a", &["user"]), rule("b").key(["user", "ip"])]), "");
        assert_eq!(errors(&[rule("b").key(["ip"]), exact("a", &["user"])]), "");
        assert!(!errors(&[exact("a", &["user"]), exact("b", &["user"])]).is_empty());
        assert!(!errors(&[exact("a", &["user", "ip"]), rule("b").key(["ip"])]).is_empty());
        // The first entry of a name has a name with a place as well.
        for first in [rule("b").key(["user#1"]), exact("b", &["user#1"])] {
            assert!(!errors(&[exact("a", &["user"]), first]).is_empty());
        }
    }

    #[test]
    fn two_queues_can_not_meet_across_slots_whatever_they_say() {
        let queues = ["a", "b"].map(|name| queue(name).key([name]).across_slots());
        assert!(errors(&queues).contains("gives nothing back"), "{}", errors(&queues));
        assert_eq!(errors(&[queue("a").across_slots(), rule("b").across_slots()]), "");
    }

    #[test]
    fn a_rule_across_slots_neither_remembers_nor_lets_wait() {
        let across = || rule("a").across_slots();
        let wait = OnExcess::Wait { wait: Duration::from_secs(1), max_waiters: 1 };
        let both = errors(&[across().dedupe(Duration::from_secs(1)).on_excess(wait)]);
        assert!(both.contains("no `dedupe`") && both.contains("`on_excess"), "{both}");
        let tagged = rule("a").key(["user"]).hash_tag("user");
        assert_eq!(errors(&[tagged.dedupe(Duration::from_secs(1)).on_excess(wait)]), "");
        assert_eq!(errors(&[across()]), "");
    }

    #[test]
    fn a_log_larger_than_a_value_of_the_store_is_refused_with_a_resolution_that_fits() {
        let mut spec = Spec::new(AlgorithmKind::SlidingLog, 60_000_000, Duration::from_secs(60));
        spec.max_memory = Some(1 << 40);
        let fits = |spec| {
            let policy = Policy::new(vec![RuleSpec::new("log", spec)]).unwrap();
            policy.fits(&settings("redis://a")).map_err(|errors| errors.to_string())
        };
        let errors = fits(spec).unwrap_err();
        assert!(errors.contains("600000237 bytes") && errors.contains("\"2us\""), "{errors}");
        spec.resolution = Some(Duration::from_micros(2));
        assert_eq!(fits(spec), Ok(()));
        (spec.resolution, spec.layout) = (None, Some(tidegate_core::Layout::SortedSet));
        assert_eq!(fits(spec), Ok(()));
    }
}
