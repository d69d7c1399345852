//! The verbs of the public listeners, which a setting allows.

use redis::{Value, cmd};
use serde_json::json;

use crate::certificates::Certificates;
use crate::grpc::{giving_back, request};
use crate::process::Server;
use crate::store::Store;

const RULES: &str = r#"
[[rule]]
name = "all"
key = ["user"]
algorithm = "sliding_log"
limit = 5
window = "1d"

[[rule]]
name = "slow-start"
domain = "slow"
algorithm = "token_bucket"
limit = 10
window = "1d"
initial = 0
"#;

const ADA: &str = r#"{"descriptor": {"user": "ada"}}"#;

/// Everyone could reserve, settle for nothing and give hits back, and so pass a limit by saying so.
#[tokio::test]
async fn a_verb_that_is_not_allowed_is_refused_with_the_settings_that_would() {
    let (server, client) = Server::with_client(RULES);
    for (path, verb, command) in [
        ("/v1/refund", "refund", &["TG.REFUND", "default", "user", "ada"][..]),
        ("/v1/reset", "reset", &["TG.RESET", "default", "user", "ada"]),
        ("/v1/reserve", "reserve", &["TG.RESERVE", "default"]),
        ("/v1/settle", "settle", &["TG.SETTLE", "default", "1"]),
        ("/v1/renew", "settle", &["TG.RENEW", "default"]),
    ] {
        let refused = client.post(path, ADA).await;
        assert_eq!(refused.json()["type"], "urn:problem-type:tidegate:verb-forbidden");
        let detail = refused.problem(403);
        let setting = format!("`public_verbs = [\"check\", \"peek\", \"{verb}\"]` in [server]");
        assert!(detail.contains(&setting), "{detail}");
        for grants in [format!("`verbs={verb}` after its token"), format!("[\"NAME={verb}\"]")] {
            assert!(detail.contains(&grants), "{detail}");
        }
        let error = server.command(command).unwrap_err();
        assert_eq!(error.code(), Some("NOPERM"), "{error:?}");
        assert!(error.to_string().contains("public_verbs"), "{error}");
    }
    let only = Server::granting(RULES, "peek");
    let client = only.client();
    client.post("/v1/peek", ADA).await.succeeded();
    client
        .post("/v1/check", ADA)
        .await
        .refused(403, "`public_verbs = [\"check\", \"peek\"]` in [server]");
    for path in ["/v1/reserve", "/v1/settle", "/v1/renew", "/v1/report"] {
        let _ = client.post(path, ADA).await.problem(403);
    }
    for command in [&["TG.CHECK", "default"][..], &["CL.THROTTLE", "k", "1", "1", "60"]] {
        let error = only.command(command).unwrap_err();
        assert_eq!(error.code(), Some("NOPERM"), "{error:?}");
        assert!(error.to_string().contains("`check` is not granted"), "{error}");
    }
    let _ = only.operator().post("/v1/check", ADA).await.problem(404);
}

#[tokio::test]
async fn clients_refund_and_reset_where_they_may() {
    let verbs = "check,peek,refund,reset";
    let server = Server::with_rules_and(RULES, &["--public-verbs", verbs]);
    let client = server.client();
    let spend = json!({"descriptor": {"user": "ada"}, "cost": 5}).to_string();
    assert_eq!(client.check(&spend).await.json()["remaining"], 0);
    let refunded = server.reply(&["TG.REFUND", "default", "COST", "2", "user", "ada"]);
    assert_eq!(refunded[7], Value::Int(2));
    assert_eq!(client.post("/v1/refund", ADA).await.json()["remaining"], 3);
    let reset = server.command(&["TG.RESET", "default", "user", "ada"]).unwrap();
    let peeked = client.post("/v1/peek", ADA).await.json();
    assert_eq!((reset, &peeked["remaining"]), (Value::Int(1), &json!(5)));
    for (words, expected) in [
        (&["TG.RESET", "default", "COST", "1"][..], "COST means nothing"),
        (&["TG.REFUND", "default", "ID", "a"], "ID means nothing"),
        (&["TG.REFUND", "default", "user"], "wrong number"),
    ] {
        let error = server.command(words).unwrap_err();
        assert!(error.to_string().contains(expected), "{error}");
    }
}

/// The denial memory answers immediately, but not before a command that gives units back.
#[tokio::test]
async fn a_refund_counts_for_the_check_behind_it_in_a_pipeline() {
    let store = Store::start();
    let rules = store.with(RULES) + "denial_memory = true\n";
    let server = Server::granting(&rules, "check,refund");
    let mut redis = server.redis();
    let ada =
        |verb: &str, cost: &str| cmd(verb).arg(&["default", "COST", cost, "user", "ada"]).clone();
    let is_allowed = |reply: &[Value]| reply[1] == Value::Int(1);
    let first: Vec<Value> = ada("TG.CHECK", "5").query(&mut redis).unwrap();
    assert!(is_allowed(&first), "{first:?}");
    for _ in 0..20 {
        let denied: Vec<Value> = ada("TG.CHECK", "1").query(&mut redis).unwrap();
        assert!(!is_allowed(&denied), "{denied:?}");
        let mut both = redis::pipe();
        both.add_command(ada("TG.REFUND", "1")).add_command(ada("TG.CHECK", "1"));
        let [_, checked]: [Vec<Value>; 2] =
            both.query::<Vec<_>>(&mut redis).unwrap().try_into().unwrap();
        assert!(is_allowed(&checked), "the unit was given back before: {checked:?}");
    }
}

