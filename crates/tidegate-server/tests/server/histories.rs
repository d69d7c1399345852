//! The answers of four servers over one store under load, compared with the definitions one by one.
//!
//! Many clients use each protocol concurrently, and all protocols together. The serial order of the answers is known:
//! first by the store's clock, where an answer says it, then by what each left of the limit. Naive models that are asked
//! in this order must say the same of each request, and no request may stand before one that had been answered when it
//! was sent.

mod loads;

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use futures_util::future::join_all;
use testkit::model::{AlgorithmKind, Expected, Model, Policy};
use testkit::traffic::Rng;
use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::client::Client;
use crate::envoy_api::Code;
use crate::grpc;
use crate::grpc::RateLimitServiceClient;
use crate::process::Server;
use crate::protocols::{Asker, read_replies};
use crate::store::Store;

const SERVERS: usize = 4;
/// Clients of each server and protocol.
const CLIENTS: usize = 24;
/// Requests that a client has under way at a time, if the protocol allows several.
const DEEP: usize = 16;
/// The shortest time for which clients send requests; they go on until some were denied.
const LASTING: Duration = Duration::from_millis(300);
/// The longest wait for a denial: a busy machine may ask less for a while than limits admit.
const PATIENCE: Duration = Duration::from_secs(30);
/// A window that does not end while a test runs.
const DAY_US: u64 = 86_400_000_000;

/// A limiter of a request, and its remaining units.
type Left = (String, u64);

/// One request, and its answer.
#[derive(Clone, Debug)]
struct Answered {
    asked: Instant,
    answered: Instant,
    /// By the store's clock; 0 if the protocol does not report it.
    at_us: u64,
    cost: u64,
    allowed: bool,
    left: Vec<Left>,
    /// All values, if the protocol has all.
    values: Option<Expected>,
}

impl Answered {
    /// The position in the serial order: a request that took more came later, and a denial came
    /// after every request that left as much.
    fn turn(&self) -> (u64, Reverse<u64>, bool, Instant) {
        (self.at_us, Reverse(self.left[0].1), !self.allowed, self.asked)
    }
}

/// Servers over one store, which is given time for every request. A message that comes too late gets an error, which can
/// be distinguished from a denial.
fn servers(store: &Store, rules: &str) -> Vec<Server> {
    let (rules, errors) = (store.with(rules), ["--on-bad-request", "error"]);
    (0..SERVERS).map(|_| Server::with_rules_and(&rules, &errors)).collect()
}

/// A rule for each value of the entry `key`.
fn rule(key: &str, algorithm: AlgorithmKind, limit: u64, window_us: u64) -> String {
    let (algorithm, window_ms) = (algorithm.name(), window_us / 1_000);
    format!(
        "[[rule]]\nname = \"{key}\"\nkey = [\"{key}\"]\nalgorithm = \"{algorithm}\"\nlimit = {limit}\n\
         window = \"{window_ms}ms\"\n"
    )
}

/// Sends requests, up to `deep` at a time if the protocol allows several, and waits for their answers.
async fn ask(asker: &mut Asker, seed: u64, meets: Meets, deep: usize) -> Vec<Answered> {
    let mut rng = Rng::new(seed);
    let asked: Vec<_> = (0..deep).map(|_| Asked::new(&mut rng, meets)).collect();
    match asker {
        Asker::Http(client) => vec![asked[0].over_http(client).await],
        Asker::Grpc(client) => {
            join_all(asked.iter().map(|asked| asked.over_grpc(client.clone(), meets))).await
        }
        Asker::Resp(connection) => Asked::over_resp(&asked, meets, connection).await,
    }
}

/// The limiters that a request meets: one for all, or also one of its user, or only one of its user.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Meets {
    One,
    Two,
    /// Only the limiter of its user, who is one of this many.
    Own(u64),
}

#[derive(Debug)]
struct Asked {
    user: String,
    cost: u64,
}

impl Asked {
    fn new(rng: &mut Rng, meets: Meets) -> Self {
        let users = if let Meets::Own(users) = meets { users } else { 48 };
        Self { user: rng.skewed(users).to_string(), cost: rng.pick([1, 1, 1, 1, 2, 5]) }
    }

