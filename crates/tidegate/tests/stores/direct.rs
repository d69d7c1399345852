//! Calls that find the store idle go over a connection of the runtime that asks. The conformance kit runs all verbs that
//! way over one server.

use std::collections::VecDeque;
use std::future::{poll_fn, ready};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tidegate::store::Store;
use tidegate::{AlgorithmKind, Descriptor, OnStoreError, Policy, Request, SharedGate};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

use crate::server::{Events, LOG_ALL, LONG, Server, check, gate_with, remaining, rule, settings};

const LIMIT: u64 = 100;
/// The units of questions in order.
const MANY: u64 = 4_000;

/// Makes a gate whose direct calls go over a connection of this runtime, which is open.
async fn gate(server: &Server, timeout: Duration) -> (SharedGate, Events) {
    gate_of(server, timeout, AlgorithmKind::SlidingLog, LIMIT).await
}

async fn gate_of(
    server: &Server,
    timeout: Duration,
    algorithm: AlgorithmKind,
    limit: u64,
) -> (SharedGate, Events) {
    let mut settings = settings(&server.url());
    settings.direct = true;
    settings.timeout = timeout;
    let rule = rule(algorithm, limit).on_store_error(OnStoreError::Closed);
    let (gate, events) = gate_with(settings, vec![rule]).await;
    open(server, &gate).await;
    (gate, events)
}

/// Asks until the gate has a second connection, over which a script ran last. The first may have told the time since.
async fn open(server: &Server, gate: &SharedGate) {
    let is_first = |last: &String| addresses(server, &["time", "eval"]).first() == Some(last);
    while scripts(server).last().is_none_or(is_first) {
        assert!(!check(gate, "bob", 1).await.is_degraded());
        sleep(Duration::from_millis(1)).await;
    }
}

/// The addresses of the connections whose last command ran a script, in the order in which they were opened.
fn scripts(server: &Server) -> Vec<String> {
    addresses(server, &["eval"])
}

/// The addresses of the connections whose last command begins with one of these names.
fn addresses(server: &Server, commands: &[&str]) -> Vec<String> {
    let list: String = server.run(&["CLIENT", "LIST"]);
    let clients = list.lines().filter(|line| {
        let (_, command) = line.split_once("cmd=").unwrap_or_default();
        commands.iter().any(|name| command.starts_with(name))
    });
    let addresses = clients.filter_map(|line| line.split(' ').nth(1)?.strip_prefix("addr="));
    addresses.map(str::to_owned).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connection_of_the_runtime_that_is_closed_costs_no_request_a_decision() {
    let server = Server::start(&[]);
    let (gate, events) = gate(&server, Duration::from_secs(30)).await;
    for round in 1..=3 {
        let last = scripts(&server).pop().unwrap();
        server.run::<()>(&["CLIENT", "KILL", "ADDR", &last]);
        assert_eq!(remaining(&gate).await, LIMIT - round);
        open(&server, &gate).await;
    }
    events.assert_none();
    assert_eq!(gate.counts().degraded(), 0);
}

/// Repeats a test until its calls went over the connection of the runtime. On a busy machine replies take long, and all
/// calls go by the store's thread.
async fn until_alone<F: Future<Output = bool>>(is_alone: impl Fn() -> F) {
    let began = Instant::now();
    while !is_alone().await {
        assert!(began.elapsed() < LONG, "no call went over the connection of the runtime");
    }
}

/// Its runtime cannot say whether the store is silent or the runtime stood still, so the answer reports overload.
#[tokio::test]
async fn one_call_without_a_reply_shows_an_outage_and_its_units_come_back() {
    until_alone(async || {
        let server = Server::start(&LOG_ALL);
        let (gate, events) = gate(&server, Duration::from_millis(300)).await;
        let own = scripts(&server).pop();
        server.signal("STOP");
        let answer = check(&gate, "ada", 60).await;
        assert!(answer.is_degraded() && !answer.is_allowed());
        let is_overloaded = answer.is_overloaded();
        events.until(|message| message.starts_with("lost")).await;
        server.signal("CONT");
        while gate.counts().undone == 0 {
            sleep(Duration::from_millis(1)).await;
        }
        let is_alone = server.senders_of("ada").pop() == own;
        gate.store().fit().await;
        assert!(check(&gate, "ada", LIMIT).await.is_allowed(), "all units are back");
        assert!(is_overloaded || !is_alone, "{answer:?}");
        is_alone
    })
    .await;
}

#[tokio::test]
async fn a_server_that_was_replaced_is_not_asked_over_the_connection_before() {
    let mut server = Server::start(&[]);
    let (gate, events) = gate(&server, Duration::from_secs(30)).await;
    assert_eq!(remaining(&gate).await, LIMIT - 1);
    server.kill();
    server.start_again(&[]);
    assert_eq!(remaining(&gate).await, LIMIT - 2, "the node carried a unit");
    open(&server, &gate).await;
    events.assert_none();
}

/// A question that was asked.
type Asked<'g> = Pin<Box<dyn Future<Output = u64> + 'g>>;

/// Asks for a unit of `ada`, without a wait for the units left.
async fn ask(gate: &SharedGate) -> Asked<'_> {
    let mut asked: Asked<'_> = Box::pin(remaining(gate));
    match poll_fn(|context| Poll::Ready(asked.as_mut().poll(context))).await {
        Poll::Ready(left) => Box::pin(ready(left)),
        Poll::Pending => asked,
    }
}

