//! HTTP/1.1 and HTTP/2 on one port, Envoy's service and Redis clients beside it, and one limit for all.

use envoy_types::pb::envoy::service::ratelimit::v3::rate_limit_response::Code;
use hyper::Method;

use crate::client::Client;
use crate::grpc::{self, descriptor, request};
use crate::process::Server;

const BODY: &str = r#"{"descriptor": {"key": "a"}}"#;

#[tokio::test]
async fn http_2_by_prior_knowledge_is_answered_on_the_same_port() {
    let server = Server::with_example();
    let client = Client::http2(server.http);
    let answer = client.check(BODY).await;
    assert_eq!(answer.status, 200);
    assert_eq!(answer.header("x-ratelimit-remaining"), Some("4"));
    client.check("{").await.problem(400);
    assert_eq!(Client::http2(server.admin).get("/v1/rules").await.status, 200);
}

#[tokio::test]
async fn a_second_protocol_does_not_go_round_the_limit() {
    let server = Server::with_example();
    let (one, two) = (Client::new(server.http), Client::http2(server.http));
    assert_eq!(one.check(BODY).await.json()["remaining"], 4);
    assert_eq!(two.check(BODY).await.json()["remaining"], 3);
}

#[tokio::test]
async fn a_head_request_is_answered_like_a_get_without_a_body() {
    let server = Server::with_example();
    let client = Client::new(server.http);
    let answer = client.send(Method::HEAD, "/healthz", None, Vec::new()).await;
    assert_eq!((answer.status.as_u16(), answer.text.as_str()), (200, ""));
}

#[tokio::test]
async fn a_head_too_large_is_told_so_over_http_2_too() {
    let server = Server::with_example();
    let client = Client::http2(server.http);
    let long = format!("application/json; padding={}", "a".repeat(100_000));
    let body = br#"{"descriptor": {"user": "a"}}"#.to_vec();
    let refused = client.send(Method::POST, "/v1/check", Some(&long), body).await;
    assert!(refused.problem(431).contains("expected at most 65536"), "{}", refused.text);
    assert_eq!(client.get("/healthz").await.status, 200, "the connection goes on");
}

const ONE_RULE: &str = r#"
[[rule]]
name = "per-user"
domain = "edge"
key = ["user"]
algorithm = "fixed_window"
limit = 3
window = "365d"
"#;

#[derive(Clone, Copy, Debug)]
enum Way {
    Http,
    Grpc,
    Resp,
}

impl Way {
    const ALL: [Self; 3] = [Self::Http, Self::Grpc, Self::Resp];

    /// Whether one request of a user is admitted.
    async fn admits(self, server: &Server, user: &str) -> bool {
        match self {
            Self::Http => {
                let body = format!(r#"{{"domain": "edge", "descriptor": {{"user": "{user}"}}}}"#);
                Client::new(server.http).check(&body).await.json()["allowed"].as_bool().unwrap()
            }
            Self::Grpc => {
                let asked = request(vec![descriptor(&[("user", user)])]);
                let answer = grpc::client(server).await.should_rate_limit(asked).await.unwrap();
                match answer.get_ref().overall_code() {
                    Code::Ok => true,
                    Code::OverLimit => false,
                    Code::Unknown => panic!("no code"),
                }
            }
            Self::Resp => {
                let client = redis::Client::open(format!("redis://{}/", server.resp)).unwrap();
                let mut check = redis::cmd("TG.CHECK");
                check.arg(&["edge", "user", user]);
                let told: Vec<redis::Value> =
                    check.query(&mut client.get_connection().unwrap()).unwrap();
                told[1] == redis::Value::Int(1)
            }
        }
    }
}

#[tokio::test]
async fn what_is_spent_one_way_is_refused_every_way() {
    let server = Server::with_rules(ONE_RULE);
    for spent in Way::ALL {
        let user = format!("{spent:?}");
        for _ in 0..3 {
            assert!(spent.admits(&server, &user).await, "{user}");
        }
        for refused in Way::ALL {
            assert!(!refused.admits(&server, &user).await, "spent by {user}, asked by {refused:?}");
        }
    }
    for one in Way::ALL {
        assert!(one.admits(&server, "mixed").await, "{one:?}");
    }
    for refused in Way::ALL {
        assert!(!refused.admits(&server, "mixed").await, "{refused:?}");
    }
}
