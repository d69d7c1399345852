//! Reads the body of a request within bounds of bytes, for `http/body.rs` and `grpc/call.rs`, which add a bound of
//! time.

use http_body_util::BodyExt;
use hyper::body::{Body, Bytes};

/// Why a body cannot be read.
#[derive(Debug)]
pub(crate) enum BadBody {
    Broken(hyper::Error),
    TooLarge,
    /// The bytes that clients may make the server keep do not suffice for it.
    TooMuch,
}

/// Reads a body of at most `most` bytes; `keep` claims the bytes that are allocated for it, as they become more. A longer
/// one is read and dropped, up to `past` bytes. Most bodies are in one piece, which is not copied.
///
/// # Errors
/// Returns an error if the body is too large, breaks off, or `keep` refuses its bytes.
pub(crate) async fn read_body(
    mut body: impl Body<Data = Bytes, Error = hyper::Error> + Unpin,
    most: usize,
    past: usize,
    mut keep: impl FnMut(usize) -> bool,
) -> Result<Bytes, BadBody> {
    let mut first = Bytes::new();
    let mut all = Vec::new();
    let mut came = 0_usize;
    while came <= past
        && !body.is_end_stream()
        && let Some(frame) = body.frame().await
    {
        // Trailers are not data.
        let Ok(data) = frame.map_err(BadBody::Broken)?.into_data() else { continue };
        came = came.saturating_add(data.len());
        if came > most {
            // Too much: the rest is only read, so that its sender sees the answer.
            continue;
        }
        if first.is_empty() && all.is_empty() {
            if !keep(data.len()) {
                return Err(BadBody::TooMuch);
            }
            first = data;
            continue;
        }
        // The hint is known with `content-length`. Otherwise the buffer may grow up to `most`.
        let to_come = body.size_hint().upper().and_then(|bytes| usize::try_from(bytes).ok());
        let whole = to_come.map_or(most, |bytes| most.min(came.saturating_add(bytes)));
        // The first piece was claimed by its length, and its copy takes over that claim.
        let claimed = first.len().max(all.capacity());
        let capacity = capacity(all.capacity(), came, whole);
        if capacity > claimed && !keep(capacity - claimed) {
            return Err(BadBody::TooMuch);
        }
        all.reserve_exact(capacity - all.len());
        // The first piece is not kept: it may be a part of a larger buffer.
        all.extend_from_slice(&std::mem::take(&mut first));
        all.extend_from_slice(&data);
    }
    if came > most {
        return Err(BadBody::TooLarge);
    }
    Ok(if all.is_empty() { first } else { all.into() })
}

/// The bytes to allocate for `needed` bytes where there are `has`: an eighth more, so that few pieces have all before them
/// copied, but no more than `whole`, to which the body may grow.
fn capacity(has: usize, needed: usize, whole: usize) -> usize {
    if needed <= has { has } else { needed.max(whole.min(has + has / 8)) }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

    use futures_util::{StreamExt as _, stream};
    use http_body_util::StreamBody;
    use hyper::body::Frame;

    use super::*;

    /// A piece in a buffer of its own, which is counted while it exists.
    struct Piece<'a>(Vec<u8>, &'a AtomicUsize);

    impl AsRef<[u8]> for Piece<'_> {
        fn as_ref(&self) -> &[u8] {
            &self.0
        }
    }

    impl Drop for Piece<'_> {
        fn drop(&mut self) {
            self.1.fetch_sub(1, Relaxed);
        }
    }

    #[tokio::test]
    async fn a_body_in_pieces_claims_all_that_is_allocated_for_it_and_little_more_than_it_has() {
        static PIECES: AtomicUsize = AtomicUsize::new(0);
        for (bytes, pieces) in [(1, 1), (1, 1_000), (1_000, 1), (1_000, 2), (4_000, 225)] {
            let mut claimed = 0;
            let sent = stream::iter(0..pieces).map(|number| {
                let kept = PIECES.fetch_add(1, Relaxed);
                assert!(number < 2 || kept == 0, "no piece is kept with its copy");
                Ok(Frame::data(Bytes::from_owner(Piece(vec![b'x'; bytes], &PIECES))))
            });
            let keep = |more| {
                claimed += more;
                true
            };
            let body = read_body(StreamBody::new(sent), 1 << 20, 1 << 20, keep).await.unwrap();
            let length = bytes * pieces;
            assert_eq!(body, vec![b'x'; length]);
            // A single piece is not copied.
            let allocated = body.try_into_mut().map_or(length, |body| body.capacity());
            assert!(
                (allocated..=length + length / 8).contains(&claimed),
                "{claimed} for {allocated}"
            );
        }
    }
}
