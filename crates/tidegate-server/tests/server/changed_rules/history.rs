//! The limits change every 100 ms, and the windows now and then, while clients of every protocol ask: the history of
//! admissions has no unit too many, and nine tenths of the units of the smallest limit.
#![cfg(unix)]

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use testkit::admissions::{self, Admission};
use tidegate::{Clock, SystemClock};
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::under_load::{PAUSE, Witness, change, clients};
use super::{folder, serve};
use crate::process::Server;
use crate::store::Store;

/// The limits, used in turn.
const LIMITS: [u64; 3] = [30, 50, 40];
const LEAST: u64 = 30;
const MOST: u64 = 50;

/// The algorithms, and the number of limits that an interval as long as the window can admit.
const RULES: [(&str, u64); 4] =
    [("sliding_log", 1), ("sliding_window", 2), ("token_bucket", 2), ("fixed_window", 2)];

/// The length of a run: the windows, used in turn, their number, and the changes of limits in each.
struct Run {
    windows: [Duration; 2],
    epochs: u64,
    changes: u64,
}

/// The time in which one window was in force for certain, in microseconds.
struct Epoch {
    window: u64,
    from: u64,
    to: u64,
}

/// The answers of a rule.
struct History {
    clock: SystemClock,
    is_over: Arc<AtomicBool>,
    /// When each request was sent and answered.
    admitted: Mutex<Vec<[u64; 2]>>,
    refused: Mutex<Vec<[u64; 2]>>,
}

fn micros(clock: &SystemClock) -> u64 {
    clock.now().as_micros()
}

impl Witness for History {
    fn begin(&self) -> u64 {
        micros(&self.clock)
    }

    fn note(&self, began: u64, allowed: bool) -> bool {
        let answered = micros(&self.clock);
        let of = if allowed { &self.admitted } else { &self.refused };
        of.lock().unwrap().push([began, answered]);
        !self.is_over.load(SeqCst)
    }
}

/// The longest time for which requests go on until each rule has refused.
const LONGEST_WAIT: Duration = Duration::from_secs(30);

fn rules(limit: u64, window: Duration) -> String {
    let rule = |(algorithm, _): (&str, u64)| {
        let window = window.as_millis();
        format!(
            "[[rule]]\nname = \"{algorithm}\"\nkey = [\"{algorithm}\"]\nalgorithm = \"{algorithm}\"\n\
             limit = {limit}\nwindow = \"{window}ms\"\n"
        )
    };
    RULES.map(rule).concat()
}

/// The largest number of requests that were certainly admitted within one interval of this length between two moments.
fn most_within(admitted: &[[u64; 2]], [from, to]: [u64; 2], length: u64) -> u64 {
    let inside = admitted.iter().filter(|[asked, answered]| *asked >= from && *answered <= to);
    let inside =
        inside.map(|[asked, answered]| Admission { asked: *asked, answered: *answered, units: 1 });
    admissions::most_within(&inside.collect::<Vec<_>>(), length).0
}

/// The number of answered requests in each part of an epoch that is as long as its window.
fn by_window(requests: &[[u64; 2]], epoch: &Epoch) -> Vec<u64> {
    let Epoch { window, from, to } = *epoch;
    let mut counts = vec![0; ((to - from) / window) as usize];
    for [_, answered] in requests {
        let part = answered.checked_sub(from).map(|after| (after / window) as usize);
        if let Some(count) = part.and_then(|part| counts.get_mut(part)) {
            *count += 1;
        }
    }
    counts
}

/// The units that the smallest limit must give, and the units that were given, in consecutive parts of an epoch in
/// which twice the largest limit was asked for. The first part of a row pays for units that were used before it.
fn given(admitted: &[[u64; 2]], refused: &[[u64; 2]], epoch: &Epoch) -> (u64, u64) {
    let (admitted, refused) = (by_window(admitted, epoch), by_window(refused, epoch));
    let (mut least, mut given, mut is_first) = (0, 0, true);
    for (admitted, refused) in admitted.into_iter().zip(refused) {
        let is_busy = admitted + refused >= 2 * MOST;
        if is_busy {
            least += if is_first { 0 } else { LEAST };
            given += admitted;
        }
        is_first = !is_busy;
    }
    (least, given)
}

/// Checks the history of one rule against the windows that were in force.
fn judge(rule: (&str, u64), [admitted, refused]: [&[[u64; 2]]; 2], epochs: &[Epoch]) {
    let (algorithm, factor) = rule;
    for (number, epoch) in epochs.iter().enumerate() {
        let Epoch { window, from, to } = *epoch;
        let most = most_within(admitted, [from, to], window);
        assert!(most <= factor * MOST, "{algorithm}, epoch {number}: {most} in one window");
        let (least, given) = given(admitted, refused, epoch);
        assert!(given >= least * 9 / 10, "{algorithm}, epoch {number}: {given} of {least}");
    }
    for (number, pair) in epochs.windows(2).enumerate() {
        // At most the old window before the change, and the new window after it, at any moment of the change between
        // the two.
        let around = [pair[1].from - pair[0].window, pair[0].to + pair[1].window];
        let most = most_within(admitted, around, around[1] - around[0]);
        assert!(most <= 2 * factor * MOST, "{algorithm}, after epoch {number}: {most}");
    }
}

