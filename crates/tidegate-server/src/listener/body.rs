//! Reads the body of a request within bounds.

use http_body_util::BodyExt;
use hyper::body::{Body, Bytes, Incoming};

/// Why a body cannot be read.
#[derive(Debug)]
pub(crate) enum BadBody {
    Broken(hyper::Error),
    TooLarge,
    /// The bytes that clients may make the server keep do not suffice for it.
    TooMuch,
}

/// Reads a body of at most `most` bytes; `keep` claims the bytes of each piece. A longer one is
/// read and dropped, up to `past` bytes. Most bodies are in one piece, which is not copied.
///
/// # Errors
/// Returns an error if the body is too large, breaks off, or finds no room.
pub(crate) async fn read_body(
    mut body: Incoming,
    most: usize,
    past: usize,
    mut keep: impl FnMut(usize) -> bool,
) -> Result<Bytes, BadBody> {
    let (mut first, mut all, mut came) = (Bytes::new(), Vec::new(), 0_usize);
    while came <= past
        && !body.is_end_stream()
        && let Some(frame) = body.frame().await
    {
        let Ok(data) = frame.map_err(BadBody::Broken)?.into_data() else { continue };
        came = came.saturating_add(data.len());
        if came > most {
            continue;
        }
        if !keep(data.len()) {
            return Err(BadBody::TooMuch);
        }
        if first.is_empty() {
            first = data;
            continue;
        }
        if all.is_empty() {
            all.extend_from_slice(&first);
        }
        all.extend_from_slice(&data);
    }
    match came > most {
        true => Err(BadBody::TooLarge),
        false => Ok(if all.is_empty() { first } else { all.into() }),
    }
}
