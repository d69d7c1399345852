//! The rights that a user of the store needs.

use std::time::Duration;
use tidegate::store::Store;
use tidegate::{
    AlgorithmKind, Descriptor, Layout, Request, RequestLimit, Rule, RuleSpec, Secret, SharedGate,
    Spec, StoreError, StoreSettings,
};

use crate::server::nodes::{Nodes, Watched};
use crate::server::{Server, check, gate_with, rule, settings, unconnected};

const PAGE: &str = include_str!("../../../../docs/configuration.md");

/// Resets the rights of a user to these.
fn allow(server: &Server, rights: &[&str]) {
    let user = ["ACL", "SETUSER", "tide", "reset", "on", ">right", "~tidegate:*"];
    server.run::<()>(&[&user[..], rights].concat());
}

/// Returns the settings of that user.
fn of_that_user(url: &str) -> StoreSettings {
    let mut settings = settings(url);
    settings.username = Some("tide".to_owned());
    settings.password = Some(Secret::Text("right".to_owned()));
    settings.timeout = Duration::from_secs(5);
    settings.nodes = None;
    settings
}

/// Makes a gate of a user with these rights.
fn gate(server: &Server, rights: &[&str], rules: Vec<RuleSpec>) -> SharedGate {
    allow(server, rights);
    unconnected(of_that_user(&server.url()), rules)
}

/// Returns the result of connecting, with one rule.
async fn connected(url: &str) -> Result<(), StoreError> {
    unconnected(of_that_user(url), vec![rule(AlgorithmKind::TokenBucket, 10)])
        .store()
        .connected()
        .await
}

fn assert_denied(result: Result<(), StoreError>, context: &str) {
    assert!(matches!(result, Err(StoreError::Denied(_))), "{context}: {result:?}");
}

#[tokio::test]
async fn who_may_write_and_not_say_when_it_expires_leaves_nothing_for_ever() {
    let server = Server::start(&[]);
    let mut log = Spec::new(AlgorithmKind::SlidingLog, 10, Duration::from_secs(60));
    log.layout = Some(Layout::SortedSet);
    let log = RuleSpec::new("log", log).key(["user"]);
    let rules = || vec![rule(AlgorithmKind::TokenBucket, 10), log.clone().in_domain("logs")];
    let refused = gate(&server, &["+@all", "-pexpireat"], rules());
    assert_denied(refused.store().connected().await, "without `pexpireat`");
    assert!(check(&refused, "ada", 1).await.is_degraded());
    let lives_for = |user: &str| {
        server.run::<i64>(&["PTTL".to_owned(), format!("tidegate:default:token_bucket:{user}")])
    };
    const NOT_THERE: i64 = -2;
    assert_eq!(lives_for("ada"), NOT_THERE);
    let allowed = gate(&server, &["+@all"], rules());
    allowed.store().connected().await.unwrap();
    assert!(!check(&allowed, "ada", 1).await.is_degraded());
    assert!(lives_for("ada") > 0);
    // A user who loses a right is noticed too; the store is left alone until the user has it again.
    server.run::<()>(&["ACL", "SETUSER", "tide", "-pexpireat"]);
    assert!(check(&allowed, "bob", 1).await.is_degraded());
    assert_eq!(lives_for("bob"), NOT_THERE);
    let again = gate(&server, &["+@all"], rules());
    again.store().connected().await.unwrap();
    server.run::<()>(&["ACL", "SETUSER", "tide", "-pexpireat"]);
    let (entries, key) = ([("user", "eve")], "tidegate:logs:log:eve");
    let descriptors = [Descriptor::new(&entries)];
    assert!(again.check(&Request::new("logs", &descriptors)).await.is_degraded());
    assert_eq!(server.run::<i64>(&["PTTL", key]), NOT_THERE);
    server.run::<()>(&["ACL", "SETUSER", "tide", "+pexpireat"]);
    allowed.store().fit().await;
    assert!(!check(&allowed, "bob", 1).await.is_degraded());
}

#[tokio::test]
async fn each_right_that_the_page_on_configuration_lists_is_missed_at_the_start() {
    let server = Server::start(&[]);
    let all = listed();
    // The server knows the scripts by now, so no script is sent.
    let rules = || vec![rule(AlgorithmKind::TokenBucket, 10)];
    gate(&server, &["+@all"], rules()).store().connected().await.unwrap();
    for (number, missing) in all.iter().enumerate() {
        let others = all.iter().enumerate().filter(|(other, _)| *other != number);
        let rights: Vec<_> = others.map(|(_, right)| right.as_str()).collect();
        assert_denied(gate(&server, &rights, rules()).store().connected().await, missing);
    }
}

/// Returns the commands that the page on configuration lists for all stores.
fn listed() -> Vec<String> {
    listed_after("the user needs its keys", "\n\n")
}

/// Returns the commands that it lists between two texts.
fn listed_after(begins: &str, ends: &str) -> Vec<String> {
    let list = PAGE.split(begins).nth(1).unwrap().split(ends).next().unwrap();
    let commands = list.split('`').skip(1).step_by(2).filter(|word| word.starts_with('+'));
    commands.map(str::to_owned).collect()
}

