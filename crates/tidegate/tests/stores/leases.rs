//! Leases and shares over a real store: several nodes spend units that they took ahead, and all together never pass a
//! bound. After a fault of the store all units are summed in `faults/sums.rs`.
//!
//! `TIDEGATE_LONG=1` sends requests ten times as long.

mod faults;
mod rules;
mod settled;
mod shares;
mod waiters;

use std::sync::Arc;
use std::time::Duration;

use tidegate::{AlgorithmKind, Answer, LeaseSpec, Rule, RuleSpec, SharedGate, Spec};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use crate::server::{LONG, Server, check, gate_among, long, rule};

/// Requests that each node has under way.
const TASKS: usize = 4;

/// Every algorithm that grants leases.
pub(crate) const ALGORITHMS: [AlgorithmKind; 6] = [
    AlgorithmKind::FixedWindow,
    AlgorithmKind::SlidingWindow,
    AlgorithmKind::SlidingCounter,
    AlgorithmKind::SlidingLog,
    AlgorithmKind::TokenBucket,
    AlgorithmKind::LeakyBucket,
];

/// The units that nodes take ahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ahead {
    Leases,
    Shares,
    Nothing,
}

impl Ahead {
    fn of(self, mut rule: RuleSpec) -> RuleSpec {
        if self != Self::Nothing && rule.spec.algorithm == AlgorithmKind::SlidingLog {
            rule.spec.resolution = Some(rule.spec.window.unwrap() / 5);
        }
        match self {
            Self::Leases => {
                rule.lease(LeaseSpec { max_percent: 20, life: Duration::from_millis(100) })
            }
            Self::Shares => rule.split(),
            Self::Nothing => rule,
        }
    }

    /// Gates over one store, which with shares count each other by their list there.
    async fn nodes(self, server: &Server, count: u64, rule: &RuleSpec) -> Vec<Arc<SharedGate>> {
        let mut gates = Vec::new();
        for _ in 0..count {
            let nodes = (self != Self::Shares).then_some(count);
            gates.push(node(&server.url(), nodes, vec![rule.clone()]).await);
        }
        let sees_all = |gate: &Arc<SharedGate>| gate.counts().nodes == count;
        until(|| self != Self::Shares || gates.iter().all(sees_all)).await;
        gates
    }
}

/// A rule of `limit` units a day; a fifth can be leased.
fn leased(algorithm: AlgorithmKind, limit: u64) -> RuleSpec {
    Ahead::Leases.of(rule(algorithm, limit))
}

/// A gate of one of so many nodes, or of nodes that count each other in the store.
async fn node(url: &str, nodes: impl Into<Option<u64>>, rules: Vec<RuleSpec>) -> Arc<SharedGate> {
    Arc::new(gate_among(nodes, url, rules).await.0)
}

async fn until(holds: impl Fn() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < LONG, "it never was so");
        sleep(Duration::from_millis(2)).await;
    }
}

/// Units of leases that are neither spent nor given back nor ended.
fn held(gate: &SharedGate) -> u64 {
    let counts = gate.counts();
    counts.leased - counts.leased_spent - counts.leased_returned - counts.leased_expired
}

/// Asks until a request spends a leased unit, and returns its answer and how many were admitted.
async fn until_leased<'g>(gate: &'g SharedGate, user: &str) -> (Answer<'g>, u64) {
    let (before, began) = (gate.counts().leased_spent, Instant::now());
    for admitted in 1.. {
        let answer = check(gate, user, 1).await;
        assert!(answer.is_allowed() && !answer.is_degraded(), "after {admitted}: {answer:?}");
        if gate.counts().leased_spent > before {
            return (answer, admitted);
        }
        assert!(began.elapsed() < LONG, "nothing is leased");
    }
    unreachable!("it leases or fails")
}

/// Asks until this node holds leased units, and returns how many requests were admitted.
async fn until_held(gate: &SharedGate, user: &str) -> u64 {
    let (mut admitted, began) = (0, Instant::now());
    while held(gate) == 0 {
        admitted += until_leased(gate, user).await.1;
        assert!(began.elapsed() < LONG, "nothing is held");
    }
    admitted
}

