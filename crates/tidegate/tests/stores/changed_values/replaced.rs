//! Policies that are replaced on the nodes of one store, one node after another: the values that decide during the
//! change.

use std::num::NonZeroU32;
use std::time::Duration;

use super::{asked, log, named, replace};
use crate::server::nodes::Nodes;
use crate::server::{Server, check, gate_over, lose, rule};
use tidegate::{
    AlgorithmKind, Descriptor, Limit, OnStoreError, Policy, Problem, Request, RuleSpec, SharedGate,
    Spec,
};
use tokio::time::timeout;

async fn nodes(server: &Server, rules: &[RuleSpec]) -> [SharedGate; 2] {
    [
        gate_over(&server.url(), rules.to_vec()).await.0,
        gate_over(&server.url(), rules.to_vec()).await.0,
    ]
}

#[tokio::test]
async fn the_node_that_replaces_first_decides_for_the_other_once_it_has_taken() {
    let server = Server::start(&[]);
    for algorithm in AlgorithmKind::ALL.iter().copied() {
        for next in [6, 20] {
            let name = format!("{algorithm}-{next}");
            let rules = |limit| vec![named(&name, algorithm, limit)];
            let [first, second] = nodes(&server, &rules(10)).await;
            assert_eq!(asked(&second, "ada", 2).await, (true, vec![10]));
            replace(&first, rules(next));
            assert_eq!(asked(&second, "ada", 1).await, (true, vec![10]), "{name}: not found yet");
            assert_eq!(asked(&first, "ada", 1).await, (true, vec![next]), "{name}");
            assert_eq!(
                asked(&second, "ada", 1).await,
                (true, vec![next]),
                "{name}: the newer ones"
            );
            assert_eq!(asked(&second, "bob", 1).await, (true, vec![10]), "{name}: another key");
            replace(&second, rules(next));
            let left = next - 5;
            assert!(!asked(&second, "ada", left + 1).await.0, "{name}");
            assert_eq!(asked(&second, "ada", left).await, (true, vec![next]), "{name}");
            assert!(!asked(&first, "ada", 1).await.0, "{name}: usage carries over");
            assert_eq!(asked(&first, "bob", 1).await, (true, vec![next]), "{name}");
        }
    }
}

#[tokio::test]
async fn a_change_of_one_rule_does_nothing_to_another() {
    let server = Server::start(&[]);
    let rules = |x, y| vec![log("x", x), log("y", y)];
    let [first, second] = nodes(&server, &rules(10, 10)).await;
    replace(&first, rules(30, 10));
    assert_eq!(asked(&first, "ada", 4).await, (true, vec![30, 10]));
    // This node changes `y` after the other changed `x`, which is as old here as before.
    replace(&second, rules(10, 40));
    assert_eq!(asked(&second, "ada", 1).await, (true, vec![30, 40]));
    assert_eq!(asked(&first, "ada", 1).await, (true, vec![30, 40]));
    // Caps and modes are not values.
    replace(&second, vec![log("x", 10).dedupe(Duration::from_secs(1)), log("y", 40)]);
    assert_eq!(asked(&second, "ada", 1).await, (true, vec![30, 40]));
}

#[tokio::test]
async fn a_rule_that_was_removed_and_is_added_with_other_values_is_newer_than_both() {
    let server = Server::start(&[]);
    let [first, second] = nodes(&server, &[log("r", 10)]).await;
    replace(&second, vec![log("r", 20)]);
    assert_eq!(asked(&second, "ada", 4).await, (true, vec![20]));
    assert_eq!(asked(&first, "ada", 1).await, (true, vec![20]));
    replace(&first, vec![]);
    assert_eq!(asked(&first, "ada", 1_000).await, (true, vec![]));
    for limit in [15, 10] {
        // Adding back the same values counts too: they were added after the other node's change.
        replace(&first, vec![log("r", limit)]);
        assert_eq!(asked(&first, "ada", 1).await, (true, vec![limit]));
        assert_eq!(asked(&second, "ada", 1).await, (true, vec![limit]), "{limit}");
        replace(&first, vec![]);
    }
    replace(&first, vec![log("r", 10)]);
    assert_eq!(asked(&first, "ada", 2).await, (false, vec![10]), "nine are used");
}

#[tokio::test]
async fn the_word_of_a_policy_is_the_newer_one_whenever_its_values_came_in_force() {
    let server = Server::start(&[]);
    let policy = |revision, limit| {
        let policy = Policy::new(vec![log("r", limit)]).unwrap();
        policy.with_revision(NonZeroU32::new(revision).unwrap())
    };
    let [first, second] = nodes(&server, &[log("r", 10)]).await;
    first.replace(policy(2, 20)).unwrap();
    assert_eq!(asked(&first, "ada", 1).await, (true, vec![20]));
    second.replace(policy(1, 30)).unwrap();
    assert_eq!(asked(&second, "ada", 1).await, (true, vec![20]), "later, and of an older word");
    second.replace(policy(3, 30)).unwrap();
    assert_eq!(
        asked(&second, "ada", 1).await,
        (true, vec![30]),
        "the same values, and a newer word"
    );
    assert_eq!(asked(&first, "ada", 1).await, (true, vec![30]));
}