/// A reset once made it like a new bucket, which is empty.
#[tokio::test]
async fn a_reset_fills_a_bucket_that_begins_empty_over_http_and_resp() {
    let server = Server::with_rules_and(RULES, &["--public-verbs", "peek,reset"]);
    let (client, slow) = (server.client(), r#"{"domain": "slow", "descriptor": {}}"#);
    assert_eq!(client.post("/v1/peek", slow).await.json()["remaining"], 0);
    let reset: u64 = cmd("TG.RESET").arg("slow").query(&mut server.redis()).unwrap();
    assert_eq!((reset, &client.post("/v1/peek", slow).await.json()["remaining"]), (1, &json!(10)));
    let again = server.operator().post("/v1/reset", slow).await.json();
    assert_eq!(again["reset"], 1);
    assert_eq!(client.post("/v1/peek", slow).await.json()["remaining"], 10);
}

#[tokio::test]
async fn a_token_grants_the_verbs_of_its_line_over_every_protocol() {
    let files = Certificates::folder();
    let tokens = files.with("tokens", "plain\ntrusted verbs=reserve,settle,grpc-refund\n");
    let server = Server::with_rules_and(RULES, &["--token-file", &tokens]);
    let client = server.client();
    let status = async |token: &str| {
        let message = client.post_as("/v1/reserve", ADA, &format!("Bearer {token}")).await;
        (message.status.as_u16(), message.json()["reservation"].is_string())
    };
    assert_eq!((status("plain").await, status("trusted").await), ((403, false), (200, true)));
    assert_eq!(status("unknown").await, (401, false));
    let mut redis = server.redis();
    let mut reserve = |token: &str| {
        cmd("AUTH").arg(token).query::<Value>(&mut redis).unwrap();
        let reply = cmd("TG.RESERVE").arg(&["default", "user", "ada"]).query::<Value>(&mut redis);
        reply.map_err(|error| error.code() == Some("NOPERM"))
    };
    assert!(reserve("plain").is_err_and(|is_forbidden| is_forbidden));
    assert!(reserve("trusted").is_ok());
    assert!(reserve("plain").is_err_and(|is_forbidden| is_forbidden), "the last token counts");
    let mut grpc = crate::grpc::client(&server).await;
    let mut give_back = async |token: &str| {
        let mut call = tonic::Request::new(request(vec![giving_back(1, &[("user", "ada")])]));
        call.metadata_mut().insert("authorization", format!("Bearer {token}").parse().unwrap());
        grpc.should_rate_limit(call).await.map_err(|refused| refused.code()).err()
    };
    assert_eq!(give_back("plain").await, Some(tonic::Code::PermissionDenied));
    assert_eq!(give_back("trusted").await, None);
}

/// SIGHUP reads the tokens for requests from then on, also on a connection that is open.
#[test]
fn a_verb_or_a_token_that_is_taken_away_is_gone_on_an_open_connection() {
    let files = Certificates::folder();
    let tokens = files.with("tokens", "other\ntrusted verbs=refund\n");
    let mut server = Server::with_rules_and(RULES, &["--token-file", &tokens]);
    let mut redis = server.redis();
    cmd("AUTH").arg("trusted").exec(&mut redis).unwrap();
    let mut code = |command: &str| {
        let answer = cmd(command).arg(&["default", "user", "ada"]).query::<Value>(&mut redis);
        answer.err().and_then(|error| error.code().map(str::to_owned))
    };
    assert_eq!(code("TG.REFUND"), None);
    for (text, [refund, check]) in [
        ("other\ntrusted\n", [Some("NOPERM"), None]),
        ("other\n", [Some("NOAUTH"), Some("NOAUTH")]),
    ] {
        std::fs::write(&tokens, text).unwrap();
        server.reload("tokens are read again");
        assert_eq!(code("TG.REFUND").as_deref(), refund);
        assert_eq!(code("TG.CHECK").as_deref(), check);
    }
}

#[test]
fn a_certificate_grants_the_verbs_of_its_name() {
    let files = Certificates::new();
    let ca = files.path("ca.pem");
    files.client_named("upper", b"/CN=Client", "DNS:Client", "default");
    let verbs = "client=reserve,client=settle,server=reset";
    let more = ["--tls-client-ca", &ca, "--certificate-verbs", verbs];
    let server = Server::with_rules_and(RULES, &[&files.tls("server")[..], &more].concat());
    let post = |name: &str, verb: &str, body: &str| {
        let url = format!("https://{}/v1/{verb}", server.http);
        files.curl(name, &url, &["-i", "-H", "content-type: application/json", "-d", body])
    };
    let reserved = post("client", "reserve", ADA);
    let Some((_, id)) = reserved.split_once("\"reservation\":\"") else { panic!("{reserved}") };
    let id = &id[..id.find('"').unwrap()];
    let settled = post("client", "settle", &json!({"reservation": id, "actual": 0}).to_string());
    assert!(settled.contains(" 200"), "{settled}");
    assert!(post("client", "check", ADA).contains(" 200"), "usual verbs stay granted");
    assert!(post("server", "reset", ADA).contains(" 200"));
    for other in ["server", "upper"] {
        let refused = post(other, "reserve", ADA);
        assert!(refused.contains("verb-forbidden"), "{refused}");
    }
}
