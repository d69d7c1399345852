//! Clients that do not read answers, or do not end messages: tests that the server bounds and
//! releases the bytes it keeps for them.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::future::join_all;
use futures_util::stream::FuturesUnordered;
use http_body_util::BodyExt;
use hyper::body::{Bytes, Incoming};
use hyper::http::Response;

use crate::grpc::Bounds;
use crate::grpc::testing::{
    DECIDES, TestConnection, WINDOW, ada, call, connected, connected_within, endless,
    refusing_routes, routes,
};
use crate::listener::ByteBudget;

/// Returns whether a call was refused because there was no room for it.
fn is_refused(head: &Response<Incoming>) -> bool {
    let status = head.headers().get("grpc-status").map(|status| status.as_bytes());
    assert!(matches!(status, None | Some(b"8")), "{head:?}");
    status.is_some()
}

async fn connected_to(budget: &Arc<ByteBudget>, window: u32) -> TestConnection {
    let bounds = Bounds::default();
    connected_within(routes(bounds, None), bounds, Arc::clone(budget), window).await
}

#[tokio::test]
async fn answers_that_nobody_reads_are_bounded() {
    let budget = Arc::new(ByteBudget::of(1 << 20, 0));
    let mut called = connected_to(&budget, 0).await;
    let calls: Vec<_> =
        (0..100).map(|_| called.send.send_request(call(DECIDES, ada("edge")))).collect();
    let heads: Vec<_> = join_all(calls).await.into_iter().map(Result::unwrap).collect();
    let refused = heads.iter().filter(|head| is_refused(head)).count();
    // 64 KiB are free, and each call takes somewhat over 6 KiB. A refused call holds none soon
    // afterwards.
    assert!((90..100).contains(&refused), "{refused}");
}

#[tokio::test]
async fn a_call_without_space_is_over_the_limit_as_long_as_there_is_space_for_that() {
    const ALL: usize = 800 << 10;
    let (budget, bounds) = (Arc::new(ByteBudget::of(8 << 20, ALL)), Bounds::default());
    let called = connected_within(refusing_routes(bounds), bounds, Arc::clone(&budget), 0).await;
    let mut called = called;
    let calls: Vec<_> =
        (0..300).map(|_| called.send.send_request(call(DECIDES, ada("edge")))).collect();
    let heads: Vec<_> = join_all(calls).await.into_iter().map(Result::unwrap).collect();
    let errors = heads.iter().filter(|head| is_refused(head)).count();
    // Each call takes somewhat over 6 KiB of 64 free ones, 800, and 100 for refusals.
    assert!((130..160).contains(&errors), "{errors}");
    assert!(budget.taken() > ALL && budget.taken() <= ALL + ALL / 8, "{}", budget.taken());
}

#[tokio::test]
async fn messages_that_do_not_end_are_bounded_and_leave_space_to_others() {
    const PART: usize = 10_000;
    const ALL: usize = 200 << 10;
    const CALLS: usize = 60;
    let budget = Arc::new(ByteBudget::of(1 << 20, ALL));
    let mut hostile = connected_to(&budget, WINDOW).await;
    let begins = Bytes::from([&[0, 0, 0, 0xf0, 0][..], &[b'x'; PART]].concat());
    let calls = (0..CALLS).map(|_| hostile.send.send_request(endless(DECIDES, begins.clone())));
    let mut calls: FuturesUnordered<_> = calls.collect();
    let fit = (ALL + (64 << 10)) / PART;
    for _ in fit..CALLS {
        assert!(is_refused(&calls.next().await.unwrap().unwrap()));
    }
    assert!(budget.taken() <= ALL);
    let mut other = connected_to(&budget, WINDOW).await;
    assert_eq!(other.status(call(DECIDES, ada("edge"))).await, "0", "the first are free");
    drop((calls, hostile));
    while budget.taken() > 0 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_call_whose_answer_nobody_reads_is_reset_and_its_connection_goes_on() {
    let bounds = Bounds { stalled: Duration::from_millis(200), ..Bounds::default() };
    let mut called = connected(routes(bounds, None), bounds, 0).await;
    let unread = called.send.send_request(call(DECIDES, ada("edge"))).await.unwrap();
    assert!(unread.into_body().collect().await.is_err());
    let nothing = call("http://a/nothing", Bytes::new());
    assert_eq!(called.status(nothing).await, "12", "it is there to say: unimplemented");
}
