//! Listeners that answer only clients with a token.

use crate::certificates::Certificates;
use crate::client::{Answer, Client};
use crate::process::{Server, not_started, not_started_in};

const BODY: &str = r#"{"descriptor": {"key": "a"}}"#;

async fn ask(client: &Client, path: &str, said: &str) -> Answer {
    client.post_as(path, BODY, said).await
}

#[tokio::test]
async fn only_who_knows_a_token_is_answered_and_everybody_sees_that_it_lives() {
    let files = Certificates::new();
    let tokens = files.with("tokens", "first-token verbs=reserve\nsecond-token\n");
    let server = Server::with_arguments(&["--token-file", &tokens]);
    assert!(server.pasted().printed().starts_with("HTTP/1.1 200"), "{}", server.curl());
    assert!(!server.printed.contains("first-token"));
    for (at, path) in [(server.http, "/v1/check"), (server.admin, "/v1/reset")] {
        let client = Client::new(at);
        for said in ["", "Bearer wrong", "Bearer first-toke", "Basic first-token"] {
            let answer = ask(&client, path, said).await;
            assert_eq!(answer.header("www-authenticate"), Some("Bearer realm=\"tidegate\""));
            answer.refused(401, "expected `authorization: Bearer TOKEN`");
        }
        let nowhere = ask(&client, "/nowhere", "").await;
        assert_eq!(nowhere.status, 401, "paths are told only to clients with a token");
        for said in ["Bearer first-token", "bearer second-token"] {
            ask(&client, path, said).await.succeeded();
        }
        client.get("/healthz").await.succeeded();
    }
}

#[tokio::test]
async fn operators_may_have_a_token_of_their_own() {
    let files = Certificates::folder();
    let (theirs, ours) = (files.with("theirs", "for-all"), files.with("ours", "for-operators"));
    let server = Server::with_arguments(&["--token-file", &theirs, "--admin-token-file", &ours]);
    let (public, admin) = (server.client(), server.operator());
    ask(&public, "/v1/check", "Bearer for-all").await.succeeded();
    assert_eq!(ask(&public, "/v1/check", "Bearer for-operators").await.status, 401);
    assert_eq!(ask(&admin, "/v1/reset", "Bearer for-all").await.status, 401);
    ask(&admin, "/v1/reset", "Bearer for-operators").await.succeeded();
}

#[test]
fn access_that_can_not_be_is_reported_at_the_start_without_a_token() {
    const ANY: &str = "0.0.0.0:0";
    const TOKEN: &str = "TIDEGATE_TOKEN";
    let files = Certificates::new();
    let none = files.with("none", "\n \n");
    let spaced = files.with("spaced", "fine\nsecret phrase\n");
    let missing = files.path("missing");
    let of_clients = files.with("tokens", "phrase verbs=refunds");
    let of_operators = files.with("operators", "phrase verbs=refund");
    let ca = files.path("ca.pem");
    let roles = ["--tls-client-ca", &ca, "--admin-changers", "ann", "--admin-readers", "bob,ann"];
    let roles = [&files.tls("server")[..], &roles].concat();
    for (arguments, expected) in [
        (&["--token-file", &*none][..], "(--token-file): there is no token: expected one a line"),
        (&["--admin-token-file", &spaced], "(--admin-token-file): line 2 is no token"),
        (&["--token-file", &missing], "cannot read "),
        (
            &["--token-file", &of_clients],
            "line 1: `verbs`: \"refunds\" is no verb: expected one of check",
        ),
        (&["--admin-token-file", &of_operators], "(--admin-token-file): line 1 is no token"),
        (&["--certificate-verbs", "client"], "expected the name of a certificate and a verb"),
        (&["--certificate-verbs", "client=undo"], "\"undo\" is no verb: expected one of check"),
        (&["--certificate-verbs", "client=settle"], "expected --tls-client-ca"),
        (&["--public-verbs", "check,refunds"], "exists: 'refund'"),
        (&["--http", ANY, "--public-verbs", "check,refund"], "expected --token-file"),
        (&["--admin", ANY], "expected --admin-token-file"),
        (&["--admin", ANY, "--admin-readers", "ann"], "expected --tls-client-ca"),
        (&["--admin-changers", "ann"], "expected --tls-client-ca"),
        (&roles, "both name \"ann\""),
    ] {
        let said = not_started(arguments);
        assert!(said.contains(expected) && !said.contains("phrase"), "{arguments:?}: {said}");
    }
    for (name, value, arguments, expected) in [
        (TOKEN, "a", &["--token-file", &*spaced][..], "by --token-file and by TIDEGATE_TOKEN"),
        (TOKEN, "", &[], "TIDEGATE_TOKEN: there is no token"),
        ("TIDEGATE_TLS_CERT", "", &[], "unset TIDEGATE_TLS_CERT"),
    ] {
        let said = not_started_in(&[(name, value)], arguments);
        assert!(said.contains(expected), "{said}");
    }
}
