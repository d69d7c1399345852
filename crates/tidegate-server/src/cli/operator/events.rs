//! A stream of events of a server, each with JSON as its data, as `tail` and `stats --watch` read it.

use http_body_util::BodyExt;
use hyper::body::Incoming;
use serde_json::Value;

use super::server_url::ServerUrl;
use super::{JsonAnswer, OutputFormat};
use crate::failure::Failure;
use crate::stdout;

/// The most bytes of one event: the statistics of some 10,000 rules.
const MOST_BYTES: usize = 16 << 20;

/// The stream, and the part of it that is not read yet.
pub(super) struct EventStream {
    body: Incoming,
    url: ServerUrl,
    /// Bytes of lines that have not ended.
    read: Vec<u8>,
}

impl EventStream {
    pub(super) const fn of(body: Incoming, url: ServerUrl) -> Self {
        Self { body, url, read: Vec::new() }
    }

    /// The next event.
    ///
    /// # Errors
    /// Returns an error when the stream ends, as it does when the server stops.
    pub(super) async fn next(&mut self) -> Result<JsonAnswer, Failure> {
        loop {
            while let Some(end) = self.read.iter().position(|byte| *byte == b'\n') {
                let line: Vec<_> = self.read.drain(..=end).collect();
                if let Some(event) = event(&line) {
                    return Ok(event);
                }
            }
            let Some(Ok(frame)) = self.body.frame().await else {
                return Err(Failure::new(format!("{} has ended the stream", self.url)));
            };
            let bytes = frame.into_data().unwrap_or_default();
            // Without this bound a server that ends no line would fill the memory.
            if self.read.len() + bytes.len() > MOST_BYTES {
                return Err(Failure::new(format!("{} sends what is no event", self.url)));
            }
            self.read.extend_from_slice(&bytes);
        }
    }

    /// Prints each event, until the output is closed.
    pub(super) async fn print(
        mut self,
        format: OutputFormat,
        text: fn(&Value) -> String,
    ) -> Result<(), Failure> {
        while stdout::print_while_read(&self.next().await?.shown(format, text))? {}
        Ok(())
    }
}

/// The event of a line with data; a comment and an empty line are none.
fn event(line: &[u8]) -> Option<JsonAnswer> {
    JsonAnswer::read(std::str::from_utf8(line.strip_prefix(b"data:")?).ok()?.trim())
}
