//! Leases together with several rules, ids, looks, refunds, resets and changed rules.

use std::time::Duration;

use tidegate::{AlgorithmKind, Descriptor, LeaseSpec, Policy, Request, RuleSpec, Spec};
use tokio::time::{Instant, sleep};

use super::{held, leased, node, until_held, until_leased};
use crate::faults::lost::{MOST_ASKED, Newer};
use crate::server::{LOG_ALL, LONG, Server, check, proxied, rule};

const LIMIT: u64 = 5_000;

fn own(algorithm: AlgorithmKind) -> RuleSpec {
    leased(algorithm, LIMIT)
}

/// A rule next to the leased rule, which the store decides.
fn beside(limit: u64) -> RuleSpec {
    let mut beside = rule(AlgorithmKind::FixedWindow, limit);
    beside.name = "beside".to_owned();
    beside
}

#[tokio::test]
async fn what_leases_cover_is_decided_without_waiting_and_nothing_else() {
    let server = Server::start(&[]);
    let gate = node(&server.url(), 1, vec![own(AlgorithmKind::FixedWindow), beside(9_000)]).await;
    let ada = Request::from(Descriptor::new(&[("user", "ada")]));
    let began = Instant::now();
    let _ = until_held(&gate, "ada").await;
    assert!(gate.check_unless_waiting(ada).is_none(), "the store decides about one of its rules");
    gate.replace(Policy::new(vec![own(AlgorithmKind::FixedWindow)]).unwrap()).unwrap();
    loop {
        let _ = until_leased(&gate, "ada").await;
        let (before, spent) = (held(&gate), gate.counts().leased_spent);
        assert!(gate.check_unless_waiting(ada.with_id("once").unwrap()).is_none());
        let answer = gate.check_unless_waiting(ada);
        assert_eq!(gate.counts().leased_spent - spent, u64::from(answer.is_some()));
        if let Some(answer) = answer {
            assert!(answer.is_allowed() && !answer.is_degraded() && before > 0, "{answer:?}");
            assert_eq!(answer.reported().unwrap().rule().name(), "fixed_window");
            return;
        }
        assert!(began.elapsed() < LONG, "{before} are held");
    }
}

#[tokio::test]
async fn a_refund_gives_back_to_the_rules_without_leases_alone() {
    let server = Server::start(&[]);
    for algorithm in [AlgorithmKind::FixedWindow, AlgorithmKind::TokenBucket] {
        let user = algorithm.name();
        let gate = node(&server.url(), 1, vec![own(algorithm), beside(1_000)]).await;
        let entries = [("user", user)];
        let request = Request::from(Descriptor::new(&entries).cost(40));
        assert!(gate.check(&request).await.is_allowed());
        let answer = gate.refund(&request).await.unwrap();
        let left = answer.matched().into_iter().map(|one| one.decision().remaining);
        let mut left: Vec<_> = left.collect();
        left.sort_unstable();
        assert_eq!(left, [1_000, LIMIT - 40], "{algorithm}");
        // More than was reserved is taken.
        let answer = gate.settle(&request, None, &[50]).await.unwrap();
        let left = answer.matched().into_iter().map(|one| one.decision().remaining);
        assert_eq!(left.max(), Some(LIMIT - 50), "{algorithm}");
    }
}

#[tokio::test]
async fn leases_of_a_changed_rule_are_given_back_and_not_spent() {
    let server = Server::start(&[]);
    for algorithm in [AlgorithmKind::FixedWindow, AlgorithmKind::TokenBucket] {
        let user = algorithm.name();
        let gate = node(&server.url(), 1, vec![own(algorithm)]).await;
        let began = Instant::now();
        let admitted = until_held(&gate, user).await;
        let spent = gate.counts().leased_spent;
        let day = Duration::from_secs(86_400);
        gate.amend("default", user, Spec::new(algorithm, 2 * LIMIT, day)).unwrap();
        let answer = check(&gate, user, 1).await;
        assert_eq!(gate.counts().leased_spent, spent, "{algorithm}");
        while held(&gate) > 0 {
            assert!(began.elapsed() < LONG, "{algorithm}: {} are not back", held(&gate));
            sleep(Duration::from_millis(1)).await;
        }
        let decision = *answer.reported().unwrap().decision();
        assert_eq!(decision.limit, 2 * LIMIT);
        assert!(decision.remaining < 2 * LIMIT - admitted, "usage carries over");
    }
}

