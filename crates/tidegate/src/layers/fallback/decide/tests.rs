//! Tests of the units that all nodes admit together, and of a node's usage when its share changes.

use std::time::Duration;

use tidegate_core::{AlgorithmKind, Spec};
use tidegate_rules::shared::Share;

use super::*;
use crate::rules::RuleSpec;
use crate::store::fake::{self, host};

fn rule(algorithm: AlgorithmKind, limit: u64) -> RuleSpec {
    RuleSpec::new("r", Spec::new(algorithm, limit, Duration::from_secs(86_400))).key(["user"])
}

fn fallback(rule: RuleSpec, share: Share) -> Local {
    Local::new(Policy::new(vec![rule]).unwrap(), share, host())
}

fn ada(cost: u64) -> [KeyAsk; 1] {
    [fake::ask(0, "ada", cost)]
}

fn decide(
    fallback: &Local,
    cost: u64,
    verb: Verb,
    id: Option<RequestIdentity<'_>>,
    error: &StoreError,
) -> (Done<Option<Decided>>, Standing) {
    fallback.decide(
        &fallback.memory.newest().without_tables(),
        &ada(cost),
        verb,
        id,
        error,
        (|_: &Rule| true, |_: &KeyAsk| None),
    )
}

const fn check(id: &str) -> RequestIdentity<'_> {
    RequestIdentity { id, reserves: false, reservation: None }
}

fn ask(fallback: &Local, cost: u64, id: Option<RequestIdentity<'_>>) -> Done<Option<Decided>> {
    let error = StoreError::Overloaded { together: false };
    let (done, standing) = decide(fallback, cost, Verb::Ask, id, &error);
    assert_eq!(standing, Standing::Degraded(Lack::Overloaded));
    done
}

fn decision(done: &Done<Option<Decided>>) -> Decision {
    done.decisions[0].as_ref().unwrap().decision
}

/// Notes that the store reported this decision about a request of this cost.
fn learn(fallback: &Local, cost: u64, decision: Decision) {
    let generation = fallback.memory.newest().without_tables();
    fallback.learn_left(&generation, &ada(cost), |_| Some(decision));
}

#[test]
fn all_nodes_together_admit_the_limit_and_never_more() {
    let buckets = [AlgorithmKind::TokenBucket, AlgorithmKind::LeakyBucket];
    let windows =
        [AlgorithmKind::FixedWindow, AlgorithmKind::SlidingWindow, AlgorithmKind::SlidingLog];
    for algorithm in buckets.into_iter().chain(windows) {
        for (limit, nodes) in (0..=9).flat_map(|limit| (1..=6).map(move |nodes| (limit, nodes))) {
            let mut whole = rule(algorithm, limit);
            if buckets.contains(&algorithm) && limit > 1 {
                whole.spec.capacity = Some(limit - 1);
            }
            let holds = whole.spec.capacity.unwrap_or(limit);
            let of_node = |rank| {
                let fallback = fallback(whole.clone(), Share::of_rank(nodes, rank));
                (0..=limit).filter(|_| ask(&fallback, 1, None).allowed).count() as u64
            };
            let admitted: Vec<u64> = (0..nodes).map(of_node).collect();
            let sum: u64 = admitted.iter().sum();
            assert_eq!(sum, holds, "{algorithm}: {limit} among {nodes}: {admitted:?}");
        }
    }
}

#[test]
fn an_id_is_answered_the_same_whatever_the_share_is_by_then() {
    let fallback = fallback(
        rule(AlgorithmKind::SlidingLog, 4).dedupe(Duration::from_secs(60)),
        Share::of(None),
    );
    let first = ask(&fallback, 2, Some(check("a")));
    assert!(first.allowed && !first.repeated);
    fallback.split(Share::of_rank(3, 2));
    let again = ask(&fallback, 2, Some(check("a")));
    assert!(again.allowed && again.repeated);
    assert!(!ask(&fallback, 1, Some(check("b"))).allowed, "usage carries over");
    fallback.split(Share::of_rank(1, 0));
    let left = (0..9).filter(|_| ask(&fallback, 1, None).allowed).count();
    assert_eq!(left, 2, "and is no credit when the share grows again");
}

#[test]
fn who_has_no_share_denies_for_now_and_is_not_unavailable() {
    let fallback = fallback(rule(AlgorithmKind::TokenBucket, 2), Share::of_rank(3, 2));
    let done = ask(&fallback, 1, None);
    assert!(!done.allowed);
    let decided = decision(&done);
    let soon = Duration::from_millis(100)..Duration::from_millis(200);
    assert!(decided.retry_after().is_some_and(|wait| soon.contains(&wait)), "{decided:?}");
    assert_eq!(decided.remaining, 0);
    assert_eq!(decision(&ask(&fallback, 3, None)).outcome, Outcome::Never);
    assert!(ask(&fallback, 0, None).allowed);
}

