//! Checks that come whole and wait for nothing, answered where they are read.
//!
//! hyper is ready for whatever may come, and that costs several times what a decision does. Nearly all that
//! comes is one kind of request: `POST /v1/check` over HTTP/1.1, in one piece. It is answered here, as hyper
//! would have it answered. With the first request that is anything else, or of which a part is missing, the
//! connection goes over to hyper for good, with all that was read and not answered: nothing is refused here,
//! and nothing here waits for a limiter.

mod date;
mod head;
#[cfg(test)]
mod invariants;
mod reply;
#[cfg(test)]
mod tests;

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;

use hyper::body::Bytes;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

use super::problem::Problem;
use super::question::Question;
use super::{App, body};
use crate::listener::{Account, Patience, Remainder, Secret, Seen, Shell, Stream};
use date::Date;
use head::Came;
use reply::Reply;

/// Bytes that are read at once.
const ROOM: usize = 4 << 10;
/// Bytes of answers after which they are written, and others have a turn.
const TURN_BYTES: usize = 64 << 10;

/// Answers checks of one connection.
pub(super) struct FastPath {
    app: Arc<App>,
    secret: Option<Secret>,
    input: Vec<u8>,
    /// How much of it is answered.
    start: usize,
    reply: Reply,
    date: Date,
    /// Whether nothing is read any more, so that the last answer says that it is.
    is_ending: bool,
}

/// What is to be done once all that could be answered is.
enum Next {
    Read,
    /// More is there, but it is the turn of others.
    Yield,
    /// A request has begun to come.
    ReadOn,
    HandOver,
}

impl FastPath {
    /// Where decisions wait for nothing, and nobody wants a line of each in the log.
    pub(super) fn of(app: &Arc<App>, secret: Option<&Secret>) -> Option<Self> {
        let here = app.limiters.shared().is_none();
        (here && !tracing::enabled!(tracing::Level::DEBUG)).then(|| Self {
            app: Arc::clone(app),
            secret: secret.cloned(),
            input: Vec::new(),
            start: 0,
            reply: Reply::default(),
            date: Date::default(),
            is_ending: false,
        })
    }

    /// Serves a connection as long as it brings such checks; what it has brought else, for hyper. Nothing
    /// where it has ended, was idle, or is asked to leave between two requests.
    ///
    /// # Errors
    /// The connection broke off.
    pub(super) async fn serve(
        mut self,
        stream: &mut Stream,
        Shell { limits, account, stop }: &mut Shell,
    ) -> io::Result<Option<Bytes>> {
        // Once the process drains.
        let mut remainder = None;
        let mut patience = Patience::of(*limits);
        let stops = stop.clone();
        let mut draining = pin!(stop.draining());
        let mut came = false;
        loop {
            if remainder.is_none() && stops.is_draining() {
                remainder = Some(Remainder::of(stream));
            }
            self.is_ending = remainder.as_ref().is_some_and(Remainder::is_empty);
            let next = self.answer_all();
            came |= !self.reply.bytes.is_empty();
            self.write(stream, account).await?;
            match next {
                Next::HandOver => return Ok(Some(self.rest())),
                Next::Yield => tokio::task::yield_now().await,
                // Where the rest is not there already, it is not known when it comes.
                Next::ReadOn => match body::soon(pin!(stream.read_buf(&mut self.input))).await {
                    Some(Ok(1..)) => {}
                    _ => return Ok(Some(self.rest())),
                },
                Next::Read if self.is_ending => break,
                Next::Read if let Some(remainder) = &mut remainder => {
                    let mut room = [0; ROOM];
                    let read = remainder.read(stream, &mut room).await?;
                    self.input.extend_from_slice(room.get(..read).unwrap_or_default());
                }
                Next::Read => tokio::select! {
                    biased;
                    read = stream.read_buf(&mut self.input) => if read? == 0 { break },
                    () = draining.as_mut() => {}
                    () = patience.look() => {
                        let is_used = std::mem::take(&mut came);
                        if patience.ends(Seen { is_used, ..Seen::default() }).is_some() {
                            break;
                        }
                    }
                },
            }
        }
        stream.shutdown().await.map(|()| None)
    }

    /// Answers what has come, request by request.
    fn answer_all(&mut self) -> Next {
        loop {
            let unread = self.unread();
            if unread.is_empty() {
                self.input.clear();
                self.start = 0;
                self.input.reserve(ROOM);
                return Next::Read;
            }
            if self.reply.bytes.len() >= TURN_BYTES {
                return Next::Yield;
            }
            match head::look(unread, self.secret.as_ref()) {
                Came::Whole { body, end } => {
                    self.reply.is_last = self.is_ending && unread.len() == end;
                    let body = self.start + body.start..self.start + body.end;
                    if !self.answer(body) {
                        return Next::HandOver;
                    }
                    self.start += end;
                }
                Came::Part => {
                    self.input.drain(..self.start);
                    self.start = 0;
                    self.input.reserve(ROOM);
                    return Next::ReadOn;
                }
                Came::Other => return Next::HandOver,
            }
        }
    }

    /// Answers the check of a body; false where it is none, or has to wait.
    fn answer(&mut self, body: std::ops::Range<usize>) -> bool {
        let Self { app, input, reply, date, .. } = self;
        let Ok(question) = Question::parse(input.get(body).unwrap_or_default()) else {
            return false;
        };
        let before = reply.bytes.len();
        let decided = catch_unwind(AssertUnwindSafe(|| {
            question.ask_at_once(|request| {
                let answer = app.limiters.check_at_once(request)?;
                Some(reply.decided(&answer, date.at(answer.at())))
            })
        }));
        // What it stands on outlives a panic anywhere in the server.
        let problem = match decided {
            Ok(None) => return false,
            Ok(Some(Ok(()))) => return true,
            Ok(Some(Err(problem))) => problem,
            Err(_) => Problem::panicked(),
        };
        reply.bytes.truncate(before);
        reply.response(problem.into_response(), date);
        true
    }

    /// Writes the answers; a client that does not read them is not waited for longer than an idle one, and not at
    /// all where too much is unread already.
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
                Some(_kept) => Box::pin(timeout(self.app.limits.idle, all)).await?,
                None => Err(io::ErrorKind::OutOfMemory.into()),
            },
        };
        self.reply.rest();
        written
    }

    /// What is not answered.
    fn unread(&self) -> &[u8] {
        self.input.get(self.start..).unwrap_or_default()
    }

    /// The same, to be handed over.
    fn rest(mut self) -> Bytes {
        self.input.drain(..self.start.min(self.input.len()));
        self.input.into()
    }
}
