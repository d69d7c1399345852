//! Five servers over one Redis share one hot limit: one is stopped and continued, one is killed, one comes later, one
//! is cut off from the store, and the wall clock of one steps by an hour. No interval of their admissions holds more
//! than the bound, by one clock of the machine.
//!
//! With `TIDEGATE_LONG` it takes twenty seconds for each mode, and `TIDEGATE_PICTURE` names a file for a picture of the
//! leased one.
#![cfg(target_os = "linux")]

mod callers;

use std::fmt::Write as _;
use std::fs;
use std::time::Duration;

use testkit::admissions::{Admission, most_within};
use testkit::store::Folder;
use testkit::traffic::Rng;
use tidegate_lab::plot::{Mark, Stack, StackPart, stacked};
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::{Instant, sleep_until};

use crate::moved_clock::Stepped;
use crate::process::Server;
use crate::proxy::{Proxy, Way};
use crate::store::Store;
use callers::{Call, Calls, call_until};

/// Units a second of the one limit, and units of a full bucket.
const LIMIT: u64 = 400;
const BURST: u64 = 100;
/// An hour.
const STEP_S: i64 = 3_600;
const BIN_US: u64 = 100_000;
const NAMES: [&str; 5] =
    ["stopped for a while", "killed", "cut off for a while", "clock stepped", "added"];

/// The mode of the limit.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Mode {
    Exact,
    Leased,
    Split,
}

impl Mode {
    const fn setting(self) -> &'static str {
        match self {
            Self::Exact => "",
            Self::Leased => "lease = { max = \"20%\", life = \"100ms\" }\n",
            Self::Split => "split = true\n",
        }
    }

    /// The most units that an interval of this length may admit. With leases and shares, a level may be a unit higher for
    /// the rounding of each of two ends.
    const fn most(self, length_us: u64) -> u64 {
        let rounded = if matches!(self, Self::Exact) { 0 } else { 2 };
        BURST + (LIMIT * length_us).div_ceil(1_000_000) + rounded
    }
}

fn rules(mode: Mode, url: &str) -> String {
    format!(
        "[[rule]]\nname = \"hot\"\nalgorithm = \"token_bucket\"\nrate = \"{LIMIT}/s\"\ncapacity = {BURST}\n\
         on_store_error = \"closed\"\n{}[store]\nurl = \"{url}\"\ntimeout = \"100ms\"\n",
        mode.setting()
    )
}

/// The time of a run: twenty parts, in which faults come one after the other.
#[derive(Clone, Copy)]
struct Run {
    begun: Instant,
    part: Duration,
}

impl Run {
    fn now(self) -> u64 {
        self.begun.elapsed().as_micros() as u64
    }

    fn at(self, part: u32) -> Instant {
        self.begun + self.part * part
    }

    /// Has callers ask a server until the end. In every other part four of them ask for more than twice
    /// the limit together.
    fn call(self, server: &Server) -> JoinHandle<Calls> {
        let mut rng = Rng::new(u64::from(server.pid()));
        tokio::spawn(call_until(server.resp, self.begun, self.at(20), move |at| {
            let part = at.duration_since(self.begun).as_micros() / self.part.as_micros();
            let a_second = if part.is_multiple_of(2) { LIMIT / 5 } else { LIMIT * 5 / 8 };
            Duration::from_micros(rng.below(2_000_000 / a_second))
        }))
    }
}

/// The events of the run, with their times.
struct Marks(Vec<Mark>, Run);

impl Marks {
    fn add(&mut self, text: &str) -> u64 {
        let at_us = self.1.now();
        self.0.push(Mark { at_us, text: text.to_owned() });
        at_us
    }
}

/// Stops a process, and returns once it is stopped.
async fn stop(server: &Server) {
    server.signal("STOP");
    let state = format!("/proc/{}/stat", server.pid());
    while !fs::read_to_string(&state).unwrap().contains(") T ") {
        tokio::task::yield_now().await;
    }
}

/// The seconds since midnight of a server's wall clock, by the date of its answers.
async fn wall_clock_s(server: &Server) -> i64 {
    let answer = server.client().get("/healthz").await;
    let date = answer.header("date").unwrap().to_owned();
    let time = date.split(' ').find(|word| word.contains(':')).unwrap();
    time.split(':').fold(0, |sum, part| 60 * sum + part.parse::<i64>().unwrap())
}

/// Makes sure that a server's clock is so much before another's, as far as a day goes. The date of answers never goes back.
async fn is_ahead(server: &Server, of: &Server, ahead_s: i64) {
    let apart = wall_clock_s(server).await - wall_clock_s(of).await - ahead_s;
    let apart = (apart + 43_200).rem_euclid(86_400) - 43_200;
    assert!(apart.abs() < 600, "the clock is {apart} s off its set time");
}

