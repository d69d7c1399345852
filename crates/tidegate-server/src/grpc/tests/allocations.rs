//! The allocations of a decision without HTTP/2 around it, counted by an allocator.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use allocation_counter::measure;
use hyper::body::Bytes;
use prost::Message;
use std::time::Duration;
use tidegate::{AlgorithmKind, Policy, RuleSpec, Spec};

use crate::decide::RequestDecider;
use crate::grpc::Choices;
use crate::grpc::decide::GrpcDecider;
use crate::grpc::messages::{EntryMessage, RateLimitDescriptor, RateLimitRequest};
use crate::limiters::Limiters;
use crate::verbs::PublicVerbs;

/// The descriptors of the message, their entries, and the count of those who use its bytes; the statuses of the answer,
/// the name of a limit, and the bytes.
const OF_A_DECISION: u64 = 6;

fn message() -> Bytes {
    let entry = EntryMessage { key: "user".into(), value: "ann".into() };
    let descriptor = RateLimitDescriptor { entries: vec![entry], ..Default::default() };
    let (domain, descriptors) = ("default".into(), vec![descriptor]);
    RateLimitRequest { domain, descriptors, hits_addend: 0 }.encode_to_vec().into()
}

#[test]
fn a_decision_allocates_its_messages_and_no_more() {
    let spec = Spec::new(AlgorithmKind::TokenBucket, 1_000, Duration::from_secs(3600));
    let policy = Policy::new(vec![RuleSpec::new("per-user", spec).key(["user"])]).unwrap();
    let limiters = Arc::new(Limiters::of(policy).unwrap().with_top_keys(256));
    let decider = GrpcDecider {
        decider: RequestDecider::new(limiters, |counts| &counts.grpc),
        choices: Choices::default(),
        verbs: PublicVerbs::default(),
    };
    let decide = || {
        let message = message();
        measure(|| {
            let mut decided = pin!(decider.answer(message, PublicVerbs::default(), None));
            let decided = decided.as_mut().poll(&mut Context::from_waker(Waker::noop()));
            assert!(matches!(decided, Poll::Ready(Ok(_))));
        })
    };
    // The count of frequent keys samples one in sixteen decisions. A sampled decision allocates more if its key is not
    // counted yet, as when a new minute has just begun.
    let least = (0..100).map(|_| decide().count_total).min();
    assert_eq!(least, Some(OF_A_DECISION));
}
