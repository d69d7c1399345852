//! Histories of tasks that ask a store while the limit rises and falls all the time, on one node and on two.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use tidegate::{AlgorithmKind, Policy, RuleSpec, SharedGate};
use tokio::task::JoinSet;

use crate::changes::History;
use crate::server::{LONG, Server, check, gate_over, long, rule};

fn rules(algorithm: AlgorithmKind, limit: u64, step: u64) -> Vec<RuleSpec> {
    let mut own = rule(algorithm, limit);
    "r".clone_into(&mut own.name);
    let open = rule(AlgorithmKind::LeakyBucket, 10_000_000);
    if step.is_multiple_of(3) { vec![open, own] } else { vec![own] }
}

/// The limit rises, and every second limit is far below usage.
fn limit(step: u64) -> u64 {
    if step.is_multiple_of(2) { 10 + 5 * step } else { 1 + 2 * step }
}

/// Runs 32 tasks over `nodes` nodes and checks the admitted units. Each node changes the limit `steps` times.
async fn history(server: &Server, nodes: usize, algorithm: AlgorithmKind, steps: u64) {
    let (history, done) = (Arc::new(History::default()), Arc::new(AtomicBool::new(false)));
    let mut gates = Vec::new();
    for _ in 0..nodes {
        let (gate, events) = gate_over(&server.url(), rules(algorithm, limit(0), 0)).await;
        gates.push((Arc::new(gate), Arc::new(events)));
    }
    history.change(limit(0), || ());
    let user = format!("ada of {nodes}");
    let mut tasks = JoinSet::new();
    for task in 0..32 {
        let (gate, events): (Arc<SharedGate>, _) = gates[task % nodes].clone();
        let user = user.clone();
        let (history, done) = (Arc::clone(&history), Arc::clone(&done));
        tasks.spawn(async move {
            loop {
                let (was_last, begun) = (done.load(SeqCst), history.now());
                let answer = check(&gate, &user, 1).await;
                assert!(!answer.is_degraded(), "{:?} {answer:?}", events.seen());
                if !history.note(begun, &answer) && was_last {
                    return;
                }
            }
        });
    }
    for step in 1..=steps {
        for (gate, _) in &gates {
            let policy = Policy::new(rules(algorithm, limit(step), step)).unwrap();
            history.change(limit(step), || gate.replace(policy).unwrap());
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    done.store(true, SeqCst);
    tasks.join_all().await;
    let history = Arc::into_inner(history).unwrap();
    assert_eq!(
        history.check(nodes == 1),
        limit(steps),
        "{algorithm}: all units of the last limit were had"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_limit_that_moves_all_the_time_admits_each_unit_once_and_refuses_nobody_for_less() {
    let server = Server::start(&[]);
    let steps = if long() { 400 } else { 40 };
    for algorithm in
        [AlgorithmKind::SlidingLog, AlgorithmKind::TokenBucket, AlgorithmKind::FixedWindow]
    {
        for nodes in [1, 2] {
            history(&server, nodes, algorithm, steps).await;
            server.run::<()>(&["FLUSHALL"]);
        }
    }
}

/// A rule comes and goes next to a rule that stays. It is charged for requests that came while it was surely in force,
/// and not for those that came while it was surely removed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rule_that_comes_and_goes_counts_what_came_while_it_was_in_force() {
    const MOST: u64 = 1_000_000;
    let server = Server::start(&[]);
    let stays = || rule(AlgorithmKind::FixedWindow, MOST);
    let counts = || rule(AlgorithmKind::SlidingLog, MOST);
    let (gate, _) = gate_over(&server.url(), vec![stays()]).await;
    let gate = Arc::new(gate);
    // Twice the number of changes so far, plus one while a change is under way.
    let (phase, answered) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let done = Arc::new(AtomicBool::new(false));
    let mut tasks = JoinSet::new();
    for _ in 0..32 {
        let (gate, phase, done) = (Arc::clone(&gate), Arc::clone(&phase), Arc::clone(&done));
        let answered = Arc::clone(&answered);
        tasks.spawn(async move {
            let [mut surely, mut perhaps, mut all] = [0, 0, 0];
            while !done.load(SeqCst) {
                let before = phase.load(SeqCst);
                let answer = check(&gate, "ada", 1).await;
                assert!(answer.is_allowed() && !answer.is_degraded(), "{answer:?}");
                answered.fetch_add(1, SeqCst);
                let begun_in = answer.matched().len() == 2;
                let is_still = before == phase.load(SeqCst) && before.is_multiple_of(2);
                let is_there = before / 2 % 2 == 1;
                assert!(!is_still || begun_in == is_there, "one policy decides, the one of then");
                surely += u64::from(is_still && is_there);
                perhaps += u64::from(!is_still || is_there);
                all += 1;
            }
            [surely, perhaps, all]
        });
    }
    for change in 1..=41 {
        let rules = if change % 2 == 1 { vec![counts(), stays()] } else { vec![stays()] };
        phase.fetch_add(1, SeqCst);
        gate.replace(Policy::new(rules).unwrap()).unwrap();
        phase.fetch_add(1, SeqCst);
        // Each task had one request under way at the change. Another 32 are of this phase alone.
        let so_many = answered.load(SeqCst) + 64;
        let are_answered = async {
            while answered.load(SeqCst) < so_many {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::time::timeout(LONG, are_answered).await.unwrap();
    }
    done.store(true, SeqCst);
    let reported = tasks.join_all().await;
    let [surely, perhaps, all] =
        [0, 1, 2].map(|place| reported.iter().map(|one| one[place]).sum::<u64>());
    let answer = check(&gate, "ada", 0).await;
    let used: Vec<_> = answer.matched().iter().map(|one| MOST - one.decision().remaining).collect();
    assert!((surely..=perhaps).contains(&used[0]) && surely > 0, "{used:?} {surely} {perhaps}");
    assert_eq!(used[1], all, "the rule that stays counted every request");
}
