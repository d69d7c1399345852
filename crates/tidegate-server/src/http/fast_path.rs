//! The fast path: answers checks that arrive complete and need no wait, without hyper.
//!
//! `connection.rs` begins public connections here, if limiters are in memory and every client may check.
//! hyper handles every request, at several times the cost of a decision. Nearly all requests are of
//! one kind: `POST /v1/check` over HTTP/1.1, in one piece. They are answered here, with the same
//! bytes as over hyper. At the first other or incomplete request the connection goes over to hyper
//! for good, with all bytes that were read and not answered: nothing is refused here, and nothing
//! here waits for a limiter.

mod head;
mod reply;

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;

use hyper::body::Bytes;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

use super::app::App;
use super::body;
use super::question::HttpQuestion;
use crate::counts::RequestOutcome;
use crate::limiters::RequestVerb;
use crate::listener::{
    Account, ConnectionCheck, ConnectionPatience, ListenerSecret, Remainder, Shell, Stream,
};
use crate::refusal::RequestRefusal;
pub(super) use head::CHECK;
use head::Found;
use reply::FastReplies;

/// Bytes per read.
const SPACE: usize = 4 << 10;
/// Bytes of answers after which they are written and other connections get a turn.
const TURN_BYTES: usize = 64 << 10;

/// Answers checks of one connection.
pub(super) struct FastPath {
    app: Arc<App>,
    secret: Option<ListenerSecret>,
    input: Vec<u8>,
    /// The number of bytes of the input that are answered.
    start: usize,
    reply: FastReplies,
    /// The number of checks that were answered.
    answered: u64,
    /// True if the process drains and all that has arrived is read, so that the last answer announces the end.
    is_ending: bool,
    /// True if an answer has announced it.
    has_announced: bool,
}

/// The next step after all requests that could be answered.
enum NextAction {
    Read,
    /// More requests have arrived, but other connections come first.
    Yield,
    /// A request has begun to arrive.
    Partial,
    HandOver,
}

impl FastPath {
    /// The fast path, if decisions need no wait.
    pub(super) fn of(app: &Arc<App>, secret: Option<&ListenerSecret>) -> Option<Self> {
        // A store is asked over the network, so nearly every check would wait, and go over to hyper.
        app.limiters.shared().is_none().then(|| Self {
            app: Arc::clone(app),
            secret: secret.cloned(),
            input: Vec::new(),
            start: 0,
            reply: FastReplies::default(),
            answered: 0,
            is_ending: false,
            has_announced: false,
        })
    }

    /// Serves a connection while it sends such checks; returns the remaining bytes for hyper.
    /// Returns `None` if the connection has ended, was idle, or is asked to end between two
    /// requests.
    ///
    /// # Errors
    /// Returns an error if the connection broke off.
    pub(super) async fn serve(
        mut self,
        stream: &mut Stream,
        Shell { bounds, account, stop }: &mut Shell,
    ) -> io::Result<Option<Bytes>> {
        // Set once the process drains.
        let mut remainder = None;
        let mut patience = ConnectionPatience::of(*bounds);
        let stops = stop.clone();
        let mut draining = pin!(stop.draining());
        let mut came = false;
        loop {
            if remainder.is_none() && stops.is_draining() {
                remainder = Some(Remainder::of(stream, *bounds));
            }
            // Known before the answers are written, because the last of them has to announce the end.
            self.is_ending = remainder.as_ref().is_some_and(Remainder::is_empty);
            // The clock is read once for all requests that were read together.
            let read = self.app.decider.counts.now();
            let before = self.answered;
            let next = self.answer_all();
            self.app.decider.counts.took(read, self.answered - before);
            // AdmittedRequest before the write, which clears the bytes.
            came |= !self.reply.bytes.is_empty();
            // Written before a hand-over, because hyper must not answer a later request first.
            self.write(stream, account).await?;
            match next {
                NextAction::HandOver => return Ok(Some(self.into_unread())),
                NextAction::Yield => tokio::task::yield_now().await,
                // If the rest has not arrived now, it may come at any time.
                NextAction::Partial => {
                    match body::soon(pin!(stream.read_buf(&mut self.input))).await {
                        Some(Ok(1..)) => {}
                        // Also at the end of the input or after an error: hyper ends such a connection.
                        _ => return Ok(Some(self.into_unread())),
                    }
                }
                // Bytes after the last answer are not read: their client was told to ask elsewhere.
                NextAction::Read if self.has_announced => break,
                // The rest is read without waiting for the patience: it has its own, which is shorter.
                NextAction::Read if let Some(remainder) = &mut remainder => {
                    let mut space = [0; SPACE];
                    let read = remainder.read(stream, &mut space).await?;
                    if read == 0 {
                        break;
                    }
                    self.input.extend_from_slice(space.get(..read).unwrap_or_default());
                }
                NextAction::Read => tokio::select! {
                    // Bytes that have arrived come first, so that a drain leaves no request unread.
                    biased;
                    read = stream.read_buf(&mut self.input) => if read? == 0 { break },
                    () = draining.as_mut() => {}
                    () = patience.look() => {
                        let is_used = std::mem::take(&mut came);
                        // Only idle time counts here: a request in part goes over to hyper, and unread answers have a
                        // timer in `write`.
                        if patience.ends(ConnectionCheck { is_used, ..ConnectionCheck::default() }).is_some() {
                            break;
                        }
                    }
                },
            }
        }
        stream.shutdown().await.map(|()| None)
    }

