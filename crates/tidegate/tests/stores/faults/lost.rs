//! Replies that are lost or late after the store has decided: which requests are asked again, and what is undone.

use std::num::NonZero;
use std::pin::pin;
use std::time::Duration;

use tidegate::store::Store;
use tidegate::{
    AlgorithmKind, Descriptor, Layout, Limit, OnStoreError, Policy, Request, RuleSpec, SharedGate,
    Spec,
};
use tokio::task::yield_now;

use crate::server::proxy::{Proxy, Way};
use crate::server::{Events, LONG, Server, check, gate_over, gate_with, rule, settings};

/// Makes a gate over a proxy, after the first check of its store has ended and its scripts are known.
async fn behind(proxy: &Proxy, timeout: Duration, rules: Vec<RuleSpec>) -> (SharedGate, Events) {
    let mut settings = settings(&proxy.url());
    settings.timeout = timeout;
    let (gate, events) = gate_with(settings, rules).await;
    while events.seen().is_empty() {
        yield_now().await;
    }
    let request = Request::from(Descriptor::new(&[("user", "nobody")]));
    assert!(!gate.check(&request.with_id("first").unwrap()).await.is_degraded());
    assert!(!gate.check(&request).await.is_degraded());
    (gate, events)
}

/// Starts a server that has a finding to report, which marks the end of the check.
fn server() -> Server {
    server_in(&[])
}

/// Starts such a server with these variables in its environment.
fn server_in(environment: &[(String, String)]) -> Server {
    let arguments = ["--maxmemory", "64mb", "--maxmemory-policy", "allkeys-lru"];
    Server::start_in(environment, &arguments)
}

fn remembering(algorithm: AlgorithmKind) -> RuleSpec {
    rule(algorithm, 10).dedupe(Duration::from_secs(600))
}

async fn used(gate: &SharedGate, request: &Request<'_>) -> Vec<u64> {
    gate.store().fit().await;
    let plain = Request::new(request.domain(), request.descriptors());
    let answer = gate.peek(&plain).await;
    assert!(!answer.is_degraded());
    let decisions = answer.matched().into_iter().map(|matched| *matched.decision());
    decisions.map(|decision| decision.limit - decision.remaining).collect()
}

#[tokio::test]
async fn a_reply_lost_after_commit_is_asked_for_again_and_nothing_is_taken_twice() {
    let server = server();
    for algorithm in AlgorithmKind::ALL {
        let proxy = Proxy::before(server.port).await;
        let (gate, _) =
            behind(&proxy, Duration::from_secs(30), vec![remembering(*algorithm)]).await;
        let entries = [("user", algorithm.name())];
        let request = Request::from(Descriptor::new(&entries)).with_id("a").unwrap();
        let before = proxy.scripts();
        proxy.turn(Way::LosesOne);
        let answer = gate.check(&request).await;
        assert!(answer.is_allowed() && answer.is_repeated() && !answer.is_degraded());
        assert_eq!(proxy.scripts() - before, 2, "{algorithm}: asked twice");
        assert_eq!(used(&gate, &request).await, [1], "{algorithm}: taken once");
    }
}

#[tokio::test]
async fn a_timed_out_script_retried_counted_twice_so_only_what_all_rules_remember_is() {
    let server = server();
    let log = Spec::new(AlgorithmKind::SlidingLog, 10, Duration::from_secs(86_400));
    let other = |name: &str| RuleSpec::new(name, log).key(["user"]);
    let brief = other("brief").dedupe(Duration::from_millis(1));
    let cases = [
        (vec![remembering(AlgorithmKind::TokenBucket)], false),
        (vec![remembering(AlgorithmKind::TokenBucket), other("forgetful")], true),
        (vec![remembering(AlgorithmKind::TokenBucket), brief], true),
        (vec![rule(AlgorithmKind::TokenBucket, 10)], true),
    ];
    for (number, (rules, with_id)) in cases.into_iter().enumerate() {
        let proxy = Proxy::before(server.port).await;
        let (gate, _) = behind(&proxy, Duration::from_secs(30), rules).await;
        let user = number.to_string();
        let entries = [("user", user.as_str())];
        let mut request = Request::from(Descriptor::new(&entries));
        if with_id {
            request = request.with_id("a").unwrap();
        }
        let before = proxy.scripts();
        proxy.turn(Way::LosesOne);
        assert!(gate.check(&request).await.is_degraded(), "case {number}");
        assert_eq!(proxy.scripts() - before, 1, "case {number}");
        assert!(used(&gate, &request).await.iter().all(|used| *used == 1), "case {number}");
    }
}

