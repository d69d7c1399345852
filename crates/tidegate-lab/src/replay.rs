//! Replay: the decisions that a policy would have made over a trace, by the engine that makes them
//! live.

use std::collections::BTreeSet;
use std::sync::Arc;

use tidegate::{Answer, Gate, Policy, PolicyRule, Timestamp};

use crate::trace::{Event, Options};

/// Options of reading a trace for this policy: only the entries that its rules look at are kept.
#[must_use]
pub fn options<'a>(policy: &Policy) -> Options<'a> {
    let mut kept = BTreeSet::new();
    for spec in policy.rules().iter().map(PolicyRule::spec) {
        if spec.exact {
            return Options::new(); // such a rule looks for entries that it does not name
        }
        let when = spec.when.iter().chain(spec.overrides.iter().flat_map(|other| &other.entries));
        for name in when.map(|(name, _)| name).chain(&spec.key) {
            kept.insert(name.clone());
            // `user#2` is the second entry of the name `user`, or the entry of that very name.
            kept.extend(name.rsplit_once('#').map(|(name, _)| name.to_owned()));
        }
    }
    Options::new().only_entries(kept)
}

/// A policy, and limiters that start fresh and use the time of the trace.
#[derive(Debug)]
pub struct Replay {
    gate: Gate<Timestamp>,
}

impl Replay {
    /// Creates a replay without any limiter yet.
    #[must_use]
    pub fn new(policy: Policy) -> Self {
        Self { gate: Gate::with_clock(policy, Timestamp::EPOCH) }
    }

    /// The policy that decides.
    #[must_use]
    pub fn policy(&self) -> Arc<Policy> {
        self.gate.policy()
    }

    /// Decides one request at its recorded time.
    pub fn decide(&self, event: &Event<'_>) -> Answer<'_> {
        let at = Timestamp::from_micros(event.at_us);
        event.request(|| self.policy(), |request| self.gate.check_at(request, at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;
    use tidegate::{AlgorithmKind, Descriptor, OnNoRule, OverrideSpec, Request, RuleSpec, Spec};

    use crate::trace::{self, Source};

    const LINE: &str = r#"{"at_us": 1, "descriptor": {"a": "1", "b": "2", "c": "3", "d": "4"}}"#;

    fn kept(rules: Vec<RuleSpec>) -> String {
        let options = options(&Policy::new(rules).unwrap());
        let mut sorted = trace::read(Source::from_reader("", LINE.as_bytes()), options).unwrap();
        let batch = sorted.next_batch().unwrap().unwrap();
        let event = batch.events().next().unwrap().unwrap();
        event.descriptor.iter().map(|(name, value)| format!("{name}{value}")).collect()
    }

    fn rule(name: &str) -> RuleSpec {
        RuleSpec::new(name, Spec::new(AlgorithmKind::TokenBucket, 1, Duration::from_secs(1)))
    }

    #[test]
    fn only_entries_that_a_rule_looks_at_are_kept() {
        let (all, keyed, conditional) = (rule("x"), rule("y").key(["d"]), rule("z").when("b", "*"));
        assert_eq!(kept(vec![all.clone()]), "");
        assert_eq!(kept(vec![all, keyed.clone(), conditional]), "b2d4");
        let other = OverrideSpec::new("d", "4");
        assert_eq!(kept(vec![keyed.with_override(other)]), "d4");
    }

    /// A domain, and entries in their order.
    type Asked<'a> = (&'a str, &'a [(&'a str, &'a str)]);

    /// Asserts that a replay admits just these requests, and that a gate that is asked for them does so too.
    fn decides(policy: Policy, asked: &[(Asked<'_>, bool)]) {
        let live = Gate::with_clock(policy.clone(), Timestamp::EPOCH);
        let lines = asked.iter().map(|((domain, entries), _)| {
            let entries = entries.iter().map(|(name, value)| format!("{name:?}: {value:?}"));
            let entries = entries.collect::<Vec<_>>().join(", ");
            format!("{{\"at_us\": 1, \"domain\": {domain:?}, \"descriptor\": {{{entries}}}}}\n")
        });
        let text: String = lines.collect();
        let source = Source::from_reader("", std::io::Cursor::new(text));
        let mut sorted = trace::read(source, options(&policy)).unwrap();
        let (replay, mut replayed) = (Replay::new(policy), Vec::new());
        while let Some(batch) = sorted.next_batch().unwrap() {
            let admitted = batch.events().map(|event| replay.decide(&event.unwrap()).is_allowed());
            replayed.extend(admitted);
        }
        let expected: Vec<_> = asked.iter().map(|(_, admitted)| *admitted).collect();
        assert_eq!(replayed, expected);
        for ((domain, entries), admitted) in asked {
            let descriptors = [Descriptor::new(entries)];
            let answer =
                live.check_at(&Request::new(domain, &descriptors), Timestamp::from_micros(1));
            assert_eq!(answer.is_allowed(), *admitted, "{entries:?}");
        }
    }

    /// A rule that admits one request of each key.
    fn one_each(domain: &str, key: &[&str]) -> RuleSpec {
        let hour = Duration::from_secs(3_600);
        let spec = Spec::new(AlgorithmKind::TokenBucket, 1, hour);
        RuleSpec::new("r", spec).in_domain(domain).key(key.iter().copied())
    }

    #[test]
    fn entries_of_one_name_are_distinguished_by_their_places_as_live() {
        let policy = Policy::new(vec![one_each("default", &["path", "path#2"])]).unwrap();
        let two = |second: &'static str| [("path", "a"), ("ip", "x"), ("path", second)];
        let (b, c, one) = (two("b"), two("c"), [("path", "a")]);
        let named = [("path", "a"), ("path#2", "b")];
        decides(
            policy,
            &[
                (("default", &b), true),
                (("default", &c), true),
                (("default", &b), false),
                (("default", &one), true),
                (("default", &one), true),
                (("default", &named), false),
            ],
        );
    }

    /// An entry that a rule names by its place alone was left out when the trace was read.
    #[test]
    fn an_entry_that_is_named_by_its_place_alone_is_kept() {
        let policy = Policy::new(vec![one_each("default", &["path#2"])]).unwrap();
        let (b, c) = ([("path", "a"), ("path", "b")], [("path", "a"), ("path", "c")]);
        decides(
            policy,
            &[(("default", &b), true), (("default", &c), true), (("default", &b), false)],
        );
    }

    #[test]
    fn a_request_that_no_rule_matches_is_refused_where_the_policy_says_so_as_live() {
        let known = [("user", "ann")];
        let unknown = [("usr", "ann")];
        let pay = || Policy::new(vec![one_each("pay", &["user"])]).unwrap();
        for (policy, elsewhere, in_pay) in [
            (pay(), true, true),
            (pay().with_on_no_rule(OnNoRule::Refuse), false, false),
            (pay().with_on_no_rule_in("pay", OnNoRule::Refuse), true, false),
        ] {
            decides(
                policy,
                &[
                    (("pay", &known), true),
                    (("pay", &known), false),
                    (("pay", &unknown), in_pay),
                    (("shop", &known), elsewhere),
                ],
            );
        }
    }

    #[test]
    fn all_entries_are_kept_for_a_rule_that_allows_no_others() {
        assert_eq!(kept(vec![rule("x").key(["d"]), rule("y").when("b", "2").exact()]), "a1b2c3d4");
    }
}
