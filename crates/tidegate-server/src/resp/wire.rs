//! Both directions of a connection: it reads while it writes, so that a client that writes much and reads late does
//! not block itself. `connection.rs` drives it, fills its output and consumes its input.

use std::future::poll_fn;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::time::timeout;

use super::input::Input;
use super::output::Output;
use crate::listener::{Arrives, KeptBytes, Remainder};

/// A stream, with its input and its output.
pub(super) struct Wire<S> {
    pub(super) stream: S,
    pub(super) input: Input,
    pub(super) output: Output,
    pub(super) has_ended: bool,
    /// True if the stream may still hold bytes that were written and encrypted.
    is_kept_back: bool,
    /// Bytes written so far.
    pub(super) written: u64,
}

impl<S: Arrives + AsyncWrite + Unpin> Wire<S> {
    /// The wire of a new connection; unwritten replies are counted in `kept`.
    pub(super) fn new(stream: S, kept: KeptBytes) -> Self {
        Self {
            stream,
            input: Input::new(),
            output: Output::new(kept),
            has_ended: false,
            is_kept_back: false,
            written: 0,
        }
    }

    /// Writes, and reads unless too much is unread. It is ready when bytes came, the client has
    /// ended, or the unread bytes are no longer too many. `holds_commands` says that there are
    /// commands in the input for which too much was unread.
    pub(super) fn poll(
        &mut self,
        cx: &mut Context<'_>,
        holds_commands: bool,
    ) -> Poll<io::Result<()>> {
        // Other connections may have freed space since the commands were held.
        let was_full = holds_commands || self.is_full();
        // Written first, because unread replies decide whether more is read.
        if let Poll::Ready(Err(error)) = self.poll_write(cx) {
            return Poll::Ready(Err(error));
        }
        let is_full = self.is_full();
        if was_full && !is_full {
            // Commands that have arrived may be answered now: no byte has to come for that.
            Poll::Ready(Ok(()))
        } else if is_full || self.has_ended {
            // The client is slow to read, or will send no more.
            Poll::Pending
        } else {
            self.poll_read(cx)
        }
    }

    /// Reads some of the bytes that are still read while the process drains; returns their number.
    pub(super) async fn read_remainder(&mut self, remainder: &mut Remainder) -> io::Result<usize> {
        let bytes = remainder.read(&mut self.stream, self.input.space()).await?;
        self.input.filled(bytes);
        Ok(bytes)
    }

    /// Writes as much as the stream takes now.
    pub(super) async fn write_some(&mut self) -> io::Result<()> {
        poll_fn(|cx| match self.poll_write(cx) {
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Ready(Ok(())) | Poll::Pending => Poll::Ready(Ok(())),
        })
        .await
    }

    fn is_full(&self) -> bool {
        self.output.has(self.output.most())
    }

    fn poll_read(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let space = self.input.space();
        if space.is_empty() {
            return Poll::Pending;
        }
        let mut space = ReadBuf::new(space);
        ready!(Pin::new(&mut self.stream).poll_read(cx, &mut space))?;
        let bytes = space.filled().len();
        // The space was not empty, so a read of no bytes is the end.
        self.has_ended = bytes == 0;
        self.input.filled(bytes);
        Poll::Ready(Ok(()))
    }

    /// Ready when everything is written.
    fn poll_write(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.output.is_empty() {
            let bytes = ready!(Pin::new(&mut self.stream).poll_write(cx, self.output.unwritten()))?;
            if bytes == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.written += bytes as u64;
            self.output.wrote(bytes);
            self.is_kept_back = true;
        }
        if self.is_kept_back {
            // Encrypted bytes may wait in the stream until it is flushed.
            ready!(Pin::new(&mut self.stream).poll_flush(cx))?;
            self.is_kept_back = false;
        }
        Poll::Ready(Ok(()))
    }

    /// Writes the rest within a time limit, and closes the writing side.
    pub(super) async fn flush(&mut self, within: Duration) -> io::Result<()> {
        let all = async {
            self.stream.write_all(self.output.unwritten()).await?;
            self.stream.shutdown().await
        };
        timeout(within, all).await?
    }

    /// Reads and drops all further input.
    pub(super) async fn discard(&mut self) {
        // On the heap, because every connection would hold room for it.
        let mut dropped = vec![0; 4 << 10];
        while self.stream.read(&mut dropped).await.is_ok_and(|bytes| bytes > 0) {}
    }
}
