//! The life of a connection: with requests, between them, and without any.

use super::*;
use crate::http::body;
use crate::http::testing::{self, Server, until_closed};
use hyper::body::{Body, Frame};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const SHORT: Duration = Duration::from_millis(30);

/// A server with short bounds for clients without requests; `shorten` sets `head` or `idle`.
async fn impatient(shorten: impl FnOnce(&mut Bounds)) -> Server {
    let mut bounds = Bounds::default();
    shorten(&mut bounds);
    testing::serve(testing::nowhere(), bounds).await
}

#[tokio::test]
async fn a_client_that_says_nothing_or_too_little_to_tell_the_version_is_cut() {
    let server = impatient(|bounds| bounds.idle = SHORT).await;
    for sent in ["", "PRI * HTTP/2"] {
        assert_eq!(server.exchange(sent).await, "", "{sent}");
    }
}

#[tokio::test]
async fn a_request_that_waits_longer_than_a_connection_may_idle_is_answered() {
    let bounds = Bounds { idle: SHORT, ..Bounds::default() };
    let waits = testing::endpoint(async |_| {
        tokio::time::sleep(4 * SHORT).await;
        HttpResponse::new("at last".into())
    });
    let server = testing::serve(waits, bounds).await;
    let answer = server.exchange("GET / HTTP/1.1\r\nhost: a\r\n\r\n").await;
    assert!(answer.ends_with("at last"), "{answer}");
}

#[tokio::test]
async fn a_client_that_says_no_more_gets_its_answers() {
    let waits = testing::endpoint(async |_| {
        tokio::time::sleep(SHORT).await;
        HttpResponse::new("at last".into())
    });
    let server = testing::serve(waits, Bounds::default()).await;
    let mut stream = server.connect().await;
    stream.write_all("GET / HTTP/1.1\r\nhost: a\r\n\r\n".repeat(3).as_bytes()).await.unwrap();
    stream.shutdown().await.unwrap();
    let answers = until_closed(&mut stream).await;
    assert_eq!(answers.matches("at last").count(), 3, "{answers}");
}

/// A request that waits for a limiter then leaves its queue.
#[tokio::test]
async fn a_client_that_is_gone_has_its_request_dropped() {
    let (dropped, was_dropped) = tokio::sync::oneshot::channel::<()>();
    let dropped = Arc::new(std::sync::Mutex::new(Some(dropped)));
    let waits = testing::endpoint(move |_| {
        let held = dropped.lock().unwrap().take();
        async move {
            let _held = held;
            std::future::pending().await
        }
    });
    let bounds = Bounds { half_closed: SHORT, ..Bounds::default() };
    let server = testing::serve(waits, bounds).await;
    let mut stream = server.connect().await;
    stream.write_all(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n").await.unwrap();
    drop(stream);
    assert!(was_dropped.await.is_err(), "dropped, and not sent to");
}

#[tokio::test]
async fn a_head_that_does_not_end_is_not_waited_for() {
    let server = impatient(|bounds| bounds.head = SHORT).await;
    let answer = server.exchange("GET / HTTP/1.1\r\nhost: a\r\n").await;
    assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 408"), "{answer}");
}

/// The start of a head over HTTP/2: the preface, empty settings, and a frame that does not end it.
const BEGUN: &str = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0\
                     \0\0\x01\x01\0\0\0\0\x01\x02";

#[tokio::test]
async fn nor_is_one_over_http_2_wherever_it_is_cut() {
    let server = impatient(|bounds| bounds.head = SHORT).await;
    for cut in [3, BEGUN.len() - 9, BEGUN.len() - 1, BEGUN.len()] {
        server.exchange(&BEGUN[..cut]).await;
    }
}

#[tokio::test]
async fn an_http_2_connection_without_requests_is_asked_to_close() {
    const GO_AWAY: u8 = 7;
    let server = impatient(|bounds| bounds.idle = SHORT).await;
    let mut stream = server.connect().await;
    let settings = [0, 0, 0, 4, 0, 0, 0, 0, 0];
    stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await.unwrap();
    stream.write_all(&settings).await.unwrap();
    let mut kinds = Vec::new();
    let mut head = [0; 9];
    while stream.read_exact(&mut head).await.is_ok() {
        kinds.push(head[3]);
        let mut payload = vec![0; usize::from(head[2])];
        stream.read_exact(&mut payload).await.unwrap();
    }
    assert!(kinds.contains(&GO_AWAY), "{kinds:?}");
}

#[tokio::test]
async fn a_client_that_does_not_open_its_window_does_not_keep_its_connection() {
    let bounds = Bounds { idle: Duration::from_secs(1), ..Bounds::default() };
    let endpoint = testing::endpoint(async |_| HttpResponse::new("a word".into()));
    let server = testing::serve(endpoint, bounds).await;
    let (mut send, connection) = server.connect_by_http_2(0).await;
    let asked = hyper::Request::get("http://a/").body(String::new()).unwrap();
    let answer = send.send_request(asked).await.unwrap();
    let _ = connection.await.unwrap();
    assert!(send.is_closed(), "by the server");
    assert!(http_body_util::BodyExt::collect(answer.into_body()).await.is_err());
}

#[tokio::test]
async fn requests_that_are_not_let_in_do_not_keep_a_connection() {
    let refuses = testing::endpoint(async |_| {
        let mut response = HttpResponse::default();
        *response.status_mut() = StatusCode::UNAUTHORIZED;
        response
    });
    let bounds = Bounds { idle: SHORT, ..Bounds::default() };
    let server = testing::serve(refuses, bounds).await;
    let mut stream = server.connect().await;
    let mut came = [0; 1024];
    // The loop runs until the connection is closed, which would never happen if a refusal counted
    // as use.
    while stream.write_all(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n").await.is_ok() {
        if !stream.read(&mut came).await.is_ok_and(|bytes| bytes > 0) {
            break;
        }
        tokio::task::yield_now().await;
    }
}

/// A body that begins and never ends.
struct Endless(bool);

impl Body for Endless {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match std::mem::replace(&mut self.0, true) {
            false => Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(b"{"))))),
            true => Poll::Pending,
        }
    }
}

#[tokio::test]
async fn nor_do_those_over_http_2_whose_rest_is_waited_for() {
    let bounds = Bounds { idle: SHORT, ..Bounds::default() };
    let refuses = testing::endpoint(move |request| async move {
        body::pass_over(request, bounds).await;
        let mut response = HttpResponse::default();
        *response.status_mut() = StatusCode::UNAUTHORIZED;
        response
    });
    let server = testing::serve(refuses, bounds).await;
    let (mut send, _connection) = server.connect_by_http_2(65_535).await;
    // The loop runs until the connection is closed, which would never happen if refused requests
    // counted as under way.
    while send.ready().await.is_ok() {
        let request = hyper::Request::post(format!("http://{}/", server.at));
        tokio::spawn(send.send_request(request.body(Endless(false)).unwrap()));
        tokio::time::sleep(SHORT / 4).await;
    }
}
