//! `docs/migrate/redis-cell.md`: redis-cell itself, in a Redis, and a limiter give the same replies.

use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use tidegate::{Decision, KeyedLimiter, ManualClock, Spec};

/// A redis-server with the module, which ends with its value.
struct Cell {
    process: Child,
    port: String,
}

impl Cell {
    fn start() -> Self {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut command = Command::new("redis-server");
        command.env("LD_LIBRARY_PATH", standard_library());
        command.args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", ""]);
        command.arg("--loadmodule").arg(module());
        let process = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn();
        let cell = Self { process: process.expect("redis-server"), port: port.to_string() };
        let patience = Instant::now() + Duration::from_secs(30);
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(Instant::now() < patience, "redis-server does not listen");
            thread::sleep(Duration::from_millis(10));
        }
        cell
    }

    /// The five integers of `CL.THROTTLE` with these words.
    fn throttle(&self, words: &str) -> [i64; 5] {
        let mut command = Command::new("redis-cli");
        command.args(["-p", &self.port, "CL.THROTTLE"]).args(words.split(' '));
        let printed = String::from_utf8(command.output().expect("redis-cli").stdout).unwrap();
        let numbers = printed.lines().map(|line| line.parse().expect(&printed));
        numbers.collect::<Vec<_>>().try_into().unwrap()
    }
}

impl Drop for Cell {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// The module, which cargo builds next to the tests: it is among the dependencies.
fn module() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let beside = test.parent().unwrap().read_dir().unwrap().map(|entry| entry.unwrap().path());
    let is_module = |file: &PathBuf| {
        let name = file.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        name.starts_with("libredis_cell")
            && Path::new(name).extension().is_some_and(|end| end == "so")
    };
    beside.into_iter().find(is_module).expect("libredis_cell.so among the dependencies")
}

/// The folder of Rust's standard library, which the module is linked to.
fn standard_library() -> String {
    let said = Command::new("rustc").args(["--print", "target-libdir"]).output().unwrap();
    String::from_utf8(said.stdout).unwrap().trim().to_owned()
}

/// A rate at which no unit comes back while a test runs: 30 a day.
const WINDOW: Duration = Duration::from_secs(86_400);

/// The rule of the page, at this rate.
fn limiter() -> KeyedLimiter<ManualClock> {
    KeyedLimiter::with_clock(Spec::per(30, WINDOW).burst(16), ManualClock::new()).unwrap()
}

/// The five integers of a decision, as `docs/resp.md` describes them.
fn five(decision: &Decision) -> [i64; 5] {
    let seconds = |wait: Duration| wait.as_micros().div_ceil(1_000_000).try_into().unwrap();
    let wait = decision.retry_after().filter(|_| !decision.is_allowed());
    [
        i64::from(!decision.is_allowed()),
        decision.limit.try_into().unwrap(),
        decision.remaining.try_into().unwrap(),
        wait.map_or(-1, seconds),
        seconds(decision.reset_after()),
    ]
}

/// Compares replies. Time passes for redis-cell while it is asked, and it rounds its seconds down.
fn assert_same(theirs: [i64; 5], ours: [i64; 5], asked: &str) {
    assert_eq!(theirs[..3], ours[..3], "{asked}: {theirs:?}, {ours:?}");
    for (theirs, ours) in theirs[3..].iter().zip(&ours[3..]) {
        let is_seconds = *theirs > 0 && *ours > 0;
        assert!(
            theirs == ours || is_seconds && (0..600).contains(&(ours - theirs)),
            "{asked}: {theirs}, {ours}"
        );
    }
}

#[test]
fn a_call_is_a_token_bucket_of_one_more_than_its_burst() {
    let (cell, limiter) = (Cell::start(), limiter());
    for call in 1..=20 {
        let ours = five(&limiter.check("user123", 1));
        assert_same(cell.throttle("user123 15 30 86400"), ours, &format!("call {call}"));
        assert_eq!(ours[0], i64::from(call > 16));
    }
}

#[test]
fn a_quantity_is_a_cost() {
    let (cell, limiter) = (Cell::start(), limiter());
    for cost in [0, 17, 9, 8, 0, 7, 1, 0] {
        let theirs = cell.throttle(&format!("user123 15 30 86400 {cost}"));
        assert_same(theirs, five(&limiter.check("user123", cost)), &format!("{cost} units"));
    }
}

#[test]
fn a_negative_quantity_gives_units_back_there() {
    let cell = Cell::start();
    let _ = cell.throttle("user123 15 30 86400 2");
    assert_eq!(cell.throttle("user123 15 30 86400 -1")[..3], [0, 16, 15]);
    assert_eq!(cell.throttle("user123 -1 30 86400")[..2], [1, 0]);
}
