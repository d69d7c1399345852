//! Changes of a rule's values over a store: on several nodes, of which the newest values that have taken from a key decide
//! for every node, and while requests are under way. Behaviours of every gate are in
//! `tests/conformance/changed_values`; `tests/scripts/changed_values` covers the order of values over time.
//!
//! Windows are of days, so that the time of a test does not count.

mod away;

use std::collections::HashMap;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use tidegate::{
    AlgorithmKind, AmendError, Descriptor, Limit, OnExcess, OnStoreError, Policy, Problem, Request,
    Rule, RuleSpec, Setup, SharedGate, Spec,
};
use tokio::task::yield_now;
use tokio::time::timeout;

use crate::server::nodes::Nodes;
use crate::server::{Server, check, gate_over, lose, proxied, rule, served, settings};

pub(crate) const DAY: Duration = Duration::from_secs(86_400);

/// A rule of `limit` units a day for each user, which also a queue admits immediately.
fn named(name: &str, algorithm: AlgorithmKind, limit: u64) -> RuleSpec {
    let mut rule = rule(algorithm, limit);
    rule.spec.capacity = (algorithm == AlgorithmKind::LeakyQueue).then(|| limit - 1);
    name.clone_into(&mut rule.name);
    rule
}

pub(crate) fn per_day(algorithm: AlgorithmKind, limit: u64) -> Spec {
    named("", algorithm, limit).spec
}

fn log(name: &str, limit: u64) -> RuleSpec {
    named(name, AlgorithmKind::SlidingLog, limit)
}

fn replace(gate: &SharedGate, rules: Vec<RuleSpec>) {
    gate.replace(Policy::new(rules).unwrap()).unwrap();
}

/// Returns whether a request is admitted, and the limits that decided.
async fn asked(gate: &SharedGate, user: &str, cost: u64) -> (bool, Vec<u64>) {
    let answer = check(gate, user, cost).await;
    assert!(!answer.is_degraded(), "{answer:?}");
    let limit = |limit| match limit {
        Limit::Units(limit) => limit,
        Limit::Unlimited => u64::MAX,
    };
    let by = answer.matched().into_iter().map(|one| limit(one.values().spec().limit));
    (answer.is_allowed(), by.collect())
}

/// A gate that has just loaded a policy.
async fn node(server: &Server, key_prefix: &str, setup: impl Into<Setup>) -> SharedGate {
    let mut settings = settings(&server.url());
    key_prefix.clone_into(&mut settings.key_prefix);
    let gate = SharedGate::new(setup, settings, |_| {}).unwrap();
    gate.store().connected().await.unwrap();
    gate
}

/// A policy of this revision; 0 means none.
fn of_revision(revision: u32, rules: Vec<RuleSpec>) -> Policy {
    let policy = Policy::new(rules).unwrap();
    NonZeroU32::new(revision).map_or(policy.clone(), |revision| policy.with_revision(revision))
}