#[tokio::test]
async fn what_half_of_the_deadline_brings_no_answer_to_is_asked_once_more() {
    let server = server();
    let proxy = Proxy::before(server.port).await;
    let rules = vec![remembering(AlgorithmKind::TokenBucket)];
    let (gate, _) = behind(&proxy, Duration::from_secs(6), rules).await;
    let request = Request::from(Descriptor::new(&[("user", "ada")])).with_id("a").unwrap();
    let before = proxy.scripts();
    proxy.turn(Way::HoldsAll);
    let asked = async {
        while proxy.scripts() < before + 2 {
            yield_now().await;
        }
        proxy.turn(Way::Open);
    };
    let (answer, ()) = tokio::join!(gate.check(&request), asked);
    assert!(answer.is_allowed() && !answer.is_degraded());
    assert_eq!(used(&gate, &request).await, [1]);
    assert_eq!(proxy.scripts() - before, 3, "twice, and the look");
}

/// An undo under a layout or a window that had changed gave nothing back to the other rules either. A changed limit alone
/// is no reason to give nothing back.
#[tokio::test]
async fn a_late_reply_is_undone_at_the_rules_whose_values_mean_what_they_did() {
    let server = server();
    let log = |name: &str, limit| {
        let spec = Spec::new(AlgorithmKind::SlidingLog, limit, Duration::from_secs(86_400));
        RuleSpec::new(name, spec).key(["user"]).on_store_error(OnStoreError::Closed)
    };
    let both = |name: &str, limit| vec![log(name, limit), log("kept", 10)];
    let mut other_layout = both("layout", 10);
    other_layout[0].spec.layout = Some(Layout::SortedSet);
    let mut other_window = log("alone-in-window", 10);
    other_window.spec.window = Some(Duration::from_secs(2 * 86_400));
    let cases = [
        (both("same", 10), both("same", 10), vec![1, 1], 1),
        (both("changed", 10), both("changed", 20), vec![1, 1], 1),
        (both("layout", 10), other_layout, vec![2, 1], 1),
        (vec![log("alone", 10)], vec![log("alone", 20)], vec![1], 1),
        (vec![log("alone-in-window", 10)], vec![other_window], vec![2], 0),
    ];
    for (rules, later, left, undone) in cases {
        let user = rules[0].name.clone();
        let proxy = Proxy::before(server.port).await;
        let (gate, _) = behind(&proxy, Duration::from_secs(2), rules).await;
        let (other, _) = gate_with(settings(&server.url()), later).await;
        let entries = [("user", user.as_str())];
        let request = Request::from(Descriptor::new(&entries));
        let before = proxy.scripts();
        proxy.turn(Way::HoldsAll);
        assert!(gate.check(&request).await.is_unavailable());
        assert!(other.check(&request).await.is_allowed());
        proxy.turn(Way::Open);
        while proxy.scripts() < before + 2 || gate.counts().undone < undone {
            yield_now().await;
        }
        assert_eq!(used(&gate, &request).await, left);
        assert_eq!((gate.counts().late, gate.counts().undone), (1, undone));
    }
}

/// The maximum number of calls that ask the store to take units back, while other values decide each time.
pub(crate) const MOST_ASKED: usize = 17;

/// Sends a request, and drops it while its reply is on the way.
async fn give_up(gate: &SharedGate, proxy: &Proxy, request: &Request<'_>) {
    let before = proxy.scripts();
    proxy.turn(Way::HoldsAll);
    let sent = async {
        while proxy.scripts() == before {
            yield_now().await;
        }
    };
    tokio::select! {
        answer = pin!(gate.check(request)) => panic!("{answer:?} although replies are held"),
        () = sent => {}
    }
}

/// Units of late replies that came back, and those that did not.
fn undone(gate: &SharedGate) -> [u64; 2] {
    let counts = gate.counts();
    [counts.undone_units, counts.not_undone_units]
}

