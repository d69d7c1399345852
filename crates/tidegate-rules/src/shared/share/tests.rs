//! The shares of all nodes together, for limits, capacities, initial tokens and overrides.

use std::time::Duration;

use super::*;
use proptest::prelude::*;
use tidegate_core::{AlgorithmKind, Limit, Spec};

use crate::rules::OverrideSpec;

fn bucket(limit: u64) -> Spec {
    Spec::new(AlgorithmKind::TokenBucket, limit, Duration::from_secs(1))
}

fn rule(limit: u64) -> RuleSpec {
    RuleSpec::new("r", bucket(limit))
}

fn units(limit: Limit) -> u64 {
    match limit {
        Limit::Units(units) => units,
        Limit::Unlimited => panic!("unlimited"),
    }
}

/// Returns the sums of the shares of all ranks: of the limit, of the capacity, and of the initial tokens of
/// nodes that have a share of the limit.
fn sums(whole: &Rule, nodes: u64) -> [u64; 3] {
    let mut sums = [0; 3];
    for share in (0..nodes).map(|rank| Share::of_rank(nodes, rank)) {
        if share.has_none(whole) {
            continue;
        }
        let part = share.rule(whole);
        let spec = part.spec();
        sums[0] += units(spec.limit);
        sums[1] += spec.capacity.unwrap_or_default();
        sums[2] += spec.initial.unwrap_or_default();
    }
    sums
}

proptest! {
    #[test]
    fn the_shares_of_all_nodes_are_never_more_than_the_whole(
        limit in 0_u64..2_000_000_000,
        capacity in proptest::option::of(1_u64..1_000),
        initial in 0_u64..1_000,
        nodes in 1_u64..40,
    ) {
        let mut spec = bucket(limit);
        spec.capacity = capacity;
        spec.initial = Some(initial.min(capacity.unwrap_or(limit)));
        let Ok(whole) = Rule::new(spec) else { return Ok(()) };
        let [limits, capacities, initials] = sums(&whole, nodes);
        prop_assert!(limits <= limit && initials <= initial);
        prop_assert!(capacities <= capacity.unwrap_or_default());
        let all_have = limit >= nodes && capacity.is_none_or(|units| units >= nodes);
        // If every node has a share, nothing is lost either.
        if all_have {
            prop_assert_eq!((limits, capacities), (limit, capacity.unwrap_or_default()));
        }
        let rounded_down = Share::of(Some(nodes));
        prop_assert!(rounded_down.has_none(&whole) || units(rounded_down.rule(&whole).spec().limit) * nodes <= limit);
    }
}

#[test]
fn a_limit_below_the_number_of_nodes_is_that_of_the_first_of_them() {
    for limit in 0..6 {
        let whole = Rule::new(bucket(limit)).unwrap();
        let shares = (0..3).map(|rank| Share::of_rank(3, rank));
        let of_each = shares.map(|share| match share.has_none(&whole) {
            true => 0,
            false => units(share.rule(&whole).spec().limit),
        });
        let expected =
            [[0, 0, 0], [1, 0, 0], [1, 1, 0], [1, 1, 1], [2, 1, 1], [2, 2, 1]][limit as usize];
        assert_eq!(of_each.collect::<Vec<_>>(), expected);
    }
}

#[test]
fn overrides_are_split_as_the_rule_is() {
    let mut other = OverrideSpec::new("user", "ada");
    (other.limit, other.capacity) = (Some(Limit::Units(7)), Some(2));
    let whole = rule(30).key(["user"]).with_override(other);
    let policy = Policy::new(vec![whole]).unwrap();
    let [own, ada] = [0, 1].map(|variant| policy.rules()[0].variant(variant));
    let part = |rule| *Share::of_rank(3, 1).rule(rule).spec();
    assert_eq!(part(own).limit, Limit::Units(10));
    assert_eq!((part(ada).limit, part(ada).capacity), (Limit::Units(2), Some(1)));
    assert!(!Share::of_rank(3, 2).has_none(own) && Share::of_rank(3, 2).has_none(ada));
    assert!(Share::of_rank(3, 0).is_too_small(&policy.rules()[0]));
    assert!(!Share::of_rank(2, 0).is_too_small(&policy.rules()[0]));
}

#[test]
fn a_queue_without_places_still_lets_one_request_after_another_through() {
    let mut spec = Spec::new(AlgorithmKind::LeakyQueue, 6, Duration::from_secs(1));
    spec.capacity = Some(2);
    let whole = Rule::new(spec).unwrap();
    let share = Share::of_rank(3, 2);
    assert!(!share.has_none(&whole));
    assert_eq!(share.rule(&whole).spec().capacity, Some(0));
}

#[test]
fn unlimited_stays_unlimited_and_rules_that_are_closed_have_no_share() {
    let all = Rule::new(Spec::unlimited(AlgorithmKind::TokenBucket)).unwrap();
    assert!(Share::of(Some(3)).rule(&all).is_unlimited() && !Share::of(Some(3)).has_none(&all));
    let closed = rule(1).on_store_error(OnStoreError::Closed);
    let policy = Policy::new(vec![closed]).unwrap();
    assert!(!Share::of(Some(3)).is_too_small(&policy.rules()[0]));
}
