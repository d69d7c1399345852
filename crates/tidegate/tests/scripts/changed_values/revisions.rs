//! Two sets of values at once, by scripts: nodes of an old and of a new configuration ask about one key, and the
//! newest revision that has taken from it decides. A random walk compares it with a naive model; this command prints
//! the table of bench/results/faults.md, for each algorithm in both orders:
//!
//! `cargo test -p tidegate --all-features --test scripts two_sets -- --nocapture | grep '^|'`

use crate::server::policies::{checked, laid_out, layouts};
use crate::server::{Client, long, one, words};
use testkit::model::{self, Policy, Revised};
use testkit::traffic::{self, Rng};
use tidegate::script::{Revision, ScriptStep};
use tidegate::{Decision, Layout, Micros, Rule, Timestamp};

/// A time of our days, at the beginning of a second.
const TODAY_US: u64 = 1_763_700_000_000_000;

/// A node: its values, and their revision.
#[derive(Clone)]
struct Node {
    policy: Policy,
    rule: Rule,
    revision: u64,
}

impl Node {
    fn new(policy: Policy, layout: Layout, revision: u64) -> Self {
        Self { rule: laid_out(&policy, layout), policy, revision }
    }

    fn step(
        &self,
        client: &Client,
        key: &str,
        step: ScriptStep,
        at_us: u64,
        cost: u64,
    ) -> Decision {
        let revision = Revision::new(0, Timestamp::from_micros(self.revision));
        let limiter = one(&key, &self.rule, cost).of_revision(revision);
        client.step(&[limiter], step, Some(Timestamp::from_micros(at_us))).decisions[0]
    }
}

fn is_as_expected(answer: &Decision, expected: &model::Expected) -> bool {
    let answer = words::expected(answer);
    (answer.allowed, answer.retry_after_us, answer.limit, answer.remaining)
        == (expected.allowed, expected.retry_after_us, expected.limit, expected.remaining)
}

/// The time for which the values let one wait for a cost by themselves, at most.
fn longest_wait_us(policy: &Policy) -> u64 {
    let fills = policy.decision_limit() * policy.window_us / policy.limit + 1;
    match policy.algorithm {
        model::AlgorithmKind::SlidingCounter => 2 * policy.window_us,
        model::AlgorithmKind::SlidingLog => policy.window_us + policy.resolution_us,
        model::AlgorithmKind::SlidingWindow => policy.window_us + policy.window_us / policy.buckets,
        algorithm if algorithm.has_capacity() => fills,
        _ => policy.window_us,
    }
}

/// The maximum number of units that an interval of a window or less can admit, of requests of up to `cost`.
fn bound(node: &Node, cost: u64) -> u64 {
    match node.policy.algorithm {
        // Its bound is of what leaves.
        model::AlgorithmKind::LeakyQueue => node.policy.decision_limit() + node.policy.limit,
        _ => node.rule.bound(cost).unwrap(),
    }
}

fn some_policy(rng: &mut Rng, algorithm: model::AlgorithmKind) -> Policy {
    loop {
        let mut policy = traffic::policy(rng, algorithm);
        policy.limit = 1 + rng.below(12);
        policy.capacity = policy.capacity.map(|_| 1 + rng.below(12));
        policy.window_us = rng.pick([60_000, 120_000, 600_000]);
        (policy.buckets, policy.resolution_us, policy.initial) = (6, rng.pick([1, 5_000]), None);
        if checked(&policy).is_ok() {
            return policy;
        }
    }
}

