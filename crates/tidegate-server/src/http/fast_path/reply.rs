//! Writes answers of the fast path as bytes of HTTP/1.1, in the order and spelling of hyper, so that a client sees no
//! difference when its connection goes over.

use std::time::SystemTime;

use hyper::StatusCode;
use tidegate::{Answer, Timestamp, headers};

use crate::http::answer;
use crate::http::message::HttpResponse;
use crate::refusal::RequestRefusal;

/// Bytes of memory that are kept for the next answers.
const KEPT: usize = 16 << 10;

/// Answers that are not yet written.
#[derive(Default)]
pub(super) struct FastReplies {
    pub(super) bytes: Vec<u8>,
    /// The body of the current answer.
    body: Vec<u8>,
    date: Date,
    /// True if the next answer announces that it is the last.
    pub(super) is_last: bool,
}

impl FastReplies {
    /// An answer of the gate.
    pub(super) fn decided(&mut self, answer: &Answer<'_>) -> Result<(), RequestRefusal> {
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
        self.end(Some(answer.at()));
        Ok(())
    }

    /// Any other answer.
    pub(super) fn response(&mut self, response: HttpResponse) {
        self.begin(response.status());
        for (name, value) in response.headers() {
            self.text(name.as_str());
            self.text(": ");
            self.bytes.extend_from_slice(value.as_bytes());
            self.text("\r\n");
        }
        self.body.clear();
        self.body.extend_from_slice(&response.into_body().into_whole());
        self.end(None);
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

    /// The fields at the end of every answer, and the body; `at` is the time of the decision, if there is one.
    fn end(&mut self, at: Option<Timestamp>) {
        if self.is_last {
            self.text("connection: close\r\n");
        }
        self.text("content-length: ");
        let length = self.body.len();
        self.text(itoa::Buffer::new().format(length));
        self.text("\r\ndate: ");
        self.bytes.extend_from_slice(self.date.at(at).as_bytes());
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

/// The `date` of answers, formatted once a second and not for each answer.
#[derive(Default)]
struct Date {
    second: Option<u64>,
    text: String,
}

impl Date {
    /// The date of an answer that was decided at `at`. The clock of `at` shows when a second has passed; the system's
    /// clock, which may have been changed in between, gives the date. Without a decision it is always formatted.
    #[expect(clippy::disallowed_methods, reason = "no decision depends on it")]
    fn at(&mut self, at: Option<Timestamp>) -> &str {
        let second = at.map(|at| at.as_micros() / 1_000_000);
        if second.is_none() || second != self.second {
            self.second = second;
            self.text = httpdate::fmt_http_date(SystemTime::now());
        }
        &self.text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nothing_decided_has_no_old_date() {
        let mut date = Date { second: Some(1), text: "long ago".to_owned() };
        assert_eq!(date.at(Some(Timestamp::from_micros(1_000_000))), "long ago");
        assert!(date.at(None).ends_with(" GMT"));
    }
}
