//! The last bytes that are read from a connection: bytes that had arrived when the process began to drain, and bytes
//! that come soon after. The fast path, hyper's stream and RESP read through it once the process drains, so that a
//! request on its way is still answered.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, ReadBuf};
use tokio::time::{Sleep, sleep};

use super::Bounds;

/// The time for which a connection without a request under way waits for one that was on its way when the drain began.
const LINGER: Duration = Duration::from_millis(500);

/// A stream that knows how many of its bytes have arrived.
pub(crate) trait Arrives: AsyncRead {
    /// Bytes that have arrived and are not yet read, as they are on the wire.
    fn arrived(&self) -> u64;
}

/// The bytes that are still read once the process drains: bytes that have arrived, and bytes that come soon after.
/// Otherwise a request on its way when the drain begins would be unread when its connection ends.
#[derive(Debug)]
pub(crate) struct Remainder {
    /// Bytes that have arrived and are not read; once the time is over, the bytes that are still to be read.
    left: u64,
    /// When later bytes are not read any more.
    lingers: Pin<Box<Sleep>>,
    is_over: bool,
}

impl Remainder {
    /// The bytes that have arrived now, as the drain begins.
    pub(crate) fn of(stream: &impl Arrives, bounds: Bounds) -> Self {
        let lingers = Box::pin(sleep(LINGER.min(bounds.drain / 16)));
        Self { left: stream.arrived(), lingers, is_over: false }
    }

    /// Returns whether all that has arrived is read, so that the answer to the last request may announce the end.
    pub(crate) const fn is_empty(&self) -> bool {
        self.left == 0
    }

    /// Reads some of them; reports the end of the stream when the time is over and none is left.
    pub(crate) fn poll_read(
        &mut self,
        mut stream: Pin<&mut impl Arrives>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.is_over && self.lingers.as_mut().poll(cx).is_ready() {
            self.is_over = true;
            // Bytes of this moment are still read, and no later ones: from here on the rest only becomes less.
            self.left = stream.arrived();
        }
        if self.is_over && self.left == 0 {
            return Poll::Ready(Ok(()));
        }
        let before = into.filled().len();
        match stream.as_mut().poll_read(cx, into) {
            // Bytes that have arrived and are not yet reported will wake the reader.
            Poll::Pending if !self.is_over || stream.arrived() > 0 => return Poll::Pending,
            Poll::Pending => self.left = 0,
            read => ready!(read)?,
        }
        let read = into.filled().len() - before;
        self.left = if self.is_over {
            // Bytes that come later do not count, so a client that keeps sending does not keep its connection.
            self.left.saturating_sub(read as u64)
        } else {
            // If the buffer is full, decrypted bytes may be left.
            stream.arrived().max(u64::from(into.remaining() == 0))
        };
        // The client has closed its side: no more can come.
        self.is_over |= read == 0;
        Poll::Ready(Ok(()))
    }

    /// Reads some of them into `space`; returns their number, which is 0 at the end.
    ///
    /// # Errors
    /// Returns the errors of the stream.
    pub(crate) async fn read(
        &mut self,
        stream: &mut (impl Arrives + Unpin),
        space: &mut [u8],
    ) -> io::Result<usize> {
        let mut space = ReadBuf::new(space);
        poll_fn(|cx| self.poll_read(Pin::new(&mut *stream), cx, &mut space)).await?;
        Ok(space.filled().len())
    }
}

#[cfg(test)]
impl Arrives for tokio::io::DuplexStream {
    fn arrived(&self) -> u64 {
        0
    }
}

#[cfg(test)]
impl<R: AsyncRead, W> Arrives for tokio::io::Join<R, W> {
    fn arrived(&self) -> u64 {
        0
    }
}
