//! Rolling upgrades: what version 1 of the stored format was, read by today's scripts; and today's format met by a
//! node of version 1.
//!
//! `version_1/` holds, for each algorithm, the script and the arguments that a node of version 1 sends for one unit of
//! `rule`, and the bytes of a state: 26 units were asked for, a second after the other. They are of the past and do
//! not change.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use crate::server::{Client, Server};
use crate::version_2::{BEGAN_US, LIMIT, OldNode, algorithms_of, bytes, kept, limiter, rule};
use redis::Value;
use std::time::Duration;
use tidegate::script::{Answer, Call, Limiter, Reply, Step};
use tidegate::{AlgorithmKind, Layout, Rule, Spec, Timestamp};

const PAST: &str = "version_1";

fn at(second: u64) -> Option<Timestamp> {
    Some(Timestamp::from_micros(BEGAN_US + second * 1_000_000))
}

/// Today's decisions of two keys, step by step: the limiter of version 1 goes on as one of today would.
fn agree(client: &Client, keys: [&str; 2], rule: &Rule, context: &str) {
    for (second, step) in
        [(26, Step::Peek), (27, Step::Ask), (86_410, Step::Ask), (86_411, Step::Peek)]
    {
        let told = keys.map(|key| client.step(&limiter(key, rule), step, at(second)));
        assert_eq!(told[0], told[1], "{context}: {step:?} after {second} s");
    }
    let version = |key: &str| match client.run(&[b"TYPE", key.as_bytes()]).unwrap() {
        Value::SimpleString(kind) if kind == "zset" => {
            client.run(&[b"ZRANGE", key.as_bytes(), b"0", b"0"]).unwrap()
        }
        _ => client.run(&[b"GETRANGE", key.as_bytes(), b"0", b"32"]).unwrap(),
    };
    assert_eq!(version(keys[0]), version(keys[1]), "{context}");
}

#[test]
fn a_limiter_that_version_1_wrote_goes_on_where_it_stood() {
    let server = Server::start();
    let client = server.client();
    for algorithm in algorithms_of(PAST) {
        let rule = rule(*algorithm);
        for second in 0..26 {
            client.step(&limiter("now", &rule), Step::Decide, at(second));
        }
        client.run(&[b"SET", b"then", &bytes(kept(PAST, *algorithm, "state").trim_end())]).unwrap();
        agree(&client, ["then", "now"], &rule, algorithm.name());
        client.run(&[b"DEL", b"then", b"now"]).unwrap();
    }
}

/// A log of few entries, one of a ring, and one in a sorted set, as version 1 wrote them: without a revision.
#[test]
fn a_log_that_version_1_wrote_goes_on_whatever_its_size_and_layout() {
    let server = Server::start();
    let client = server.client();
    for (units, layout) in
        [(3, Layout::String), (19, Layout::String), (900, Layout::String), (9, Layout::SortedSet)]
    {
        let mut spec = Spec::new(AlgorithmKind::SlidingLog, 1_000, Duration::from_secs(86_400));
        spec.layout = Some(layout);
        let rule = Rule::new(spec).unwrap();
        for key in ["then", "now"] {
            for unit in 0..units {
                let one = [Limiter::new(key.as_bytes(), &rule, 1).unwrap()];
                client.step(&one, Step::Decide, at(unit % 26));
            }
        }
        let without_revision = |all: &[u8]| [&[1], &all[1..22], &all[33..]].concat();
        match layout {
            Layout::String => {
                let Value::BulkString(all) = client.run(&[b"GET", b"then"]).unwrap() else {
                    panic!()
                };
                client.run(&[b"SET", b"then", &without_revision(&all)]).unwrap();
            }
            Layout::SortedSet => {
                let first = client.run(&[b"ZRANGE", b"then", b"0", b"0"]).unwrap();
                let Value::Array(first) = first else { panic!("{first:?}") };
                let Value::BulkString(first) = &first[0] else { panic!("{first:?}") };
                client.run(&[b"ZREM", b"then", first]).unwrap();
                client.run(&[b"ZADD", b"then", b"-inf", &without_revision(first)]).unwrap();
            }
        }
        agree(&client, ["then", "now"], &rule, &format!("{layout:?} of {units}"));
        client.run(&[b"DEL", b"then", b"now"]).unwrap();
    }
}

#[test]
fn units_go_back_to_what_version_1_wrote() {
    let server = Server::start();
    let client = server.client();
    for algorithm in algorithms_of(PAST) {
        client.run(&[b"SET", b"then", &bytes(kept(PAST, *algorithm, "state").trim_end())]).unwrap();
        let call = Call::giving_back(&[(b"then".as_slice(), 5, None)], at(26));
        call.given_back(&client.eval(&call.script, &call.keys, &call.args)).unwrap();
        let rule = rule(*algorithm);
        let told = client.step(&limiter("then", &rule), Step::Peek, at(26));
        assert_eq!(told.decisions[0].remaining, 5, "{algorithm}");
    }
}

#[test]
fn a_node_of_version_1_leaves_what_version_2_wrote_as_it_is() {
    let server = Server::start();
    let client = server.client();
    for algorithm in algorithms_of(PAST) {
        let (old, rule) = (OldNode::kept(PAST, *algorithm), rule(*algorithm));
        let key = algorithm.name();
        assert!(client.step(&limiter(key, &rule), Step::Ask, None).allowed);
        let stored = || client.run(&[b"DUMP", key.as_bytes()]).unwrap();
        let before = stored();
        for _ in 0..LIMIT {
            // It then asks in another way, and is told the version: `a_state_of_another_version_...`.
            assert_eq!(old.reply(&client, key), Reply::Nil, "{algorithm}");
        }
        assert_eq!(stored(), before, "{algorithm}");
    }
}

#[test]
fn the_version_of_what_version_1_wrote_and_is_not_known_is_told() {
    let server = Server::start();
    let client = server.client();
    let rule = rule(AlgorithmKind::SlidingLog);
    client.run(&[b"SET", b"then", &[b"\x01\x06".as_slice(), &[0; 300]].concat()]).unwrap();
    let limiters = limiter("then", &rule);
    let call = Call::new(&limiters, Step::Ask, None);
    let reply = client.eval(&call.script, &call.keys, &call.args);
    assert_eq!(call.answer(&limiters, &reply), Ok(Answer::Changed));
    let call = call.amending();
    let reply = client.eval(&call.script, &call.keys, &call.args);
    assert_eq!(call.answer(&limiters, &reply).unwrap_err().other_version(), Some(1));
}