/// Questions follow direct calls, one by one and many at once, and calls by the store's thread, while these are under way.
#[tokio::test]
async fn the_questions_of_a_runtime_are_decided_in_the_order_in_which_they_came() {
    let server = Server::start(&[]);
    let (gate, _) = gate_of(&server, LONG, AlgorithmKind::FixedWindow, MANY).await;
    let mut expected = (0..MANY).rev();
    let mut asked = VecDeque::new();
    for round in 0..20 {
        // The questions that are asked, and the questions that wait then.
        let pairs = [(1, 0), (2, 1), (1, 1), (1, 0)].into_iter().cycle().take(100);
        for (more, left) in pairs.chain([(2 + round / 2, 2), (1, 0)]) {
            for _ in 0..more {
                asked.push_back(ask(&gate).await);
            }
            while asked.len() > left
                && let Some(first) = asked.pop_front()
            {
                assert_eq!(Some(first.await), expected.next(), "in round {round}");
            }
        }
        // After many at once, the connection rests.
        sleep(Duration::from_millis(100)).await;
    }
    assert!(gate.counts().merged > 0, "some went by the store's thread");
}

#[tokio::test]
async fn many_that_wait_with_a_direct_call_are_decided_as_under_load() {
    for users in [1, 9] {
        until_alone(async || {
            let server = Server::start(&LOG_ALL);
            let (gate, _) = gate(&server, Duration::from_millis(300)).await;
            let alone = scripts(&server).pop().unwrap();
            let open = rule(AlgorithmKind::SlidingLog, LIMIT).on_store_error(OnStoreError::Open);
            gate.replace(Policy::new(vec![open]).unwrap()).unwrap();
            assert!(!check(&gate, "bob", 1).await.is_degraded());
            server.signal("STOP");
            let (gate, mut asked) = (Arc::new(gate), JoinSet::new());
            for number in 0..9 {
                let gate = Arc::clone(&gate);
                asked.spawn(async move {
                    let answer = check(&gate, &format!("user-{}", number % users), 1).await;
                    (answer.is_overloaded(), answer.is_allowed())
                });
            }
            let answers = asked.join_all().await;
            server.signal("CONT");
            // An admitted request has a part of this node's share.
            assert_eq!(answers, [(true, users > 1); 9]);
            server.senders_of("user").contains(&alone)
        })
        .await;
    }
}