/// Nodes `a`, `b` and `c`: which policy each loads or puts in force (its revision, and the limits of a rule for each
/// user and of a rule for all), and the limits that decide about its requests for so many units.
const NODES: &[&str] = &[
    // Newer values decide for the other node once they have taken: no refusal and no look puts them in force.
    "a loads 1: 10; a asks 3: 10; b loads 2: 5; a asks 1: 10; b asks 2: 5 refused; \
     a asks 0: 10; b asks 0: 5; a asks 0: 10; b asks 1: 5; a asks 1: 5 refused; \
     a asks 1 bob: 10; a refunds 2: 2; a resets 0: 1; a asks 1: 10",
    "a loads 0: 10; b loads 0: 10; b asks 2: 10; a replaces 0: 20; b asks 1: 10; \
     a asks 1: 20; b asks 1: 20; b asks 1 bob: 10; b replaces 0: 20; b asks 16: 20 refused; \
     b asks 15: 20; a asks 1: 20 refused; a asks 1 bob: 20",
    // A restart makes values newer, unless they say which they are.
    "a loads 1: 10; b loads 2: 5; b asks 1: 5; a asks 1: 5; a loads 1: 10; a asks 1: 5; \
     b asks 1: 5",
    "a loads 0: 10; b loads 0: 5; b asks 1: 5; a asks 1: 5; a loads 0: 10; a asks 1: 10; \
     b asks 1: 10",
    // With equal numbers the values loaded later are newer, and values with a number are newer than values without.
    "a loads 3: 10; b loads 3: 7; c loads 0: 4; b asks 1: 7; a asks 1: 7; c asks 1: 7",
    // Values that are changed on one node; a change back counts as a change.
    "a loads 7: 10; b loads 7: 10; a asks 4: 10; a amends 0: 6; b asks 1: 10; a asks 1: 6; \
     b asks 1: 6 refused; a amends 0: 8; a asks 1: 8; b asks 1: 8; a amends 0: 10; \
     a asks 1: 10; b asks 2: 10 refused",
    // Of several rules each is decided by its own newest values.
    "a loads 1: 10 100; b loads 2: 10 50; c loads 3: 5 100; a asks 1: 10 100; \
     b asks 1 bob: 10 50; a asks 1: 10 50; c asks 1 eve: 5 100; b asks 1: 10 100; \
     c asks 1: 5 100; a asks 1: 5 100; a asks 1: 5 100 refused",
    // A change of one rule does nothing to another.
    "a loads 0: 10 10; b loads 0: 10 10; a replaces 0: 30 10; a asks 4: 30 10; \
     b replaces 0: 10 40; b asks 1: 30 40; a asks 1: 30 40; b dedupes 0: 10 40; \
     b asks 1: 30 40",
    // A rule that is added back is newer, also with the same values.
    "a loads 0: 10; b loads 0: 10; b replaces 0: 20; b asks 4: 20; a asks 1: 20; \
     a replaces 0:; a asks 1000:; a replaces 0: 15; a asks 1: 15; b asks 1: 15; \
     a replaces 0:; a replaces 0: 10; a asks 1: 10; b asks 1: 10; a replaces 0:; \
     a replaces 0: 10; a asks 2: 10 refused",
    // A policy is newer by its number, whenever its values came in force.
    "a loads 0: 10; b loads 0: 10; a replaces 2: 20; a asks 1: 20; b replaces 1: 30; \
     b asks 1: 20; b replaces 3: 30; b asks 1: 30; a asks 1: 30",
];

/// Runs one row on its node.
async fn run(
    server: &Server,
    gates: &mut HashMap<String, SharedGate>,
    row: &str,
    rules: (AlgorithmKind, &str),
) {
    let (algorithm, prefix) = rules;
    let (what, then) = row.split_once(':').unwrap();
    let words: Vec<_> = what.split(' ').collect();
    let number: u64 = words[2].parse().unwrap();
    let limits: Vec<u64> = then.split(' ').filter_map(|word| word.parse().ok()).collect();
    let mut rules: Vec<_> = limits.iter().map(|limit| named("x", algorithm, *limit)).collect();
    if let Some(all) = rules.get_mut(1) {
        "y".clone_into(&mut all.name);
        all.key.clear();
    }
    let user = [("user", *words.get(3).unwrap_or(&"ada"))];
    let request = Request::from(Descriptor::new(&user).cost(number));
    if words[1] == "loads" {
        let gate = node(server, prefix, of_revision(number as u32, rules)).await;
        gates.insert(words[0].to_owned(), gate);
        return;
    }
    let gate = &gates[words[0]];
    match words[1] {
        "replaces" => gate.replace(of_revision(number as u32, rules)).unwrap(),
        "dedupes" => {
            rules[0].dedupe = Some(DAY);
            gate.replace(of_revision(number as u32, rules)).unwrap();
        }
        "amends" => gate.amend("default", "x", rules[0].spec).unwrap(),
        "refunds" => {
            let refunded = gate.refund(&request).await.unwrap();
            assert_eq!(
                refunded.matched()[0].decision().remaining,
                limits[0],
                "under the newer values"
            );
        }
        "resets" => assert_eq!(gate.reset(&request).await.unwrap() as u64, limits[0]),
        _ => {
            let (is_allowed, by) = asked(gate, user[0].1, number).await;
            assert_eq!(
                (is_allowed, by),
                (!then.ends_with("refused"), limits),
                "{algorithm}: {row}"
            );
        }
    }
}