async fn run(run: Run, store: &str) {
    let toml = |limit, window| format!("{}{store}", rules(limit, window));
    let (_folder, file) = folder(&toml(LIMITS[0], run.windows[0]));
    let mut server = serve(&file, &["--no-watch"]);
    let (clock, is_over) = (SystemClock::new(), Arc::new(AtomicBool::new(false)));
    let history = |_| {
        let is_over = Arc::clone(&is_over);
        let (admitted, refused) = (Mutex::default(), Mutex::default());
        Arc::new(History { clock: clock.clone(), is_over, admitted, refused })
    };
    let histories = RULES.map(history);
    let mut asking = JoinSet::new();
    for (history, (algorithm, _)) in histories.iter().zip(RULES) {
        clients(&mut asking, &server, [algorithm, "ada"], history);
    }
    let (mut epochs, mut number) = (Vec::new(), 0);
    for epoch in 0..run.epochs {
        let window = run.windows[epoch as usize % 2];
        let mut from = micros(&clock);
        for turn in 0..run.changes {
            if epoch > 0 || turn > 0 {
                number += 1;
                change(&mut server, &file, number, &toml(LIMITS[number as usize % 3], window))
                    .await;
            }
            if turn == 0 {
                from = micros(&clock);
            }
            sleep(PAUSE).await;
        }
        let window = window.as_micros().try_into().unwrap();
        epochs.push(Epoch { window, from, to: micros(&clock) });
    }
    // A slow machine may not have asked for more than the limits so far.
    let is_idle = |history: &Arc<History>| history.refused.lock().unwrap().is_empty();
    for _ in 0..LONGEST_WAIT.as_millis() / PAUSE.as_millis() {
        if !histories.iter().any(is_idle) {
            break;
        }
        sleep(PAUSE).await;
    }
    is_over.store(true, SeqCst);
    asking.join_all().await;
    let totals = RULES.iter().zip(&histories).map(|(rule, history)| {
        let admitted = history.admitted.lock().unwrap();
        let refused = history.refused.lock().unwrap();
        judge(*rule, [&admitted, &refused], &epochs);
        assert!(!refused.is_empty(), "{}: there was less load than the limit", rule.0);
        (admitted.len() as u64, refused.len() as u64)
    });
    counted(&server, number, &totals.collect::<Vec<_>>()).await;
}

/// Metrics and statistics have each answer once, and no other.
async fn counted(server: &Server, changes: u64, totals: &[(u64, u64)]) {
    let admin = server.operator();
    let (metrics, stats) = (admin.get("/metrics").await.text, admin.get("/v1/stats").await.json());
    let sum = |family: &str, label: &str| -> u64 {
        let lines = metrics.lines().filter(|line| line.starts_with(family) && line.contains(label));
        lines.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum()
    };
    for ((name, _), (admitted, refused)) in RULES.iter().zip(totals) {
        let rules = stats["rules"].as_array().unwrap();
        let rule = rules.iter().find(|rule| rule["rule"] == *name).unwrap();
        for (outcome, count) in [("allowed", admitted), ("refused", refused)] {
            let labels = format!("rule=\"{name}\",outcome=\"{outcome}\"");
            assert_eq!(sum("tidegate_rule_decisions_total{", &labels), *count, "{labels}");
            assert_eq!(rule["decisions"][outcome], *count, "{labels}");
        }
    }
    let all: u64 = totals.iter().map(|(admitted, refused)| admitted + refused).sum();
    assert_eq!(sum("tidegate_requests_total{", ""), all);
    assert_eq!(sum("tidegate_requests_total{", "outcome=\"error\""), 0);
    assert_eq!(sum("tidegate_reloads_total{", "outcome=\"succeeded\""), changes);
    assert_eq!(sum("tidegate_reloads_total{", ""), changes, "none failed");
}

fn length() -> Run {
    let ms = Duration::from_millis;
    match testkit::threads::long() {
        true => Run { windows: [ms(1_000), ms(2_000)], epochs: 6, changes: 100 },
        false => Run { windows: [ms(300), ms(600)], epochs: 3, changes: 12 },
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn no_unit_too_many_and_nine_tenths_of_the_smallest_while_limits_and_windows_change() {
    run(length(), "").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_and_windows_change_over_a_store_as_well() {
    let store = Store::start();
    run(length(), &format!("[store]\nurl = \"{}\"\ntimeout = \"20s\"\n", store.url())).await;
}
