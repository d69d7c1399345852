//! Listeners that answer only clients with a token.

use std::process::Command;

use crate::certificates::Certificates;
use crate::client::{Answer, Client};
use crate::process::{Server, not_started_in};

const BODY: &str = r#"{"descriptor": {"key": "a"}}"#;

async fn ask(client: &Client, path: &str, said: &str) -> Answer {
    client.post_as(path, BODY, said).await
}

#[tokio::test]
async fn only_who_knows_a_token_is_answered_and_everybody_sees_that_it_lives() {
    let files = Certificates::new();
    let tokens = files.with("tokens", "first-token verbs=reserve\nsecond-token\n");
    let server = Server::with_arguments(&["--token-file", &tokens]);
    let tried = Command::new("sh").arg("-c").arg(server.curl()).output().unwrap();
    assert!(tried.stdout.starts_with(b"HTTP/1.1 200"), "{}", server.curl());
    assert!(!server.printed.contains("first-token"));
    for (at, path) in [(server.http, "/v1/check"), (server.admin, "/v1/reset")] {
        let client = Client::new(at);
        for said in ["", "Bearer wrong", "Bearer first-toke", "Basic first-token"] {
            let refused = ask(&client, path, said).await;
            assert_eq!(refused.header("www-authenticate"), Some("Bearer realm=\"tidegate\""));
            assert!(refused.problem(401).contains("expected `authorization: Bearer TOKEN`"));
        }
        let nowhere = ask(&client, "/nowhere", "").await;
        assert_eq!(nowhere.status, 401, "paths are told only to clients with a token");
        for said in ["Bearer first-token", "bearer second-token"] {
            assert_eq!(ask(&client, path, said).await.status, 200);
        }
        assert_eq!(client.get("/healthz").await.status, 200);
    }
}

#[tokio::test]
async fn operators_may_have_a_token_of_their_own() {
    let files = Certificates::new();
    let (theirs, ours) = (files.with("theirs", "for-all"), files.with("ours", "for-operators"));
    let server = Server::with_arguments(&["--token-file", &theirs, "--admin-token-file", &ours]);
    let (public, admin) = (server.client(), server.operator());
    assert_eq!(ask(&public, "/v1/check", "Bearer for-all").await.status, 200);
    assert_eq!(ask(&public, "/v1/check", "Bearer for-operators").await.status, 401);
    assert_eq!(ask(&admin, "/v1/reset", "Bearer for-all").await.status, 401);
    assert_eq!(ask(&admin, "/v1/reset", "Bearer for-operators").await.status, 200);
}

#[test]
fn tokens_that_can_not_be_used_are_reported_without_showing_them() {
    let files = Certificates::new();
    let none = files.with("none", "\n \n");
    let spaced = files.with("spaced", "fine\nsecret phrase\n");
    let missing = files.path("missing");
    for (arguments, token, expected) in [
        (
            vec!["--token-file", &none],
            None,
            "(--token-file): there is no token: expected one a line",
        ),
        (vec!["--admin-token-file", &spaced], None, "(--admin-token-file): line 2 is no token"),
        (vec!["--token-file", &missing], None, "cannot read "),
        (vec!["--token-file", &spaced], Some("a"), "by --token-file and by TIDEGATE_TOKEN"),
        (vec![], Some(""), "TIDEGATE_TOKEN: there is no token"),
    ] {
        let variables: Vec<_> = token.into_iter().map(|token| ("TIDEGATE_TOKEN", token)).collect();
        let said = not_started_in(&variables, &arguments);
        assert!(said.starts_with("tidegate: ") && said.contains(expected), "{said}");
        assert!(!said.contains("phrase"), "{said}");
    }
}

#[test]
fn a_variable_that_is_set_to_nothing_is_named() {
    let said = not_started_in(&[("TIDEGATE_TLS_CERT", "")], &[]);
    assert!(said.contains("unset TIDEGATE_TLS_CERT"), "{said}");
}
