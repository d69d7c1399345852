//! Reads the body of a request within bounds.

use http_body_util::BodyExt;
use hyper::body::{Body, Bytes, Incoming};

/// Why a body cannot be read.
#[derive(Debug)]
pub(crate) enum BadBody {
    Broken(hyper::Error),
    TooLarge,
    /// There is no room for it in what clients may make the server keep.
    TooMuch,
}

/// Reads a body of at most `most` bytes, each piece of which `keep` makes room for. A longer one is read, and dropped, up
/// to `past` bytes. A body that comes in one piece, as most do, is not copied.
///
/// # Errors
/// The body is too large, breaks off, or finds no room.
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
