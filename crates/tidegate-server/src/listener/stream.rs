//! A connection as its protocol uses it: bytes both ways, encrypted or not. [`serve`](super::serve) makes it after
//! the TLS handshake, and every [`Handler`](super::Handler) reads and writes it.

use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_rustls::server::TlsStream;

use super::socket::Socket;
use super::{Arrives, Heads, Peer};

/// A connection, which can track the heads in its bytes.
#[derive(Debug)]
pub(crate) struct Stream {
    transport: Transport,
    heads: Option<Heads>,
}

/// The server's end of a connection.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ReachedAddress {
    /// `None` if the connection has broken.
    pub(crate) address: Option<SocketAddr>,
    /// True inside TLS.
    pub(crate) is_encrypted: bool,
}

/// Clear text or TLS.
#[derive(Debug)]
pub(super) enum Transport {
    Plain(Socket),
    Tls(Box<TlsStream<Socket>>),
}

impl From<Transport> for Stream {
    fn from(transport: Transport) -> Self {
        Self { transport, heads: None }
    }
}

impl Stream {
    /// Tracks heads from now on, beginning with the bytes that were `read` before.
    pub(crate) fn with_heads(self, mut heads: Heads, read: &[u8]) -> Self {
        heads.read(read);
        Self { heads: Some(heads), ..self }
    }
}

impl Stream {
    /// The address at which the client has reached the server.
    pub(crate) fn reached(&self) -> ReachedAddress {
        let (socket, is_encrypted) = match &self.transport {
            Transport::Plain(socket) => (socket, false),
            Transport::Tls(tls) => (tls.get_ref().0, true),
        };
        ReachedAddress { address: socket.local_address(), is_encrypted }
    }

    /// The client at the other end.
    pub(crate) fn peer(&self) -> Peer {
        match &self.transport {
            Transport::Plain(socket) => Peer::of(socket.peer_address(), None),
            Transport::Tls(tls) => {
                let (socket, session) = tls.get_ref();
                Peer::of(socket.peer_address(), session.peer_certificates())
            }
        }
    }
}

impl Arrives for Stream {
    fn arrived(&self) -> u64 {
        match &self.transport {
            Transport::Plain(socket) => socket.arrived(),
            // Encrypted bytes: `Remainder` allows for bytes that are decrypted and not read.
            Transport::Tls(tls) => tls.get_ref().0.arrived(),
        }
    }
}

/// Passes a call on to either transport.
macro_rules! either {
    ($stream:expr, $inner:ident => $call:expr) => {
        match $stream {
            Transport::Plain($inner) => $call,
            Transport::Tls($inner) => $call,
        }
    };
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = into.filled().len();
        let read = either!(&mut this.transport, stream => Pin::new(stream).poll_read(cx, into));
        if let Some(heads) = &mut this.heads {
            heads.read(into.filled().get(before..).unwrap_or_default());
        }
        read
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        either!(&mut self.get_mut().transport, stream => Pin::new(stream).poll_write(cx, bytes))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        either!(&mut self.get_mut().transport, stream => Pin::new(stream).poll_write_vectored(cx, parts))
    }

    fn is_write_vectored(&self) -> bool {
        either!(&self.transport, stream => stream.is_write_vectored())
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        either!(&mut self.get_mut().transport, stream => Pin::new(stream).poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        either!(&mut self.get_mut().transport, stream => Pin::new(stream).poll_shutdown(cx))
    }
}