/// A node whose values become newer each time before it takes a unit.
pub(crate) struct Newer {
    gate: SharedGate,
    rule: RuleSpec,
    revision: u32,
}

impl Newer {
    pub(crate) async fn over(url: &str, rule: RuleSpec) -> Self {
        let (gate, _) = gate_over(url, vec![rule.clone()]).await;
        Self { gate, rule, revision: 0 }
    }

    async fn take(&mut self, user: &str) {
        self.revision += 1;
        self.rule.spec.limit = Limit::Units(10_000 + u64::from(self.revision));
        let policy = Policy::new(vec![self.rule.clone()]).unwrap();
        let policy = policy.with_revision(NonZero::new(self.revision).unwrap());
        self.gate.replace(policy).unwrap();
        assert!(check(&self.gate, user, 1).await.is_allowed());
    }

    /// Takes a unit under newer values before each call that passes the proxy, until it has `ended`. Returns how many
    /// scripts passed, at most a few more than `most`.
    pub(crate) async fn outpace(
        &mut self,
        proxy: &Proxy,
        user: &str,
        most: usize,
        ended: impl Fn() -> bool,
    ) -> usize {
        let before = proxy.scripts();
        while !ended() && proxy.scripts() <= before + most {
            self.take(user).await;
            let passed = proxy.scripts();
            proxy.stop_at(passed + 1);
            while proxy.scripts() == passed && !ended() {
                yield_now().await;
            }
        }
        proxy.stop_at(usize::MAX);
        proxy.scripts() - before
    }
}

#[tokio::test]
async fn units_of_a_late_reply_are_not_given_back_for_ever_while_values_change() {
    let server = server_in(&[]);
    let proxy = Proxy::before(server.port).await;
    let rule = rule(AlgorithmKind::SlidingLog, 10).on_store_error(OnStoreError::Closed);
    let (gate, _) = behind(&proxy, LONG, vec![rule.clone()]).await;
    let mut newer = Newer::over(&server.url(), rule).await;
    let request = Request::from(Descriptor::new(&[("user", "ada")]).cost(3));
    give_up(&gate, &proxy, &request).await;
    proxy.turn(Way::Open);
    // The server knows the script from then on.
    while undone(&gate) != [3, 0] {
        yield_now().await;
    }
    give_up(&gate, &proxy, &request).await;
    proxy.stop_at(proxy.scripts());
    proxy.turn(Way::Open);
    let ended = || undone(&gate) == [3, 3];
    let asked = newer.outpace(&proxy, "ada", MOST_ASKED, ended).await;
    assert!((1..=MOST_ASKED).contains(&asked), "{asked} times");
    while !ended() {
        yield_now().await;
    }
}

/// The clock has stepped back since the last unit of a limiter, which counts units as of that unit from then on. Another
/// limiter of the request counts them as of the clock.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn units_of_a_late_reply_come_back_as_of_the_instant_at_which_each_limiter_counted_them() {
    const DAY: u64 = 86_400;
    let folder = crate::server::Folder::new();
    let clock = crate::server::moved_clock::Stepped::new(&folder.0);
    let server = server_in(&clock.environment());
    let proxy = Proxy::before(server.port).await;
    let per_user = rule(AlgorithmKind::FixedWindow, 10).on_store_error(OnStoreError::Closed);
    let mut calls = per_user.clone().when("kind", "call");
    calls.name = "calls".to_owned();
    let (gate, _) = behind(&proxy, LONG, vec![per_user, calls]).await;
    let now: Vec<u64> = server.run(&["TIME"]);
    clock.step((DAY - now[0] % DAY).cast_signed());
    let request = Request::from(Descriptor::new(&[("user", "ada")]));
    assert!(gate.check(request).await.is_allowed(), "in the window of tomorrow");
    clock.step(0);
    let call = Request::from(Descriptor::new(&[("user", "ada"), ("kind", "call")]).cost(3));
    give_up(&gate, &proxy, &call).await;
    proxy.turn(Way::Open);
    while undone(&gate).iter().sum::<u64>() < 6 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(used(&gate, &call).await, [1, 0]);
}
