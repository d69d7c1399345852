//! Nodes of two configurations over one store: the newest revision that has taken from a key decides for every node.
//! Windows are of days, so that the time of a test does not count; `tests/scripts/changed_values/revisions.rs` covers
//! the order of values over time.

use std::num::NonZeroU32;
use std::sync::Arc;

use super::{DAY, asked, log};
use crate::server::{Server, check, settings};
use std::time::Duration;
use tidegate::{
    AlgorithmKind, Descriptor, Limit, OnExcess, Policy, Request, Rule, RuleSpec, Setup, SharedGate,
    Spec,
};
use tokio::task::yield_now;

const TWO_DAYS: Duration = Duration::from_secs(2 * 86_400);

fn per_user(algorithm: AlgorithmKind, limit: u64, window: Duration) -> RuleSpec {
    let mut spec = Spec::new(algorithm, limit, window);
    spec.capacity = (algorithm == AlgorithmKind::LeakyQueue).then(|| limit - 1);
    RuleSpec::new("per-user", spec).key(["user"])
}

/// Makes a node that has just loaded a policy of this revision; 0 means none.
async fn node(server: &Server, revision: u32, rules: Vec<RuleSpec>) -> SharedGate {
    node_of(server, Setup::new(of_revision(revision, rules))).await
}

fn of_revision(revision: u32, rules: Vec<RuleSpec>) -> Policy {
    let policy = Policy::new(rules).unwrap();
    match NonZeroU32::new(revision) {
        Some(revision) => policy.with_revision(revision),
        None => policy,
    }
}

async fn node_of(server: &Server, setup: Setup) -> SharedGate {
    let gate = SharedGate::new(setup, settings(&server.url()), |_| {}).unwrap();
    gate.store().connected().await.unwrap();
    gate
}

#[tokio::test]
async fn an_old_node_is_decided_by_the_newer_values_that_have_taken_and_reports_them() {
    let server = Server::start(&[]);
    for revisions in [[1, 2], [0, 0]] {
        let old = node(&server, revisions[0], vec![log("per-user", 10)]).await;
        let user = format!("ada of {revisions:?}");
        assert_eq!(asked(&old, &user, 3).await, (true, vec![10]));
        let new = node(&server, revisions[1], vec![log("per-user", 5)]).await;
        assert_eq!(
            asked(&old, &user, 1).await,
            (true, vec![10]),
            "it has not found the newer values"
        );
        assert_eq!(asked(&new, &user, 2).await, (false, vec![5]));
        assert_eq!(
            asked(&old, &user, 0).await,
            (true, vec![10]),
            "a refusal puts nothing in force"
        );
        assert_eq!(asked(&new, &user, 0).await, (true, vec![5]));
        assert_eq!(asked(&old, &user, 0).await, (true, vec![10]), "nor does a look");
        assert_eq!(asked(&new, &user, 1).await, (true, vec![5]));
        let answer = check(&old, &user, 1).await;
        let decision = *answer.matched()[0].decision();
        assert_eq!((answer.is_allowed(), decision.limit, decision.remaining), (false, 5, 0));
        assert_eq!(asked(&old, "bob", 1).await, (true, vec![10]), "other keys are as they were");
        let entries = [("user", &*user)];
        let descriptors = [Descriptor::new(&entries).cost(2)];
        let refunded = old.refund(&Request::new("default", &descriptors)).await.unwrap();
        assert_eq!(refunded.matched()[0].decision().remaining, 2, "under the newer values");
        old.reset(&Request::new("default", &descriptors)).await.unwrap();
        assert_eq!(asked(&old, &user, 1).await, (true, vec![10]), "it begins as new");
        old.reset(&Request::new("default", &[Descriptor::new(&[("user", "bob")])])).await.unwrap();
    }
}