    /// Answers the requests that have arrived, one by one.
    fn answer_all(&mut self) -> NextAction {
        loop {
            let unread = self.unread();
            if unread.is_empty() {
                // The buffer begins at its start again, so it grows only with requests that are read together.
                self.input.clear();
                self.start = 0;
                self.input.reserve(SPACE);
                return NextAction::Read;
            }
            if self.reply.bytes.len() >= TURN_BYTES {
                return NextAction::Yield;
            }
            match head::look(unread, self.secret.as_ref()) {
                Found::Check { body, end } => {
                    // A client that sees `connection: close` takes no answer after it (RFC 9112, 9.6), so only the last
                    // may carry it.
                    self.reply.is_last = self.is_ending && unread.len() == end;
                    let body = self.start + body.start..self.start + body.end;
                    // A request that is not answered here stays unread, so hyper begins with its first byte.
                    if !self.answer(body) {
                        return NextAction::HandOver;
                    }
                    self.has_announced |= self.reply.is_last;
                    self.start += end;
                }
                Found::Part => {
                    // Answered bytes are dropped only here and when all is answered, so a burst of requests is moved
                    // once.
                    self.input.drain(..self.start);
                    self.start = 0;
                    self.input.reserve(SPACE);
                    return NextAction::Partial;
                }
                Found::Other => return NextAction::HandOver,
            }
        }
    }

    /// Answers the check with this body; returns false if the body is invalid, or the request has
    /// to wait.
    fn answer(&mut self, body: std::ops::Range<usize>) -> bool {
        let Self { app, input, reply, .. } = self;
        let Ok(question) = HttpQuestion::parse(input.get(body).unwrap_or_default()) else {
            return false;
        };
        // Earlier answers of this read are before it in the same buffer.
        let before = reply.bytes.len();
        let decided = catch_unwind(AssertUnwindSafe(|| {
            // Without an answer nothing was taken, so hyper may ask the same once more.
            question.ask_now(|request| {
                app.decider.try_decide(RequestVerb::Check, request, |answer| reply.decided(answer))
            })
        }));
        // The state that it uses survives a panic anywhere in the server. A half-written answer is cut off below.
        let problem = match decided {
            Ok(None) => return false,
            Ok(Some(Ok(()))) => {
                self.answered += 1;
                return true;
            }
            Ok(Some(Err(problem))) => problem,
            Err(_) => {
                app.decider.counts.count(RequestOutcome::Error);
                RequestRefusal::panicked()
            }
        };
        reply.bytes.truncate(before);
        reply.response(problem.into_response());
        true
    }

    /// Writes the answers. A client that does not read them gets no more time than an idle one, and
    /// none if too many bytes are unread.
    async fn write(&mut self, stream: &mut Stream, account: &Arc<Account>) -> io::Result<()> {
        if self.reply.bytes.is_empty() {
            return Ok(());
        }
        let mut all = pin!(async {
            stream.write_all(&self.reply.bytes).await?;
            stream.flush().await
        });
        let written = match body::soon(all.as_mut()).await {
            Some(written) => written,
            None => match account.take(self.reply.bytes.len()) {
                // Boxed, because it is rare: the future of every connection would be larger by a timer.
                Some(_kept) => Box::pin(timeout(self.app.bounds.idle, all)).await?,
                // No problem is written, because the client reads nothing.
                None => Err(io::ErrorKind::OutOfMemory.into()),
            },
        };
        self.reply.clear();
        written
    }

    /// The bytes that are not answered.
    fn unread(&self) -> &[u8] {
        self.input.get(self.start..).unwrap_or_default()
    }

    /// Returns the unanswered bytes.
    fn into_unread(mut self) -> Bytes {
        self.input.drain(..self.start.min(self.input.len()));
        self.input.into()
    }
}

#[cfg(test)]
mod invariants;

#[cfg(test)]
mod tests;
