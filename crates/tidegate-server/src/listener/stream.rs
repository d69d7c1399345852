//! A connection as its protocol sees it: bytes both ways, encrypted or not.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_rustls::server::TlsStream;

use super::socket::Socket;

/// Clear text, or TLS of which nothing more is seen.
#[derive(Debug)]
pub(crate) enum Stream {
    Plain(Socket),
    Tls(Box<TlsStream<Socket>>),
}

/// A stream that knows what of it has arrived already.
pub(crate) trait Arrives: AsyncRead {
    /// Bytes that have arrived here, as they are on their way, and are not read.
    fn arrived(&self) -> u64;

    /// Reads what has arrived; the end where nothing has.
    fn poll_read_arrived(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.as_mut().poll_read(cx, into) {
            // What has arrived and is not seen yet will wake whoever waits.
            Poll::Pending if self.arrived() == 0 => Poll::Ready(Ok(())),
            read => read,
        }
    }
}

impl Arrives for Stream {
    fn arrived(&self) -> u64 {
        match self {
            Self::Plain(socket) => socket.arrived(),
            Self::Tls(tls) => tls.get_ref().0.arrived(),
        }
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

/// Hands a call on to whichever it is.
macro_rules! either {
    ($stream:expr, $inner:ident => $call:expr) => {
        match $stream {
            Stream::Plain($inner) => $call,
            Stream::Tls($inner) => $call,
        }
    };
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        either!(self.get_mut(), stream => Pin::new(stream).poll_read(cx, into))
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        either!(self.get_mut(), stream => Pin::new(stream).poll_write(cx, bytes))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        either!(self.get_mut(), stream => Pin::new(stream).poll_write_vectored(cx, parts))
    }

    fn is_write_vectored(&self) -> bool {
        either!(self, stream => stream.is_write_vectored())
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        either!(self.get_mut(), stream => Pin::new(stream).poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        either!(self.get_mut(), stream => Pin::new(stream).poll_shutdown(cx))
    }
}
