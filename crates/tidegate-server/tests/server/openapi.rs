//! The description of the requests over HTTP: its examples, sent to a server, and a fuzzer that reads it.

mod description;

use std::net::SocketAddr;
use std::path::Path;
use std::process::Command;

use hyper::Method;
use serde_json::{Value, json};

use crate::certificates::Certificates;
use crate::client::{Answer, Client};
use crate::process::Server;
use crate::statistics::Events;
use description::{Description, Operation};

/// Where `cargo xtask test` installs the fuzzer, in the target folder.
const SCHEMATHESIS: &str = "tools/schemathesis-4.32.5-hypothesis-6.170.17";
/// The folder with its settings.
const SETTINGS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/server/openapi");
/// Paths that the admin listener describes and does not answer, and streams without an end, which no fuzzer reads.
const LEFT_OUT: [&str; 4] = ["/v1/check", "/v1/reserve", "/v1/decisions", "/v1/stats/events"];

/// The rules of the examples, and limits that refuse for a while and for ever.
const RULES: &str = r#"
rule = [
    { name = "per-ip", key = ["ip"], algorithm = "token_bucket", rate = "60/1m", capacity = 20 },
    { name = "login", when = { path = "/login" }, key = ["ip"], algorithm = "sliding_log", rate = "5/1m" },
    { name = "tokens", key = ["user"], algorithm = "token_bucket", rate = "1000/1d", max_debt = 1000 },
    { name = "jobs", when = { work = "*" }, algorithm = "concurrency", limit = 2, window = "1m" },
    { name = "sale", when = { path = "/sale*" }, algorithm = "sliding_window", rate = "50/10s", mode = "shadow" },
    { name = "shut", domain = "shut", algorithm = "fixed_window", limit = 0, window = "1m" },
]

[on_no_rule]
strict = "refuse"
"#;

const VERBS: &str = "check,peek,reserve,settle,refund,reset,report";

fn server() -> Server {
    Server::with_rules_and(RULES, &["--public-verbs", VERBS, "--record", "10m"])
}

async fn description(client: &Client) -> Description {
    let answer = client.get("/openapi.json").await;
    assert_eq!(answer.header("content-type"), Some("application/json"));
    Description(answer.json())
}

/// The query of the parameters' examples.
fn query(described: &Description, operation: &Operation<'_>) -> String {
    let parameters = operation.value["parameters"].as_array().into_iter().flatten();
    let parameters = parameters.map(|parameter| described.resolved(parameter));
    let query = parameters.filter(|parameter| parameter["in"] == "query").map(|parameter| {
        let example = &parameter["example"];
        let text = match example {
            Value::String(text) => text.clone(),
            Value::Array(items) => {
                items.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(",")
            }
            other => other.to_string(),
        };
        let text: String = form_urlencoded::byte_serialize(text.as_bytes()).collect();
        format!("{}={text}", parameter["name"].as_str().unwrap())
    });
    let query: Vec<_> = query.collect();
    if query.is_empty() { String::new() } else { format!("?{}", query.join("&")) }
}

/// A body as the example has it, with a reservation that exists.
async fn real(server: &Server, mut body: Value) -> Value {
    if body.get("reservation").is_some() {
        let descriptors = body["actual"].as_array().map_or(1, Vec::len);
        let reserve = json!({"descriptors": vec![json!({"user": "ann"}); descriptors]}).to_string();
        let reserved = server.client().post("/v1/reserve", &reserve).await.json();
        body["reservation"] = reserved["reservation"].clone();
    }
    body
}

