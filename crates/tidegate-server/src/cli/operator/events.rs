//! A stream of events of a server, each with JSON as its data, as `tail` and `stats --watch` read it.

use http_body_util::BodyExt;
use hyper::body::Incoming;
use serde_json::Value;

use super::{JsonAnswer, ListenerClient, OutputFormat};
use crate::failure::Failure;
use crate::stdout;

/// The most bytes of one event: the statistics of some 10,000 rules.
const MOST_BYTES: usize = 16 << 20;

/// The stream of a path, which can be opened again after it has ended.
pub(super) struct FollowedEvents<'a> {
    listener: &'a ListenerClient,
    path: String,
    body: Incoming,
    /// Bytes of lines that have not ended.
    read: Vec<u8>,
}

impl<'a> FollowedEvents<'a> {
    /// Opens the stream.
    ///
    /// # Errors
    /// Returns what is there instead, and what was expected.
    pub(super) async fn open(listener: &'a ListenerClient, path: String) -> Result<Self, Failure> {
        let body = listener.stream(&path).await?;
        Ok(Self { listener, path, body, read: Vec::new() })
    }

    /// Opens it again.
    ///
    /// # Errors
    /// Returns the errors of [`open`](Self::open).
    pub(super) async fn reopen(&mut self) -> Result<(), Failure> {
        self.body = self.listener.stream(&self.path).await?;
        self.read.clear();
        Ok(())
    }

    /// The next event.
    ///
    /// # Errors
    /// Returns an error when the stream ends, as it does when the server stops, and from then on.
    pub(super) async fn next(&mut self) -> Result<JsonAnswer, Failure> {
        let url = self.listener.connection.url();
        loop {
            while let Some(end) = self.read.iter().position(|byte| *byte == b'\n') {
                let line: Vec<_> = self.read.drain(..=end).collect();
                if let Some(event) = event(&line) {
                    return Ok(event);
                }
            }
            let Some(Ok(frame)) = self.body.frame().await else {
                return Err(Failure::new(format!("{url} has ended the stream")));
            };
            let bytes = frame.into_data().unwrap_or_default();
            // Without this bound a server that ends no line would fill the memory.
            if self.read.len() + bytes.len() > MOST_BYTES {
                return Err(Failure::new(format!("{url} sends what is no event")));
            }
            self.read.extend_from_slice(&bytes);
        }
    }

    /// Prints each event, until the output is closed or the stream ends.
    ///
    /// # Errors
    /// Returns an error when the stream ends.
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
