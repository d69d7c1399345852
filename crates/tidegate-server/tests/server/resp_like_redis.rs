//! Commands that libraries send when they connect: the same replies as Redis, byte by byte, in both versions.

use std::net::SocketAddr;
use std::time::Duration;

use testkit::store;
use tokio::time::sleep;

use crate::process::Server;
use crate::raw::answers_to;

/// Each line is the conversation of one connection; commands are separated by semicolons.
const TRACKING: &str = r#"
CLIENT TRACKINGINFO;CLIENT TRACKING ON;CLIENT TRACKINGINFO;CLIENT TRACKING on optin;CLIENT TRACKINGINFO
CLIENT TRACKING ON OPTIN NOLOOP;CLIENT CACHING YES;CLIENT TRACKINGINFO;PING;CLIENT TRACKINGINFO
CLIENT TRACKING ON OPTIN;CLIENT CACHING NO;CLIENT CACHING maybe;CLIENT TRACKING ON OPTOUT;CLIENT TRACKING ON BCAST
CLIENT TRACKING ON OPTOUT;CLIENT CACHING no;CLIENT TRACKINGINFO;CLIENT CACHING YES;CLIENT TRACKING ON OPTIN
CLIENT TRACKING ON OPTOUT;CLIENT CACHING no;CLIENT TRACKING ON OPTOUT;CLIENT TRACKINGINFO
CLIENT TRACKING ON OPTIN;CLIENT CACHING YES;MULTI;CLIENT TRACKINGINFO;PING;EXEC;CLIENT TRACKINGINFO
CLIENT TRACKING ON BCAST;CLIENT TRACKINGINFO;CLIENT TRACKING ON;CLIENT TRACKING ON BCAST PREFIX a;CLIENT TRACKING OFF;CLIENT TRACKINGINFO
CLIENT TRACKING ON BCAST PREFIX b PREFIX a;CLIENT TRACKINGINFO;CLIENT TRACKING ON BCAST PREFIX c NOLOOP;CLIENT TRACKINGINFO
CLIENT TRACKING ON BCAST PREFIX a;CLIENT TRACKING ON BCAST PREFIX ab;CLIENT TRACKING ON BCAST PREFIX x PREFIX xy;CLIENT CACHING YES
CLIENT TRACKING ON PREFIX a;CLIENT TRACKING ON BCAST OPTIN;CLIENT TRACKING ON OPTIN OPTOUT;CLIENT TRACKING ON SOON
CLIENT TRACKING;CLIENT TRACKING MAYBE;CLIENT TRACKING OFF;CLIENT TRACKING OFF SOON;CLIENT TRACKING ON PREFIX;CLIENT TRACKING ON REDIRECT
CLIENT TRACKING ON REDIRECT 0;CLIENT TRACKING ON REDIRECT x;CLIENT TRACKING ON REDIRECT 99999999;CLIENT TRACKING ON REDIRECT -1
CLIENT CACHING YES;CLIENT CACHING;CLIENT CACHING YES NO;CLIENT CACHING maybe;CLIENT TRACKINGINFO x
CLIENT TRACKING ON OPTIN;CLIENT CACHING YES;RESET;CLIENT TRACKINGINFO
EXEC;DISCARD;MULTI;MULTI;EXEC;EXEC
"#;

const CLUSTER: &str = r#"
CLUSTER INFO
CLUSTER MYID;CLUSTER SLOTS;CLUSTER SHARDS;cluster slots
CLUSTER KEYSLOT 123456789;CLUSTER KEYSLOT a;CLUSTER KEYSLOT {a}b;CLUSTER KEYSLOT {}a;CLUSTER KEYSLOT "";CLUSTER KEYSLOT a{b;CLUSTER KEYSLOT a}b{c}{d}
CLUSTER;CLUSTER KEYSLOT;CLUSTER KEYSLOT a b;CLUSTER SLOTS x;CLUSTER SHARDS x;CLUSTER NODES x;CLUSTER INFO x;CLUSTER MYID x
CLUSTER NOSUCH;CLUSTER NOSUCH x;CLUSTER HELP x
MULTI;CLUSTER KEYSLOT a;CLUSTER NOSUCH;EXEC
"#;

/// The replies of a server to a line, with its ports and its id left out.
fn replies(at: SocketAddr, proto: u8, line: &str) -> String {
    let line = line.replace(';', "\r\n");
    let came = answers_to(at, &format!("HELLO {proto}\r\n{line}\r\nECHO end\r\n"));
    let (_, came) = came.split_once("$7\r\nmodules\r\n*0\r\n").unwrap();
    let ports = [at.port(), at.port().wrapping_add(10_000)];
    let came = came.replace(&format!(":{}@{}", ports[0], ports[1]), ":PORT@BUS");
    let came = came.replace(&format!(":{}@0", ports[0]), ":PORT@BUS");
    let came = came.replace(&ports[0].to_string(), "PORT");
    let lines = came.lines().map(|line| {
        let is_id = line.len() == 40 && line.bytes().all(|byte| byte.is_ascii_hexdigit());
        if is_id { "ID" } else { line }
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[tokio::test]
async fn tracking_and_the_cluster_of_one_node_are_answered_as_redis_answers_them() {
    let redis = ["--cluster-enabled", "yes", "--cluster-announce-ip", "127.0.0.1"];
    let redis = store::Server::start(&[], &redis);
    let at_redis = SocketAddr::from(([127, 0, 0, 1], redis.port));
    replies(at_redis, 2, "CLUSTER ADDSLOTSRANGE 0 16383");
    // A node calls itself well two seconds after its start.
    while !replies(at_redis, 2, "CLUSTER INFO").contains("cluster_state:ok") {
        sleep(Duration::from_millis(20)).await;
    }
    let server = Server::with_example();
    for line in TRACKING.lines().chain(CLUSTER.lines()).filter(|line| !line.is_empty()) {
        for proto in [2, 3] {
            let expected = replies(at_redis, proto, line);
            assert_eq!(replies(server.resp, proto, line), expected, "RESP{proto}: {line}");
        }
    }
    // The ports of the two have different lengths, and so have their lines.
    let nodes = |at| {
        let came = replies(at, 3, "CLUSTER NODES");
        let line = came.lines().nth(1).unwrap();
        line.split_once(' ').unwrap().1.to_owned()
    };
    assert_eq!(nodes(server.resp), nodes(at_redis));
}