#[tokio::test]
async fn by_turns_every_algorithm_admits_what_the_newer_values_do_in_either_order() {
    let server = Server::start(&[]);
    for algorithm in AlgorithmKind::ALL.iter().copied() {
        for (name, old, new) in
            [("larger", (6, DAY), (9, TWO_DAYS)), ("smaller", (9, TWO_DAYS), (6, DAY))]
        {
            let old = node(&server, 1, vec![per_user(algorithm, old.0, old.1)]).await;
            let node_of_new = node(&server, 2, vec![per_user(algorithm, new.0, new.1)]).await;
            let user = format!("{algorithm} {name}");
            let mut admitted = 0;
            for turn in 0..60 {
                let gate = if turn < 4 || turn % 2 == 0 { &old } else { &node_of_new };
                let (allowed, limits) = asked(gate, &user, 1).await;
                admitted += u64::from(allowed);
                assert!(turn < 6 || limits == [new.0], "{user}: {limits:?} at {turn}");
            }
            assert_eq!(admitted, new.0, "{user}");
        }
    }
}

#[tokio::test]
async fn a_restart_makes_values_newer_unless_they_say_which_they_are() {
    let server = Server::start(&[]);
    for (words, then) in [([1, 2], 5), ([0, 0], 10)] {
        let user = format!("{words:?}");
        let old = node(&server, words[0], vec![log("per-user", 10)]).await;
        let new = node(&server, words[1], vec![log("per-user", 5)]).await;
        assert_eq!(asked(&new, &user, 1).await, (true, vec![5]));
        assert_eq!(asked(&old, &user, 1).await, (true, vec![5]));
        drop(old);
        let old = node(&server, words[0], vec![log("per-user", 10)]).await;
        assert_eq!(asked(&old, &user, 1).await, (true, vec![then]));
        assert_eq!(asked(&new, &user, 1).await, (true, vec![then]));
    }
    // With equal numbers the values loaded later are newer, and values with a number are newer than those
    // without.
    let first = node(&server, 3, vec![log("per-user", 10)]).await;
    let second = node(&server, 3, vec![log("per-user", 7)]).await;
    let without = node(&server, 0, vec![log("per-user", 4)]).await;
    assert_eq!(asked(&second, "same word", 1).await, (true, vec![7]));
    assert_eq!(asked(&first, "same word", 1).await, (true, vec![7]));
    assert_eq!(asked(&without, "same word", 1).await, (true, vec![7]));
}

#[tokio::test]
async fn values_that_were_changed_on_one_node_hold_for_the_keys_it_has_met() {
    let server = Server::start(&[]);
    for word in [0, 7] {
        let user = format!("word {word}");
        let one = node(&server, word, vec![log("per-user", 10)]).await;
        let other = node(&server, word, vec![log("per-user", 10)]).await;
        assert_eq!(asked(&one, &user, 4).await, (true, vec![10]));
        one.amend("default", "per-user", log("per-user", 6).spec).unwrap();
        assert_eq!(asked(&other, &user, 1).await, (true, vec![10]));
        assert_eq!(asked(&one, &user, 1).await, (true, vec![6]));
        assert_eq!(asked(&other, &user, 1).await, (false, vec![6]));
        one.amend("default", "per-user", log("per-user", 8).spec).unwrap();
        assert_eq!(asked(&one, &user, 1).await, (true, vec![8]));
        assert_eq!(asked(&other, &user, 1).await, (true, vec![8]));
        // A change back counts as a change.
        one.amend("default", "per-user", log("per-user", 10).spec).unwrap();
        assert_eq!(asked(&one, &user, 1).await, (true, vec![10]));
        assert_eq!(asked(&other, &user, 2).await, (false, vec![10]));
    }
}

#[tokio::test]
async fn of_several_rules_each_is_decided_by_its_own_newest_values() {
    let server = Server::start(&[]);
    let rules = |per_user, all| {
        let all = Spec::new(AlgorithmKind::TokenBucket, all, DAY);
        vec![log("per-user", per_user), RuleSpec::new("all", all)]
    };
    let old = node(&server, 1, rules(10, 100)).await;
    let middle = node(&server, 2, rules(10, 50)).await;
    let new = node(&server, 3, rules(5, 100)).await;
    let limits = |one, other| (true, vec![one, other]);
    assert_eq!(asked(&old, "ada", 1).await, limits(10, 100));
    assert_eq!(asked(&middle, "bob", 1).await, limits(10, 50));
    assert_eq!(asked(&old, "ada", 1).await, limits(10, 50));
    // One rule's values are older than this node's, the other's newer: `new` wrote `all`.
    assert_eq!(asked(&new, "eve", 1).await, limits(5, 100));
    assert_eq!(asked(&middle, "ada", 1).await, limits(10, 100));
    assert_eq!(asked(&new, "ada", 1).await, limits(5, 100));
    assert_eq!(asked(&old, "ada", 1).await, limits(5, 100));
    let full = asked(&old, "ada", 1).await;
    assert_eq!(full.1, limits(5, 100).1);
    assert!(!full.0, "one of the rules refuses, and none is charged");
    let answer = check(&old, "bob", 0).await;
    assert_eq!(answer.matched()[1].decision().remaining, 93);
}