/// Runs one mode, and returns the calls by node, and what happened.
async fn history(mode: Mode, part: Duration) -> (Vec<Calls>, Vec<Mark>) {
    let (store, folder) = (Store::start(), Folder::new());
    let (proxy, clock) = (Proxy::before(store.port()).await, Stepped::new(&folder.0));
    let start = |url: String, environment: Vec<(String, String)>| {
        spawn_blocking(move || Server::with_rules_in(&rules(mode, &url), &environment))
    };
    let stopped = start(store.url(), Vec::new()).await.unwrap();
    let killed = start(store.url(), Vec::new()).await.unwrap();
    let cut = start(proxy.url(), Vec::new()).await.unwrap();
    let stepping = start(store.url(), clock.environment()).await.unwrap();
    let run = Run { begun: Instant::now(), part };
    let mut calls =
        vec![run.call(&stopped), run.call(&killed), run.call(&cut), run.call(&stepping)];
    let mut marks = Marks(Vec::new(), run);

    sleep_until(run.at(3)).await;
    stop(&stopped).await;
    let from = marks.add("SIGSTOP");
    sleep_until(run.at(5)).await;
    let to = marks.add("SIGCONT");
    stopped.signal("CONT");
    sleep_until(run.at(7)).await;
    marks.add("SIGKILL");
    killed.signal("KILL");
    sleep_until(run.at(9)).await;
    let added = start(store.url(), Vec::new()).await.unwrap();
    marks.add("added");
    calls.push(run.call(&added));
    sleep_until(run.at(11)).await;
    marks.add("cut off");
    proxy.turn(Way::Cut);
    sleep_until(run.at(14)).await;
    marks.add("connected");
    proxy.turn(Way::Open);
    sleep_until(run.at(16)).await;
    marks.add("clock +1 h");
    clock.step(STEP_S);
    is_ahead(&stepping, &added, STEP_S).await;
    sleep_until(run.at(18)).await;
    marks.add("clock -1 h");
    clock.step(-STEP_S);
    let mut all = Vec::new();
    for calls in calls {
        all.push(calls.await.unwrap());
    }
    // While it was stopped it decided nothing.
    for call in all[0].answered.iter_mut().filter(|call| (from..to).contains(&call.asked)) {
        call.asked = to;
    }
    if mode != Mode::Exact {
        for server in [&stopped, &cut, &stepping, &added] {
            let health = server.client().get("/healthz").await.json();
            assert!(health["store"]["leased_spent"].as_u64() > Some(0), "{health}");
        }
    }
    (all, marks.0)
}

/// Checks that no interval holds more than the limit admits, and that each node admitted and refused.
fn judge(mode: Mode, calls: &[Calls]) -> String {
    let answered = || calls.iter().flat_map(|calls| &calls.answered);
    let admission =
        |call: &Call| Admission { asked: call.asked, answered: call.answered, units: 1 };
    let admitted: Vec<_> = answered().filter(|call| call.allowed).map(admission).collect();
    let mut row = format!("| {mode:?} | {} | {}", answered().count(), admitted.len());
    for length in [50_000, 100_000, 500_000, 1_000_000, 3_000_000] {
        let (most, begins) = most_within(&admitted, length);
        let bound = mode.most(length);
        assert!(most <= bound, "{mode:?}: {most} of {bound} in {length} us from {begins}");
        let _ = write!(row, " | {most} of {bound}");
    }
    for (calls, name) in calls.iter().zip(NAMES) {
        for allowed in [true, false] {
            let some = calls.answered.iter().any(|call| call.allowed == allowed);
            assert!(some, "{mode:?}: node {name:?} answered nothing with {allowed}");
        }
    }
    row + " |"
}

fn picture(calls: &[Calls], marks: Vec<Mark>, run_us: u64) -> String {
    let bins = (run_us / BIN_US) as usize;
    let part = |(calls, name): (&Calls, &str)| {
        let mut admitted = vec![0; bins];
        for call in calls.answered.iter().filter(|call| call.allowed) {
            if let Some(count) = admitted.get_mut((call.answered / BIN_US) as usize) {
                *count += 1;
            }
        }
        StackPart { title: name.to_owned(), admitted }
    };
    let stack = Stack {
        title: format!("{LIMIT} a second, five nodes with leases"),
        subtitle: format!(
            "requests admitted by each node; a full bucket is {BURST}, and the callers of four ask for 80 % and 250 % of the limit in turn"
        ),
        bin_us: BIN_US,
        parts: calls.iter().zip(NAMES).map(part).collect(),
        limit: LIMIT * BIN_US / 1_000_000,
        marks,
    };
    stacked(&stack).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_interval_of_five_nodes_that_fail_admits_more_than_the_limit() {
    let is_long = testkit::threads::long();
    let part = if is_long { Duration::from_secs(1) } else { Duration::from_millis(200) };
    for mode in [Mode::Exact, Mode::Leased, Mode::Split] {
        let (calls, marks) = history(mode, part).await;
        println!("{}", judge(mode, &calls));
        if let Some(file) = std::env::var_os("TIDEGATE_PICTURE").filter(|_| mode == Mode::Leased) {
            fs::write(file, picture(&calls, marks, part.as_micros() as u64 * 20)).unwrap();
        }
    }
}
