//! Faults of one server and of the network while 64 tasks ask: counts the units admitted over a limit.
//!
//! Each test causes one fault and prints a row of values; times are printed and never asserted. With
//! `TIDEGATE_LONG=1` faults last five seconds, as for the table in `bench/results/faults.md`; with `TIDEGATE_MODE=leased` or
//! `split` nodes take units ahead.

mod away;
mod carried;
mod failover;
mod frozen;
mod full;
mod late;
pub(crate) mod lost;
mod overloaded;
mod reopened;
mod silent;
mod sums;

use std::sync::Arc;
use std::time::Duration;

use tidegate::store::Store;
use tidegate::{AlgorithmKind, OnStoreError, RuleSpec, StoreError};
use tokio::task::block_in_place;
use tokio::time::{Instant, sleep};

use crate::server::load::{Load, limit, rules, takes_ahead};
use crate::server::proxy::{Proxy, Way};
use crate::server::records::OwnValues;
use crate::server::{
    Server, check, defaults, gate_with, long, proxied, rule, settings, unconnected,
};

/// Returns how long a fault lasts.
pub(crate) fn lasting() -> Duration {
    if long() { Duration::from_secs(5) } else { Duration::from_millis(300) }
}

/// Waits for as long as a fault lasts, in steps: if the machine stands still, requests follow in the other steps.
pub(crate) async fn while_it_lasts() {
    const STEPS: u32 = 30;
    for _ in 0..STEPS {
        sleep(lasting() / STEPS).await;
    }
}

/// The settings of a usual setup, with the default deadline. Rules refuse while the store is unavailable, so
/// only the store admits.
pub(crate) fn closed(rules: Vec<RuleSpec>) -> Vec<RuleSpec> {
    rules.into_iter().map(|rule| rule.on_store_error(OnStoreError::Closed)).collect()
}

/// Causes a fault under load, and returns the values of the run after the store replies again.
pub(crate) async fn under_load(
    url: &str,
    rules: Vec<RuleSpec>,
    message: &str,
    fault: impl AsyncFnOnce(),
) -> OwnValues {
    drive(url, rules, message, false, fault).await
}

async fn drive(
    url: &str,
    rules: Vec<RuleSpec>,
    message: &str,
    asks_again: bool,
    fault: impl AsyncFnOnce(),
) -> OwnValues {
    let settings = defaults(url);
    let (gate, _) = gate_with(settings, closed(rules)).await;
    let gate = Arc::new(gate);
    let load = Load::begin(Arc::clone(&gate), asks_again);
    load.more_exact(500).await;
    fault().await;
    let lifted = Instant::now();
    load.more_exact(500).await;
    let values = OwnValues::of(&load.end().await, lifted);
    values.tell(message);
    assert_eq!(
        gate.counts().leased > 0,
        takes_ahead() && !asks_again,
        "with an id nothing is leased"
    );
    // Leased units may be idle while others are refused.
    let no_less = values.short == 0 || takes_ahead();
    assert!(no_less, "a key has less than its limit for no reason: {values:?}");
    values
}

/// After a loss of data a single node admits nothing over a limit, except for units that it took ahead.
pub(crate) fn none_over_unless_ahead(values: &OwnValues) {
    let most = if takes_ahead() { limit() + 1 } else { 0 };
    assert!(values.most_over <= most, "{values:?}");
}

