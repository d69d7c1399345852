//! Writes answers of the fast path as bytes of HTTP/1.1, in the order and spelling of hyper, so that a client sees no
//! difference when its connection goes over.

use hyper::StatusCode;
use tidegate::{Answer, headers};

use super::date::Date;
use crate::http::answer;
use crate::http::message::HttpResponse;
use crate::http::problem::HttpProblem;

/// Bytes of memory that are kept for the next answers.
const KEPT: usize = 16 << 10;

/// Answers that are not yet written.
#[derive(Default)]
pub(super) struct FastReplies {
    pub(super) bytes: Vec<u8>,
    /// The body of the current answer.
    body: Vec<u8>,
    /// True if the next answer announces that it is the last.
    pub(super) is_last: bool,
}

impl FastReplies {
    /// An answer of the gate.
    pub(super) fn decided(&mut self, answer: &Answer<'_>, date: &str) -> Result<(), HttpProblem> {
        self.body.clear();
        answer::write(answer, &mut self.body)?;
        let status = answer::status(answer)?;
        self.begin(status);
        self.text("content-type: application/json\r\ncache-control: no-store\r\n");
        headers::each(answer, |name, value| {
            match answer::usual_field(name) {
                // The usual names are in lower case already.
                Some(name) => self.text(name),
                None => self.text(&name.to_ascii_lowercase()),
            }
            self.text(": ");
            self.text(value);
            self.text("\r\n");
        });
        self.end(date);
        Ok(())
    }

    /// Any other answer.
    pub(super) fn response(&mut self, response: HttpResponse, date: &mut Date) {
        self.begin(response.status());
        for (name, value) in response.headers() {
            self.text(name.as_str());
            self.text(": ");
            self.bytes.extend_from_slice(value.as_bytes());
            self.text("\r\n");
        }
        self.body.clear();
        self.body.extend_from_slice(&response.into_body().into_whole());
        self.end(date.now());
    }

    fn begin(&mut self, status: StatusCode) {
        if status == StatusCode::OK {
            return self.text("HTTP/1.1 200 OK\r\n");
        }
        self.text("HTTP/1.1 ");
        self.text(status.as_str());
        self.text(" ");
        self.text(status.canonical_reason().unwrap_or_default());
        self.text("\r\n");
    }

    /// The fields at the end of every answer, and the body.
    fn end(&mut self, date: &str) {
        if self.is_last {
            self.text("connection: close\r\n");
        }
        self.text("content-length: ");
        let length = self.body.len();
        self.text(itoa::Buffer::new().format(length));
        self.text("\r\ndate: ");
        self.text(date);
        self.text("\r\n\r\n");
        self.bytes.extend_from_slice(&self.body);
    }

    fn text(&mut self, text: &str) {
        self.bytes.extend_from_slice(text.as_bytes());
    }

    /// Drops the answers, which have been written.
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        // An idle connection does not keep the memory of its longest answers.
        self.bytes.shrink_to(KEPT);
    }
}
