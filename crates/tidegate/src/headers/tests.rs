//! The values of the fields, and the statuses, of answers by several rules.

use super::*;
use crate::{Descriptor, Gate, Mode, OverrideSpec, Policy, Request, RuleSpec};
use std::time::Duration;
use tidegate_core::{AlgorithmKind, Spec, Timestamp};

/// Ten an hour for each user, a hundred for `vip`.
fn per_user() -> RuleSpec {
    let spec = Spec::new(AlgorithmKind::SlidingLog, 10, Duration::from_secs(3600));
    let mut vip = OverrideSpec::new("user", "vip");
    vip.limit = Some(Limit::Units(100));
    RuleSpec::new("per-user", spec).key(["user"]).with_override(vip)
}

fn for_all() -> RuleSpec {
    RuleSpec::new("all", Spec::new(AlgorithmKind::SlidingLog, 50, Duration::from_secs(60)))
}

#[test]
fn the_reset_is_seconds_or_a_time_in_seconds_both_rounded_up() {
    for (reset_field, expected) in [(ResetField::Seconds, "3600"), (ResetField::Unix, "3661")] {
        let policy = Policy::new(vec![per_user()]).unwrap().with_reset_field(reset_field);
        let gate = Gate::with_clock(policy, Timestamp::from_micros(60_000_001));
        let (ada, vip) = ([("user", "ada")], [("user", "vip")]);
        let descriptors = [Descriptor::new(&ada), Descriptor::new(&vip)];
        let fields = of(&gate.check(Request::new("default", &descriptors)));
        assert_eq!(fields[2], ("X-RateLimit-Reset", expected.to_owned()));
    }
}