/// Causes a fault that loses no data.
async fn none_over(url: &str, message: &str, fault: impl AsyncFnOnce()) -> OwnValues {
    let values = under_load(url, rules(), message, fault).await;
    assert_eq!(values.over, 0, "{message}: {values:?}");
    values
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_fault() {
    let server = Server::start(&[]);
    none_over(&server.url(), "none", async || while_it_lasts().await).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_server_that_kept_its_data_goes_on_from_it() {
    let mut server = Server::start(&["--appendonly", "yes", "--appendfsync", "always"]);
    let url = server.url();
    let kill = async || {
        server.kill();
        while_it_lasts().await;
        block_in_place(|| server.start_again(&["--appendonly", "yes"]));
    };
    let values = none_over(&url, "`kill -9`, data on disk (`appendfsync always`)", kill).await;
    assert!(values.degraded > 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_server_that_lost_its_data_admits_nothing_more() {
    let mut server = Server::start(&[]);
    let url = server.url();
    let kill = async || {
        server.kill();
        while_it_lasts().await;
        block_in_place(|| server.start_again(&[]));
    };
    let values = under_load(&url, rules(), "`kill -9`, data lost", kill).await;
    assert!(values.degraded > 0);
    none_over_unless_ahead(&values);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stopped_server_that_goes_on_takes_late_what_nobody_waits_for_any_more() {
    let server = Server::start(&[]);
    let stop = async || {
        server.signal("STOP");
        while_it_lasts().await;
        server.signal("CONT");
    };
    let values = none_over(&server.url(), "SIGSTOP, SIGCONT", stop).await;
    assert!(values.degraded > 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn scripts_that_are_forgotten_again_and_again_are_no_outage() {
    let server = Server::start(&[]);
    let flush = async || {
        let ends = Instant::now() + lasting();
        while Instant::now() < ends {
            block_in_place(|| server.run::<()>(&["SCRIPT", "FLUSH"]));
            sleep(Duration::from_millis(20)).await;
        }
    };
    none_over(&server.url(), "SCRIPT FLUSH, 50 times a second", flush).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_runs_out_of_memory_under_load_goes_on_with_the_limiters_it_has() {
    let server = Server::start(&["--maxmemory-policy", "noeviction"]);
    let fill = async || {
        server.run::<()>(&["CONFIG", "SET", "maxmemory", "1mb"]);
        while_it_lasts().await;
        server.run::<()>(&["CONFIG", "SET", "maxmemory", "0"]);
    };
    let values = none_over(&server.url(), "no memory left (-OOM)", fill).await;
    assert!(values.degraded > 0, "keys that were new were refused: {}", values.degraded);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_script_of_somebody_that_does_not_end_keeps_all_others_waiting() {
    let server = Server::start(&["--busy-reply-threshold", "100"]);
    let hog = async || {
        let (mut hog, mut controls) = (server.connect(), server.connect());
        let endless = redis::cmd("EVAL").arg("while true do end").arg(0).get_packed_command();
        hog.send_packed_command(&endless).unwrap();
        while_it_lasts().await;
        // The script can be killed once it has run for the configured threshold.
        let mut kill = || redis::cmd("SCRIPT").arg("KILL").exec(&mut controls);
        block_in_place(|| while kill().is_err() {});
    };
    let values = none_over(&server.url(), "a script that does not end (-BUSY)", hog).await;
    assert!(values.degraded > 0);
}

/// Cuts connections or loses replies, five times a second.
async fn again_and_again(proxy: &Proxy, way: Way) {
    let ends = Instant::now() + lasting();
    while Instant::now() < ends {
        proxy.turn(way);
        sleep(Duration::from_millis(20)).await;
        proxy.turn(Way::Open);
        sleep(Duration::from_millis(180)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_that_come_too_late_are_lost_or_cut_off_take_and_admit_nobody() {
    for (fault, way) in [
        ("answers 50 ms late", Way::Slow(Duration::from_millis(50))),
        ("answers lost after the commit", Way::Lossy),
        ("connections cut, five times a second", Way::Cut),
    ] {
        let (_server, proxy) = proxied().await;
        let values = none_over(&proxy.url(), fault, async || {
            if matches!(way, Way::Cut) {
                return again_and_again(&proxy, way).await;
            }
            proxy.turn(way);
            while_it_lasts().await;
            proxy.turn(Way::Open);
        })
        .await;
        assert!(values.degraded > 0, "{fault}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_only_ever_answers_too_late_is_not_found_fit() {
    let (_server, proxy) = proxied().await;
    let (gate, events) =
        gate_with(settings(&proxy.url()), vec![rule(AlgorithmKind::TokenBucket, 10)]).await;
    assert!(!check(&gate, "ada", 1).await.is_degraded());
    let mut hasty = settings(&proxy.url());
    hasty.timeout = Duration::from_millis(20);
    proxy.turn(Way::Slow(Duration::from_millis(100)));
    let late = unconnected(hasty, vec![rule(AlgorithmKind::TokenBucket, 10)]);
    assert_eq!(
        late.store().connected().await,
        Err(StoreError::Timeout),
        "answered, but never in time"
    );
    assert!(!check(&gate, "ada", 1).await.is_degraded(), "a request that can wait is answered");
    events.assert_none();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_that_are_lost_after_the_commit_are_had_under_an_id_and_no_unit_is_lost_or_over() {
    let (_server, proxy) = proxied().await;
    let remembering = |rule: RuleSpec| rule.dedupe(Duration::from_secs(600));
    let rules = rules().into_iter().map(remembering).collect();
    let answer = "answers lost, five times a second; asked again under an id";
    let lossy = async || again_and_again(&proxy, Way::Lossy).await;
    let values = drive(&proxy.url(), rules, answer, true, lossy).await;
    assert!(values.degraded > 0);
    assert_eq!((values.over, values.short), (0, 0), "{values:?}");
    assert!(values.whole + 1 >= values.keys, "all but the last were asked to the end: {values:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_lost_on_the_way_is_not_asked_again() {
    let (server, proxy) = proxied().await;
    let rule = rule(AlgorithmKind::TokenBucket, 1_000);
    let mut settings = settings(&proxy.url());
    settings.timeout = Duration::from_millis(20);
    let (gate, events) = gate_with(settings, closed(vec![rule])).await;
    // Once the server knows the script; the machine may stand still for longer than a deadline.
    let mut first = 1;
    while !check(&gate, "bob", 1).await.is_allowed() {
        first += 1;
    }
    proxy.turn(Way::Lossy);
    let mut asked = 0;
    while !events.seen().iter().any(|message| message.starts_with("lost")) {
        assert!(check(&gate, "ada", 1).await.is_unavailable());
        asked += 1;
    }
    proxy.turn(Way::Open);
    gate.store().fit().await;
    let answer = check(&gate, "ada", 0).await;
    let taken = 1_000 - answer.reported().unwrap().decision().remaining;
    assert!(!answer.is_degraded() && taken <= asked, "{taken} of {asked}");
    let statistics: String = server.run(&["INFO", "commandstats"]);
    let calls = |command: &str| {
        let line = statistics.lines().find(|line| line.starts_with(command));
        let value = line.and_then(|line| line.split_once("calls=")?.1.split_once(','));
        value.map_or(0, |(calls, _)| calls.parse::<u64>().unwrap())
    };
    // Four scripts do not count: the three that date the policy, and the last look. The others are each request once, and
    // once more for each late reply, to undo it. Only checks of the store use ZCOUNT here.
    let scripts = calls("cmdstat_eval:") + calls("cmdstat_evalsha:") - calls("cmdstat_zcount:");
    let sent = scripts - 4;
    assert!(
        sent > taken && sent <= first + asked + gate.counts().undone,
        "{sent} for {asked}: {statistics}"
    );
}