/// Sends the requests of an operation: with each body of its examples, and without and with its parameters.
async fn answers(
    server: &Server,
    client: &Client,
    described: &Description,
    operation: &Operation<'_>,
) -> Vec<Answer> {
    let method = Method::from_bytes(operation.method.to_uppercase().as_bytes()).unwrap();
    let query = query(described, operation);
    let mut answers = Vec::new();
    let contents = described.resolved(&operation.value["requestBody"])["content"].as_object();
    let Some((media_type, content)) = contents.and_then(|all| all.iter().next()) else {
        for query in ["", &query] {
            let path = format!("{}{query}", operation.path);
            answers.push(client.send(method.clone(), &path, None, Vec::new()).await);
        }
        return answers;
    };
    for example in described.examples(content) {
        let body = match example {
            Value::String(text) => text.clone(),
            json => {
                assert_eq!(described.mistake(&content["schema"], json), None, "{}", operation.path);
                real(server, json.clone()).await.to_string()
            }
        };
        let path = format!("{}{query}", operation.path);
        answers.push(client.send(method.clone(), &path, Some(media_type), body.into()).await);
    }
    answers
}

/// Asserts that an answer has the status, the media type and the fields of the description.
fn assert_described(described: &Description, operation: &Operation<'_>, answer: &Answer) {
    let path = operation.path;
    let response = &operation.value["responses"][answer.status.as_str()];
    let response = described.resolved(response);
    let media_type = answer.header("content-type").unwrap().split(';').next().unwrap();
    let content = &response["content"][media_type];
    assert!(content.is_object(), "{path}: {} {media_type}", answer.status);
    for line in answer.text.lines().filter(|_| content.get("x-line").is_some()) {
        let line = serde_json::from_str(line).unwrap();
        assert_eq!(described.mistake(&content["x-line"], &line), None, "{path}");
    }
    if ["application/json", "application/problem+json"].contains(&media_type) {
        let json = answer.json();
        assert_eq!(described.mistake(&content["schema"], &json), None, "{path}");
        let shown = described.examples(content).filter_map(Value::as_object);
        let shown: Vec<_> = shown.flat_map(|example| example.keys()).collect();
        for name in json.as_object().into_iter().flat_map(|object| object.keys()) {
            let is_shown = answer.status != 200 || shown.is_empty() || shown.contains(&name);
            assert!(is_shown, "{path}: no example of an answer has `{name}`");
        }
    }
    for name in answer.headers.keys().map(|name| name.as_str()).filter(|name| is_of_answer(name)) {
        assert!(response["headers"].get(name).is_some(), "{path}: {name} is not described");
    }
    let fields = response["headers"].as_object().into_iter().flatten();
    for (name, field) in fields.filter(|(_, field)| described.resolved(field)["required"] == true) {
        assert!(answer.header(name).is_some(), "{path}: {name} is missing: {field}");
    }
}

/// Returns whether the description of an answer has to have a header field: every answer has the others.
fn is_of_answer(name: &str) -> bool {
    !["content-type", "content-length", "cache-control", "date", "vary", "connection"]
        .contains(&name)
}

#[tokio::test]
async fn each_example_is_accepted_and_answered_as_described() {
    let server = server();
    let (public, admin) = (server.client(), server.operator());
    for client in [&public, &admin] {
        let described = description(client).await;
        let mut read = 0;
        for operation in described.operations() {
            if operation.value["responses"]["200"]["content"].get("text/event-stream").is_some() {
                continue;
            }
            for answer in answers(&server, client, &described, &operation).await {
                assert_eq!(answer.status, 200, "{}: {}", operation.path, answer.text);
                assert_described(&described, &operation, &answer);
                read += 1;
            }
        }
        assert!(read > 10, "{read}");
    }
}

#[tokio::test]
async fn each_example_of_an_answer_is_one() {
    let server = server();
    for at in [server.http, server.admin] {
        let described = description(&Client::new(at)).await;
        let mut read = 0;
        for operation in described.operations() {
            for response in operation.value["responses"].as_object().unwrap().values() {
                let contents = described.resolved(response)["content"].as_object().unwrap();
                for content in contents.values() {
                    for example in described.examples(content) {
                        let mistake = described.mistake(&content["schema"], example);
                        assert_eq!(mistake, None, "{}", operation.path);
                        read += 1;
                    }
                }
            }
        }
        assert!(read > 10, "{read}");
    }
}

