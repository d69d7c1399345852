//! Tests that the fast path answers as hyper's path does, and only the requests it may.

use std::sync::Arc;
use std::time::Duration;

use tidegate::{AlgorithmKind, Policy, RuleSpec, Spec};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::FastPath;
use super::head::{Found, look};
use crate::http::HttpService;
use crate::http::app::App;
use crate::http::connection::Endpoint;
use crate::http::routes::{Access, HttpRoutes};
use crate::http::testing::{self, Server, until_closed};
use crate::limiters::Limiters;
use crate::listener::Bounds;
use crate::listener::{Clients, ListenerSecret};
use crate::verbs::PublicVerbs;

const CHECK: &str = "POST /v1/check HTTP/1.1\r\nhost: a\r\ncontent-length: 29\r\n\r\n\
                     {\"descriptor\":{\"user\":\"ann\"}}";
const PEEK: &str = "POST /v1/peek HTTP/1.1\r\nhost: a\r\ncontent-length: 29\r\n\r\n\
                    {\"descriptor\":{\"user\":\"ann\"}}";

/// Three an hour for each user; nothing in the domain `free`.
fn app(bounds: Bounds) -> Arc<App> {
    let spec = Spec::new(AlgorithmKind::TokenBucket, 3, Duration::from_secs(3600));
    let policy = Policy::new(vec![RuleSpec::new("per-user", spec).key(["user"])]).unwrap();
    HttpService::new(Arc::new(Limiters::of(policy).unwrap().with_top_keys(256)), bounds, 100).0
}

fn public(app: Arc<App>) -> HttpRoutes {
    let clients = Clients { verbs: PublicVerbs::usual(), ..Clients::default() };
    HttpRoutes { app, access: Access::Public(clients) }
}

/// A server with the fast path.
async fn server(bounds: Bounds) -> Server {
    testing::serve(public(app(bounds)), bounds).await
}

/// A server with hyper alone.
async fn by_hyper(app: Arc<App>) -> Server {
    let served = public(app);
    let endpoint = testing::endpoint(move |request| served.clone().answer(request));
    testing::serve(endpoint, Bounds::default()).await
}

