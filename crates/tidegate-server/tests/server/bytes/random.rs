//! Values of chosen bytes, then of random bytes: one key over every protocol, and no way round its limit.

use std::collections::HashSet;

use hyper::Method;
use proptest::prelude::*;
use proptest::sample::select;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

use super::{RULES, over_grpc, over_http, over_resp, values};
use crate::client::Client;
use crate::grpc;
use crate::process::Server;

/// Pieces that readers of keys and of JSON may trip over.
const PIECES: [&[u8]; 16] = [
    b"\0",
    b"\r\n",
    b"\x1b[2J",
    b"\x7f",
    b"\xc3",
    b"\xed\xa0\x80",
    b"\xed\xb0\x80",
    b"\xff",
    "ü".as_bytes(),
    "🦀".as_bytes(),
    "\u{202e}".as_bytes(),
    b"%FF",
    br"\",
    br"\x5c",
    br"\xff",
    br#"\u00ff""#,
];

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    let chosen = prop::collection::vec(select(&PIECES[..]), 0..6).prop_map(|some| some.concat());
    prop_oneof![
        10 => chosen.clone(),
        10 => prop::collection::vec(any::<u8>(), 0..60),
        1 => chosen.prop_map(|some| some.repeat((60 << 10) / some.len().max(1))),
    ]
}

/// The bytes between the quotes of a text in JSON, each as it is where JSON lets it.
fn in_json(bytes: &[u8]) -> Vec<u8> {
    let mut json = Vec::new();
    for byte in bytes {
        match byte {
            b'"' => json.extend_from_slice(br#"\""#),
            // The escape of a backslash in a key, whose own backslash JSON escapes.
            b'\\' => json.extend_from_slice(br"\\x5c"),
            0..0x20 => json.extend_from_slice(format!("\\u{byte:04x}").as_bytes()),
            _ => json.push(*byte),
        }
    }
    json
}

async fn over_raw_json(client: &Client, user: &[u8]) -> bool {
    let user = in_json(user);
    let body = [br#"{"domain": "edge", "descriptor": {"user": ""#, &*user, br#""}}"#].concat();
    let answer = client.send(Method::POST, "/v1/check", Some("application/json"), body).await;
    answer.json()["allowed"] == true
}

/// Each request is sent in another way than the request before it.
#[tokio::test(flavor = "multi_thread")]
async fn values_of_any_bytes_are_one_key_over_every_protocol_and_no_way_round_the_limit() {
    let server = Server::with_rules(RULES);
    let (channel, http) = (grpc::channel(&server).await, server.client());
    let mut resp = server.redis();
    let runtime = tokio::runtime::Handle::current();
    let mut asked = HashSet::new();
    let mut judge = |user: Vec<u8>, first: usize| {
        let mut admitted = Vec::new();
        for turn in first..first + 8 {
            admitted.push(match turn % 4 {
                0 => runtime.block_on(over_grpc(&channel, &user)),
                1 => over_resp(&mut resp, &user),
                2 => runtime.block_on(over_http(&http, &user)),
                _ => runtime.block_on(over_raw_json(&http, &user)),
            });
        }
        let shown = user.escape_ascii().take(400).map(char::from).collect::<String>();
        let fit = if asked.insert(user) { 3 } else { 0 };
        assert_eq!(admitted, [vec![true; fit], vec![false; 8 - fit]].concat(), "{shown}");
    };
    tokio::task::block_in_place(|| {
        for (number, user) in values().into_iter().enumerate() {
            judge(user, number % 4);
        }
        let mut runner = TestRunner::default();
        for turn in 0..200 {
            judge(bytes().new_tree(&mut runner).unwrap().current(), turn % 4);
        }
    });
}
