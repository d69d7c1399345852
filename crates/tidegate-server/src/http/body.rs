//! Reads the body of a request: declared as JSON, not too large, in time.

use std::error::Error;

use axum::body::Body;
use axum::extract::Request;
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE, EXPECT};
use axum::http::{HeaderMap, HeaderValue, Method};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http_body_util::BodyExt;
use tokio::time::timeout;

use super::Limits;
use super::problem::{Kind, Problem};

/// A body over the limit is still read up to so many limits, so that its sender, who often reads only
/// after writing, gets to see the answer.
const READ_PAST: usize = 16;

/// The bytes of the body.
pub(super) async fn read(request: Request, limits: Limits) -> Result<Vec<u8>, Problem> {
    let (head, body) = request.into_parts();
    check_type(&head.headers)?;
    let declared = declared(&head.headers);
    let waits = head.headers.contains_key(EXPECT);
    let hopeless = if waits { 1 } else { READ_PAST } * limits.body_bytes;
    if declared.is_some_and(|bytes| bytes > hopeless) {
        return Err(too_large(limits));
    }
    let collected = timeout(limits.body, collect(body, limits));
    collected.await.unwrap_or_else(|_| Err(too_slow(limits)))
}

async fn collect(mut body: Body, limits: Limits) -> Result<Vec<u8>, Problem> {
    let mut bytes = Vec::new();
    let mut came = 0_usize;
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| broken_off(&error))?;
        let Some(data) = frame.data_ref() else { continue };
        came = came.saturating_add(data.len());
        if came <= limits.body_bytes {
            bytes.extend_from_slice(data);
        } else if came > READ_PAST * limits.body_bytes {
            break;
        }
    }
    if came > limits.body_bytes {
        return Err(too_large(limits));
    }
    Ok(bytes)
}

/// What the head says of the length of the body.
fn declared(headers: &HeaderMap) -> Option<usize> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

/// A web page can have a browser send a body without a type to any address, this machine's own
/// included, and is asked nothing; a body declared as JSON it can not. So what changes limiters must
/// be declared.
pub(super) async fn declared_as_json(request: Request, next: Next) -> Response {
    if request.method() == Method::POST && !request.headers().contains_key(CONTENT_TYPE) {
        let detail = "content-type is missing: expected application/json; send the header field \
                      `content-type: application/json` (curl: -H 'content-type: application/json')";
        return Problem::new(Kind::UnsupportedMediaType, detail).into_response();
    }
    next.run(request).await
}

/// No type at all is taken for JSON; one that is given must be it.
fn check_type(headers: &HeaderMap) -> Result<(), Problem> {
    let json = |given: &&HeaderValue| given.to_str().is_ok_and(is_json);
    let Some(given) = headers.get_all(CONTENT_TYPE).iter().find(|given| !json(given)) else {
        return Ok(());
    };
    let given = String::from_utf8_lossy(given.as_bytes());
    let detail = format!(
        "content-type is {given:?}: expected application/json; send the header field \
         `content-type: application/json` (curl: -H 'content-type: application/json')"
    );
    Err(Problem::new(Kind::UnsupportedMediaType, detail))
}

/// `application/json`, with no parameter but `charset=utf-8`.
fn is_json(media_type: &str) -> bool {
    let mut parts = media_type.split(';').map(str::trim);
    let json = parts.next().is_some_and(|name| name.eq_ignore_ascii_case("application/json"));
    let utf_8 = |parameter: &str| {
        let parameter = parameter.to_ascii_lowercase();
        ["", "charset=utf-8", "charset=\"utf-8\""].contains(&parameter.as_str())
    };
    json && parts.all(utf_8)
}

fn too_large(limits: Limits) -> Problem {
    let detail = format!("expected at most {} bytes", limits.body_bytes);
    Problem::new(Kind::BodyTooLarge, detail)
}

fn too_slow(limits: Limits) -> Problem {
    let detail = format!("expected all of it within {} ms", limits.body.as_millis());
    Problem::new(Kind::BodyTimeout, detail)
}

fn broken_off(error: &axum::Error) -> Problem {
    let why = innermost(error).to_string().to_lowercase();
    let detail = format!(
        "the body broke off: {why}; expected as many bytes as content-length says, or (with \
         transfer-encoding: chunked) chunks each behind its size in hexadecimal digits"
    );
    Problem::new(Kind::InvalidBody, detail)
}

/// The cause that has no cause, which says the most.
fn innermost<'e>(mut error: &'e (dyn Error + 'static)) -> &'e (dyn Error + 'static) {
    while let Some(cause) = error.source() {
        error = cause;
    }
    error
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::testing;
    use axum::Router;
    use axum::routing::post;
    use std::time::Duration;

    /// What a server with these bounds answers to these bytes.
    async fn answer(limits: Limits, sent: &str) -> String {
        let routes =
            Router::new().route(
                "/",
                post(move |request| async move {
                    read(request, limits).await.map(|b| b.len().to_string())
                }),
            );
        testing::serve(routes, limits).await.exchange(sent).await
    }

    #[tokio::test]
    async fn a_body_that_does_not_come_is_waited_for_so_long() {
        let limits = Limits { body: Duration::from_millis(30), ..Limits::default() };
        let sent = "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 9\r\n\r\n{";
        let answer = answer(limits, sent).await;
        assert!(answer.starts_with("HTTP/1.1 408"), "{answer}");
        assert!(answer.contains("within 30 ms"), "{answer}");
    }

    #[tokio::test]
    async fn the_limit_holds_to_the_byte_also_for_a_body_of_unknown_length() {
        let limits = Limits { body_bytes: 16, ..Limits::default() };
        for (bytes, status) in [(16, "200 OK"), (17, "413 "), (255, "413 "), (4095, "413 ")] {
            let chunk = "x".repeat(bytes);
            let head =
                "POST / HTTP/1.1\r\nhost: a\r\nconnection: close\r\ntransfer-encoding: chunked";
            let sent = format!("{head}\r\n\r\n{bytes:x}\r\n{chunk}\r\n0\r\n\r\n");
            let answer = answer(limits, &sent).await;
            assert!(answer.starts_with(&format!("HTTP/1.1 {status}")), "{bytes}: {answer}");
        }
    }

    #[test]
    fn only_json_in_utf_8_is_json() {
        let yes = ["application/json", "Application/JSON ; Charset=UTF-8", "application/json;"];
        let no = ["text/json", "application/json; charset=latin1", "application/jsonp", ""];
        assert!(yes.into_iter().all(is_json));
        assert!(!no.into_iter().any(is_json));
    }
}
