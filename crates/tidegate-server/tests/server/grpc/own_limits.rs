//! Limits that descriptors supply, through the gRPC listener.

use tonic::{Code as Failure, Status};

use super::{ADA, answered, client, descriptor, request};
use crate::envoy_api::{Code, RateLimitDescriptor, RateLimitOverride, RateLimitResponse, Unit};
use crate::process::Server;

const RULES: &str = r#"
rule = [
    { name = "per-user", domain = "edge", key = ["user"], algorithm = "fixed_window", anchor = "first_request", rate = "3/1d", limit_from_request = true },
    { name = "again", domain = "edge", key = ["user"], algorithm = "fixed_window", anchor = "first_request", rate = "3/1d", limit_from_request = true },
    { name = "per-path", domain = "edge", key = ["path"], algorithm = "sliding_window", rate = "3/1d" },
]
"#;

const HOUR: i32 = 3;

fn bringing(requests: u32, unit: i32, entries: &[(&str, &str)]) -> RateLimitDescriptor {
    let limit = Some(RateLimitOverride { requests_per_unit: requests, unit });
    RateLimitDescriptor { limit, ..descriptor(entries) }
}

/// Sends one call after another; returns the answers.
async fn ask(calls: Vec<Vec<RateLimitDescriptor>>) -> Vec<Result<RateLimitResponse, Status>> {
    let server = Server::with_rules_and(RULES, &["--on-bad-request", "error"]);
    let mut client = client(&server).await;
    let mut answers = Vec::new();
    for descriptors in calls {
        let answer = client.should_rate_limit(request(descriptors)).await;
        answers.push(answer.map(tonic::Response::into_inner));
    }
    answers
}

#[tokio::test]
async fn a_limit_that_a_descriptor_brings_holds_and_is_reported() {
    let own = || vec![bringing(5, HOUR, ADA)];
    let calls =
        vec![own(), own(), vec![descriptor(ADA)], vec![descriptor(ADA)], own(), own(), own()];
    let answers = ask(calls).await;
    let statuses: Vec<_> =
        answers.iter().map(|answer| answered(&answer.as_ref().unwrap().statuses[0])).collect();
    assert_eq!(
        statuses,
        [
            (Code::Ok, "per-user", 4),
            (Code::Ok, "per-user", 3),
            (Code::Ok, "per-user", 0),
            (Code::OverLimit, "per-user", 0),
            (Code::Ok, "per-user", 1),
            (Code::Ok, "per-user", 0),
            (Code::OverLimit, "per-user", 0),
        ],
        "used units stay used"
    );
    let limit = |place: usize| {
        let answer = answers[place].as_ref().unwrap();
        let limit = answer.statuses[0].current_limit.as_ref().unwrap();
        (limit.requests_per_unit, limit.unit())
    };
    assert_eq!([limit(0), limit(2), limit(6)], [(5, Unit::Hour), (3, Unit::Day), (5, Unit::Hour)]);
}

#[tokio::test]
async fn a_limit_that_can_not_be_is_invalid_and_one_that_no_rule_looks_at_is_not_looked_at() {
    let path = &[("path", "/x")][..];
    let calls = vec![
        vec![descriptor(path), bringing(5, 0, ADA)],
        vec![bringing(u32::MAX, HOUR, ADA)],
        vec![bringing(1, 99, path)],
        vec![bringing(0, HOUR, ADA)],
    ];
    let answers = ask(calls).await;
    for (answer, said) in answers[..2]
        .iter()
        .zip(["descriptor 1: `limit` has unit 0", "descriptor 0: its `limit` cannot be"])
    {
        let status = answer.as_ref().unwrap_err();
        assert_eq!(status.code(), Failure::InvalidArgument);
        assert!(status.message().starts_with(said), "{status:?}");
    }
    let both = answers[1].as_ref().unwrap_err().message();
    assert!(both.contains("`per-user`") && both.contains("`again`"), "{both}");
    let statuses: Vec<_> =
        answers[2..].iter().map(|answer| answered(&answer.as_ref().unwrap().statuses[0])).collect();
    assert_eq!(statuses, [(Code::Ok, "per-path", 2), (Code::OverLimit, "per-user", 0)]);
}
