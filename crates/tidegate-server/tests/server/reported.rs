//! A rule with reported usage, at every listener: a look is refused once the limit is used up, and
//! a report never is.

use crate::envoy_api::{Code, RateLimitDescriptor};
use crate::grpc::{RateLimitServiceClient, client, costing, descriptor, giving_back, request};
use crate::process::Server;

const RULES: &str = r#"
rule = [
    { name = "tokens", domain = "edge", key = ["user"], algorithm = "sliding_log", rate = "100/1h", usage = "reported" },
    { name = "requests", domain = "edge", key = ["path"], algorithm = "fixed_window", rate = "2/1d" },
    { name = "all", algorithm = "fixed_window", limit = 0, usage = "reported" },
]
"#;

/// The code of an answer, and of each status with its remaining units.
async fn asked(
    grpc: &mut RateLimitServiceClient,
    descriptors: Vec<RateLimitDescriptor>,
) -> (Code, Vec<(Code, u32)>) {
    let answer = grpc.should_rate_limit(request(descriptors)).await.unwrap().into_inner();
    let statuses = answer.statuses.iter().map(|status| (status.code(), status.limit_remaining));
    (answer.overall_code(), statuses.collect())
}

#[tokio::test]
async fn what_is_reported_at_one_listener_is_refused_to_a_look_at_the_others() {
    let (server, http) = Server::with_client(RULES);
    let mut grpc = client(&server).await;
    let ada = [("user", "ada")];
    let mut ask = async |hits| {
        asked(&mut grpc, vec![costing(hits, &ada), descriptor(&[("other", "x")])]).await
    };
    let other = (Code::Ok, u32::MAX);
    assert_eq!(ask(0).await, (Code::Ok, vec![(Code::Ok, 100), other]));
    assert_eq!(ask(60).await, (Code::Ok, vec![(Code::Ok, 40), other]));
    assert_eq!(ask(60).await, (Code::OverLimit, vec![(Code::OverLimit, 0), other]));
    assert_eq!(ask(0).await, (Code::OverLimit, vec![(Code::OverLimit, 0), other]));
    let check = async |cost| {
        let body =
            format!(r#"{{"domain": "edge", "descriptor": {{"user": "ada"}}, "cost": {cost}}}"#);
        http.check(&body).await
    };
    let look = check(0).await;
    assert_eq!((look.status.as_u16(), look.header("retry-after").is_some()), (429, true));
    assert_eq!(check(5).await.status, 429, "taken, and answered by how the limiter stands");
    let rules = server.operator().get("/v1/rules").await.json();
    assert_eq!(rules["rules"][0]["usage"], "reported");
}

#[tokio::test]
async fn usage_that_is_given_back_refuses_nothing_that_the_same_message_asks() {
    let server = Server::granting(RULES, "check,grpc-refund");
    let mut grpc = client(&server).await;
    let (ada, path) = ([("user", "ada")], [("path", "/")]);
    let mut ask = async |descriptors| asked(&mut grpc, descriptors).await;
    ask(vec![costing(150, &ada)]).await;
    let (well, over) = (Code::Ok, Code::OverLimit);
    // 40 units are owed still.
    let mixed = ask(vec![giving_back(10, &ada), costing(1, &path)]).await;
    assert_eq!(mixed, (well, vec![(well, 0), (well, 1)]));
    let mixed = ask(vec![costing(1, &path), giving_back(60, &ada)]).await;
    assert_eq!(mixed, (well, vec![(well, 0), (well, 20)]));
    // A refund is kept under any answer, and a report in the same request is taken.
    let mixed = ask(vec![costing(1, &path), giving_back(10, &ada)]).await;
    assert_eq!(mixed, (over, vec![(over, 0), (well, 30)]));
    let mixed = ask(vec![giving_back(10, &ada), costing(50, &ada)]).await;
    assert_eq!(mixed, (over, vec![(well, 40), (over, 0)]));
    let look = ask(vec![giving_back(1, &[("path", "/")]), costing(0, &ada)]).await;
    assert_eq!(look, (over, vec![(well, 1), (over, 0)]), "a look asks for a unit");
}

#[tokio::test]
async fn a_server_is_well_whose_reported_rule_has_nothing_left() {
    let (_server, http) = Server::with_client(RULES);
    let refused = http.check(r#"{"descriptor": {}, "cost": 0}"#).await;
    assert_eq!(refused.status, 403, "a limit of nothing never has a unit for a look");
    let reported = http.check(r#"{"descriptor": {}, "cost": 5}"#).await;
    assert_eq!(reported.json()["reset_after_us"], 0, "nor a reset: {}", reported.text);
    http.get("/healthz").await.succeeded();
}
