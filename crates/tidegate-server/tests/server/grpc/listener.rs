//! The gRPC listener: many calls at once, authorization, health, and stopping.

use std::time::Duration;

use tonic::{Code as Failure, Request};
use tonic_health::pb::HealthCheckRequest;
use tonic_health::pb::health_client::HealthClient;

use super::{ADA, RULES, channel, client, descriptor, request};
use crate::client::Client;
use crate::envoy_api::{Code, RateLimitRequest, RateLimitResponse};
use crate::process::Server;

/// The streams of one connection, whose calls are decided in place.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_at_once_on_one_connection_are_all_answered_and_admit_the_limit() {
    const HUNDRED: &str = "[[rule]]\nname = \"all\"\ndomain = \"edge\"\nrate = \"100/1d\"\n\
                           algorithm = \"sliding_log\"\n";
    let server = Server::with_rules(HUNDRED);
    let client = client(&server).await;
    let mut tasks = tokio::task::JoinSet::new();
    for _ in 0..50 {
        let mut client = client.clone();
        tasks.spawn(async move {
            let mut admitted = 0;
            for _ in 0..10 {
                let asked = request(vec![descriptor(ADA)]);
                let answer = client.should_rate_limit(asked).await.unwrap().into_inner();
                admitted += u32::from(answer.overall_code() == Code::Ok);
            }
            admitted
        });
    }
    let answers = tokio::time::timeout(Duration::from_secs(60), tasks.join_all()).await;
    assert_eq!(answers.expect("all are answered").into_iter().sum::<u32>(), 100);
}

#[tokio::test]
async fn a_token_opens_the_door_where_one_is_asked_for() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), "sesame\n").unwrap();
    let server = Server::with_rules_and(RULES, &["--token-file", file.path().to_str().unwrap()]);
    let mut client = client(&server).await;
    let mut ask = async |said: Option<&'static str>| {
        let mut call = Request::new(request(vec![descriptor(ADA)]));
        if let Some(said) = said {
            call.metadata_mut().insert("authorization", said.parse().unwrap());
        }
        client.should_rate_limit(call).await.map(|_| ()).map_err(|status| status.code())
    };
    for wrong in [None, Some("Bearer other"), Some("Basic sesame"), Some("sesame")] {
        assert_eq!(ask(wrong).await, Err(Failure::Unauthenticated), "{wrong:?}");
    }
    assert_eq!(ask(Some("Bearer sesame")).await, Ok(()));
    // A health probe has no token.
    let mut health = HealthClient::new(channel(&server).await);
    let answer = health.check(HealthCheckRequest::default()).await.unwrap().into_inner();
    assert_eq!(answer.status, 1);
}

#[tokio::test]
async fn health_is_reported_and_other_paths_are_unimplemented() {
    let server = Server::with_rules(RULES);
    let channel = channel(&server).await;
    let mut health = HealthClient::new(channel.clone());
    for (service, expected) in [
        ("", Ok(1)),
        ("envoy.service.ratelimit.v3.RateLimitService", Ok(1)),
        ("no.such.Service", Err(Failure::NotFound)),
    ] {
        let asked = HealthCheckRequest { service: service.to_owned() };
        let reported = health.check(asked).await;
        let reported =
            reported.map(|reported| reported.into_inner().status).map_err(|status| status.code());
        assert_eq!(reported, expected, "{service}");
    }
    let answer = Client::http2(server.grpc).post("/v1/check", "{}").await;
    assert_eq!(answer.status, 415);
    assert!(answer.text.contains("expected a call of gRPC"), "{}", answer.text);
    let mut grpc = tonic::client::Grpc::new(channel);
    grpc.ready().await.unwrap();
    let path = hyper::http::uri::PathAndQuery::from_static("/no.such.Service/Call");
    let codec = tonic_prost::ProstCodec::<RateLimitRequest, RateLimitResponse>::default();
    let status = grpc.unary(Request::new(request(vec![])), path, codec).await.unwrap_err();
    assert_eq!(status.code(), Failure::Unimplemented);
}

#[tokio::test]
async fn a_call_under_way_is_answered_when_the_process_stops() {
    const WAITS: &str = "[[rule]]\nname = \"paced\"\ndomain = \"edge\"\nalgorithm = \"leaky_queue\"\n\
                         limit = 1\nwindow = \"3s\"\ncapacity = 5\n";
    let server = Server::with_rules(WAITS);
    let mut client = client(&server).await;
    client.should_rate_limit(request(vec![descriptor(ADA)])).await.unwrap();
    let mut again = client.clone();
    // The call is held for its slot, because the protocol cannot return a delay.
    let held = tokio::spawn(async move {
        again
            .should_rate_limit(request(vec![descriptor(ADA)]))
            .await
            .map(tonic::Response::into_inner)
    });
    let http = server.client();
    let peek = r#"{"domain": "edge", "descriptor": {}}"#;
    while http.post("/v1/peek", peek).await.json()["remaining"] != 4 {
        assert!(!held.is_finished(), "it was not held");
    }
    server.signal("TERM");
    assert_eq!(held.await.unwrap().unwrap().overall_code(), Code::Ok);
    server.ended(0);
}
