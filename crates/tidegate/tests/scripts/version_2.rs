//! Rolling upgrades: what version 2 of the stored format is, held against what today's scripts write and
//! read; and a node of the first release that wrote it beside one of today, on one key.
//!
//! `version_2/` holds, for each algorithm, the script and the arguments that a node of that release
//! sends for one unit of `rule`, and the bytes of a state. They are of the past and do not change: where a
//! test here fails, nodes of two releases no longer understand each other, and the format needs another
//! version. Until the first release is out, `TIDEGATE_BLESS=1` writes them anew.
#![allow(
    unreachable_pub,
    clippy::unwrap_used,
    clippy::panic,
    reason = "version 1 uses its part; a test fails by panicking"
)]

use std::fmt::Write;
use std::path::PathBuf;
use std::thread;

use crate::server::{Client, Server};
use std::time::Duration;
use tidegate::script::{Call, Limiter, Reply, Script, Step};
use tidegate::{AlgorithmKind, Rule, Spec, Timestamp};

const VERSION: &str = "version_2";
pub const LIMIT: u64 = 20;
/// When the states were written: 26 units were asked for, a second after the other.
pub const BEGAN_US: u64 = 1_767_225_600_000_000;

pub fn rule(algorithm: AlgorithmKind) -> Rule {
    Rule::new(Spec::new(algorithm, LIMIT, Duration::from_secs(86_400))).unwrap()
}

/// Units admitted when nothing comes back: a queue serves one more than it has places for.
fn most(algorithm: AlgorithmKind) -> u64 {
    LIMIT + u64::from(algorithm == AlgorithmKind::LeakyQueue)
}

pub fn limiter<'a>(key: &'a str, rule: &'a Rule) -> [Limiter<'a>; 1] {
    [Limiter::new(key.as_bytes(), rule, 1).unwrap()]
}

fn blesses() -> bool {
    std::env::var_os("TIDEGATE_BLESS").is_some()
}

fn path(version: &str, algorithm: AlgorithmKind, kind: &str) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/scripts").join(version);
    folder.join(format!("{algorithm}.{kind}"))
}

/// The algorithms that were there in a version; those that came later have no files of it.
pub fn algorithms_of(version: &str) -> Vec<&'static AlgorithmKind> {
    let all = AlgorithmKind::ALL.iter();
    let those: Vec<_> = all.filter(|one| path(version, **one, "state").exists()).collect();
    assert!(those.len() >= 7, "{those:?}");
    those
}