fn check(body: &str) -> String {
    format!("POST /v1/check HTTP/1.1\r\nhost: a\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}

/// Answers, without values that depend on the time.
fn timeless(answers: &str) -> String {
    let line = |line: &str| match line.split_once(": ") {
        Some((name @ ("date" | "content-length" | "x-ratelimit-reset"), _)) => name.to_owned(),
        Some(("ratelimit", value)) => value.split(";t=").next().unwrap_or_default().to_owned(),
        _ => line.split(",\"").filter(|field| !field.contains("_us\":")).collect(),
    };
    answers.lines().map(line).collect::<Vec<_>>().join("\n").replace("{\"at_us\":", "\n{")
}

/// All answers to these requests, after which the client closes its side.
async fn answers(server: &Server, sent: &str) -> String {
    let mut stream = server.connect().await;
    stream.write_all(sent.as_bytes()).await.unwrap();
    stream.shutdown().await.unwrap();
    until_closed(&mut stream).await
}

#[test]
fn every_part_of_a_check_may_become_one_and_the_whole_is_one() {
    let start = CHECK.len() - 29;
    for part in 1..CHECK.len() {
        assert_eq!(look(&CHECK.as_bytes()[..part], None), Found::Part, "{part} bytes");
    }
    let whole = Found::Check { body: start..CHECK.len(), end: CHECK.len() };
    assert_eq!(look(CHECK.repeat(2).as_bytes(), None), whole);
}

#[test]
fn whatever_is_not_quite_a_check_is_somebody_else_s() {
    let field = |field: &str| CHECK.replace("host: a", &format!("host: a\r\n{field}"));
    for other in [
        PEEK.to_owned(),
        CHECK.replace("POST", "GET"),
        CHECK.replace("/v1/check", "/v1/check?a"),
        CHECK.replace("HTTP/1.1", "HTTP/1.0"),
        CHECK.replace("content-length: 29", "content-length: +29"),
        CHECK.replace("content-length: 29", "content-length: 29\r\ncontent-length: 29"),
        CHECK.replace("content-length: 29\r\n", ""),
        CHECK.replace("content-length: 29", "content-length: 99999"),
        CHECK.replace("host: a", "host a"),
        CHECK.replace("host: a\r\n", ""),
        field("host: a"),
        field("host: b"),
        CHECK.replace("host: a", "host: a@b"),
        CHECK.replace("host: a", "host: "),
        field("transfer-encoding: chunked"),
        field("Expect: 100-continue"),
        field("connection: close"),
        field("upgrade: h2c"),
        field("origin: http://a"),
        field("content-type: text/plain"),
        field("content-type: application/json\u{a0}"),
        field(&"x: y\r\n".repeat(40)),
        "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_owned(),
        "\x16\x03\x01".to_owned(),
    ] {
        assert_eq!(look(other.as_bytes(), None), Found::Other, "{other}");
    }
    for usual in ["content-type: application/json", "connection: keep-alive", "accept: */*"] {
        assert!(matches!(look(field(usual).as_bytes(), None), Found::Check { .. }), "{usual}");
    }
}

#[test]
fn only_who_shows_a_token_is_answered_here() {
    let secret = ListenerSecret::parse("sesame").ok();
    let field = |field: &str| CHECK.replace("host: a", &format!("host: a\r\n{field}"));
    let whole =
        |asked: &str| matches!(look(asked.as_bytes(), secret.as_ref()), Found::Check { .. });
    assert!(whole(&field("Authorization: Bearer sesame")));
    assert!(!whole(CHECK));
    for wrong in ["authorization: Bearer open", "authorization: sesame"] {
        assert!(!whole(&field(wrong)), "{wrong}");
        let both = format!("{wrong}\r\nauthorization: Bearer sesame");
        assert!(!whole(&field(&both)), "the first counts: {both}");
    }
}

#[tokio::test]
async fn an_answer_is_the_same_as_by_hyper() {
    let (fast, hyper) = (server(Bounds::default()).await, by_hyper(app(Bounds::default())).await);
    for body in [
        r#"{"descriptor":{"user":"ann"}}"#,
        r#"{"descriptor":{"user":"ann"},"cost":3}"#,
        r#"{"descriptor":{"user":"ann"},"cost":2}"#,
        r#"{"descriptor":{"user":"ann"},"cost":4}"#,
        r#"{"descriptors":[{"user":"bob"},{"user":"eve"}]}"#,
        r#"{"domain":"free","descriptor":{"user":"ann"}}"#,
        r#"{"descriptor":{"user":"ann"},"cost":"much"}"#,
        r#"[{"descriptor":{"user":"zoe"}}]"#,
        "{",
    ] {
        let asked = check(body);
        let (fast, hyper) = (answers(&fast, &asked).await, answers(&hyper, &asked).await);
        assert!(fast.starts_with("HTTP/1.1 ") && fast.contains("\r\ndate: "), "{fast}");
        assert_eq!(timeless(&fast), timeless(&hyper), "{body}");
    }
}

#[tokio::test]
async fn whoever_answers_the_order_is_that_of_the_requests() {
    let server = server(Bounds::default()).await;
    let sent = [CHECK, CHECK, PEEK, CHECK, CHECK, "GET / HTTP/1.1\r\nhost: a\r\n\r\n"].concat();
    let answers = answers(&server, &sent).await;
    let each = answers.split("HTTP/1.1 ").skip(1);
    let statuses: Vec<_> = each.filter_map(|answer| answer.lines().next()).collect();
    let refused = "429 Too Many Requests";
    assert_eq!(statuses, ["200 OK", "200 OK", "200 OK", "200 OK", refused, "404 Not Found"]);
    assert_eq!(answers.matches(r#""remaining":2,"#).count(), 1, "{answers}");
}

#[tokio::test]
async fn a_check_that_comes_byte_by_byte_is_answered_once() {
    let server = server(Bounds::default()).await;
    let mut stream = server.connect().await;
    for byte in CHECK.bytes() {
        stream.write_u8(byte).await.unwrap();
        tokio::task::yield_now().await;
    }
    stream.shutdown().await.unwrap();
    let answers = until_closed(&mut stream).await;
    assert_eq!(answers.matches("HTTP/1.1 200 OK").count(), 1, "{answers}");
    assert!(answers.contains(r#""remaining":2,"#), "{answers}");
}

#[tokio::test]
async fn a_client_that_asks_nothing_more_is_cut() {
    let bounds = Bounds { idle: Duration::from_millis(30), ..Bounds::default() };
    let server = server(bounds).await;
    let mut stream = server.connect().await;
    stream.write_all(CHECK.as_bytes()).await.unwrap();
    let answers = until_closed(&mut stream).await;
    assert!(answers.starts_with("HTTP/1.1 200 OK"), "{answers}");
}

#[tokio::test]
async fn between_two_requests_a_connection_ends_with_the_process() {
    for server in [server(Bounds::default()).await, by_hyper(app(Bounds::default())).await] {
        let mut stream = server.connect().await;
        stream.write_all(CHECK.as_bytes()).await.unwrap();
        stream.read_u8().await.unwrap();
        server.stop.drain();
        until_closed(&mut stream).await;
        assert_eq!(server.done.await.unwrap(), 0, "nothing had to be cut");
    }
}

/// No task runs between the requests and the end of the process. The last answer announces it.
#[tokio::test]
async fn what_has_arrived_when_the_process_ends_is_answered() {
    let last = "GET / HTTP/1.1\r\nhost: a\r\n\r\n";
    for sent in [CHECK.repeat(3), [CHECK, PEEK, CHECK].concat(), [CHECK, last, last].concat()] {
        for (server, accepted) in [
            (server(Bounds::default()).await, true),
            (by_hyper(app(Bounds::default())).await, true),
            (by_hyper(app(Bounds::default())).await, false),
        ] {
            let mut stream = std::net::TcpStream::connect(server.at).unwrap();
            if accepted {
                tokio::task::yield_now().await;
            }
            std::io::Write::write_all(&mut stream, sent.as_bytes()).unwrap();
            server.stop.drain();
            stream.set_nonblocking(true).unwrap();
            let mut stream = tokio::net::TcpStream::from_std(stream).unwrap();
            let answers = until_closed(&mut stream).await;
            assert_eq!(answers.matches("HTTP/1.1 ").count(), 3, "{answers}");
            assert_eq!(answers.matches("connection: close").count(), 1, "{answers}");
            let (_, last) = answers.rsplit_once("HTTP/1.1 ").unwrap();
            assert!(last.contains("connection: close"), "{answers}");
            assert_eq!(server.done.await.unwrap(), 0, "nothing had to be cut");
        }
    }
}

#[tokio::test]
async fn a_client_that_never_stops_asking_learns_that_the_process_ends() {
    let server = server(Bounds::default()).await;
    let (mut read, mut write) = server.connect().await.into_split();
    tokio::spawn(
        async move { while write.write_all(CHECK.repeat(100).as_bytes()).await.is_ok() {} },
    );
    read.read_exact(&mut [0; 4 << 10]).await.unwrap();
    server.stop.drain();
    let mut rest = Vec::new();
    // A reset also ends the connection: requests after the last answer are not read.
    let _ = read.read_to_end(&mut rest).await;
    assert_eq!(server.done.await.unwrap(), 0, "nothing had to be cut");
}

/// A check allocates only the list of its header fields, after the buffers of the connection have grown. The count of
/// frequent keys samples one in sixteen checks. A sampled check allocates more if its key is not counted yet, as when a
/// new minute has just begun.
#[test]
fn a_check_allocates_once() {
    const CHECKS: usize = 100;
    let mut fast = FastPath::of(&app(Bounds::default()), None).unwrap();
    let mut answer_all = || {
        fast.input.extend_from_slice(CHECK.repeat(CHECKS).as_bytes());
        fast.reply.bytes.clear();
        let allocated = allocation_counter::measure(|| {
            fast.answer_all();
        });
        assert!(fast.input.is_empty(), "all is answered");
        allocated.count_total
    };
    let least = (0..10).map(|_| answer_all()).min();
    assert_eq!(least, Some(CHECKS as u64));
}

#[tokio::test]
async fn a_panic_in_one_check_is_that_checks_500() {
    let limiters = Arc::new(Limiters::that_panic(Policy::default()));
    let app = HttpService::new(limiters, Bounds::default(), 100).0;
    let fast = testing::serve(public(Arc::clone(&app)), Bounds::default()).await;
    let panics = check(r#"{"domain":"panics","descriptor":{"user":"ann"}}"#);
    for server in [fast, by_hyper(app).await] {
        let answers = answers(&server, &format!("{CHECK}{panics}{CHECK}")).await;
        let statuses: Vec<_> = answers.lines().filter(|line| line.contains("HTTP/1.1 ")).collect();
        assert_eq!(statuses.len(), 3, "{answers}");
        assert!(statuses[0].ends_with("HTTP/1.1 200 OK"), "{answers}");
        assert!(statuses[1].ends_with("HTTP/1.1 500 Internal Server Error"), "{answers}");
        assert!(statuses[2].ends_with("HTTP/1.1 200 OK"), "{answers}");
        assert_eq!(answers.matches("application/problem+json").count(), 1, "{answers}");
    }
}
