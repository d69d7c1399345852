//! What a user of the store has to be allowed.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use tidegate::{
    Algorithm, Descriptor, Layout, Micros, OwnLimit, Policy, Request, Rule, RuleSpec, Secret,
    SharedGate, Spec, StoreError,
};

use crate::server::{Server, check, rule, settings};

const PAGE: &str = include_str!("../../../../docs/configuration.md");

/// A gate of a user who may do so much.
fn gate(server: &Server, rights: &[&str], rules: Vec<RuleSpec>) -> SharedGate {
    let user = ["ACL", "SETUSER", "tide", "reset", "on", ">right", "~tidegate:*"];
    server.run::<()>(&[&user[..], rights].concat());
    let mut settings = settings(&server.url());
    settings.username = Some("tide".to_owned());
    settings.password = Some(Secret::Text("right".to_owned()));
    settings.timeout = Micros::from_secs(5);
    SharedGate::new(Policy::new(rules).unwrap(), settings, |_| {}).unwrap()
}

#[tokio::test]
async fn who_may_write_and_not_say_when_it_expires_leaves_nothing_for_ever() {
    let server = Server::start(&[]);
    let mut log = Spec::new(Algorithm::SlidingLog, 10, Micros::from_secs(60));
    log.layout = Some(Layout::SortedSet);
    let log = RuleSpec::new("log", log).key(["user"]);
    let rules = || vec![rule(Algorithm::TokenBucket, 10), log.clone().in_domain("logs")];
    let refused = gate(&server, &["+@all", "-pexpireat"], rules());
    let told = refused.connected().await.unwrap_err();
    assert!(matches!(told, StoreError::Denied(_)), "{told}");
    assert!(check(&refused, "ada", 1).await.is_degraded());
    let lives_for = |user: &str| {
        server.run::<i64>(&["PTTL".to_owned(), format!("tidegate:default:token_bucket:{user}")])
    };
    const NOT_THERE: i64 = -2;
    assert_eq!(lives_for("ada"), NOT_THERE);
    let allowed = gate(&server, &["+@all"], rules());
    allowed.connected().await.unwrap();
    assert!(!check(&allowed, "ada", 1).await.is_degraded());
    assert!(lives_for("ada") > 0);
    // Nor one whose rights are taken away meanwhile; and the store is left alone until it has them again.
    server.run::<()>(&["ACL", "SETUSER", "tide", "-pexpireat"]);
    assert!(check(&allowed, "bob", 1).await.is_degraded());
    assert_eq!(lives_for("bob"), NOT_THERE);
    let again = gate(&server, &["+@all"], rules());
    again.connected().await.unwrap();
    server.run::<()>(&["ACL", "SETUSER", "tide", "-pexpireat"]);
    let (entries, key) = ([("user", "eve")], "tidegate:logs:log:eve");
    let descriptors = [Descriptor::new(&entries)];
    assert!(again.check(&Request::new("logs", &descriptors)).await.is_degraded());
    assert_eq!(server.run::<i64>(&["PTTL", key]), NOT_THERE);
    server.run::<()>(&["ACL", "SETUSER", "tide", "+pexpireat"]);
    allowed.recovered().await;
    assert!(!check(&allowed, "bob", 1).await.is_degraded());
}

#[tokio::test]
async fn each_right_that_the_page_on_configuration_lists_is_missed_at_the_start() {
    let server = Server::start(&[]);
    let all = listed();
    // The server knows the scripts by now, so that none has to be sent.
    let rules = || vec![rule(Algorithm::TokenBucket, 10)];
    gate(&server, &["+@all"], rules()).connected().await.unwrap();
    for (number, missing) in all.iter().enumerate() {
        let others = all.iter().enumerate().filter(|(other, _)| *other != number);
        let rights: Vec<_> = others.map(|(_, right)| right.as_str()).collect();
        let told = gate(&server, &rights, rules()).connected().await.unwrap_err();
        assert!(matches!(told, StoreError::Denied(_)), "{missing}: {told}");
    }
}

/// The commands that the page on configuration lists.
fn listed() -> Vec<String> {
    let list =
        PAGE.split("a user of the store needs").nth(1).unwrap().split("\n\n").next().unwrap();
    let commands = list.split('`').skip(1).step_by(2).filter(|word| word.starts_with('+'));
    commands.map(str::to_owned).collect()
}

#[tokio::test]
async fn what_the_page_on_configuration_lists_is_all_that_a_user_needs() {
    let server = Server::start(&[]);
    let minute = Micros::from_secs(60);
    let mut sorted_set = Spec::new(Algorithm::SlidingLog, 9, minute);
    sorted_set.layout = Some(Layout::SortedSet);
    let rules = Algorithm::ALL.iter().map(|algorithm| rule(*algorithm, 9));
    let rules = rules.chain([RuleSpec::new("sorted_set", sorted_set).key(["user"])]);
    let rules = rules.map(|rule| rule.dedupe(minute).limit_from_request()).collect();
    let (rights, own) = (listed(), Spec::new(Algorithm::SlidingWindow, 9, minute));
    assert!(rights.len() > 10, "{rights:?}");
    let rights: Vec<_> = rights.iter().map(String::as_str).collect();
    let gate = gate(&server, &rights, rules);
    gate.connected().await.unwrap();
    let own = OwnLimit::new(Rule::new(own).unwrap());
    let entries = [("user", "ada")];
    let descriptor = Descriptor::new(&entries).cost(2);
    for descriptors in [[descriptor], [descriptor.limit(&own)], [descriptor.cost(20)]] {
        for id in [None, Some("one"), Some("one")] {
            let request = Request::new("default", &descriptors);
            let request = match id {
                Some(id) => request.with_id(id).unwrap(),
                None => request,
            };
            let told = gate.check(&request).await;
            assert!(!told.is_degraded(), "{:?}", told.reported());
            assert!(!gate.peek(&request).await.is_degraded());
            assert!(!gate.settle(&request, 1).await.unwrap().is_degraded());
            assert!(!gate.refund(&request).await.unwrap().is_degraded());
        }
    }
    assert!(gate.reset(&Request::new("default", &[descriptor])).await.unwrap() > 0);
}
