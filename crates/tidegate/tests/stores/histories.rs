//! The answers of four nodes over one store under more load than fits, compared with the definitions one by
//! one.
//!
//! [`Answer::at`] is the store's time of an answer. Many answers have the same time, because requests go to the
//! store together; among these the order is that in which the first of their limiters was used up. So the
//! serial order is known, and naive models that are asked in it must return the same values for each request.
//! `TIDEGATE_LONG=1` runs three times as long.

mod late;
#[path = "../common/words.rs"]
mod words;

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use testkit::model::{self, Expected, Model};
use testkit::traffic::Rng;
use tidegate::store::Store;
use tidegate::{
    AlgorithmKind, Answer, Descriptor, Request, RuleSpec, SharedGate, Spec, StoreCounts,
    StoreSettings,
};
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::server::{LONG, Server, long, settings, unconnected};
use words::expected;

/// Nodes over one store.
const GATES: u64 = 4;
/// The number of requests of each node that wait for an answer together.
const TASKS: u64 = 512;
/// The pause between an answer and the next request of a task, because an answer of the node itself may take no
/// time.
const PAUSE: Duration = Duration::from_millis(2);

/// Returns how long requests are sent.
fn lasting() -> Duration {
    if long() { Duration::from_millis(900) } else { Duration::from_millis(300) }
}

/// One request, of one user.
#[derive(Clone, Debug)]
struct Asked {
    domain: &'static str,
    user: u64,
    cost: u64,
}

/// A limiter: its rule, and its user if each user has one.
type LimiterName = (String, Option<String>);

/// An answer.
#[derive(Clone, Debug)]
struct Answered {
    node: u64,
    asked: Asked,
    at_us: u64,
    allowed: bool,
    /// True if it was decided without the store.
    degraded: bool,
    each: Vec<(LimiterName, Expected)>,
}

impl Answered {
    fn of(node: u64, asked: Asked, answer: &Answer<'_>) -> Self {
        let each = answer.matched().into_iter().map(|matched| {
            let spec = matched.rule().spec();
            let user = (!spec.key.is_empty()).then(|| asked.user.to_string());
            ((spec.name.clone(), user), expected(matched.decision()))
        });
        Self {
            node,
            at_us: answer.at().as_micros(),
            allowed: answer.is_allowed(),
            degraded: answer.is_degraded(),
            each: each.collect(),
            asked,
        }
    }

    /// The position in the serial order: a request that took more of the first limiter came later, and a request that
    /// took nothing came after all requests that left as much.
    fn turn(&self) -> (u64, Reverse<u64>, bool) {
        let remaining = self.each.first().map_or(0, |(_, decision)| decision.remaining);
        (self.at_us, Reverse(remaining), !self.allowed || self.asked.cost == 0)
    }
}

/// A rule, and the input of its model.
#[derive(Clone, Debug)]
struct Pair {
    spec: RuleSpec,
    policy: model::Policy,
}

impl Pair {
    fn new(name: &str, algorithm: AlgorithmKind, limit: u64, window_ms: u64) -> Self {
        let spec = Spec::new(algorithm, limit, Duration::from_millis(window_ms));
        let model = model::AlgorithmKind::named(algorithm.name()).unwrap();
        let policy = model::Policy::new(model, limit, window_ms * 1_000);
        Self { spec: RuleSpec::new(name, spec), policy }
    }

    fn per_user(self) -> Self {
        Self { spec: self.spec.key(["user"]), ..self }
    }

    fn in_domain(self, domain: &str) -> Self {
        Self { spec: self.spec.in_domain(domain), ..self }
    }
}

/// Makes nodes with the same rules.
async fn nodes(settings: &StoreSettings, pairs: &[Pair]) -> Vec<Arc<SharedGate>> {
    let mut gates = Vec::new();
    for _ in 0..GATES {
        let rules = pairs.iter().map(|pair| pair.spec.clone()).collect();
        let gate = unconnected(settings.clone(), rules);
        // The first check may find the store too slow if other processes keep the processor busy.
        gate.store().fit().await;
        gates.push(Arc::new(gate));
    }
    gates
}

/// Returns all answers to requests from `asks`, with `TASKS` tasks on each node. The seed of each task is its
/// number.
async fn history(
    gates: &[Arc<SharedGate>],
    tasks: u64,
    asks: impl Fn(&mut Rng) -> Asked + Clone + Send + 'static,
) -> Vec<Answered> {
    let (mut all, ends) = (JoinSet::new(), Instant::now() + lasting());
    for (node, task) in (0..GATES).flat_map(|node| (0..tasks).map(move |task| (node, task))) {
        let (gate, asks) = (Arc::clone(&gates[node as usize]), asks.clone());
        all.spawn(async move {
            let (mut rng, mut reported) = (Rng::new(node * tasks + task), Vec::new());
            while Instant::now() < ends {
                let asked = asks(&mut rng);
                let user = asked.user.to_string();
                let entries = [("user", user.as_str())];
                let descriptors = [Descriptor::new(&entries).cost(asked.cost)];
                let answer = gate.check(&Request::new(asked.domain, &descriptors)).await;
                reported.push(Answered::of(node, asked, &answer));
                if answer.is_degraded() {
                    tokio::time::sleep(PAUSE).await;
                }
            }
            reported
        });
    }
    all.join_all().await.concat()
}

