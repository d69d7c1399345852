//! Messages that no server can decide: refused with the reason, or an error where an operator has chosen that.

use tonic::Code as Failure;

use super::{Descriptor, Entry, Question, RULES, ask};
use crate::envoy_api::Code;
use crate::grpc::{channel, reason};
use crate::process::Server;

/// A message whose domain is a number.
#[derive(Clone, PartialEq, prost::Message)]
struct Foreign {
    #[prost(uint64, tag = "1")]
    domain: u64,
}

fn question(entries: usize, descriptors: usize) -> Question {
    let entry = |number: usize| Entry { key: number.to_string().into(), value: b"a".to_vec() };
    let descriptor = Descriptor { entries: (0..entries).map(entry).collect() };
    Question { domain: b"edge".to_vec(), descriptors: vec![descriptor; descriptors] }
}

/// Messages that are not understood, each with a part of the reason.
fn misunderstood() -> [(Question, &'static str); 4] {
    [
        (question(65, 1), "descriptor 0 has 65 entries: expected at most 64"),
        (question(1, 64), "there are 64 descriptors: expected at most 63"),
        (question(1, 0), "there are no descriptors"),
        (Question { domain: Vec::new(), ..question(1, 1) }, "the domain is empty"),
    ]
}

const FOREIGN: &str = "RateLimitRequest.domain: invalid wire type";

#[tokio::test]
async fn what_is_not_understood_is_over_the_limit_with_the_reason_and_a_warning_a_minute() {
    let mut server = Server::with_rules(RULES);
    let channel = channel(&server).await;
    for _ in 0..2 {
        let answer = ask(&channel, Foreign { domain: 7 }).await.unwrap();
        assert_eq!(answer.overall_code(), Code::OverLimit);
        assert!(reason(&answer).contains(FOREIGN), "{answer:?}");
        for (asked, says) in misunderstood() {
            let answer = ask(&channel, asked).await.unwrap();
            assert_eq!((answer.overall_code(), answer.statuses.len()), (Code::OverLimit, 0));
            assert!(reason(&answer).contains(says), "{answer:?}");
        }
    }
    server.logs_with("descriptor 0 has 65 entries", &["peer=127.0.0.1:", "listener=\"grpc\""]);
    let log = server.stopped();
    assert!(!log.contains("a request was not understood"), "one of each kind came before: {log}");
}

#[tokio::test]
async fn what_is_not_understood_is_an_error_where_that_is_chosen() {
    let server = Server::with_rules_and(RULES, &["--on-bad-request", "error"]);
    let channel = channel(&server).await;
    let mut refused = vec![(ask(&channel, Foreign { domain: 7 }).await.unwrap_err(), FOREIGN)];
    for (asked, says) in misunderstood() {
        refused.push((ask(&channel, asked).await.unwrap_err(), says));
    }
    for (status, says) in refused {
        assert_eq!(status.code(), Failure::InvalidArgument, "{status:?}");
        assert!(status.message().contains(says), "{status:?}");
    }
}