/// Nodes of two configurations ask in turn; nodes of the old configuration restart now and then.
fn walk(client: &Client, rng: &mut Rng, key: &str, mut nodes: [Node; 2], restarts: bool) {
    let mut model = Revised::new(&nodes[0].policy);
    let (mut at_us, mut admitted, mut began) = (TODAY_US, Vec::new(), 0);
    let most_cost = 3;
    let shortest = nodes.iter().map(|node| node.policy.window_us).min().unwrap();
    for turn in 0..150 {
        at_us += rng.pick([0, 1, 700, 9_000, 9_000, 30_000, 120_000]);
        // First the old nodes alone.
        let which = if turn < 8 { 0 } else { usize::from(rng.chance(50)) };
        if restarts && rng.chance(4) {
            // The policy that was loaded later is the newer, with any values.
            nodes[0].revision = 10 + turn;
            began += 1;
        }
        let (node, cost) = (&nodes[which], 1 + rng.below(most_cost));
        let context = || format!("{key} turn {turn}: node {which}, {cost} at {at_us}");
        if rng.chance(15) {
            let expected = model.clone().step(at_us, node.revision, &node.policy, cost);
            let answer = node.step(client, key, ScriptStep::Peek, at_us, cost);
            assert_eq!(answer.is_allowed(), expected.allowed, "{}", context());
            continue;
        }
        let expected = model.step(at_us, node.revision, &node.policy, cost);
        let answer = node.step(client, key, ScriptStep::Ask, at_us, cost);
        assert!(is_as_expected(&answer, &expected), "{}: {answer:?} {expected:?}", context());
        if answer.is_allowed() {
            admitted.push((at_us, cost));
            let inside = admitted.iter().filter(|(then_us, _)| then_us + shortest > at_us);
            let inside: u64 = inside.map(|(_, cost)| cost).sum();
            let most = bound(&nodes[0], most_cost) + bound(&nodes[1], most_cost);
            assert!(restarts || inside <= most, "{}: {inside} of {most}", context());
        } else if let Some(wait) = answer.retry_after() {
            // A level may also wait for a window's drain, because of units that the other values admitted.
            let because =
                if node.policy.algorithm.has_capacity() { node.policy.window_us } else { 0 };
            let longest = longest_wait_us(&node.policy) + because;
            let longest = longest.max(longest_wait_us(model.policy()));
            assert!(
                Micros::from(wait).as_micros() <= longest,
                "{}: {wait:?} of {longest}",
                context()
            );
        }
    }
    assert!(model.changes() <= 1 + 2 * began, "{key}: {} changes", model.changes());
}

fn walks(algorithm: model::AlgorithmKind, layout: Layout) {
    let client = Client::start();
    let rng = &mut Rng::new(17);
    for number in 0..if long() { 300 } else { 24 } {
        let other = match number % 3 {
            0 => rng.pick(model::AlgorithmKind::ALL),
            _ => algorithm,
        };
        // To scripts the two buckets are one algorithm, to the models two.
        let is_bucket = |it| {
            matches!(it, model::AlgorithmKind::TokenBucket | model::AlgorithmKind::LeakyBucket)
        };
        let other = if is_bucket(other) && is_bucket(algorithm) { algorithm } else { other };
        let (one, other) = (some_policy(rng, algorithm), some_policy(rng, other));
        let (old, new) = if number % 2 == 0 { (one, other) } else { (other, one) };
        let nodes = [Node::new(old, layout, 1), Node::new(new, layout, 2)];
        let key = format!("{}:{layout:?}:{number}", algorithm.name());
        walk(&client, rng, &key, nodes, number % 4 == 3);
    }
    assert!(client.superseded.get() > 50, "old nodes found newer values");
}

#[test]
fn the_newest_revision_that_has_taken_decides() {
    let counted =
        layouts().filter(|(algorithm, _)| *algorithm != model::AlgorithmKind::Concurrency);
    counted.for_each(|(algorithm, layout)| walks(algorithm, layout));
}

/// 5 units in so many seconds.
fn five(algorithm: model::AlgorithmKind, window_s: u64) -> Node {
    let mut policy = Policy::new(algorithm, 5, window_s * 1_000_000);
    policy.capacity = algorithm.has_capacity().then_some(5);
    Node::new(policy, Layout::String, 1)
}

/// Which nodes ask.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Which {
    Old,
    New,
    /// Both in turn, after a second of the old alone.
    Both,
    /// The same, and the old node restarts every second.
    Restarts,
    /// The same, and neither says its revision.
    RestartsWithoutWords,
}

/// The results of ten seconds.
#[derive(Default)]
struct Answered {
    admitted: usize,
    /// The maximum in any second.
    densest: usize,
    /// The longest that nothing was admitted.
    pause_ms: u64,
    /// The number of times that other values took effect.
    changes: usize,
}

