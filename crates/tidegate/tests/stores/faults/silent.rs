//! A server that falls silent for one deadline, which opens no limit, and a server that stays silent, which is an
//! outage.

use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use tidegate::store::{Store, StoreError};
use tidegate::{
    AlgorithmKind, Descriptor, OnStoreError, Policy, Request, RequestLimit, Rule, SharedGate, Spec,
    StoreEvent, StoreSettings, Taken,
};
use tokio::task::{JoinSet, yield_now};
use tokio::time::sleep;

use crate::server::{
    Events, Server, check, gate_with, has_direct_calls, long, rule, settings, until_lost,
};

/// Units a day of each key.
const LIMIT: u64 = 7;
/// Long enough that even a busy machine finishes a test's own work well within it.
const DEADLINE: Duration = Duration::from_millis(500);

/// The parts of an answer that a test asserts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Got {
    is_allowed: bool,
    is_degraded: bool,
    is_overloaded: bool,
    is_unavailable: bool,
}

const EXACT: Got =
    Got { is_allowed: true, is_degraded: false, is_overloaded: false, is_unavailable: false };
const DENIED: Got = Got { is_allowed: false, ..EXACT };
/// The answers of a rule that is open, or closed, while the store is unavailable.
const OPEN: Got = Got { is_degraded: true, ..EXACT };
const CLOSED: Got = Got { is_unavailable: true, is_degraded: true, ..DENIED };

async fn ask(gate: &SharedGate, user: &str) -> Got {
    let answer = check(gate, user, 1).await;
    Got {
        is_allowed: answer.is_allowed(),
        is_degraded: answer.is_degraded(),
        is_overloaded: answer.is_overloaded(),
        is_unavailable: answer.is_unavailable(),
    }
}

/// Starts `count` requests for the keys with these names, and returns after they were handed over.
async fn begin(
    gate: &Arc<SharedGate>,
    number: usize,
    name: impl Fn(usize) -> String,
) -> JoinSet<Got> {
    let mut all = JoinSet::new();
    for number in 0..number {
        let (gate, user) = (Arc::clone(gate), name(number));
        all.spawn(async move { ask(&gate, &user).await });
    }
    yield_now().await;
    all
}

fn hasty(server: &Server) -> StoreSettings {
    let mut hasty = settings(&server.url());
    hasty.timeout = DEADLINE;
    hasty
}

/// Makes a gate of one rule, after a first reply of the server.
async fn gate(server: &Server, on_store_error: OnStoreError) -> (Arc<SharedGate>, Events) {
    gate_over(hasty(server), on_store_error).await
}

async fn gate_over(
    settings: StoreSettings,
    on_store_error: OnStoreError,
) -> (Arc<SharedGate>, Events) {
    let rule = rule(AlgorithmKind::SlidingLog, LIMIT).on_store_error(on_store_error);
    let (gate, events) = gate_with(settings, vec![rule]).await;
    assert_eq!(ask(&gate, "first").await, EXACT);
    (Arc::new(gate), events)
}

fn is_lost(events: &Events) -> bool {
    events.seen().iter().any(|message| message.starts_with("lost"))
}

/// Stops the server and returns the answer to one request. If this process gets no processor time, the answer reports
/// overload and not an outage; then the test tries again.
async fn lonely(server: &Server, gate: &SharedGate) -> Got {
    for _ in 0..200 {
        server.signal("STOP");
        let got = ask(gate, "bob").await;
        if !got.is_overloaded {
            return got;
        }
        server.signal("CONT");
        while ask(gate, "eve").await.is_degraded {}
    }
    panic!("the machine has no time, or the store's thread does not hear a silence");
}

#[tokio::test]
async fn a_lonely_request_to_a_silent_server_is_decided_by_its_rule_and_opens_no_limit_for_others()
{
    for (on_store_error, wanted) in [(OnStoreError::Open, OPEN), (OnStoreError::Closed, CLOSED)] {
        let server = Server::start(&[]);
        let (gate, events) = gate(&server, on_store_error).await;
        assert_eq!(lonely(&server, &gate).await, wanted);
        assert!(!is_lost(&events), "a deadline of silence is no outage: {:?}", events.seen());
        let others = begin(&gate, 200, |_| "ada".to_owned()).await;
        server.signal("CONT");
        let others = others.join_all().await;
        let exact = |wanted| others.iter().filter(|got| **got == wanted).count();
        assert_eq!((exact(EXACT), exact(DENIED)), (LIMIT as usize, 193), "{on_store_error:?}");
        assert!(!is_lost(&events), "{:?}", events.seen());
    }
}

