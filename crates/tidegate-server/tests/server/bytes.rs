//! Bytes that callers choose: every value is a key, with any bytes, and the same key over every protocol.

mod envoy;
mod misunderstood;
mod random;

use std::path::Path;

use hyper::Method;
use hyper::http::uri::PathAndQuery;
use prost::Message;
use redis::{Connection, cmd};
use serde_json::Value;
use tidegate::{key_bytes, key_text};
use tonic::client::Grpc;
use tonic::transport::Channel;
use tonic::{Request, Status};
use tonic_prost::ProstCodec;

use crate::client::Client;
use crate::envoy_api::{Code, RateLimitResponse};
use crate::grpc;
use crate::process::{Server, run};

const PATH: &str = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";

const RULES: &str = r#"
[[rule]]
name = "per-user"
domain = "edge"
key = ["user"]
algorithm = "sliding_log"
limit = 3
window = "1d"
"#;

/// Values that a caller may send: of every kind of bytes, and as long as a proxy takes.
fn values() -> Vec<Vec<u8>> {
    let long = 60 << 10;
    let mut values: Vec<Vec<u8>> =
        vec![vec![b'a'; long], vec![0xff; long], "ü".repeat(long / 2).into()];
    for text in [
        "",
        "jürgen",
        "ju\u{308}rgen",
        "🦀",
        "%FF",
        "%C3%BC",
        "a b\t",
        "\0",
        "a\0b",
        "\u{1}\u{1b}[2J\u{7f}\r\n",
        "\u{202e}nimda",
        "\u{61c}\u{200f}",
        "\u{feff}",
        "\u{fffd}",
        r"CORP\ada",
        r"\xff",
        r"\x5cxff",
        r"\",
        r#"""#,
        "*",
        "a|b:c;d=e,f",
        "null",
    ] {
        values.push(text.into());
    }
    for bytes in [
        &b"\xff"[..],
        b"j\xfcrgen",
        b"\xc3",
        b"\xed\xa0\x80",
        b"\xf0\x9f\xa6",
        b"\\\xff",
        b"\x80\x00",
    ] {
        values.push(bytes.to_vec());
    }
    values
}

/// The messages of the protocol, with bytes where it says text.
#[derive(Clone, PartialEq, Message)]
struct Question {
    #[prost(bytes = "vec", tag = "1")]
    domain: Vec<u8>,
    #[prost(message, repeated, tag = "2")]
    descriptors: Vec<Descriptor>,
}

#[derive(Clone, PartialEq, Message)]
struct Descriptor {
    #[prost(message, repeated, tag = "1")]
    entries: Vec<Entry>,
}

#[derive(Clone, PartialEq, Message)]
struct Entry {
    #[prost(bytes = "vec", tag = "1")]
    key: Vec<u8>,
    #[prost(bytes = "vec", tag = "2")]
    value: Vec<u8>,
}

/// Asks over gRPC with any message.
async fn ask(
    channel: &Channel,
    question: impl Message + Default + 'static,
) -> Result<RateLimitResponse, Status> {
    let mut client = Grpc::new(channel.clone());
    client.ready().await.unwrap();
    let path = PathAndQuery::from_static(PATH);
    let codec = ProstCodec::<_, RateLimitResponse>::default();
    client.unary(Request::new(question), path, codec).await.map(tonic::Response::into_inner)
}

async fn over_grpc(channel: &Channel, user: &[u8]) -> bool {
    let entries = vec![Entry { key: b"user".to_vec(), value: user.to_vec() }];
    let question = Question { domain: b"edge".to_vec(), descriptors: vec![Descriptor { entries }] };
    ask(channel, question).await.unwrap().overall_code() == Code::Ok
}

fn over_resp(connection: &mut Connection, user: &[u8]) -> bool {
    let reply: Vec<redis::Value> =
        cmd("TG.CHECK").arg("edge").arg("user").arg(user).query(connection).unwrap();
    reply[1] == redis::Value::Int(1)
}

/// Asks over HTTP with the text of the bytes.
async fn over_http(client: &Client, user: &[u8]) -> bool {
    let body = serde_json::json!({"domain": "edge", "descriptor": {"user": key_text(user)}});
    client.check(&body.to_string()).await.json()["allowed"] == true
}

#[tokio::test]
async fn json_with_bytes_that_are_no_text_or_half_a_surrogate_pair_is_a_key() {
    let (_server, http) = Server::with_client(RULES);
    let ask = async |user: &[u8]| {
        let body =
            [b"{\"domain\": \"edge\", \"descriptor\": {\"user\": \"", user, b"\"}}"].concat();
        let answer = http.send(Method::POST, "/v1/check", Some("application/json"), body).await;
        answer.json()["remaining"].as_u64()
    };
    assert_eq!(ask(b"\xff").await, Some(2));
    assert_eq!(ask(br"\\xff").await, Some(1));
    assert_eq!(ask(br"\ud800").await, Some(2));
    assert_eq!(ask(br"\\xed\\xa0\\x80").await, Some(1));
    assert_eq!(ask(b"\xed\xa0\x80").await, Some(0));
}

