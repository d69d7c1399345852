//! Answers requests that hyper's HTTP/1 parser refused, with a problem that gives the reason, and
//! ends the connection.

use std::io;

use hyper::StatusCode;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

use super::head;
use super::hyper_io::{Bare, Refused};
use super::problem::{Kind, Problem};
use crate::listener::Bounds;
use crate::listener::Stream;

/// Most bytes that are read and dropped after the answer. Closing a connection with bytes unread
/// resets it, and its client might not see the answer.
const READ_PAST: usize = 1 << 20;
/// hyper's message about a body whose last coding is not `chunked`.
const UNKNOWN_CODING: &str = "invalid transfer-encoding";
/// Bytes of each such read.
const FORGOTTEN_AT_ONCE: usize = 4 << 10;

/// Answers in hyper's place; `reason` is its parser's message, `head_bytes` the most that it reads.
pub(super) async fn answer(
    (mut stream, bare): Refused,
    reason: &str,
    head_bytes: usize,
    bounds: Bounds,
) {
    let written = written(&problem(bare.status, reason, head_bytes), &bare);
    if !matches!(timeout(bounds.body, write_out(&mut stream, &written)).await, Ok(Ok(()))) {
        tracing::debug!("a client that sent no HTTP did not wait for its answer");
    }
}

async fn write_out(stream: &mut Stream, answer: &[u8]) -> io::Result<()> {
    stream.write_all(answer).await?;
    stream.shutdown().await?;
    let mut forgotten = [0; FORGOTTEN_AT_ONCE];
    let mut left = READ_PAST;
    while left > 0 {
        let came = stream.read(&mut forgotten).await?;
        left = if came == 0 { 0 } else { left.saturating_sub(came) };
    }
    Ok(())
}

fn problem(status: StatusCode, reason: &str, head_bytes: usize) -> Problem {
    match status {
        StatusCode::URI_TOO_LONG => Problem::new(
            Kind::UriTooLong,
            format!(
                "{reason}: expected one of the paths of this listener; what is asked goes into the body"
            ),
        ),
        StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE => Problem::new(
            Kind::HeadTooLarge,
            format!(
                "{reason}: expected a request line and header fields of less than {head_bytes} bytes \
                 together, and at most 100 fields; send fewer or shorter ones"
            ),
        ),
        // Its end cannot be known, so hyper reads no more of it.
        _ if reason.contains(UNKNOWN_CODING) => head::unknown_coding(),
        _ => Problem::new(
            Kind::InvalidRequest,
            format!(
                "{reason}: expected HTTP/1.1 in clear text (http://, not https://), which is a line \
                 such as `POST /v1/check HTTP/1.1`, then header fields such as `content-type: \
                 application/json`, one a line, with no more than one content-length, then an \
                 empty line and the body"
            ),
        ),
    }
}

/// The whole answer as bytes, with the status of the problem.
fn written(problem: &Problem, bare: &Bare) -> Vec<u8> {
    let body = problem.document();
    let mut head = format!("HTTP/1.1 {}\r\nconnection: close\r\n", problem.status());
    if let Some(date) = &bare.date {
        head += &format!("date: {date}\r\n");
    }
    for (name, value) in Problem::FIELDS {
        head += &format!("{name}: {value}\r\n");
    }
    head += &format!("content-length: {}\r\n\r\n", body.len());
    [head.into_bytes(), body].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::testing::{self, until_closed};
    use std::time::Duration;

    #[tokio::test]
    async fn a_refused_client_that_does_not_leave_is_left() {
        let bounds = Bounds { body: Duration::from_millis(30), ..Bounds::default() };
        let server = testing::serve(testing::nowhere(), bounds).await;
        let mut stream = server.connect().await;
        stream.write_all(b"nonsense\r\n\r\n").await.unwrap();
        let answer = until_closed(&mut stream).await;
        assert!(answer.starts_with("HTTP/1.1 400 Bad Request\r\n"), "{answer}");
        server.stop.drain();
        assert_eq!(server.done.await.unwrap(), 0, "nothing had to be cut");
        drop(stream);
    }

    #[test]
    fn every_status_that_is_kept_back_has_a_problem_of_its_own() {
        for (status, kind) in [
            (StatusCode::BAD_REQUEST, "invalid-request"),
            (StatusCode::URI_TOO_LONG, "uri-too-long"),
            (StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE, "head-too-large"),
        ] {
            let bare = Bare { status, date: None };
            let answer = written(&problem(status, "a reason", 7), &bare);
            let answer = String::from_utf8(answer).unwrap();
            assert!(answer.starts_with(&format!("HTTP/1.1 {status}\r\nconnection: close\r\n")));
            assert!(answer.contains(&format!(":{kind}\",")), "{answer}");
            assert!(answer.contains(&format!("\"status\":{},", status.as_u16())), "{answer}");
            assert!(answer.contains("\"a reason: expected "), "{answer}");
        }
    }
}