#[tokio::test]
async fn requests_that_wait_for_a_silent_server_together_are_decided_as_under_overload() {
    let all = [OnStoreError::Open, OnStoreError::Local, OnStoreError::Closed];
    for (on_store_error, direct) in all.into_iter().flat_map(|one| [(one, false), (one, true)]) {
        let server = Server::start(&[]);
        let mut settings = hasty(&server);
        settings.direct = direct;
        let (gate, events) = gate_over(settings, on_store_error).await;
        // The first call over the connection of this runtime opens it.
        sleep(Duration::from_millis(if direct { 100 } else { 0 })).await;
        let is_unavailable = on_store_error == OnStoreError::Closed;
        let overloaded = Got { is_overloaded: true, is_degraded: true, is_unavailable, ..DENIED };
        server.signal("STOP");
        let silent = begin(&gate, 50, |_| "ada".to_owned()).await.join_all().await;
        server.signal("CONT");
        assert_eq!(
            silent, [overloaded; 50],
            "{on_store_error:?}, {direct}: the units left are not known"
        );
        let after = begin(&gate, 50, |_| "ada".to_owned()).await.join_all().await;
        let admitted = after.iter().filter(|got| got.is_allowed).count();
        assert!(admitted <= LIMIT as usize, "{on_store_error:?}: {admitted}");
        assert!(!is_lost(&events), "{:?}", events.seen());
    }
}

