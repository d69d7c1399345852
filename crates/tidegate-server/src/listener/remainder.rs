//! The last bytes that are read from a connection: those that had arrived when the process began to
//! drain.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, ReadBuf};

/// A stream that knows how many of its bytes have arrived.
pub(crate) trait Arrives: AsyncRead {
    /// Bytes that have arrived and are not yet read, as they are on the wire.
    fn arrived(&self) -> u64;
}

/// The number of bytes that had arrived when the process began to drain and are not yet read.
#[derive(Debug)]
pub(crate) struct Remainder(u64);

impl Remainder {
    /// The bytes that have arrived now, as the drain begins.
    pub(crate) fn of(stream: &impl Arrives) -> Self {
        Self(stream.arrived())
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.0 == 0
    }

    /// Reads some of them, and perhaps later ones; reports the end of the stream when none is left.
    pub(crate) fn poll_read(
        &mut self,
        mut stream: Pin<&mut impl Arrives>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = into.filled().len();
        if !self.is_empty() {
            match stream.as_mut().poll_read(cx, into) {
                // Bytes that have arrived and are not yet reported will wake the reader.
                Poll::Pending if stream.arrived() == 0 => {}
                read => ready!(read)?,
            }
        }
        let read = into.filled().len() - before;
        self.0 = if read == 0 { 0 } else { self.0.saturating_sub(read as u64) };
        Poll::Ready(Ok(()))
    }

    /// Reads some of them into `room`; returns their number.
    ///
    /// # Errors
    /// Returns the errors of the stream.
    pub(crate) async fn read(
        &mut self,
        stream: &mut (impl Arrives + Unpin),
        room: &mut [u8],
    ) -> io::Result<usize> {
        let mut room = ReadBuf::new(room);
        poll_fn(|cx| self.poll_read(Pin::new(&mut *stream), cx, &mut room)).await?;
        Ok(room.filled().len())
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