#[test]
fn a_limit_of_nothing_is_403_and_has_neither_a_reset_nor_a_wait() {
    for (reset_field, window) in
        [(ResetField::Seconds, None), (ResetField::Unix, Some(Duration::from_secs(60)))]
    {
        let mut spec = Spec::new(AlgorithmKind::SlidingLog, 0, Duration::from_secs(60));
        spec.window = window;
        let policy = Policy::new(vec![for_all(), RuleSpec::new("none", spec)]).unwrap();
        let gate = Gate::new(policy.with_reset_field(reset_field));
        let answer = gate.check(&[]);
        assert_eq!(status(&answer), 403);
        let fields = of(&answer);
        let fields: Vec<_> = fields.iter().map(|(name, value)| (*name, value.as_str())).collect();
        assert_eq!(
            fields,
            [
                ("X-RateLimit-Limit", "0"),
                ("X-RateLimit-Remaining", "0"),
                ("RateLimit-Policy", r#""all";q=50;w=60, "none";q=0"#),
                ("RateLimit", r#""all";r=50, "none";r=0"#),
            ]
        );
        // A cost that is too large is something else.
        let policy = Policy::new(vec![for_all()]).unwrap();
        let gate = Gate::new(policy);
        assert_eq!(status(&gate.check(Request::from(Descriptor::new(&[]).cost(51)))), 422);
    }
}

#[test]
fn no_field_has_more_seconds_than_a_number_of_32_bits() {
    const MOST: u64 = i32::MAX as u64;
    let mut spec = Spec::new(AlgorithmKind::TokenBucket, 1, Duration::from_secs(366 * 86_400));
    spec.capacity = Some(200);
    let descriptors = [Descriptor::new(&[]).cost(200)];
    for reset_field in [ResetField::Seconds, ResetField::Unix] {
        let policy = Policy::new(vec![RuleSpec::new("a", spec)]).unwrap();
        let now = Timestamp::from_micros(1_795_000_000_000_000);
        let gate = Gate::with_clock(policy.with_reset_field(reset_field), now);
        for status_of_it in [200, 429] {
            let answer = gate.check(Request::new("default", &descriptors));
            assert_eq!(status(&answer), status_of_it);
            let fields = of(&answer);
            for (name, value) in &fields {
                let numbers = value.split(|c: char| !c.is_ascii_digit());
                let numbers = numbers.filter(|number| !number.is_empty());
                let largest = numbers.map(|number| number.parse::<u64>().unwrap()).max();
                assert!(largest.is_some_and(|largest| largest <= MOST), "{name}: {value}");
            }
            assert_eq!(fields[2], ("X-RateLimit-Reset", MOST.to_string()));
        }
    }
}

/// The values of both fields for a request with these users and costs.
fn fields(rules: Vec<RuleSpec>, users: &[(&str, u64)]) -> (String, String) {
    let gate = Gate::with_clock(Policy::new(rules).unwrap(), Timestamp::from_micros(1 << 40));
    let entries: Vec<_> = users.iter().map(|(user, cost)| ([("user", *user)], *cost)).collect();
    let descriptors: Vec<_> =
        entries.iter().map(|(entries, cost)| Descriptor::new(entries).cost(*cost)).collect();
    let fields = of(&gate.check(&Request::new("default", &descriptors)));
    let field = |name| fields.iter().find(|(field, _)| *field == name).unwrap().1.clone();
    (field("RateLimit-Policy"), field("RateLimit"))
}

#[test]
fn one_rule_under_two_keys_is_one_policy_and_two_partitions() {
    let (policies, limits) = fields(vec![for_all(), per_user()], &[("bob", 3), ("ann", 1)]);
    assert_eq!(policies, r#""all";q=50;w=60, "per-user";q=10;w=3600"#);
    assert_eq!(
        limits,
        r#""all";r=46;t=60, "per-user";r=7;t=3600;pk=:MQ==:, "per-user";r=9;t=3600;pk=:Mg==:"#
    );
}

#[test]
fn a_name_that_occurs_once_has_no_partition() {
    let expected = r#""all";r=48;t=60, "per-user";r=8;t=3600"#;
    let (_, limits) = fields(vec![for_all(), per_user()], &[("bob", 2)]);
    assert_eq!(limits, expected);
    let (_, limits) = fields(vec![for_all(), per_user()], &[("bob", 1), ("bob", 1)]);
    assert_eq!(limits, expected, "the same key twice is one limiter");
}

#[test]
fn a_partition_tells_nothing_of_the_key() {
    let one = fields(vec![per_user()], &[("bob", 1), ("ann", 1)]);
    let other = fields(vec![per_user()], &[("someone-else", 1), ("", 1)]);
    assert_eq!(one, other);
}

#[test]
fn a_policy_is_named_once_also_when_an_override_holds_for_one_of_its_keys() {
    for users in [[("bob", 1), ("vip", 1)], [("vip", 1), ("bob", 1)]] {
        let (policies, limits) = fields(vec![per_user()], &users);
        assert_eq!(policies, r#""per-user";q=10;w=3600"#, "that which holds least");
        assert_eq!(limits.matches("pk=").count(), 2, "{limits}");
    }
    let (policies, _) = fields(vec![per_user()], &[("vip", 1)]);
    assert_eq!(policies, r#""per-user";q=100;w=3600"#);
}

#[test]
fn in_a_refusal_no_partition_that_admits_tells_a_time() {
    let (_, limits) = fields(vec![per_user()], &[("bob", 11), ("ann", 1)]);
    assert_eq!(limits, r#""per-user";r=10;pk=:MQ==:, "per-user";r=10;pk=:Mg==:"#);
    let shadow = per_user().mode(Mode::Shadow);
    let (policies, limits) = fields(vec![for_all(), shadow], &[("bob", 1), ("ann", 1)]);
    assert_eq!((policies.as_str(), limits.as_str()), (r#""all";q=50;w=60"#, r#""all";r=48;t=60"#));
}

#[test]
fn both_lists_are_structured_fields_in_canonical_form() {
    let spec = Spec::new(AlgorithmKind::TokenBucket, 1_000_000, Duration::from_secs(86_400));
    let large = RuleSpec::new("a.b_c-9", spec);
    for users in [&[("bob", 3)][..], &[("bob", 3), ("ann", 11)], &[("vip", 1), ("bob", 0)]] {
        let (policies, limits) = fields(vec![for_all(), per_user(), large.clone()], users);
        for list in [policies, limits] {
            let read: sfv::List = sfv::Parser::new(&list).parse().unwrap();
            assert_eq!(sfv::FieldType::serialize(&read), Some(list));
        }
    }
}