/// A file of the past.
pub fn kept(version: &str, algorithm: AlgorithmKind, kind: &str) -> String {
    let path = path(version, algorithm, kind);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The same, written first as it is now where that is asked for.
fn blessed(algorithm: AlgorithmKind, kind: &str, now: &str) -> String {
    if blesses() {
        std::fs::write(path(VERSION, algorithm, kind), now).unwrap();
    }
    kept(VERSION, algorithm, kind)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

pub fn bytes(hex: &str) -> Vec<u8> {
    let pair = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).unwrap();
    (0..hex.len()).step_by(2).map(pair).collect()
}

/// A node of the first release, as far as it decides about one unit.
pub struct OldNode {
    script: Script,
    args: Vec<Vec<u8>>,
}

impl OldNode {
    fn of(algorithm: AlgorithmKind) -> Self {
        let rule = rule(algorithm);
        let call = Call::new(&limiter("", &rule), Step::Decide, None);
        let args: String = call.args.iter().map(|arg| hex(arg) + "\n").collect();
        blessed(algorithm, "lua", &call.script.text);
        blessed(algorithm, "args", &args);
        Self::kept(VERSION, algorithm)
    }

    pub fn kept(version: &str, algorithm: AlgorithmKind) -> Self {
        let text = kept(version, algorithm, "lua");
        let args = kept(version, algorithm, "args").lines().map(bytes).collect();
        // A name that no server knows, so that it is always sent by its text.
        Self { script: Script { text, sha1: "0".repeat(40) }, args }
    }

    pub fn reply(&self, client: &Client, key: &str) -> Reply {
        client.eval(&self.script, &[key.as_bytes().to_vec()], &self.args)
    }

    /// Returns whether it admits: the time is told, below zero where it does not.
    fn ask(&self, client: &Client, key: &str) -> bool {
        match self.reply(client, key) {
            Reply::Int(told) => told >= 0,
            other => panic!("an old node does not understand: {other:?}"),
        }
    }
}

fn new_node_asks(client: &Client, key: &str, rule: &Rule) -> bool {
    let decided = client.step(&limiter(key, rule), Step::Ask, None);
    assert_eq!(client.changed.get(), 0, "it is not taken for another rule's");
    decided.allowed
}

#[test]
fn old_and_new_nodes_take_turns_on_one_key_and_admit_the_limit() {
    let server = Server::start();
    let client = server.client();
    for algorithm in algorithms_of(VERSION) {
        let (old, rule) = (OldNode::of(*algorithm), rule(*algorithm));
        for (who_begins, key) in [(0, format!("old:{algorithm}")), (1, format!("new:{algorithm}"))]
        {
            let ask = |turn: u64| match (turn + who_begins) % 2 {
                0 => old.ask(&client, &key),
                _ => new_node_asks(&client, &key, &rule),
            };
            let told: Vec<_> = (0..40).map(ask).collect();
            let expected: Vec<_> = (0..40).map(|turn| turn < most(*algorithm)).collect();
            assert_eq!(told, expected, "{key}");
        }
    }
}

#[test]
fn old_and_new_nodes_at_once_never_admit_more_than_the_limit() {
    let server = Server::start();
    for algorithm in algorithms_of(VERSION) {
        let key = format!("race:{algorithm}");
        let admitted = |ask: &dyn Fn(&Client) -> bool| {
            let client = server.client();
            (0..100).filter(|_| ask(&client)).count() as u64
        };
        let (old, rule) = (OldNode::of(*algorithm), rule(*algorithm));
        let (old, new) = thread::scope(|scope| {
            let old = scope.spawn(|| admitted(&|client| old.ask(client, &key)));
            let new = scope.spawn(|| admitted(&|client| new_node_asks(client, &key, &rule)));
            (old.join().unwrap(), new.join().unwrap())
        });
        assert_eq!(old + new, most(*algorithm), "{algorithm}: {old} and {new}");
    }
}

#[test]
fn what_is_written_today_is_what_the_first_release_of_version_2_wrote() {
    let server = Server::start();
    let client = server.client();
    for algorithm in algorithms_of(VERSION) {
        let rule = rule(*algorithm);
        let at = |second: u64| Some(Timestamp::from_micros(BEGAN_US + second * 1_000_000));
        for second in 0..26 {
            client.step(&limiter("written", &rule), Step::Decide, at(second));
        }
        let stored = match client.run(&[b"GET", b"written"]).unwrap() {
            redis::Value::BulkString(bytes) => bytes,
            other => panic!("{other:?}"),
        };
        let now = hex(&stored) + "\n";
        let kept = blessed(*algorithm, "state", &now);
        assert_eq!(now, kept, "{algorithm}: what is stored has changed");

        client.run(&[b"SET", b"read", &bytes(kept.trim_end())]).unwrap();
        let told = ["written", "read"]
            .map(|key| client.step(&limiter(key, &rule), Step::Peek, at(26)).decisions);
        assert_eq!(told[0], told[1], "{algorithm}");
        assert_eq!(told[1][0].remaining, 0, "{algorithm}");
        client.run(&[b"DEL", b"written"]).unwrap();
    }
}

#[test]
fn a_state_of_another_version_is_told_by_its_number_and_left_alone() {
    let server = Server::start();
    let client = server.client();
    for algorithm in algorithms_of(VERSION) {
        let mut stored = bytes(kept(VERSION, *algorithm, "state").trim_end());
        let rule = rule(*algorithm);
        for version in [3, 31] {
            stored[0] = version;
            client.run(&[b"SET", b"later", &stored]).unwrap();
            let limiters = limiter("later", &rule);
            for step in [Step::Decide, Step::Ask, Step::Peek, Step::Settle] {
                let call = Call::new(&limiters, step, None).amending();
                let reply = client.eval(&call.script, &call.keys, &call.args);
                let told = call.answer(&limiters, &reply).unwrap_err();
                assert_eq!(told.other_version(), Some(version), "{algorithm}: {told}");
            }
            let left = client.run(&[b"GET", b"later"]).unwrap();
            assert_eq!(left, redis::Value::BulkString(stored.clone()), "{algorithm}");
        }
    }
}