/// Returns the counts of all nodes.
fn counts(gates: &[Arc<SharedGate>]) -> Vec<StoreCounts> {
    gates.iter().map(|gate| gate.counts()).collect()
}

/// Compares exact answers with the models, in order. Returns how many were admitted, and how many not.
fn judge(pairs: &[Pair], mut history: Vec<Answered>) -> (usize, usize) {
    history.sort_by_key(Answered::turn);
    let policies: HashMap<_, _> =
        pairs.iter().map(|pair| (pair.spec.name.clone(), &pair.policy)).collect();
    let mut models: HashMap<&LimiterName, Model> = HashMap::new();
    for (place, answer) in history.iter().enumerate() {
        assert!(!answer.degraded && !answer.each.is_empty(), "{answer:?}");
        let (at_us, cost) = (answer.at_us, answer.asked.cost);
        let mut look = |ask| {
            let model = models.entry(ask).or_insert_with(|| Model::new(policies[&ask.0].clone()));
            model.peek(at_us, cost)
        };
        let mut expected: Vec<_> = answer.each.iter().map(|(ask, _)| look(ask)).collect();
        let allowed = expected.iter().all(|one| one.allowed);
        if allowed {
            let each = answer.each.iter().zip(&mut expected);
            each.for_each(|((ask, _), one)| *one = models.get_mut(ask).unwrap().step(at_us, cost));
        }
        let each: Vec<_> = answer.each.iter().map(|(_, values)| *values).collect();
        if (answer.allowed, &each) != (allowed, &expected) {
            let around = &history[place.saturating_sub(4)..history.len().min(place + 4)];
            let around: Vec<_> = around.iter().map(|answer| format!("{answer:?}")).collect();
            let of = format!("answer {place} of {}: {answer:#?}", history.len());
            panic!("{of}\nexpected {allowed}: {expected:#?}\namong\n{}", around.join("\n"));
        }
    }
    let admitted = history.iter().filter(|answer| answer.allowed).count();
    (admitted, history.len() - admitted)
}

/// Returns whether requests were admitted and denied.
fn is_saturated(all: &[Answered]) -> bool {
    [true, false].iter().all(|allowed| all.iter().any(|answer| answer.allowed == *allowed))
}

/// Sends requests to nodes with enough time for each of them, and compares every answer.
async fn all_are_right(
    server: &Server,
    pairs: &[Pair],
    asks: impl Fn(&mut Rng) -> Asked + Clone + Send + 'static,
) {
    let mut patient = settings(&server.url());
    patient.nodes = Some(GATES);
    let gates = nodes(&patient, pairs).await;
    let (mut all, began) = (Vec::new(), Instant::now());
    // A machine that stands still may leave a node no time to ask. Then all nodes ask again.
    while !is_saturated(&all) || counts(&gates).iter().any(|node| node.merged == 0) {
        assert!(began.elapsed() < LONG, "no requests went together: {:?}", counts(&gates));
        all.extend(history(&gates, TASKS, asks.clone()).await);
    }
    let counts = counts(&gates);
    let (admitted, denied) = judge(pairs, all);
    let names: Vec<_> = pairs.iter().map(|pair| pair.spec.name.as_str()).collect();
    println!("{}: {admitted} admitted, {denied} denied", names.join(", "));
    for node in counts {
        assert_eq!((node.local, node.shed, node.late), (0, 0, 0), "the store decided all");
    }
}

/// Mostly single units, sometimes none, and sometimes more than ever fits.
fn cost(rng: &mut Rng) -> u64 {
    rng.pick([0, 1, 1, 1, 1, 1, 1, 2, 5, 1_000_000])
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_answer_about_a_key_that_many_ask_for_is_that_of_the_definition() {
    let server = Server::start(&[]);
    for algorithm in AlgorithmKind::ALL {
        let pairs = [Pair::new(algorithm.name(), *algorithm, 60, 50).per_user()];
        all_are_right(&server, &pairs, |rng| Asked { domain: "default", user: 0, cost: cost(rng) })
            .await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_answer_of_a_rule_for_all_beside_one_for_each_user_is_that_of_the_definitions() {
    let server = Server::start(&[]);
    for (place, algorithm) in AlgorithmKind::ALL.iter().enumerate() {
        let other = AlgorithmKind::ALL[(place + 3) % AlgorithmKind::ALL.len()];
        let all = Pair::new(&format!("all-{algorithm}"), *algorithm, 100, 50);
        let per_user = Pair::new(&format!("user-{other}"), other, 15, 70).per_user();
        let asks = |rng: &mut Rng| {
            // Few users ask often and many rarely, so that either rule refuses at times.
            let (user, cost) = (rng.skewed(64), cost(rng));
            Asked { domain: "default", user, cost }
        };
        all_are_right(&server, &[all, per_user], asks).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_answer_about_many_keys_is_that_of_the_definition() {
    let server = Server::start(&[]);
    let pair = |algorithm: &AlgorithmKind| {
        let name = algorithm.name();
        Pair::new(name, *algorithm, 3, 40).per_user().in_domain(name)
    };
    let pairs: Vec<_> = AlgorithmKind::ALL.iter().map(pair).collect();
    let asks = |rng: &mut Rng| {
        let place = rng.below(AlgorithmKind::ALL.len() as u64) as usize;
        Asked { domain: AlgorithmKind::ALL[place].name(), user: rng.below(100), cost: cost(rng) }
    };
    all_are_right(&server, &pairs, asks).await;
}
