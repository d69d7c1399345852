//! A TCP connection whose client has to read: a write that makes no progress for a time fails. It is the innermost
//! stream of every connection, below TLS, so that a client that does not read cannot hold its answers for ever.

use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::{Sleep, sleep};

/// A TCP connection. A write fails ([`io::ErrorKind::TimedOut`]) once no byte could be written for
/// a given time; each byte written restarts the time.
#[derive(Debug)]
pub(crate) struct Socket {
    tcp: TcpStream,
    within: Duration,
    /// Runs while a write waits for the client to read.
    stalled: Option<Pin<Box<Sleep>>>,
}

impl Socket {
    pub(crate) const fn new(tcp: TcpStream, within: Duration) -> Self {
        Self { tcp, within, stalled: None }
    }

    /// Returns the write, or its failure if it has waited too long. Nothing else writes here, so a write
    /// that is tried again has waited all that time.
    fn bounded<T>(
        &mut self,
        cx: &mut Context<'_>,
        written: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            // The next write that waits gets all of the time again.
            self.stalled = None;
            return written;
        }
        let within = self.within;
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(sleep(within)));
        ready!(stalled.as_mut().poll(cx));
        let message = format!("the client has read nothing for {within:?}");
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, message)))
    }

    /// The address at which the client has reached it; `None` if the connection has broken.
    pub(super) fn local_address(&self) -> Option<SocketAddr> {
        self.tcp.local_addr().ok()
    }

    /// The address of the client; `None` if the connection has broken.
    pub(super) fn peer_address(&self) -> Option<SocketAddr> {
        self.tcp.peer_addr().ok()
    }
}

impl Socket {
    /// Waits for the first byte, and leaves it unread; `None` if the client sends none.
    pub(super) async fn first_byte(&self) -> io::Result<Option<u8>> {
        let mut first = [0];
        let bytes = self.tcp.peek(&mut first).await?;
        Ok((bytes > 0).then_some(first[0]))
    }

    /// Bytes that have arrived and are not read.
    pub(super) fn arrived(&self) -> u64 {
        rustix::io::ioctl_fionread(&self.tcp).unwrap_or(0)
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().tcp).poll_read(cx, into)
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.tcp).poll_write(cx, bytes);
        this.bounded(cx, written)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = Pin::new(&mut this.tcp).poll_write_vectored(cx, parts);
        this.bounded(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.tcp.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().tcp).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().tcp).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;
    use tokio::time::{advance, pause};

    const WITHIN: Duration = Duration::from_secs(30);

    async fn pair() -> (TcpStream, Socket) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (tcp, _) = listener.accept().await.unwrap();
        (client, Socket::new(tcp, WITHIN))
    }

    /// Writes until the socket is full; returns the number of bytes, or that the time is over.
    async fn fill(socket: &mut Socket) -> io::Result<usize> {
        let mut bytes = 0;
        loop {
            tokio::select! {
                biased;
                written = socket.write(&[0; 64 << 10]) => bytes += written?,
                () = std::future::ready(()) => return Ok(bytes),
            }
        }
    }

    #[tokio::test]
    async fn a_client_that_reads_nothing_is_written_to_no_longer() {
        let (_client, mut socket) = pair().await;
        pause();
        while fill(&mut socket).await.unwrap() > 0 {
            // Data on its way frees space a few times, although the client does not read it.
            advance(Duration::from_millis(10)).await;
        }
        advance(WITHIN - Duration::from_millis(20)).await;
        assert_eq!(fill(&mut socket).await.unwrap(), 0, "there is time left");
        advance(Duration::from_millis(30)).await;
        assert_eq!(fill(&mut socket).await.unwrap_err().kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test]
    async fn a_client_that_reads_late_and_now_and_then_is_waited_for() {
        let (mut client, mut socket) = pair().await;
        pause();
        for _ in 0..5 {
            while fill(&mut socket).await.unwrap() > 0 {}
            advance(WITHIN - Duration::from_secs(1)).await;
            let mut taken = vec![0; 8 << 20];
            while client.try_read(&mut taken).is_ok_and(|bytes| bytes > 0) {}
            // The system reports later that there is space again.
            socket.tcp.writable().await.unwrap();
        }
        drop(socket);
        let mut rest = Vec::new();
        client.read_to_end(&mut rest).await.unwrap();
    }
}
