//! `GET /v1/stats` and its events, `POST /v1/report`, `GET /v1/decisions`, `tidegate stats` and `tidegate tail`.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use crate::process::{BINARY, Ended, Server, value};
use crate::raw;

const RULES: &str = r#"
rule = [
    { name = "per-user", key = ["user"], algorithm = "fixed_window", rate = "5/1d" },
    { name = "tried", algorithm = "fixed_window", rate = "3/1d", mode = "shadow" },
    { name = "per-card", key = ["card"], algorithm = "fixed_window", rate = "1/1d", hide_keys = true },
]
"#;

async fn stats(server: &Server, query: &str) -> Value {
    let answer = server.operator().get(&format!("/v1/stats{query}")).await.succeeded();
    answer.json()
}

fn ask(user: &str, cost: u64) -> String {
    json!({"descriptor": {"user": user}, "cost": cost}).to_string()
}

/// The lines with data of a stream of events, after its head.
pub(crate) struct Events(BufReader<TcpStream>);

impl Events {
    pub(crate) fn of(at: SocketAddr, path: &str) -> Self {
        let mut stream = TcpStream::connect(at).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
        let mut lines = BufReader::new(stream);
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            assert_ne!(lines.read_line(&mut head).unwrap(), 0, "{head}");
        }
        assert!(head.starts_with("HTTP/1.1 200 OK"), "{head}");
        assert!(head.contains("content-type: text/event-stream"), "{head}");
        Self(lines)
    }

    pub(crate) fn next(&mut self) -> Value {
        let mut line = String::new();
        loop {
            line.clear();
            assert_ne!(self.0.read_line(&mut line).unwrap(), 0, "the stream has ended");
            if let Some(data) = line.strip_prefix("data: ") {
                return serde_json::from_str(data).unwrap();
            }
        }
    }
}