#[tokio::test]
async fn an_id_is_answered_the_same_by_an_old_node_and_a_new_one() {
    let server = Server::start(&[]);
    let old = node(&server, 1, vec![log("per-user", 10).dedupe(DAY)]).await;
    let new = node(&server, 2, vec![log("per-user", 5).dedupe(DAY)]).await;
    let request = Request::from(Descriptor::new(&[("user", "ada")])).with_id("an id").unwrap();
    assert!(!new.check(&request).await.is_repeated());
    assert!(old.check(&request).await.is_repeated(), "the limiter is of the newer values");
    assert!(new.check(&request).await.is_repeated());
    assert_eq!(check(&old, "ada", 0).await.matched()[0].decision().remaining, 4);
}

#[tokio::test]
async fn plans_come_in_force_as_requests_bring_them_and_a_rules_own_values_by_revision() {
    let server = Server::start(&[]);
    let planned = |policy, limit| {
        let plan = Arc::new(Rule::new(log("per-user", limit).spec).unwrap());
        let of = move |descriptor: &Descriptor<'_>| {
            (descriptor.value("user") == Some("ada")).then(|| Arc::clone(&plan))
        };
        Setup::new(policy).plans("default", "per-user", of).unwrap()
    };
    let old = node_of(&server, planned(of_revision(1, vec![log("per-user", 10)]), 30)).await;
    let new = node_of(&server, planned(of_revision(2, vec![log("per-user", 5)]), 20)).await;
    for _ in 0..2 {
        assert_eq!(asked(&new, "ada", 1).await, (true, vec![20]));
        assert_eq!(
            asked(&old, "ada", 1).await,
            (true, vec![30]),
            "it is not known which plan is newer"
        );
    }
    assert_eq!(asked(&old, "bob", 1).await, (true, vec![10]));
    assert_eq!(asked(&new, "bob", 5).await, (false, vec![5]));
    assert_eq!(asked(&old, "bob", 1).await, (true, vec![10]), "a refusal puts nothing in force");
    assert_eq!(asked(&new, "bob", 1).await, (true, vec![5]));
    assert_eq!(asked(&old, "bob", 2).await, (true, vec![5]));
}

#[tokio::test]
async fn who_waits_on_an_old_node_goes_on_under_the_newer_values() {
    let server = Server::start(&[]);
    let wait = OnExcess::Wait { wait: Duration::from_secs(9 * 86_400), max_waiters: 9 };
    let old = Arc::new(node(&server, 1, vec![log("per-user", 10).on_excess(wait)]).await);
    assert_eq!(asked(&old, "ada", 10).await, (true, vec![10]));
    let waits = |gate: &SharedGate| gate.waiting(Descriptor::new(&[("user", "ada")]));
    let own = Arc::clone(&old);
    let waiter = tokio::spawn(async move {
        let request = Request::from(Descriptor::new(&[("user", "ada")]).cost(4));
        own.acquire(&request).await.matched()[0].values().spec().limit
    });
    while waits(&old) == 0 {
        assert!(!waiter.is_finished(), "it does not wait");
        yield_now().await;
    }
    let new = node(&server, 2, vec![log("per-user", 20)]).await;
    assert_eq!(asked(&new, "ada", 1).await, (true, vec![20]));
    // A refund on its node wakes the waiter, which asks again.
    let _ = old.refund(&Request::from(Descriptor::new(&[("user", "ada")]).cost(1))).await.unwrap();
    assert_eq!(waiter.await.unwrap(), Limit::Units(20));
    assert_eq!(check(&new, "ada", 0).await.matched()[0].decision().remaining, 6);
}
