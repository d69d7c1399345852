//! A store that lost its data admits nothing more: nodes carry the units in use that they know of.

use std::time::Duration;

use tidegate::{AlgorithmKind, Descriptor, LeaseSpec, Request, RuleSpec, SharedGate, Spec};
use tokio::task::block_in_place;
use tokio::time::sleep;

use super::closed;
use crate::leases::ALGORITHMS;
use crate::server::nodes::{Nodes, Watched, until};
use crate::server::{Events, gate_over, gate_with, served, settings};

const LIMIT: u64 = 50;

/// A rule of each algorithm, each in a domain of its own name.
fn rules() -> Vec<RuleSpec> {
    closed(AlgorithmKind::ALL.iter().map(|algorithm| rule(*algorithm, "user", LIMIT)).collect())
}

fn rule(algorithm: AlgorithmKind, key: &str, limit: u64) -> RuleSpec {
    let spec = Spec::new(algorithm, limit, Duration::from_secs(86_400));
    RuleSpec::new(format!("{algorithm}-{key}"), spec).key([key]).in_domain(algorithm.name())
}

/// The maximum that a limiter admits: a queue serves one more than wait in it.
fn most(algorithm: AlgorithmKind) -> u64 {
    LIMIT + u64::from(algorithm.is_queue())
}

/// Asks the limiters of this domain once, as soon as the store decides; returns whether they admit.
async fn is_admitted(gate: &SharedGate, domain: &str, entries: &[(&str, &str)]) -> bool {
    let descriptors = [Descriptor::new(entries)];
    loop {
        let answer = gate.check(&Request::new(domain, &descriptors)).await;
        if !answer.is_degraded() && !answer.is_unavailable() {
            return answer.is_allowed();
        }
        sleep(Duration::from_millis(2)).await;
    }
}

/// Asks so often; returns how many requests are admitted.
async fn admitted(gate: &SharedGate, domain: &str, user: &str, times: u64) -> u64 {
    let mut units = 0;
    for _ in 0..times {
        units += u64::from(is_admitted(gate, domain, &[("user", user)]).await);
    }
    units
}