/// When a request that was admitted began and ended.
type Admitted = (Instant, Instant);

/// Sends requests for one unit through all gates until a time.
async fn hammer(gates: &[Arc<SharedGate>], until: Instant) -> Vec<Admitted> {
    let mut asking = JoinSet::new();
    for gate in gates.iter().flat_map(|gate| std::iter::repeat_n(gate, TASKS)) {
        let gate = Arc::clone(gate);
        asking.spawn(async move {
            let mut admitted = Vec::new();
            while Instant::now() < until {
                let began = Instant::now();
                let answer = check(&gate, "ada", 1).await;
                assert!(!answer.is_degraded(), "{answer:?}");
                if answer.is_allowed() {
                    admitted.push((began, Instant::now()));
                }
                tokio::task::yield_now().await;
            }
            admitted
        });
    }
    asking.join_all().await.into_iter().flatten().collect()
}

/// Asserts that no more requests than the bound were certainly admitted within one window.
fn within(bound: u64, what: &str, mut admitted: Vec<Admitted>, window: Duration) {
    admitted.sort();
    let inside = |place: usize| {
        let from = admitted[place].0;
        let rest = admitted[place..].iter().take_while(|(began, _)| *began < from + window);
        rest.filter(|(_, ended)| *ended < from + window).count() as u64
    };
    let most = (0..admitted.len()).map(inside).max().unwrap_or_default();
    println!("{what}: {} admitted, {most} of {bound} in a window", admitted.len());
    assert!(most <= bound, "{what}: {most} in a window, of {bound}");
}