/// A request every 50 ms for ten seconds.
fn ten_seconds(client: &Client, nodes: [&Node; 2], which: Which) -> Answered {
    let (mut answer, mut admitted, mut windows) = (Answered::default(), Vec::new(), Vec::new());
    for turn in 0..200 {
        let at_ms = turn * 50;
        let is_new = match which {
            Which::Old => false,
            Which::New => true,
            _ => turn >= 20 && turn % 2 == 1,
        };
        let restarts = matches!(which, Which::Restarts | Which::RestartsWithoutWords);
        let began_ms = if is_new { 1_000 } else { at_ms / 1_000 * 1_000 * u64::from(restarts) };
        let word = if which == Which::RestartsWithoutWords { 0 } else { 1 + u32::from(is_new) };
        let revision = Revision::new(word, Timestamp::from_micros(TODAY_US + began_ms * 1_000));
        let rule = &nodes[usize::from(is_new)].rule;
        let limiter = one("five", rule, 1).of_revision(revision);
        let at = Timestamp::from_micros(TODAY_US + at_ms * 1_000);
        if !client.step(&[limiter], ScriptStep::Ask, Some(at)).allowed {
            continue;
        }
        // Its window is a part of what is stored.
        let window = client.run(&[b"GETRANGE", b"five", b"6", b"11"]).unwrap();
        if windows.last() != Some(&window) {
            windows.push(window);
        }
        answer.pause_ms = answer.pause_ms.max(at_ms - admitted.last().copied().unwrap_or_default());
        admitted.push(at_ms);
        let inside = admitted.iter().filter(|then_ms| **then_ms + 1_000 > at_ms);
        answer.densest = answer.densest.max(inside.count());
    }
    client.run(&[b"DEL", b"five"]).unwrap();
    (answer.admitted, answer.changes) = (admitted.len(), windows.len() - 1);
    answer
}

/// In turn, two sets of values admit about as much as one of them, and make no caller wait longer than one.
#[test]
fn two_sets_of_values_by_turns_for_ten_seconds() {
    let client = Client::start();
    for algorithm in model::AlgorithmKind::ALL {
        for [old_s, new_s] in [[2, 1], [1, 2]] {
            let nodes = [five(algorithm, old_s), five(algorithm, new_s)];
            let nodes = [&nodes[0], &nodes[1]];
            let run = |which| ten_seconds(&client, nodes, which);
            let (old, new) = (run(Which::Old), run(Which::New));
            let most = nodes.map(|node| bound(node, 1)).iter().sum::<u64>() as usize;
            let longest_ms = nodes.map(|node| longest_wait_us(&node.policy) / 1_000);
            for which in [Which::Both, Which::Restarts, Which::RestartsWithoutWords] {
                let answer = run(which);
                println!(
                    "| {} | 5/{old_s}s, 5/{new_s}s | {} | {} | {} | {} of {most} | {} | {} |",
                    algorithm.name(),
                    match which {
                        Which::Both => "in turn",
                        Which::Restarts => "the old node restarts every second",
                        _ => "the same, without `revision`",
                    },
                    answer.admitted,
                    format_args!("{} and {}", old.admitted, new.admitted),
                    answer.densest,
                    answer.pause_ms,
                    answer.changes,
                );
                let context = format!("{algorithm:?} {old_s} {new_s} {which:?}");
                assert!(answer.densest <= most, "{context}: {} in a second", answer.densest);
                let (few, many) = (old.admitted.min(new.admitted), old.admitted.max(new.admitted));
                assert!(
                    (few - 5..=many + 5).contains(&answer.admitted),
                    "{context}: {}",
                    answer.admitted
                );
                let longest_ms = longest_ms[0].max(longest_ms[1]) + 50;
                assert!(answer.pause_ms <= longest_ms, "{context}: {} ms", answer.pause_ms);
                let restarts = which == Which::RestartsWithoutWords;
                assert!(
                    answer.changes <= if restarts { 9 } else { 1 },
                    "{context}: {}",
                    answer.changes
                );
            }
        }
    }
}