/// Answers of a server whose store is away: it decides alone, or not at all.
#[tokio::test]
async fn answers_without_a_store_are_as_described() {
    let rules = RULES.replace("\"jobs\",", "\"jobs\", on_store_error = \"closed\",");
    let store = "[store]\nurl = \"redis://127.0.0.1:1\"\n";
    let server = Server::with_rules(&format!("{rules}{store}"));
    let admin = server.operator();
    let described = description(&admin).await;
    let work = r#"{"descriptor": {"work": "a"}}"#;
    let answers = [
        ("/v1/peek", admin.post("/v1/peek", work).await, 503),
        ("/v1/peek", admin.post("/v1/peek", r#"{"descriptor": {"ip": "a"}}"#).await, 200),
        ("/v1/reset", admin.post("/v1/reset", work).await, 503),
        ("/healthz", admin.get("/healthz").await, 200),
    ];
    for (path, answer, status) in answers {
        assert_eq!(answer.status, status, "{}", answer.text);
        assert_described(&described, &described.operation(path), &answer);
    }
}

/// The server expects the names of the document in a body, and takes the numbers within its bounds.
#[tokio::test]
async fn fields_and_their_bounds_are_as_described() {
    let server = server();
    for client in [server.client(), server.operator()] {
        let described = description(&client).await;
        let mut read = 0;
        for operation in described.operations() {
            let path = operation.path;
            for (name, bounds) in described.bounds_of_parameters(&operation) {
                for (number, is_well) in bounds.into_iter().flatten() {
                    let answer = client.get(&format!("{path}?{name}={number}")).await;
                    assert_eq!(answer.status == 200, is_well, "{path} {name}={number}");
                    read += 1;
                }
            }
            let fields = described.fields_of_body(&operation);
            if fields.is_empty() {
                continue;
            }
            let detail = client.post(path, r#"{"zzz": 0}"#).await.problem(400);
            let (_, expected) = detail.split_once(", expected ").unwrap();
            let expected = expected.split(" at line ").next().unwrap();
            for name in expected.split('`').skip(1).step_by(2) {
                let mut body = json!({"descriptor": {"none": "a"}});
                let mut numbers = Vec::new();
                match fields.get(name) {
                    Some(field) => numbers.extend(described.bounds(field).into_iter().flatten()),
                    // A field that only other paths take, with a value that they take.
                    None if name == "request_id" => numbers.push((json!("a"), false)),
                    None => numbers.push((json!(1), false)),
                }
                for (number, is_well) in numbers {
                    body[name] = number;
                    let answer = client.post(path, &body.to_string()).await;
                    assert_eq!(answer.status == 200, is_well, "{path} {body}: {}", answer.text);
                    read += 1;
                }
            }
            let unknown = fields.keys().find(|name| !expected.contains(&format!("`{name}`")));
            assert_eq!(unknown, None, "{path}: {detail}");
        }
        assert!(read > 20, "{read}");
    }
}

/// Refusals of every kind, problems, and the events of streams.
#[tokio::test]
async fn refusals_problems_and_events_are_as_described() {
    let server = server();
    let (public, admin) = (server.client(), server.operator());
    let (of_client, of_operator) = (description(&public).await, description(&admin).await);
    let check = "/v1/check";
    let mut events = Events::of(server.admin, "/v1/decisions?rule=login");
    let login = r#"{"descriptor": {"ip": "a", "path": "/login"}, "cost": 5}"#;
    for (path, body, status) in [
        (check, login, 200),
        (check, login, 429),
        (check, r#"{"descriptor": {"ip": "a"}, "cost": 21}"#, 422),
        (check, r#"{"domain": "shut", "descriptor": {}}"#, 403),
        (check, r#"{"domain": "strict", "descriptor": {}}"#, 403),
        (check, r#"{"descriptor": {"path": "/sale/1"}}"#, 200),
        (check, "{", 400),
        ("/v1/reserve", r#"{"descriptor": {"work": "a"}}"#, 200),
        ("/v1/peek", r#"[{"descriptor": {"user": "a"}}]"#, 200),
        ("/v1/renew", r#"{"reservation": "8f0e4c1d2b3a49586776859493a2b1c0"}"#, 404),
    ] {
        let answer = public.post(path, body).await;
        assert_eq!(answer.status, status, "{}", answer.text);
        assert_described(&of_client, &of_client.operation(path), &answer);
    }
    let tail =
        of_operator.0["paths"]["/v1/decisions"]["get"]["responses"]["200"]["content"].clone();
    let schema = &tail["text/event-stream"]["x-event-data"];
    assert_eq!(of_operator.mistake(schema, &events.next()), None);
    let stats = &of_operator.0["components"]["schemas"]["Stats"];
    let mut events = Events::of(server.admin, "/v1/stats/events");
    assert_eq!(of_operator.mistake(stats, &events.next()), None);
    for (query, path) in [
        ("?n=0", "/v1/top"),
        ("?rule=none", "/v1/stats"),
        ("?x=1", "/v1/reservations"),
        ("?per_second=0", "/v1/decisions"),
        ("?outcome=lost", "/v1/decisions"),
        ("?resource=a&resource=b", "/v1/stats/events"),
    ] {
        let answer = admin.get(&format!("{path}{query}")).await;
        assert_described(&of_operator, &of_operator.operation(path), &answer);
        let _ = answer.problem(400);
    }
}

#[tokio::test]
async fn a_stranger_reads_no_description_and_a_client_reads_of_its_verbs() {
    let files = Certificates::folder();
    let tokens = files.with("tokens", "for-all\nfor-pay verbs=reserve,settle");
    let operators = files.with("operators", "for-ops");
    let more = ["--token-file", &tokens, "--admin-read-token-file", &operators];
    let server = Server::with_rules_and(RULES, &more);
    let paths = async |at, token: &str| {
        let answer = Client::new(at).get_as("/openapi.json", &format!("Bearer {token}")).await;
        answer.json()["paths"].as_object().map(|paths| paths.keys().cloned().collect::<Vec<_>>())
    };
    for at in [server.http, server.admin] {
        let _ = Client::new(at).get("/openapi.json").await.problem(401);
        assert_eq!(paths(at, "unknown").await, None);
    }
    let usual = ["/healthz", "/openapi.json", "/v1/check", "/v1/peek"];
    assert_eq!(paths(server.http, "for-all").await.unwrap(), usual);
    let pay = paths(server.http, "for-pay").await.unwrap();
    assert_eq!(pay.len(), usual.len() + 3, "{pay:?}");
    assert!(paths(server.admin, "for-ops").await.unwrap().len() > 15);
}

/// The number of requests of one run of the fuzzer, which must find no answer that the document does not have.
fn fuzzed(at: SocketAddr, left_out: &[&str]) -> u32 {
    let installed = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name(SCHEMATHESIS);
    let folder = tempfile::tempdir().unwrap();
    let mut fuzzer = Command::new(installed.join("bin/schemathesis"));
    let each = if testkit::threads::long() { "60" } else { "10" };
    fuzzer.arg(format!("--config-file={SETTINGS}/schemathesis.toml")).arg("--no-color");
    fuzzer.arg("run").arg(format!("http://{at}/openapi.json")).args(["--max-examples", each]);
    fuzzer.args(["--phases", "examples,coverage,fuzzing"]);
    fuzzer.args(left_out.iter().flat_map(|path| ["--exclude-path", path]));
    // It writes into the folder where it runs.
    fuzzer.current_dir(folder.path()).env("PYTHONPATH", installed);
    fuzzer.env("SCHEMATHESIS_HOOKS", format!("{SETTINGS}/hooks.py"));
    let output = fuzzer.output().unwrap_or_else(|error| {
        panic!("schemathesis: {error}; `cargo xtask test --only tests` installs it")
    });
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    let (_, counts) = said.split_once("Test cases:").unwrap();
    counts.split_whitespace().next().unwrap().parse().unwrap()
}

#[test]
fn a_fuzzer_finds_no_answer_that_is_not_described() {
    let server = server();
    let requests = fuzzed(server.http, &[]) + fuzzed(server.admin, &LEFT_OUT);
    assert!(requests > 2_000, "{requests}");
}