/// Sends requests through nodes of a rule until some of their units were taken ahead, and asserts the bound of the rule.
async fn none_above_the_bound(ahead: Ahead, nodes: u64, rule: RuleSpec, lasting: Duration) {
    let (algorithm, window) = (rule.spec.algorithm, rule.spec.window.unwrap());
    let server = Server::start(&[]);
    let gates = ahead.nodes(&server, nodes, &rule).await;
    let (mut admitted, mut spent, began) = (Vec::new(), 0, Instant::now());
    // A slow machine may use the whole limit before a lease arrives. A pause makes room for one.
    while spent == 0 {
        assert!(began.elapsed() < LONG, "{algorithm}: nothing was taken ahead");
        sleep(if admitted.is_empty() { Duration::ZERO } else { window * 2 }).await;
        admitted.extend(hammer(&gates, Instant::now() + lasting).await);
        spent = gates.iter().map(|gate| gate.counts().leased_spent).sum::<u64>();
    }
    let bound = Rule::new(rule.spec).unwrap().bound(1).unwrap();
    within(bound, &format!("{algorithm}, {spent} by {ahead:?}"), admitted, window);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn four_nodes_with_leases_never_pass_the_bound_of_any_algorithm() {
    let lasting = Duration::from_millis(if long() { 10_000 } else { 1_000 });
    for algorithm in ALGORITHMS {
        let spec = Spec::new(algorithm, 400, Duration::from_millis(250));
        let spec = if algorithm == AlgorithmKind::TokenBucket { spec.burst(200) } else { spec };
        let mut rule = Ahead::Leases.of(RuleSpec::new("own", spec).key(["user"]));
        rule.lease = Some(LeaseSpec { max_percent: 20, life: Duration::from_millis(50) });
        none_above_the_bound(Ahead::Leases, 4, rule, lasting).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_nodes_that_share_a_limit_never_pass_the_bound_of_any_algorithm() {
    let lasting = Duration::from_millis(if long() { 10_000 } else { 1_500 });
    for algorithm in ALGORITHMS {
        let spec = Spec::new(algorithm, 2_000, Duration::from_millis(500));
        let rule = Ahead::Shares.of(RuleSpec::new("own", spec).key(["user"]));
        none_above_the_bound(Ahead::Shares, 3, rule, lasting).await;
    }
}

/// Takes the units left through all nodes until so many are admitted, and returns their number.
async fn take_all(gates: &[Arc<SharedGate>], least: u64) -> u64 {
    let (mut admitted, began) = (0, Instant::now());
    // The unspent units of a node come back within the life of its lease.
    while admitted < least && began.elapsed() < LONG {
        admitted += hammer(gates, Instant::now() + Duration::from_millis(20)).await.len() as u64;
    }
    admitted
}

/// Takes all of a limit a day through these nodes, which admit no more, except units that drain in the same time.
async fn assert_all_is_had(gates: &[Arc<SharedGate>], algorithm: AlgorithmKind, limit: u64) {
    let admitted = take_all(gates, limit).await;
    assert!((limit..=most(algorithm, limit)).contains(&admitted), "{algorithm}: {admitted}");
}

/// Repeats a round until units that were taken ahead are spent in it: a slow machine may use a whole limit before a lease
/// arrives.
async fn until_taken_ahead(algorithm: AlgorithmKind, round: impl AsyncFn() -> bool) {
    let began = Instant::now();
    while !round().await {
        assert!(began.elapsed() < LONG, "{algorithm}: nothing was taken ahead");
    }
}

/// The maximum number of units of a limit of a day, when some of them may have drained since.
fn most(algorithm: AlgorithmKind, limit: u64) -> u64 {
    limit + if is_level(algorithm) { LONG.as_secs() * limit / 86_400 + 1 } else { 0 }
}

pub(crate) const fn is_level(algorithm: AlgorithmKind) -> bool {
    matches!(algorithm, AlgorithmKind::TokenBucket | AlgorithmKind::LeakyBucket)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_last_unit_is_had_by_somebody_and_no_unit_more() {
    for (ahead, limit) in [(Ahead::Leases, 600), (Ahead::Shares, 3_000)] {
        for algorithm in ALGORITHMS {
            until_taken_ahead(algorithm, async || {
                let server = Server::start(&[]);
                let gates = ahead.nodes(&server, 3, &ahead.of(rule(algorithm, limit))).await;
                assert_all_is_had(&gates, algorithm, limit).await;
                gates.iter().any(|gate| gate.counts().leased_spent > 0)
            })
            .await;
        }
    }
    let (server, small) =
        (Server::start(&[]), Ahead::Shares.of(rule(AlgorithmKind::FixedWindow, 2)));
    let gates = Ahead::Shares.nodes(&server, 3, &small).await;
    assert_eq!(take_all(&gates, 2).await, 2, "less than one unit for each node");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nodes_that_share_lease_or_do_neither_have_one_limit() {
    const LIMIT: u64 = 3_000;
    for algorithm in [AlgorithmKind::FixedWindow, AlgorithmKind::TokenBucket] {
        until_taken_ahead(algorithm, async || {
            let server = Server::start(&[]);
            let mut gates = Vec::new();
            for ahead in [Ahead::Shares, Ahead::Leases, Ahead::Nothing] {
                let rule = ahead.of(rule(algorithm, LIMIT));
                gates.push(node(&server.url(), None, vec![rule]).await);
            }
            assert_all_is_had(&gates, algorithm, LIMIT).await;
            let spent = [0, 1, 2].map(|node: usize| gates[node].counts().leased_spent);
            assert_eq!(spent[2], 0, "{algorithm}");
            spent[0] > 0 && spent[1] > 0
        })
        .await;
    }
}

#[tokio::test]
async fn a_leased_answer_has_the_values_of_the_last_reply_and_of_the_lease() {
    let server = Server::start(&[]);
    let gate = node(&server.url(), 1, vec![leased(AlgorithmKind::FixedWindow, 5_000)]).await;
    let (answer, _) = until_leased(&gate, "ada").await;
    let decision = *answer.reported().unwrap().decision();
    assert_eq!(decision.limit, 5_000);
    assert!((1_000..5_000).contains(&decision.remaining), "{decision:?}");
    assert!(decision.is_allowed() && !decision.reset_after().is_zero());
    let clock: (u64, u64) = server.run(&["TIME"]);
    let behind = (clock.0 * 1_000_000 + clock.1).abs_diff(answer.at().as_micros());
    assert!(behind < LONG.as_micros() as u64, "its time is the store's: {behind} us");
}