#[tokio::test]
async fn a_request_that_was_not_sent_opens_no_limit_although_few_wait() {
    let server = Server::start(&[]);
    let (gate, events) = gate(&server, OnStoreError::Open).await;
    server.signal("STOP");
    // Two calls of one key are sent, and perhaps a direct call; later requests for it stay in the queue.
    let mut all = Vec::new();
    for _ in 0..4 {
        all.push(begin(&gate, 1, |_| "ada".to_owned()).await);
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let queued = all.split_off(if has_direct_calls() { 3 } else { 2 });
    for got in queued {
        let got = got.join_all().await;
        assert!(got[0].is_overloaded && !got[0].is_allowed, "{got:?}");
    }
    server.signal("CONT");
    assert!(!is_lost(&events), "{:?}", events.seen());
}

#[tokio::test]
async fn requests_under_way_are_refused_if_their_rule_has_other_limiters_by_then() {
    for on_store_error in [OnStoreError::Open, OnStoreError::Local] {
        let server = Server::start(&[]);
        let (gate, _) = gate(&server, on_store_error).await;
        server.signal("STOP");
        let under_way = begin(&gate, 50, |_| "ada".to_owned()).await;
        let rule = rule(AlgorithmKind::SlidingLog, LIMIT).on_store_error(on_store_error);
        gate.replace(Policy::new(vec![rule.key(["account"])]).unwrap()).unwrap();
        let admitted = under_way.join_all().await.iter().filter(|got| got.is_allowed).count();
        server.signal("CONT");
        assert_eq!(admitted, 0, "{on_store_error:?}");
    }
}

#[tokio::test]
async fn requests_for_keys_of_their_own_that_wait_together_have_this_nodes_share() {
    let server = Server::start(&[]);
    let (gate, events) = gate(&server, OnStoreError::Open).await;
    server.signal("STOP");
    let silent = begin(&gate, 16, |number| format!("user-{number}")).await.join_all().await;
    server.signal("CONT");
    assert_eq!(silent, [Got { is_overloaded: true, ..OPEN }; 16]);
    assert!(!is_lost(&events), "{:?}", events.seen());
}

#[tokio::test]
async fn a_server_that_stays_silent_is_given_up_once_and_nothing_waits_for_it() {
    let server = Server::start(&[]);
    let (gate, events) = gate(&server, OnStoreError::Open).await;
    server.signal("STOP");
    let asked = until_lost(&gate, &events).await;
    assert!(asked > 1, "one deadline is not enough");
    let sent = gate.counts().under_way;
    for _ in 0..1_000 {
        assert_eq!(ask(&gate, "ada").await, OPEN);
    }
    assert_eq!(gate.counts().under_way, sent, "nothing more is sent");
    server.signal("CONT");
    gate.store().fit().await;
    assert!(!check(&gate, "ada", 1).await.is_degraded());
    let mut answer = events.seen();
    answer.retain(|message| !message.starts_with("overload"));
    assert_eq!(answer.len(), 2, "{answer:?}");
    assert!(answer[0].starts_with("lost: "), "{answer:?}");
    assert!(answer[0].contains("did not answer in time") && answer[1] == "back", "{answer:?}");
}

#[expect(clippy::disallowed_methods, reason = "a thread that does not run is what is tested")]
fn hold_up() {
    thread::sleep(Duration::from_secs(if long() { 11 } else { 2 }));
}

/// A time in which the store's thread does not run is not a silence of the server, if the reply comes during that time
/// or after it. The observer is called on that thread, and blocks it. With `TIDEGATE_LONG=1` it blocks for longer than
/// any late reply is awaited.
#[tokio::test]
async fn a_stopped_process_does_not_take_its_own_time_for_the_silence_of_the_server() {
    for is_answered in [true, false] {
        let server = Server::start(&[]);
        let mut narrow = hasty(&server);
        narrow.max_in_flight = 1;
        let unpause = |controls: &mut redis::Connection| {
            redis::cmd("CLIENT").arg("UNPAUSE").exec(controls).unwrap();
            // Once the server answers these, it has answered what it held back.
            for _ in 0..2 {
                redis::cmd("PING").exec(controls).unwrap();
            }
        };
        let events = Events::default();
        let (answer, controls) = (events.observer(), Mutex::new(server.connect()));
        let observer = move |event: StoreEvent<'_>| {
            if matches!(event, StoreEvent::Overloaded) {
                if is_answered {
                    unpause(&mut controls.lock().unwrap());
                }
                hold_up();
            }
            answer(event);
        };
        let rule = rule(AlgorithmKind::SlidingLog, LIMIT).on_store_error(OnStoreError::Open);
        let gate = SharedGate::new(Policy::new(vec![rule]).unwrap(), narrow, observer).unwrap();
        let gate = Arc::new(gate);
        gate.store().connected().await.unwrap();
        assert_eq!(ask(&gate, "first").await, EXACT);
        let mut controls = server.connect();
        redis::cmd("CLIENT").arg(&["PAUSE", "3600000", "WRITE"]).exec(&mut controls).unwrap();
        let sent = begin(&gate, 1, |_| "ada".to_owned()).await;
        while gate.counts().under_way == 0 {
            yield_now().await;
        }
        // More requests than may wait: the last two of them are an overload.
        let waiting = begin(&gate, 18, |_| "bob".to_owned()).await;
        events.until(|answer| answer == "overloaded").await;
        if !is_answered {
            unpause(&mut controls);
        }
        let (sent, waiting) = (sent.join_all().await[0], waiting.join_all().await);
        if is_answered {
            assert_eq!(sent, EXACT, "its answer has lain in the socket");
        }
        assert!(waiting.iter().all(|got| !got.is_allowed || *got == EXACT), "{waiting:?}");
        while ask(&gate, "ada").await.is_degraded {}
        assert!(!is_lost(&events), "{:?}", events.seen());
    }
}

/// An error that says that nothing was sent would have the caller settle again, and the units would come back twice.
#[tokio::test]
async fn a_settlement_or_reset_that_was_sent_is_not_said_to_be_undone() {
    let server = Server::start(&[]);
    let limited = rule(AlgorithmKind::SlidingLog, LIMIT).limit_from_request();
    let (gate, _events) = gate_with(hasty(&server), vec![limited]).await;
    let gate = Arc::new(gate);
    let unlimited =
        RequestLimit::new(Rule::new(Spec::unlimited(AlgorithmKind::SlidingLog)).unwrap());
    let asked = Descriptor::new(&[("user", "ada")]).cost(2);
    let taken = Taken::from(&gate.check(Request::from(asked).reserving()).await);
    let free = Request::from(asked.limit(&unlimited)).reserving();
    server.signal("STOP");
    // Both are sent first. While many others wait, a request without a reply counts as overload.
    let others = begin(&gate, 50, |number| number.to_string());
    let (settled, reset, others) =
        tokio::join!(gate.settle(free, &taken, &[1]), gate.reset(asked), others);
    server.signal("CONT");
    assert!(others.join_all().await.iter().all(|got| got.is_overloaded), "overload, and no outage");
    for error in [settled.unwrap_err(), reset.unwrap_err()] {
        assert!(!matches!(error, StoreError::Away | StoreError::Overloaded { .. }), "{error:?}");
    }
}
