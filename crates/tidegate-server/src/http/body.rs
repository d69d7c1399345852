//! Reads the body of a request: declared as JSON, within its size, in time. Every handler with a body calls it, and
//! `routes.rs` calls [`pass_over`] for a body that no handler reads.

use std::error::Error;
use std::pin::{Pin, pin};
use std::task::Poll;
use std::time::Duration;

use http_body_util::BodyExt;
use hyper::body::{Body, Bytes, Incoming};
use hyper::header::{CONTENT_LENGTH, CONTENT_TYPE, EXPECT};
use hyper::{HeaderMap, Method, Version};
use serde::de::DeserializeOwned;
use tokio::time::timeout;

use super::media_type::is_json;
use super::message::HttpRequest;
use super::request_claims::{RequestClaims, too_much};
use crate::listener::Bounds;
use crate::listener::{BadBody, read_body};
use crate::refusal::{RefusalKind, RequestRefusal};

/// The server reads a body to its end up to this multiple of its limit, so that its sender sees the answer. Many
/// senders read only after writing.
const READ_PAST: usize = 16;

/// The time for which the body of a refused request is read.
const PASSED_OVER: Duration = Duration::from_secs(1);

pub(super) async fn read(request: HttpRequest, bounds: Bounds) -> Result<Bytes, RequestRefusal> {
    read_held(request, bounds).await.map(|(body, _)| body)
}

/// Reads a body that is JSON of this type; `what` names it in an error.
pub(super) async fn json<T: DeserializeOwned>(
    request: HttpRequest,
    bounds: Bounds,
    what: &str,
) -> Result<T, RequestRefusal> {
    let body = read(request, bounds).await?;
    serde_json::from_slice(&body)
        .map_err(|error| RequestRefusal::of_json(format!("not {what}: {error}"), &error))
}

/// The bytes of the body, and the request's claim on its connection: a large request first waits
/// for its turn.
pub(super) async fn read_held(
    request: HttpRequest,
    bounds: Bounds,
) -> Result<(Bytes, Option<RequestClaims>), RequestRefusal> {
    if let Err(problem) = check_type(request.headers()) {
        Box::pin(pass_over(request, bounds)).await;
        return Err(problem);
    }
    read_typed(request, bounds).await
}

/// Reads a body as [`read_held`] does, if its type has been checked.
pub(super) async fn read_typed(
    mut request: HttpRequest,
    bounds: Bounds,
) -> Result<(Bytes, Option<RequestClaims>), RequestRefusal> {
    let held = RequestClaims::take_from(&mut request);
    let declared = declared(request.headers());
    let waits = request.headers().contains_key(EXPECT);
    // A client that waits to be asked has sent nothing, and needs no reader to see the answer.
    let hopeless = if waits { 1 } else { READ_PAST } * bounds.body_bytes;
    if declared.is_some_and(|bytes| bytes > hopeless) {
        return Err(too_large(bounds));
    }
    let body = request.into_body();
    let collected = within(bounds.body, collect(body, bounds, held.as_ref())).await;
    let body = collected.unwrap_or_else(|| Err(too_slow(bounds)))?;
    if let Some(held) = &held {
        // The turn comes after the whole body, so that a slow sender holds no place for which others wait.
        held.note_body();
        held.wait_for_turn(body.len()).await;
    }
    Ok((body, held))
}

/// Reads and drops a body that is not needed: over HTTP/1.1 if it has arrived, else the answer announces the end of the
/// connection; over HTTP/2 for a moment. An answer there that comes before
/// its request has ended is followed by a reset of the stream (RFC 9113, 8.1), and some clients,
/// such as curl 7.88, then drop the answer. A body that is too long, or is sent only when asked
/// for, is not waited for. During this the request claims nothing of its connection.
pub(super) async fn pass_over(mut request: HttpRequest, bounds: Bounds) {
    if request.headers().contains_key(EXPECT) {
        return;
    }
    let held = RequestClaims::take_from(&mut request);
    let most = READ_PAST * bounds.body_bytes;
    let has_ended = match request.version() {
        Version::HTTP_2 => {
            if let Some(held) = &held {
                held.stop_counting();
            }
            let drained = drained(request.into_body(), most);
            within(bounds.body.min(PASSED_OVER), drained).await
        }
        // Over HTTP/1.1 a body that has not arrived is not waited for: the answer announces the end of the
        // connection.
        _ => soon(pin!(drained(request.into_body(), most))).await,
    };
    // Otherwise the rest of the body follows, where the next request would be read: the connection must end.
    if let Some(held) = held.filter(|_| has_ended == Some(true)) {
        held.note_body();
    }
}

/// Reads a body to its end, or `most` bytes of it; returns whether it has ended.
async fn drained(mut body: Incoming, most: usize) -> bool {
    let mut came = 0;
    // Bytes that came are counted, because a declared length is only a promise.
    while came <= most
        && !body.is_end_stream()
        && let Some(Ok(frame)) = body.frame().await
    {
        came += frame.data_ref().map_or(0, Bytes::len);
    }
    body.is_end_stream()
}

/// Waits up to `limit`. Most bodies come with their head, and are complete at the second poll: for
/// those no timer is set.
pub(super) async fn within<T>(limit: Duration, future: impl Future<Output = T>) -> Option<T> {
    let mut future = pin!(future);
    match soon(future.as_mut()).await {
        Some(done) => Some(done),
        None => Box::pin(timeout(limit, future)).await.ok(),
    }
}