    async fn over_http(&self, client: &Client) -> Answered {
        let asked = Instant::now();
        let body = format!(r#"{{"descriptor": {{"all": "x"}}, "cost": {}}}"#, self.cost);
        let answer = client.check(&body).await.json();
        assert_eq!(answer["degraded"], false, "{answer}");
        let number = |name: &str| answer[name].as_u64();
        let values = Expected {
            allowed: answer["allowed"] == true,
            limit: number("limit").unwrap(),
            remaining: number("remaining").unwrap(),
            retry_after_us: number("retry_after_us"),
            reset_after_us: number("reset_after_us").unwrap(),
            delay_us: number("delay_us").unwrap(),
        };
        let reported = self.answered(asked, values.allowed, vec![values.remaining]);
        Answered { at_us: number("at_us").unwrap(), values: Some(values), ..reported }
    }

    async fn over_grpc(&self, mut client: RateLimitServiceClient, meets: Meets) -> Answered {
        let asked = Instant::now();
        let mut descriptors = vec![grpc::costing(self.cost, &[("all", "x")])];
        if meets == Meets::Two {
            descriptors.push(grpc::costing(self.cost, &[("user", &self.user)]));
        }
        let request = grpc::request_in("default", descriptors);
        let answer = loop {
            match client.should_rate_limit(request.clone()).await {
                Ok(answer) => break answer.into_inner(),
                // A client without processor time sends its message too late. Nothing was decided.
                Err(status) => assert_eq!(status.code(), tonic::Code::DeadlineExceeded, "{status}"),
            }
        };
        let left = answer.statuses.iter().map(|status| u64::from(status.limit_remaining));
        self.answered(asked, answer.overall_code() == Code::Ok, left.collect())
    }

    async fn over_resp(all: &[Self], meets: Meets, connection: &mut TcpStream) -> Vec<Answered> {
        let asked = Instant::now();
        let mut pipe = redis::pipe();
        for one in all {
            let cost = one.cost.to_string();
            let own = matches!(meets, Meets::Own(_));
            let (name, value) = if own { ("user", one.user.as_str()) } else { ("all", "x") };
            pipe.cmd("TG.CHECK").arg(&["default", "COST", &cost, name, value]);
        }
        connection.write_all(&pipe.get_packed_pipeline()).await.unwrap();
        let reported =
            read_replies(connection, all.len()).await.into_iter().zip(all).map(|(answer, one)| {
                assert_eq!(answer["degraded"], redis::Value::Int(0), "{answer:?}");
                let number = |name: &str| match answer[name] {
                    redis::Value::Int(number) => u64::try_from(number).unwrap(),
                    _ => panic!("{name} is no number: {answer:?}"),
                };
                let reported =
                    one.answered(asked, number("allowed") == 1, vec![number("remaining")]);
                match meets {
                    Meets::Own(_) => {
                        Answered { left: vec![(one.user.clone(), reported.left[0].1)], ..reported }
                    }
                    Meets::One | Meets::Two => reported,
                }
            });
        reported.collect()
    }

    /// The answer that has just arrived.
    fn answered(&self, asked: Instant, allowed: bool, left: Vec<u64>) -> Answered {
        let asks = [String::new(), self.user.clone()];
        let left = asks.into_iter().zip(left).collect();
        let (answered, cost) = (Instant::now(), self.cost);
        Answered { asked, answered, at_us: 0, cost, allowed, left, values: None }
    }
}

/// Has all clients ask, each for up to `deep` answers at a time, until the time is over and some were denied.
async fn history(askers: Vec<Asker>, meets: Meets, deep: usize) -> Vec<Answered> {
    let (mut all, begun) = (JoinSet::new(), Instant::now());
    let denied = Arc::new(AtomicBool::new(false));
    for (number, mut asker) in askers.into_iter().enumerate() {
        let denied = Arc::clone(&denied);
        all.spawn(async move {
            let (mut rng, mut answer) = (Rng::new(number as u64), Vec::new());
            let lasting = || if denied.load(Relaxed) { LASTING } else { PATIENCE };
            while begun.elapsed() < lasting() {
                let answers = ask(&mut asker, rng.next_u64(), meets, deep).await;
                if answers.iter().any(|answer| !answer.allowed) {
                    denied.store(true, Relaxed);
                }
                answer.extend(answers);
            }
            answer
        });
    }
    all.join_all().await.concat()
}

/// Compares the answers with the models of their limiters, one after the other.
fn judge(mut history: Vec<Answered>, policy: impl Fn(&str) -> Policy) {
    is_saturated(&history);
    compare(&mut history, &policy);
}

fn compare(history: &mut [Answered], policy: impl Fn(&str) -> Policy) {
    history.sort_by_key(Answered::turn);
    let mut models: HashMap<String, Model> = HashMap::new();
    let mut latest = None::<Instant>;
    for answer in history {
        assert!(
            latest.is_none_or(|latest| answer.answered >= latest),
            "answered too early: {answer:?}"
        );
        latest = latest.max(Some(answer.asked));
        for (ask, _) in &answer.left {
            models.entry(ask.clone()).or_insert_with(|| Model::new(policy(ask)));
        }
        let mut on_each = |run: &dyn Fn(&mut Model) -> Expected| -> Vec<_> {
            answer.left.iter().map(|(ask, _)| run(models.get_mut(ask).unwrap())).collect()
        };
        let mut expected = on_each(&|model| model.peek(answer.at_us, answer.cost));
        let allowed = expected.iter().all(|one| one.allowed);
        if allowed {
            expected = on_each(&|model| model.step(answer.at_us, answer.cost));
        }
        let left: Vec<_> = answer.left.iter().map(|(_, left)| *left).collect();
        let expected_left: Vec<_> = expected.iter().map(|one| one.remaining).collect();
        assert_eq!((answer.allowed, &left), (allowed, &expected_left), "{answer:#?}");
        if let Some(values) = answer.values {
            assert_eq!(values, expected[0], "{answer:#?}");
        }
    }
}

/// Makes sure that some requests were admitted and some denied.
fn is_saturated(history: &[Answered]) {
    let admitted = history.iter().filter(|answer| answer.allowed).count();
    let denied = history.len() - admitted;
    assert!(admitted > 0 && denied > 0, "it was not saturated: {admitted} and {denied}");
}

fn http(servers: &[Server]) -> impl Iterator<Item = Asker> {
    let clients = servers.iter().map(|server| server.client());
    clients.flat_map(|client| (0..CLIENTS).map(move |_| Asker::Http(client.clone())))
}

/// Connections over RESP, dealt to the servers in turn.
async fn resp(servers: &[Server], connections: usize) -> Vec<Asker> {
    let mut askers = Vec::new();
    for server in servers.iter().cycle().take(connections) {
        askers.push(Asker::Resp(TcpStream::connect(server.resp).await.unwrap()));
    }
    askers
}

/// Connections over gRPC, dealt to the servers in turn.
async fn grpc(servers: &[Server], connections: usize) -> Vec<Asker> {
    let mut askers = Vec::new();
    for server in servers.iter().cycle().take(connections) {
        askers.push(Asker::Grpc(grpc::client(server).await));
    }
    askers
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn four_servers_answer_over_http_as_the_definitions_of_all_algorithms() {
    for algorithm in AlgorithmKind::ALL {
        let (store, limit, window_us) = (Store::start(), 60, 50_000);
        let servers = servers(&store, &rule("all", algorithm, limit, window_us));
        let history = history(http(&servers).collect(), Meets::One, DEEP).await;
        judge(history, |_| Policy::new(algorithm, limit, window_us));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn four_servers_answer_over_all_protocols_at_once_as_the_definition() {
    let (store, log) = (Store::start(), AlgorithmKind::SlidingLog);
    let servers = servers(&store, &rule("all", log, 1_000, DAY_US));
    let mut askers = grpc(&servers, SERVERS * CLIENTS).await;
    askers.extend(http(&servers));
    askers.extend(resp(&servers, SERVERS * CLIENTS).await);
    let mut history = history(askers, Meets::One, DEEP).await;
    // Two of the protocols do not report the time.
    history.iter_mut().for_each(|answer| (answer.at_us, answer.values) = (0, None));
    judge(history, |_| Policy::new(log, 1_000, DAY_US));
}