#[tokio::test]
async fn the_newest_values_that_have_taken_decide_for_every_node() {
    let server = Server::start(&[]);
    for algorithm in AlgorithmKind::ALL {
        for (number, rows) in NODES.iter().enumerate() {
            let (prefix, mut gates) = (format!("{algorithm}-{number}:"), HashMap::new());
            for row in rows.split("; ") {
                run(&server, &mut gates, row, (*algorithm, &prefix)).await;
            }
        }
    }
}

#[tokio::test]
async fn values_are_not_newer_because_the_store_replied_late() {
    let (server, proxy) = proxied().await;
    let url = proxy.url();
    let old = SharedGate::new(of_revision(0, vec![log("r", 10)]), settings(&url), |_| {}).unwrap();
    // The store is found fit, and has not dated the policy.
    let rule = Rule::new(log("r", 1).spec).unwrap();
    assert!(old.store().check_under("other", b"ada", &rule, 1).await.unwrap().is_allowed());
    proxy.stop_at(proxy.scripts());
    let loads_later = async {
        let (new, _) = gate_over(&server.url(), vec![log("r", 5)]).await;
        // Longer than the time between the two loads.
        tokio::time::sleep(Duration::from_millis(100)).await;
        proxy.stop_at(usize::MAX);
        new
    };
    let (connected, new) = tokio::join!(old.store().connected(), loads_later);
    connected.unwrap();
    assert_eq!(asked(&new, "ada", 1).await, (true, vec![5]));
    assert_eq!(asked(&old, "ada", 1).await, (true, vec![5]));
}

#[tokio::test]
async fn an_id_is_answered_the_same_by_an_old_node_and_a_new_one() {
    let server = Server::start(&[]);
    let old = node(&server, "tg:", of_revision(1, vec![log("per-user", 10).dedupe(DAY)])).await;
    let new = node(&server, "tg:", of_revision(2, vec![log("per-user", 5).dedupe(DAY)])).await;
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
        let plan = Rule::new(log("per-user", limit).spec).unwrap();
        let of = move |descriptor: &Descriptor<'_>| {
            (descriptor.value("user") == Some("ada")).then(|| plan.clone())
        };
        Setup::new(policy).plans("default", "per-user", of).unwrap()
    };
    let old = node(&server, "tg:", planned(of_revision(1, vec![log("per-user", 10)]), 30)).await;
    let new = node(&server, "tg:", planned(of_revision(2, vec![log("per-user", 5)]), 20)).await;
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
    let old = Arc::new(
        node(&server, "tg:", of_revision(1, vec![log("per-user", 10).on_excess(wait)])).await,
    );
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
    let new = node(&server, "tg:", of_revision(2, vec![log("per-user", 20)])).await;
    assert_eq!(asked(&new, "ada", 1).await, (true, vec![20]));
    // A refund on its node wakes the waiter, which asks again.
    let _ = old.refund(&Request::from(Descriptor::new(&[("user", "ada")]).cost(1))).await.unwrap();
    assert_eq!(waiter.await.unwrap(), Limit::Units(20));
    assert_eq!(check(&new, "ada", 0).await.matched()[0].decision().remaining, 6);
}

#[tokio::test]
async fn a_request_in_flight_is_decided_under_the_policy_that_it_began_with() {
    let (mut server, gate, events) = served(vec![log("a", 10), log("b", 10)]).await;
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
    let closed = || log("r", 10).on_store_error(OnStoreError::Closed);
    let (_server, gate, _) = served(vec![closed()]).await;
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
    let (_server, gate, _) = served(vec![log("x", 10)]).await;
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
    let Err(AmendError::Rule(answer)) = gate.amend("default", "r", large) else {
        panic!("it fits")
    };
    let problem = answer.iter().next().unwrap().problem.clone();
    assert!(matches!(problem, Problem::TooLargeForStore { .. }), "{problem}");
    let answer = gate.amend("default", "none", log("r", 9).spec);
    assert!(matches!(answer, Err(AmendError::NoSuchRule(_))), "{answer:?}");
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