#[tokio::test]
async fn a_question_does_not_wait_for_the_end_of_a_direct_call_that_takes_long() {
    until_alone(async || {
        let server = Server::start(&LOG_ALL);
        let (gate, _) = gate(&server, LONG).await;
        let gate = Arc::new(gate);
        server.run::<()>(&["CLIENT", "PAUSE", "3600000", "WRITE"]);
        let mut asked = JoinSet::new();
        for under_way in 1..=2 {
            let own = Arc::clone(&gate);
            asked.spawn(async move { remaining(&own).await });
            let sent = async {
                while gate.counts().under_way < under_way {
                    sleep(Duration::from_millis(1)).await;
                }
            };
            timeout(LONG / 2, sent).await.expect("it was sent");
        }
        server.run::<()>(&["CLIENT", "UNPAUSE"]);
        let mut left = asked.join_all().await;
        left.sort_unstable();
        assert_eq!(left, [LIMIT - 2, LIMIT - 1]);
        let senders = server.senders_of("ada");
        senders[0] != senders[1]
    })
    .await;
}

/// After several questions at once the store's thread merges the next, and while replies are slow its calls take no
/// longer.
#[tokio::test]
async fn the_connection_of_a_runtime_rests_after_load_and_after_slow_replies() {
    for rest in [Duration::from_millis(100), Duration::from_secs(1)] {
        until_alone(async || {
            let server = Server::start(&LOG_ALL);
            let (gate, _) = gate(&server, LONG).await;
            let own = scripts(&server).pop().unwrap();
            let began = Instant::now();
            if rest < Duration::from_secs(1) {
                let all = [ask(&gate).await, ask(&gate).await, ask(&gate).await];
                for asked in all {
                    asked.await;
                }
            } else {
                for _ in 0..3 {
                    server.run::<()>(&["CLIENT", "PAUSE", "20", "WRITE"]);
                    remaining(&gate).await;
                }
            }
            check(&gate, "eve", 1).await;
            let is_in_time = began.elapsed() < rest;
            sleep(rest).await;
            check(&gate, "zoe", 1).await;
            let senders = ["eve", "zoe"].map(|user| server.senders_of(user).pop().unwrap());
            is_in_time && senders[0] != own && senders[1] == own
        })
        .await;
    }
}

/// Direct calls have a part of `max_in_flight`, which leaves the store's thread too little here.
#[tokio::test]
async fn few_calls_under_way_leave_none_to_direct_calls() {
    let server = Server::start(&[]);
    let mut settings = settings(&server.url());
    (settings.direct, settings.max_in_flight) = (true, 511);
    let (gate, _) = gate_with(settings, vec![rule(AlgorithmKind::SlidingLog, LIMIT)]).await;
    for _ in 0..20 {
        remaining(&gate).await;
        sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(scripts(&server).len(), 1);
}

/// If the machine is busy, some calls go by the store's thread, which may send a question at once.
#[tokio::test]
async fn a_question_that_no_caller_waits_for_is_not_sent() {
    let server = Server::start(&[]);
    let (gate, _) = gate(&server, LONG).await;
    let entries = [("user", "ada")];
    let descriptors = [Descriptor::new(&entries)];
    let request = Request::new("default", &descriptors);
    let rounds = 1..=LIMIT / 2;
    for round in rounds.clone() {
        let before = calls(&server);
        let first = ask(&gate).await;
        let mut peek = Box::pin(gate.peek(&request));
        // If this thread stands still between the question and the look at its reply, the reply is there.
        let waits = poll_fn(|context| Poll::Ready(peek.as_mut().poll(context))).await.is_pending();
        drop(peek);
        assert_eq!(first.await, LIMIT + 1 - 2 * round);
        assert_eq!(remaining(&gate).await, LIMIT - 2 * round);
        if waits && calls(&server) - before == 2 {
            return;
        }
    }
    panic!("it was sent in each of {rounds:?}");
}

/// The number of scripts that the server has run.
fn calls(server: &Server) -> u64 {
    let counts: String = server.run(&["INFO", "commandstats"]);
    let of_scripts = counts.lines().filter_map(|line| line.strip_prefix("cmdstat_eval"));
    let calls = of_scripts.filter_map(|line| line.split(['=', ',']).nth(1)?.parse::<u64>().ok());
    calls.sum()
}