#[tokio::test]
async fn a_request_in_flight_is_decided_under_the_policy_that_it_began_with() {
    let mut server = Server::start(&[]);
    let (gate, events) = gate_over(&server.url(), vec![log("a", 10), log("b", 10)]).await;
    assert!(asked(&gate, "ada", 1).await.0);
    server.signal("STOP");
    let mut begun = Box::pin(check(&gate, "ada", 2));
    assert!(timeout(Duration::ZERO, begun.as_mut()).await.is_err());
    replace(&gate, vec![log("b", 20), log("c", 30)]);
    server.signal("CONT");
    let answer = begun.await;
    assert!(answer.is_allowed() && !answer.is_degraded());
    let matched = answer.matched();
    let answers: Vec<_> = matched
        .iter()
        .map(|one| (one.rule().name(), one.values().spec().limit, one.decision().remaining))
        .collect();
    assert_eq!(answers, [("a", Limit::Units(10), 7), ("b", Limit::Units(10), 7)]);
    let policy = gate.policy();
    let in_force: Vec<_> = policy.rules().iter().map(|rule| rule.spec()).collect();
    assert_eq!(in_force, [&log("b", 20), &log("c", 30)]);
    assert!(!asked(&gate, "ada", 18).await.0 && asked(&gate, "ada", 17).await.0);
    // This process knows the units as well, under the rule's new position.
    lose(&mut server, &gate, &events).await;
    replace(&gate, vec![log("b", 30)]);
    assert!(
        !check(&gate, "ada", 11).await.is_allowed() && check(&gate, "ada", 10).await.is_allowed()
    );
}

/// This process knows nothing of a rule that is closed without the store.
#[tokio::test]
async fn a_cost_is_given_back_to_a_rule_that_was_removed_meanwhile_and_added_back() {
    let server = Server::start(&[]);
    let closed = || log("r", 10).on_store_error(OnStoreError::Closed);
    let (gate, _) = gate_over(&server.url(), vec![closed()]).await;
    let charge = gate.hold(Descriptor::new(&[("user", "ada")]).cost(6)).await.unwrap();
    for rules in [vec![], vec![log("other", 10)], vec![], vec![closed()]] {
        replace(&gate, rules);
    }
    assert!(!asked(&gate, "ada", 5).await.0);
    charge.settle(1).await.unwrap();
    assert!(asked(&gate, "ada", 9).await.0 && !asked(&gate, "ada", 1).await.0);
}

#[tokio::test]
async fn a_charge_is_not_settled_with_the_limiter_of_another_hash_tag() {
    let server = Server::start(&[]);
    let [gate, _] = nodes(&server, &[log("x", 10)]).await;
    let charge = gate.hold(Descriptor::new(&[("user", "ada")]).cost(6)).await.unwrap();
    replace(&gate, vec![log("x", 10).hash_tag("user")]);
    assert_eq!(asked(&gate, "ada", 8).await, (true, vec![10]), "its limiter has another key now");
    charge.release().await.unwrap();
    assert!(!asked(&gate, "ada", 3).await.0, "that rule took nothing of the charge");
    assert!(asked(&gate, "ada", 2).await.0);
}

#[tokio::test]
async fn what_does_not_fit_the_store_changes_nothing() {
    let cluster = Nodes::start(2, 0);
    let (gate, _) = gate_over(&cluster.url(), vec![log("r", 10)]).await;
    let answer = gate.replace(Policy::new(vec![log("r", 20), log("s", 5).key(["host"])]).unwrap());
    let problem = answer.unwrap_err().iter().next().unwrap().problem.clone();
    assert!(matches!(problem, Problem::AcrossSlots { .. }), "{problem}");
    let mut large = Spec::new(AlgorithmKind::SlidingLog, 60_000_000, Duration::from_secs(60));
    large.max_memory = Some(1 << 40);
    let answer = gate.replace(Policy::new(vec![RuleSpec::new("r", large)]).unwrap());
    let problem = answer.unwrap_err().iter().next().unwrap().problem.clone();
    assert!(matches!(problem, Problem::TooLargeForStore { .. }), "{problem}");
    assert_eq!(asked(&gate, "ada", 1).await, (true, vec![10]));
}

/// A request that waits for one rule is decided immediately if it now matches two rules in several slots, which
/// allow no waiting.
#[tokio::test]
async fn who_waits_is_decided_across_slots_where_its_rules_live_there_by_now() {
    let cluster = Nodes::start(2, 0);
    let wait = tidegate::OnExcess::Wait { wait: Duration::from_secs(9 * 86_400), max_waiters: 9 };
    let (gate, _) = gate_over(&cluster.url(), vec![log("r", 10).on_excess(wait)]).await;
    for (limit, goes_on) in [(20, true), (11, false)] {
        replace(&gate, vec![log("r", 10).on_excess(wait)]);
        let descriptors = [Descriptor::new(&[("user", "ada")])];
        gate.reset(&Request::new("default", &descriptors)).await.unwrap();
        assert!(asked(&gate, "ada", 10).await.0);
        let request = Request::from(Descriptor::new(&[("user", "ada")]).cost(2));
        let mut waits = Box::pin(gate.acquire(&request));
        while gate.waiting(&request) == 0 {
            assert!(timeout(Duration::from_millis(1), waits.as_mut()).await.is_err());
        }
        let all = RuleSpec::new("all", rule(AlgorithmKind::SlidingLog, 100).spec);
        replace(&gate, vec![log("r", limit).across_slots(), all.across_slots()]);
        let answer = waits.await;
        assert!(!answer.is_degraded() && answer.is_allowed() == goes_on, "{answer:?}");
        assert_eq!((answer.matched().len(), gate.waiting(&request)), (2, 0));
    }
}