/// Uses up a limit of each algorithm, and a half of another; loses data; and asks on. No key gets more than its limit.
async fn none_over(gate: &SharedGate, events: &Events, lose: impl AsyncFnOnce()) {
    for algorithm in AlgorithmKind::ALL {
        let most = most(*algorithm);
        assert_eq!(admitted(gate, algorithm.name(), "ada", most + 5).await, most, "{algorithm}");
        assert_eq!(
            admitted(gate, algorithm.name(), "bob", LIMIT / 2).await,
            LIMIT / 2,
            "{algorithm}"
        );
    }
    assert_eq!(gate.counts().carried, 0, "nothing was lost");
    lose().await;
    for algorithm in AlgorithmKind::ALL {
        assert_eq!(
            admitted(gate, algorithm.name(), "ada", most(*algorithm)).await,
            0,
            "{algorithm}"
        );
        let rest = most(*algorithm) - LIMIT / 2;
        let more = admitted(gate, algorithm.name(), "bob", LIMIT).await;
        assert_eq!(more, rest, "{algorithm}");
    }
    let keys = 2 * AlgorithmKind::ALL.len() as u64;
    assert_eq!(gate.counts().carried, keys);
    let carried = |message: &str| message.starts_with("data lost");
    events.until(carried).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_server_without_a_file_comes_back_with_what_was_used() {
    let (mut server, gate, events) = served(rules()).await;
    let kill = async || {
        server.kill();
        block_in_place(|| server.start_again(&[]));
    };
    none_over(&gate, &events, kill).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flushed_server_has_again_what_was_used() {
    let (server, gate, events) = served(rules()).await;
    none_over(&gate, &events, async || server.run::<()>(&["FLUSHALL"])).await;
}

/// The first that the server hears of a limiter after the loss is the end of its lease or share.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leases_that_end_after_a_loss_free_no_limit() {
    let leased = |algorithm: &AlgorithmKind| {
        let mut spec = Spec::new(*algorithm, LIMIT, Duration::from_secs(86_400));
        spec.resolution =
            (*algorithm == AlgorithmKind::SlidingLog).then_some(spec.window.unwrap() / 6);
        let rule = |mode: &str| {
            let name = format!("{algorithm}-{mode}");
            RuleSpec::new(name.clone(), spec).key(["user"]).in_domain(name)
        };
        [rule("leased").lease(LeaseSpec::default()), rule("split").split()]
    };
    let rules: Vec<_> = closed(ALGORITHMS.iter().flat_map(leased).collect());
    for loses_all in [true, false] {
        let (server, gate, _) = served(rules.clone()).await;
        let mut used = Vec::new();
        for rule in &rules {
            used.push(admitted(&gate, &rule.domain, "ada", LIMIT * 4 / 5).await);
        }
        if loses_all {
            server.run::<()>(&["FLUSHALL"]);
        } else {
            let keys: Vec<String> = server.run(&["KEYS", "*ada*"]);
            let limiters = keys.iter().map(String::as_str).filter(|key| !key.contains('?'));
            let all: Vec<_> = ["DEL"].into_iter().chain(limiters).collect();
            assert_eq!(server.run::<usize>(&all), rules.len());
        }
        // Longer than a lease or a share lives.
        sleep(Duration::from_millis(2_500)).await;
        for (rule, used) in rules.iter().zip(used) {
            let more = admitted(&gate, &rule.domain, "ada", LIMIT).await;
            assert!(used + more <= LIMIT, "{}, {loses_all}: {used} and {more}", rule.name);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flushed_node_of_a_cluster_has_again_what_was_used() {
    let nodes = block_in_place(|| Nodes::start(3, 0));
    let (gate, events) = gate_over(&nodes.url(), rules()).await;
    none_over(&gate, &events, async || {
        nodes.all.iter().take(3).for_each(|node| node.run::<()>(&["FLUSHALL"]));
    })
    .await;
}

/// The replica is without the later writes, and takes the place of the primary. The first that it decides of a user comes
/// with a limiter that was carried to it before.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replica_that_is_behind_has_again_what_was_used() {
    let mut watched = block_in_place(Watched::start);
    let mut settings = settings(&watched.url());
    settings.timeout = Duration::from_millis(500);
    let (algorithms, group) = (AlgorithmKind::ALL, [("group", "all")]);
    // First of each domain, so that its limiter is the first of a request.
    let groups = algorithms.iter().map(|algorithm| rule(*algorithm, "group", 1_000 * LIMIT));
    let rules = closed(groups.collect()).into_iter().chain(rules());
    let (gate, _) = gate_with(settings, rules.collect()).await;
    for algorithm in algorithms {
        assert!(is_admitted(&gate, algorithm.name(), &group).await);
        let half = admitted(&gate, algorithm.name(), "ada", LIMIT / 2).await;
        assert_eq!(half, LIMIT / 2, "{algorithm}");
    }
    let keys: Vec<String> = watched.primary.run(&["KEYS", "*"]);
    let keys: Vec<_> =
        keys.iter().filter(|key| key.contains("ada") || key.contains("all")).collect();
    for key in &keys {
        assert!(watched.primary.run::<bool>(&["COPY", key, &format!("old:{key}")]));
    }
    for algorithm in algorithms {
        assert!(is_admitted(&gate, algorithm.name(), &group).await);
        let rest = most(*algorithm) - LIMIT / 2;
        assert_eq!(admitted(&gate, algorithm.name(), "ada", LIMIT).await, rest, "{algorithm}");
    }
    let here = |info: &str| info.contains("lag=0");
    block_in_place(|| until(&watched.primary, &["INFO", "replication"], here));
    watched.primary.kill();
    let primary = |info: &str| info.contains("role:master");
    block_in_place(|| until(&watched.replica, &["INFO", "replication"], primary));
    for key in &keys {
        assert!(watched.replica.run::<bool>(&["COPY", &format!("old:{key}"), key, "REPLACE"]));
    }
    for algorithm in algorithms {
        assert!(is_admitted(&gate, algorithm.name(), &group).await);
        for _ in 0..LIMIT {
            let both = [("group", "all"), ("user", "ada")];
            assert!(!is_admitted(&gate, algorithm.name(), &both).await, "{algorithm}");
        }
    }
    assert_eq!(gate.counts().carried, 2 * algorithms.len() as u64);
}