#[test]
fn a_cost_above_a_nodes_share_is_denied_for_now_and_one_above_the_limit_for_ever() {
    for algorithm in
        [AlgorithmKind::TokenBucket, AlgorithmKind::SlidingLog, AlgorithmKind::FixedWindow]
    {
        let overloaded = StoreError::Overloaded { together: false };
        for (error, waits_ms) in [(overloaded, 100..=199), (StoreError::Away, 1_000..=1_000)] {
            let fallback = fallback(rule(algorithm, 20), Share::of_rank(4, 0));
            let ask = |cost| decide(&fallback, cost, Verb::Ask, None, &error).0;
            let decided = |cost| decision(&ask(cost));
            let (now, never) = (decided(8), decided(21));
            let wait_ms = now.retry_after().unwrap().as_millis();
            assert!(waits_ms.contains(&wait_ms), "{error:?}: {wait_ms}");
            assert_eq!((now.remaining, never.outcome), (5, Outcome::Never), "{algorithm}");
            assert!(ask(5).allowed, "{algorithm}: nothing was taken");
        }
    }
}

#[test]
fn what_many_ask_for_together_is_admitted_here_only_where_plenty_was_left() {
    let together = StoreError::Overloaded { together: true };
    let alone = StoreError::Overloaded { together: false };
    let admits = |fallback: &Local, error: &StoreError| {
        let (done, _) = decide(fallback, 1, Verb::Ask, None, error);
        assert_ne!(decision(&done).outcome, Outcome::Never, "for now");
        done.allowed
    };
    let left = |fallback: &Local, remaining| {
        let peeked = decision(&decide(fallback, 1, Verb::Peek, None, &alone).0);
        learn(fallback, 1, Decision { remaining, ..peeked });
    };
    let fallback = fallback(rule(AlgorithmKind::FixedWindow, 20_000), Share::of(None));
    assert!(!admits(&fallback, &together), "nothing is known");
    assert!(admits(&fallback, &alone));
    assert!(admits(&fallback, &StoreError::Timeout));
    left(&fallback, 10_000);
    assert!(admits(&fallback, &together) && admits(&fallback, &alone));
    left(&fallback, 9_999);
    assert!(!admits(&fallback, &together) && !admits(&fallback, &alone));
    assert!(admits(&fallback, &StoreError::Timeout), "no other decides");
    left(&fallback, 20_000);
    assert!(admits(&fallback, &together) && admits(&fallback, &alone));
}

#[test]
fn plenty_is_so_much_of_the_cost_that_is_asked_for() {
    let together = StoreError::Overloaded { together: true };
    let fallback = fallback(rule(AlgorithmKind::FixedWindow, 100_000), Share::of(None));
    let admits = |cost| decide(&fallback, cost, Verb::Ask, None, &together).0.allowed;
    for cost in [0, 1] {
        let looked = decision(&ask(&fallback, 0, None));
        learn(&fallback, cost, Decision { remaining: 50_000, ..looked });
        assert!(admits(5) && !admits(6), "units for 8,333 such requests are left");
    }
}

#[test]
fn half_of_a_small_limit_is_not_plenty() {
    let together = StoreError::Overloaded { together: true };
    let fallback = fallback(rule(AlgorithmKind::SlidingLog, 100), Share::of(None));
    let asked = ask(&fallback, 1, None);
    learn(&fallback, 1, decision(&asked));
    assert!(!decide(&fallback, 1, Verb::Ask, None, &together).0.allowed);
    assert!(ask(&fallback, 1, None).allowed, "few ask");
}

/// The units left were read twice. Between the two reads an older reply turned "little is left" into "unknown", so a
/// request was admitted here while many others asked the store: the 501st of 500.
#[test]
fn replies_of_others_while_a_request_is_decided_admit_nothing_that_many_ask_for() {
    let error = StoreError::Overloaded { together: true };
    let fallback = fallback(rule(AlgorithmKind::SlidingLog, 500), Share::of(None));
    let looked = decision(&ask(&fallback, 0, None));
    let generation = fallback.memory.newest().without_tables();
    let answer = |remaining| learn(&fallback, 1, Decision { remaining, ..looked });
    for (before, meanwhile) in [(200, 400), (400, 200)] {
        answer(before);
        let replies_come = |_: &KeyAsk| {
            answer(meanwhile);
            None
        };
        let can_hold = |_: &Rule| true;
        let asked = ada(1);
        let (done, _) =
            fallback.decide(&generation, &asked, Verb::Ask, None, &error, (can_hold, replies_come));
        assert!(!done.allowed, "{before} units were left, and then {meanwhile}");
    }
}