/// The result of a future that is ready within two polls, between which other tasks may run.
pub(super) async fn soon<T>(mut future: Pin<&mut impl Future<Output = T>>) -> Option<T> {
    let mut polled = false;
    std::future::poll_fn(|cx| match future.as_mut().poll(cx) {
        Poll::Ready(done) => Poll::Ready(Some(done)),
        Poll::Pending if polled => Poll::Ready(None),
        Poll::Pending => {
            polled = true;
            // Woken at once, so that the second poll waits for no event.
            cx.waker().wake_by_ref();
            Poll::Pending
        }
    })
    .await
}

/// Reads the body within its bound and the claims of its request.
async fn collect(
    body: Incoming,
    bounds: Bounds,
    held: Option<&RequestClaims>,
) -> Result<Bytes, RequestRefusal> {
    let read = read_body(body, bounds.body_bytes, READ_PAST * bounds.body_bytes, |bytes| {
        held.is_none_or(|held| held.keep(bytes).is_ok())
    });
    read.await.map_err(|bad| match bad {
        BadBody::Broken(error) => broken_off(&error),
        BadBody::TooLarge => too_large(bounds),
        BadBody::TooMuch => too_much(),
    })
}

/// The length of the body, as declared in the head.
fn declared(headers: &HeaderMap) -> Option<usize> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// A web page can have a browser send a body without a type to any address, this machine's own
/// included, without being asked; but not a body declared as JSON. So requests that change limiters
/// must be declared.
pub(super) fn check_declared(request: &HttpRequest) -> Result<(), RequestRefusal> {
    if request.method() != Method::POST || request.headers().contains_key(CONTENT_TYPE) {
        return Ok(());
    }
    let detail = "content-type is missing: expected application/json; send the header field \
                  `content-type: application/json` (curl: -H 'content-type: application/json')";
    Err(RefusalKind::UnsupportedMediaType.because(detail))
}

/// A missing type counts as JSON; a given one must be JSON.
fn check_type(headers: &HeaderMap) -> Result<(), RequestRefusal> {
    let mut all = headers.get_all(CONTENT_TYPE).iter();
    let Some(given) = all.find(|given| !given.to_str().is_ok_and(is_json)) else {
        return Ok(());
    };
    let given = String::from_utf8_lossy(given.as_bytes());
    let detail = format!(
        "content-type is {given:?}: expected application/json; send the header field \
         `content-type: application/json` (curl: -H 'content-type: application/json')"
    );
    Err(RefusalKind::UnsupportedMediaType.because(detail))
}

fn too_large(bounds: Bounds) -> RequestRefusal {
    let detail = format!("expected at most {} bytes", bounds.body_bytes);
    RefusalKind::BodyTooLarge.because(detail)
}

fn too_slow(bounds: Bounds) -> RequestRefusal {
    let detail = format!("expected all of it within {} ms", bounds.body.as_millis());
    RefusalKind::BodyTimeout.because(detail)
}

fn broken_off(error: &hyper::Error) -> RequestRefusal {
    let why = innermost(error).to_string().to_lowercase();
    let detail = format!(
        "the body broke off: {why}; expected as many bytes as content-length says, or (with \
         transfer-encoding: chunked) chunks that each follow their size in hexadecimal digits"
    );
    RefusalKind::BrokenBody.because(detail)
}

/// The innermost cause, which is more precise than the causes around it.
fn innermost<'e>(mut error: &'e (dyn Error + 'static)) -> &'e (dyn Error + 'static) {
    while let Some(cause) = error.source() {
        error = cause;
    }
    error
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::message::HttpResponse;
    use crate::http::testing;

    /// The answer of a server with these bounds to these bytes.
    async fn answer(bounds: Bounds, sent: &str) -> String {
        let endpoint = testing::endpoint(move |request| async move {
            let read = read(request, bounds).await;
            let counted = |body: Bytes| HttpResponse::new(body.len().to_string().into());
            read.map_or_else(RequestRefusal::into_response, counted)
        });
        testing::serve(endpoint, bounds).await.exchange(sent).await
    }

    #[tokio::test]
    async fn a_body_that_does_not_come_is_waited_for_so_long() {
        let bounds = Bounds { body: Duration::from_millis(30), ..Bounds::default() };
        let sent = "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 9\r\n\r\n{";
        let answer = answer(bounds, sent).await;
        assert!(answer.starts_with("HTTP/1.1 408"), "{answer}");
        assert!(answer.contains("within 30 ms"), "{answer}");
    }

    #[tokio::test]
    async fn the_limit_holds_to_the_byte_also_for_a_body_of_unknown_length() {
        let bounds = Bounds { body_bytes: 16, ..Bounds::default() };
        for (bytes, status) in [(16, "200 OK"), (17, "413 "), (255, "413 "), (4095, "413 ")] {
            let chunk = "x".repeat(bytes);
            let head =
                "POST / HTTP/1.1\r\nhost: a\r\nconnection: close\r\ntransfer-encoding: chunked";
            let sent = format!("{head}\r\n\r\n{bytes:x}\r\n{chunk}\r\n0\r\n\r\n");
            let answer = answer(bounds, &sent).await;
            assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{bytes}: {answer}");
        }
    }
}