/// Over two listeners in turn. A rule in shadow mode takes nothing of a request that another rule refuses.
#[tokio::test]
async fn units_and_decisions_of_each_rule_are_in_the_statistics_and_the_metrics() {
    let server = Server::with_rules(RULES);
    let asked =
        [("ada", 5, 200), ("ada", 1, 429), ("bob", 2, 200), ("bob", 2, 200), ("bob", 0, 200)];
    for (number, (user, cost, status)) in asked.into_iter().enumerate() {
        if number % 2 == 0 {
            assert_eq!(server.client().check(&ask(user, cost)).await.status, status);
        } else {
            let line = format!("TG.CHECK default COST {cost} user {user}\r\nQUIT\r\n");
            assert!(!raw::exchange(server.resp, &line).await.starts_with('-'));
        }
    }
    let stats = stats(&server, "").await;
    let of = |rule: usize| {
        let minute = &stats["rules"][rule]["minute"];
        (minute["pass"].as_u64().unwrap(), minute["block"].as_u64().unwrap())
    };
    assert_eq!((of(0), of(1)), ((9, 1), (2, 7)), "{stats}");
    let metrics = server.metrics().await;
    let series = [
        ("per-user", "allowed", 0, 4),
        ("per-user", "refused", 0, 1),
        ("tried", "shadow_allowed", 1, 3),
        ("tried", "shadow_refused", 1, 2),
    ];
    for (rule, outcome, number, expected) in series {
        assert_eq!(stats["rules"][number]["decisions"][outcome], expected, "{rule} {outcome}");
        let labels = format!(r#"{{domain="default",rule="{rule}",outcome="{outcome}"}}"#);
        let line = format!("tidegate_rule_decisions_total{labels} {expected}\n");
        assert!(metrics.contains(&line), "{line}{metrics}");
    }
    for absent in
        ["rule=\"per-user\",outcome=\"shadow_refused\"", "rule=\"tried\",outcome=\"allowed\""]
    {
        assert!(!metrics.contains(absent), "{absent}: {metrics}");
    }
    let all = r#"tidegate_request_duration_seconds_bucket{le="+Inf",listener="http"}"#;
    assert_eq!(value(&metrics, all), Some(3), "a histogram without this bucket has no quantiles");
    let of_users = |family: &str| {
        value(&metrics, &format!("{family}{{domain=\"default\",rule=\"per-user\"}}"))
    };
    assert_eq!(of_users("tidegate_rule_keys"), Some(2));
    assert!(of_users("tidegate_rule_memory_bytes") > Some(0), "{metrics}");
    assert!(!metrics.contains("ada"), "a caller is no label: {metrics}");
}

#[tokio::test]
async fn callers_report_outcomes_times_and_what_is_in_flight() {
    let server = Server::with_rules(RULES);
    let admin = server.operator();
    let report = async |body: Value| admin.post("/v1/report", &body.to_string()).await;
    let answer = report(json!([
        {"resource": "GET /orders", "pass": 40, "block": 2, "took_us": [1_000, 2_001], "exception": 1},
        {"resource": "GET /orders", "in_flight": 3, "from": "api-1"},
        {"resource": "GET /orders", "in_flight": 4, "from": "api-2"},
        {"rule": "per-user", "took_us": 8_300, "in_flight": 1},
    ]))
    .await;
    assert_eq!((answer.status.as_u16(), answer.json()["reported"].as_u64()), (200, Some(4)));
    let all = stats(&server, "").await;
    let orders = &all["resources"][0];
    assert_eq!((&orders["resource"], &orders["in_flight"]), (&json!("GET /orders"), &json!(7)));
    let minute = json!({
        "pass": 40, "block": 2, "exception": 1, "success": 2, "rt_sum_us": 3_001, "rt_min_us": 1_000,
        "rt_mean_us": 1_500,
    });
    assert_eq!(orders["minute"], minute);
    assert_eq!(all["rules"][0]["minute"]["rt_min_us"], 8_300);
    assert_eq!(all["rules"][0]["in_flight"], 1);
    assert_eq!(all["rules"][1]["minute"]["rt_mean_us"], Value::Null);
    assert_eq!(
        report(json!({"resource": "GET /orders", "in_flight": 0, "from": "api-2"})).await.status,
        200
    );
    let orders = stats(&server, "?resource=GET+%2Forders").await;
    assert_eq!((&orders["resources"][0]["in_flight"], &orders["rules"]), (&json!(3), &json!([])));

    let wrong = json!([{"resource": "x", "pass": 1}, {"rule": "nobody", "exception": 1}]);
    report(wrong).await.refused(400, "no rule in force is named \"nobody\"");
    assert_eq!(
        stats(&server, "?resource=x").await["resources"][0]["minute"]["pass"],
        0,
        "all or nothing"
    );
    report(json!([{"resource": "x", "pass": 1}, {"resource": "y"}]))
        .await
        .refused(400, "report 2: nothing is reported");
    report(json!({"resource": "x", "passes": 1})).await.refused(400, "passes");
}

#[tokio::test]
async fn resources_are_bounded_and_clients_report_where_the_setting_allows() {
    let server = Server::with_rules_and(RULES, &["--public-verbs", "check,report"]);
    let client = server.client();
    let named = |number: usize| json!({"resource": format!("r{number}"), "pass": 1});
    for first in (0..1_000).step_by(250) {
        let batch: Vec<_> = (first..first + 250).map(named).collect();
        client.post("/v1/report", &json!(batch).to_string()).await.succeeded();
    }
    client
        .post("/v1/report", &named(1_000).to_string())
        .await
        .refused(503, "name parts of a program, not callers");
    client.post("/v1/report", &named(7).to_string()).await.succeeded();

    let server = Server::with_rules(RULES);
    server.client().post("/v1/report", &named(1).to_string()).await.refused(403, "--public-verbs");
}

#[tokio::test]
async fn statistics_come_each_second_until_the_server_stops() {
    let server = Server::with_rules(RULES);
    let mut events = Events::of(server.admin, "/v1/stats/events?rule=per-user");
    assert_eq!(events.next()["rules"][0]["minute"]["pass"], 0);
    server.client().check(&ask("ada", 2)).await.succeeded();
    let next = events.next();
    assert_eq!(
        (&next["rules"][0]["minute"]["pass"], next["rules"].as_array().unwrap().len()),
        (&json!(2), 1)
    );
    server.signal("TERM");
    let mut rest = String::new();
    events.0.read_to_string(&mut rest).unwrap();
    assert!(rest.ends_with("0\r\n\r\n"), "it ends as a whole: {rest}");
    server.ended_uncut();
}

#[tokio::test]
async fn decisions_are_shown_as_they_are_taken_and_filtered() {
    let server = Server::with_rules(RULES);
    let mut refused = Events::of(server.admin, "/v1/decisions?outcome=refused&per_second=1000");
    let mut bob = Events::of(server.admin, "/v1/decisions?rule=per-user&key=user%3Dbob");
    let client = server.client();
    for user in ["ada", "bob"] {
        client.check(&ask(user, 5)).await.succeeded();
    }
    assert_eq!(client.check(&ask("ada", 2)).await.status, 429);
    let first = refused.next();
    assert_eq!((&first["rule"], &first["key"]), (&json!("per-user"), &json!({"user": "ada"})));
    assert_eq!(
        (&first["cost"], &first["limit"], &first["remaining"]),
        (&json!(2), &json!(5), &json!(0))
    );
    assert!(first["retry_after_us"].as_u64() > Some(0) && first["at_us"].is_u64(), "{first}");
    let first = bob.next();
    assert_eq!((&first["outcome"], &first["key"]), (&json!("allowed"), &json!({"user": "bob"})));
    let card = json!({"descriptor": {"card": "4111"}}).to_string();
    for _ in 0..2 {
        client.check(&card).await;
    }
    let hidden = refused.next();
    let hidden = hidden["key"].as_str().unwrap();
    assert!(hidden.len() == 16 && hidden.bytes().all(|byte| byte.is_ascii_hexdigit()), "{hidden}");
}

#[tokio::test]
async fn streams_are_bounded_and_end_with_their_clients() {
    let server = Server::with_rules(RULES);
    let open: Vec<_> = (0..32).map(|_| Events::of(server.admin, "/v1/decisions")).collect();
    let admin = server.operator();
    admin.get("/v1/stats/events").await.refused(503, "32 streams of events are open");
    drop(open);
    let began = Instant::now();
    while raw::decisions(server.admin, "none").is_none() {
        assert!(began.elapsed() < Duration::from_secs(60), "a stream outlives its client");
    }
}

#[tokio::test]
async fn a_wrong_query_says_what_was_expected() {
    let server = Server::with_rules(RULES);
    let admin = server.operator();
    for (path, expected) in [
        ("/v1/stats?rul=a", "expected `rule` with the name of a rule"),
        ("/v1/stats/events?rule=a&rule=b", "twice"),
        ("/v1/decisions?outcome=no", "shadow_refused"),
        ("/v1/decisions?key=ada", "NAME=VALUE"),
        ("/v1/decisions?per_second=1001", "1 to 1000"),
        ("/v1/decisions?rule=nobody", "no rule in force is named \"nobody\""),
        ("/v1/stats?rule=nobody", "no rule in force is named \"nobody\""),
        ("/v1/top?by=allowed", "expected `rule` with the name of a rule"),
        ("/v1/top?n=0", "`n` from 1 to 1000"),
        ("/v1/top?rule=nobody", "no rule in force is named \"nobody\""),
    ] {
        admin.get(path).await.refused(400, expected);
    }
    server.client().get("/v1/stats").await.refused(404, "the admin listener");
}

#[test]
fn the_commands_print_what_the_server_has() {
    let mut server = Server::with_rules(RULES);
    let admin = server.admin_url();
    let piped = |args: &[&str]| {
        let mut command = Command::new(BINARY);
        let command = command.args(args).args(["--admin", &admin]);
        let streams = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        streams.spawn().unwrap()
    };
    let mut tail =
        piped(&["tail", "--outcome", "never", "--key", "user=a=b", "--rule", "per-user"]);
    let mut watch = piped(&["stats", "--watch", "--format", "json"]);
    let mut lines = BufReader::new(tail.stdout.take().unwrap());
    let mut events = BufReader::new(watch.stdout.take().unwrap());
    let line = thread::spawn(move || {
        let mut line = String::new();
        lines.read_line(&mut line).unwrap();
        (line, lines)
    });
    // The command may not be connected yet.
    while !line.is_finished() {
        let mut resp = TcpStream::connect(server.resp).unwrap();
        resp.write_all(b"TG.CHECK default COST 6 user a=b\r\nQUIT\r\n").unwrap();
        resp.read_to_end(&mut Vec::new()).unwrap();
    }
    // The command goes on as long as its output is read.
    let (line, _lines) = line.join().unwrap();
    assert!(line.contains(" never default/per-user user=a=b: cost 6, 5 of 5 remaining"), "{line}");
    let blocked = |text: &str| {
        let stats: Value = serde_json::from_str(text).unwrap();
        stats["rules"][0]["minute"]["block"].as_u64().unwrap()
    };
    let mut event = String::new();
    while event.is_empty() || blocked(&event) < 6 {
        event.clear();
        assert_ne!(events.read_line(&mut event).unwrap(), 0);
    }
    let once = piped(&["stats", "--rule", "per-user"]).wait_with_output().unwrap();
    let once = Ended::from(once).printed();
    assert!(once.lines().count() == 2 && once.contains("per-user"), "{once}");
    let ctrl_c = Command::new("kill").args(["-INT", &tail.id().to_string()]).status();
    assert!(ctrl_c.unwrap().success());
    assert_eq!(tail.wait().unwrap().code(), Some(0));
    server.signal("TERM");
    let ended = Ended::from(watch.wait_with_output().unwrap());
    assert!(ended.code == Some(1) && ended.err.contains("has ended the stream"), "{ended:?}");
    server.logs("stopped");
}