fn words(rights: &[String]) -> Vec<&str> {
    rights.iter().map(String::as_str).collect()
}

#[tokio::test]
async fn what_the_page_on_configuration_lists_is_all_that_a_user_needs() {
    let server = Server::start(&[]);
    let minute = Duration::from_secs(60);
    let mut sorted_set = Spec::new(AlgorithmKind::SlidingLog, 9, minute);
    sorted_set.layout = Some(Layout::SortedSet);
    let rules = AlgorithmKind::ALL.iter().map(|algorithm| rule(*algorithm, 9));
    let rules = rules.chain([RuleSpec::new("sorted_set", sorted_set).key(["user"])]);
    let rules = rules.map(|rule| rule.dedupe(minute).limit_from_request()).collect();
    let (rights, own) = (listed(), Spec::new(AlgorithmKind::SlidingWindow, 9, minute));
    assert!(rights.len() > 10, "{rights:?}");
    let gate = gate(&server, &words(&rights), rules);
    gate.store().connected().await.unwrap();
    let own = RequestLimit::new(Rule::new(own).unwrap());
    let descriptor = Descriptor::new(&[("user", "ada")]).cost(2);
    for descriptors in [[descriptor], [descriptor.limit(&own)], [descriptor.cost(20)]] {
        for id in [None, Some("one"), Some("one")] {
            let request = Request::new("default", &descriptors);
            let request = match id {
                Some(id) => request.with_id(id).unwrap(),
                None => request,
            };
            let answer = gate.check(&request).await;
            assert!(!answer.is_degraded(), "{:?}", answer.reported());
            assert!(!gate.peek(&request).await.is_degraded());
            assert!(!gate.settle(&request, None, &[1]).await.unwrap().is_degraded());
            assert!(!gate.refund(&request).await.unwrap().is_degraded());
        }
    }
    assert!(gate.reset(&Request::new("default", &[descriptor])).await.unwrap() > 0);
}

#[tokio::test]
async fn a_user_who_may_not_ask_how_the_store_is_set_up_learns_that_nobody_looks() {
    let server = Server::start(&["--maxmemory", "64mb", "--maxmemory-policy", "allkeys-lru"]);
    allow(&server, &["+@all", "-info"]);
    let rules = vec![rule(AlgorithmKind::TokenBucket, 10)];
    let (gate, events) = gate_with(of_that_user(&server.url()), rules).await;
    events.until(|message| message.contains("+info")).await;
    assert!(!check(&gate, "ada", 1).await.is_degraded());
    assert_eq!(events.seen().len(), 1, "{:?}", events.seen());
}

#[tokio::test]
async fn another_database_needs_one_right_more() {
    let server = Server::start(&[]);
    let url = format!("{}/2", server.url());
    let mut rights = listed();
    allow(&server, &words(&rights));
    assert_denied(connected(&url).await, "another database");
    rights.extend(listed_after("A database other than 0 needs", ";"));
    allow(&server, &words(&rights));
    connected(&url).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_primary_that_sentinel_names_needs_one_right_more() {
    let watched = tokio::task::block_in_place(Watched::start);
    let mut rights = listed();
    allow(&watched.primary, &words(&rights));
    assert_denied(connected(&watched.url()).await, "a primary of a Sentinel");
    rights.extend(listed_after("Sentinel needs", ";"));
    allow(&watched.primary, &words(&rights));
    connected(&watched.url()).await.unwrap();
}

#[tokio::test]
async fn the_nodes_of_a_cluster_need_a_few_rights_more() {
    let cluster = Nodes::start(2, 0);
    let more = listed_after("a cluster\nneeds", ";");
    let allow_but = |missing: &str| {
        let all = [listed(), more.clone()].concat();
        assert!(missing.is_empty() || all.iter().any(|right| right == missing), "{all:?}");
        let rights: Vec<_> = all.into_iter().filter(|right| right != missing).collect();
        cluster.all.iter().for_each(|node| allow(node, &words(&rights)));
    };
    allow_but("+cluster|slots");
    assert_denied(connected(&cluster.url()).await, "a cluster");

    allow_but("");
    let rules = vec![rule(AlgorithmKind::TokenBucket, 10)];
    let (gate, events) = gate_with(of_that_user(&cluster.url()), rules).await;
    assert!(!check(&gate, "ada", 1).await.is_degraded());
    let way = cluster.way_of("tidegate:default:token_bucket:ada");
    way.begin();
    way.carry();
    assert!(!check(&gate, "ada", 1).await.is_degraded(), "it is asked for where it goes");
    allow_but("+asking");
    assert!(check(&gate, "ada", 1).await.is_degraded());
    allow_but("");
    way.end();
    assert!(!check(&gate, "ada", 1).await.is_degraded());
    events.until(|message| message.contains("+info")).await;
    let answer = events.seen();
    assert!(answer.iter().all(|message| message.starts_with("finding: ")), "{answer:?}");
}