#[tokio::test]
async fn what_no_rule_matches_is_refused_where_that_is_chosen() {
    let server = Server::with_rules(&format!("on_no_rule = {{ edge = \"refuse\" }}\n{RULES}"));
    let (channel, http) = (grpc::channel(&server).await, server.client());
    let refused = http.check(r#"{"domain": "edge", "descriptor": {"usr": "ada"}}"#).await;
    assert_eq!(refused.status, 403);
    let answer = refused.json();
    assert_eq!((&answer["allowed"], &answer["no_rule"]), (&false.into(), &true.into()));
    assert_eq!(answer["retry_after_us"], Value::Null);
    let elsewhere = http.check(r#"{"domain": "misspelt", "descriptor": {"user": "ada"}}"#).await;
    assert_eq!((elsewhere.status.as_u16(), &elsewhere.json()["no_rule"]), (200, &Value::Null));
    let entries = vec![Entry { key: b"usr".to_vec(), value: b"ada".to_vec() }];
    let question = Question { domain: b"edge".to_vec(), descriptors: vec![Descriptor { entries }] };
    let refused = ask(&channel, question).await.unwrap();
    assert_eq!(refused.overall_code(), Code::OverLimit);
    assert_eq!(grpc::reason(&refused), "no rule matches: domain edge, entries usr");
    let reply = server.reply(&["TG.CHECK", "edge", "usr", "ada"]);
    assert_eq!(reply[1], redis::Value::Int(0));
    assert!(over_grpc(&channel, b"ada").await, "a rule matches");
    for (answer, count) in [("refused", 3), ("admitted", 1)] {
        let series = format!("tidegate_unmatched_requests_total{{answer=\"{answer}\"}}");
        assert_eq!(server.metric(&series).await, Some(count), "{answer}");
    }
    let log = server.stopped();
    let lines = log.lines().filter(|line| line.contains("no rule matches a request"));
    let lines: Vec<_> = lines.collect();
    assert!(lines.len() == 2 && lines[0].contains("domain edge, entries usr"), "{lines:?}");
    assert!(
        lines[1].contains("domain misspelt, entries user") && !log.contains("ada"),
        "{lines:?}"
    );
}

#[test]
fn each_row_of_the_page_names_a_test() {
    fn sources(folder: &Path, all: &mut String) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => sources(&path, all),
                false => all.push_str(&std::fs::read_to_string(path).unwrap_or_default()),
            }
        }
    }
    let mut all = String::new();
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for folder in ["src", "tests"] {
        sources(&root.join(folder), &mut all);
    }
    let page = include_str!("../../../../docs/not-decided.md");
    let rows: Vec<_> = page.lines().filter(|line| line.ends_with("` |")).collect();
    assert!(rows.len() > 20, "{}", rows.len());
    for row in rows {
        let name = row.rsplit('`').nth(1).unwrap();
        assert!(all.contains(&format!("fn {name}(")), "{row}");
    }
}

#[tokio::test]
async fn an_operator_names_a_key_of_bytes_everywhere() {
    let rules = format!("{RULES}[[rule.override]]\nmatch = {{ user = '\\xfe' }}\nlimit = 1\n");
    let server = Server::with_rules(&rules);
    let channel = grpc::channel(&server).await;
    let (url, admin) = (format!("http://{}", server.http), server.admin_url());
    assert!(
        over_grpc(&channel, b"\xfe").await && !over_grpc(&channel, b"\xfe").await,
        "the override"
    );
    for _ in 0..3 {
        assert!(over_grpc(&channel, b"j\xfcrgen").await);
    }
    let peek = |user: &str| {
        let user = format!("user={user}");
        let arguments = ["peek", &user, "--domain", "edge", "--url", &url, "--format", "json"];
        run(&arguments).object()["remaining"].as_u64().unwrap()
    };
    assert_eq!((peek(r"j\xfcrgen"), peek("jürgen"), peek(r"j\x5cxfcrgen")), (0, 3, 3));
    // One of 16 is counted.
    for _ in 0..32 {
        assert!(!over_grpc(&channel, b"j\xfcrgen").await);
    }
    let top = run(&["top", "--admin", &admin]).printed();
    assert!(top.contains(r"user=j\xfcrgen"), "{top}");
    run(&["reset", r"user=j\xfcrgen", "--domain", "edge", "--admin", &admin, "--yes"]).printed();
    assert_eq!(peek(r"j\xfcrgen"), 3);
    assert!(over_grpc(&channel, b"j\xfcrgen").await);
    // The server accepts the text of its own answers.
    let text = key_text(b"j\xfcrgen");
    assert_eq!(*key_bytes(&text), *b"j\xfcrgen");
    let body = serde_json::json!({"domain": "edge", "descriptor": {"user": text}}).to_string();
    assert_eq!(server.operator().post("/v1/reset", &body).await.json()["reset"], 1);
}
