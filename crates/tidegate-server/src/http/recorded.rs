//! `GET /v1/recorded`: the requests that were recorded, as a trace for `tidegate replay`. The recorder keeps lines in
//! blocks; an answer is all blocks of one moment.

use std::sync::Arc;
use std::time::Duration;

use hyper::body::Bytes;
use hyper::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderValue};
use tokio::time::timeout;

use super::message::HttpResponse;
use super::table::AdmittedRequest;
use crate::refusal::{RefusalKind, RequestRefusal};

/// The longest time that a client takes to read one block.
const PATIENCE: Duration = Duration::from_secs(60);

/// A block of lines, whose memory the recorder may hold as well.
struct LinesOfBlock(Arc<Vec<u8>>);

impl AsRef<[u8]> for LinesOfBlock {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

/// The longest time for which a client waits for another client, which may be about to end.
const FOR_ANOTHER: Duration = Duration::from_secs(1);

/// Answers with all lines. An answer that ends early is shorter than it says, so that its client notices.
pub(super) async fn recorded(asked: AdmittedRequest<'_>) -> Result<HttpResponse, RequestRefusal> {
    let app = asked.app;
    let Some(recorder) = app.limiters.watching.recorder.get() else {
        let detail = "nothing is recorded here, because `record` of `[server]` is \"off\": expected a time such \
                      as \"10m\"";
        return Err(RefusalKind::NotFound.because(detail));
    };
    // One client at a time: a client that reads slowly keeps blocks which the recorder has dropped.
    let permit = timeout(FOR_ANOTHER, Arc::clone(&app.recording).acquire_owned()).await;
    let Ok(Ok(permit)) = permit else {
        let detail = "another client reads the recorded requests: come back when it has them";
        return Err(RefusalKind::TooManyStreams.because(detail));
    };
    let blocks = recorder.lines();
    // The blocks are fixed now: later requests are not sent, so the length is known.
    let length: usize = blocks.iter().map(|block| block.len()).sum();
    let mut response = app.streams.open(asked.role(), &app.limiters, async move |sink| {
        let _permit = permit;
        for block in blocks {
            // A client that stops reading gives its permit back to the next.
            let sent = timeout(PATIENCE, sink.send_bytes(Bytes::from_owner(LinesOfBlock(block))));
            if !matches!(sent.await, Ok(Ok(()))) {
                return;
            }
        }
    })?;
    let fields = response.headers_mut();
    fields.insert(CONTENT_TYPE, HeaderValue::from_static("application/x-ndjson"));
    fields.insert(CONTENT_LENGTH, HeaderValue::from(length));
    Ok(response)
}