#[tokio::test]
async fn units_of_leases_are_not_given_back_for_ever_while_values_change() {
    let (server, proxy) = proxied().await;
    let rule = own(AlgorithmKind::FixedWindow);
    let gate = node(&proxy.url(), 1, vec![rule.clone()]).await;
    let mut newer = Newer::over(&server.url(), rule).await;
    let _ = until_held(&gate, "ada").await;
    proxy.stop_at(proxy.scripts());
    let day = Duration::from_secs(86_400);
    let other = Spec::new(AlgorithmKind::FixedWindow, 2 * LIMIT, day);
    gate.amend("default", "fixed_window", other).unwrap();
    // The two scripts may have to be loaded into the server.
    let most = MOST_ASKED * gate.counts().leases_granted as usize + 2;
    let asked = newer.outpace(&proxy, "ada", most, || held(&gate) == 0).await;
    assert!((1..=most).contains(&asked), "{asked} times, at most {most}");
    assert!(gate.counts().leased_changed > 0, "{:?}", gate.counts());
}

#[tokio::test]
async fn leases_of_a_rule_that_a_new_policy_leaves_as_it_was_are_spent_on_and_given_back() {
    let server = Server::start(&[]);
    let rule = own(AlgorithmKind::FixedWindow);
    let gate = node(&server.url(), 1, vec![rule.clone(), beside(9_000)]).await;
    let began = Instant::now();
    loop {
        let _ = until_leased(&gate, "ada").await;
        let held_before = held(&gate);
        let before = gate.counts();
        let mut other = beside(8_000);
        other.key = vec!["other".to_owned()];
        // The rule has another number as well.
        gate.replace(Policy::new(vec![other, rule.clone()]).unwrap()).unwrap();
        assert!(check(&gate, "ada", 1).await.is_allowed());
        let after = gate.counts();
        if held_before > 0 && after.leased_spent == before.leased_spent + 1 {
            assert_eq!(after.leased_returned, before.leased_returned);
            gate.leave().await.unwrap();
            assert_eq!(
                (held(&gate), gate.counts().leased_expired),
                (0, after.leased_expired),
                "a node that leaves gives back what it holds under the new number"
            );
            return;
        }
        gate.replace(Policy::new(vec![rule.clone(), beside(9_000)]).unwrap()).unwrap();
        assert!(began.elapsed() < LONG, "{before:?} {after:?}");
    }
}

#[tokio::test]
async fn a_refusal_by_another_rule_reports_what_is_left_with_what_was_put_back() {
    let server = Server::start(&LOG_ALL);
    let mut leased = own(AlgorithmKind::FixedWindow);
    leased.lease = Some(LeaseSpec { max_percent: 20, life: Duration::from_secs(1) });
    let gate = node(&server.url(), 1, vec![leased, beside(100)]).await;
    let mut admitted = 0;
    while check(&gate, "ada", 1).await.is_allowed() {
        admitted += 1;
    }
    let began = Instant::now();
    loop {
        server.run::<()>(&["SLOWLOG", "RESET"]);
        let answer = check(&gate, "ada", 1).await;
        assert!(!answer.is_allowed());
        let matched = answer.matched();
        let own = matched.iter().find(|one| one.rule().name() == "fixed_window").unwrap();
        let left = own.decision().remaining;
        assert!(left <= LIMIT - admitted, "{admitted} admitted: {answer:?}");
        // The store was asked about the other rule alone, so this node held a unit of this rule for the request. Units
        // that are on their way to the node, or back, are missing from what is left until they arrive.
        if server.senders_of("fixed_window:ada").is_empty() && left == LIMIT - admitted {
            assert!(own.decision().is_allowed(), "{answer:?}");
            return;
        }
        assert!(began.elapsed() < LONG, "{admitted} admitted: {answer:?}");
    }
}
