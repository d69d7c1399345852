//! One connection of a Redis client: reads, answers all commands read, writes; ends when its client leaves, stalls,
//! or idles. [`RespService`](super::RespService) starts it for each connection.
//!
//! One turn answers all commands that have arrived ([`NextStep`] says why it stops), and then waits for replies of a store,
//! lets other connections go first, or moves bytes in both directions.

use std::future::poll_fn;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;

use futures_util::future::join_all;
use tokio::io::AsyncWrite;
use tokio::task::yield_now;
use tokio::time::{Instant, sleep, timeout};

use super::bounds::{AT_ONCE, TURN_BYTES, TURN_COMMANDS};
use super::parse::Parser;
use super::pending_reply::{self, PendingReply};
use super::reply::RespReply;
use super::session::{CommandOutcome, Session};
use super::table::CommandVerb;
use super::wire::Wire;
use crate::listener::{Arrives, Bounds, ConnectionCheck, ConnectionPatience, Remainder, Shell};
use crate::stop::Stop;

/// Serves a connection to its end.
pub(super) async fn serve<S>(stream: S, session: Session, shell: Shell)
where
    S: Arrives + AsyncWrite + Unpin,
{
    let mut connection = Connection::new(stream, session, &shell);
    if let Err(error) = connection.run(shell.stop).await {
        // A broken connection concerns only its client.
        tracing::debug!(%error, "a connection broke off");
    }
}

/// The next step after all commands that could be answered.
enum NextStep {
    Read,
    /// More commands may be there, but other connections come first.
    Yield,
    /// Too many replies are unread: some must be written before more commands are answered.
    Write,
    /// Commands wait; the connection ends after their replies, or goes on.
    Wait {
        later: Vec<PendingReply>,
        ends: bool,
    },
    End,
}

/// A connection, with the parts that read, parse, run and write its commands.
struct Connection<S> {
    wire: Wire<S>,
    parser: Parser,
    session: Session,
    bounds: Bounds,
    /// Commands so far, also those without a word: line ends alone.
    commands: u64,
    /// Commands that use the connection, and those at the last check.
    used: u64,
    seen_used: u64,
}

impl<S: Arrives + AsyncWrite + Unpin> Connection<S> {
    fn new(stream: S, session: Session, shell: &Shell) -> Self {
        Self {
            wire: Wire::new(stream, shell.account.none()),
            parser: Parser::new(),
            session,
            bounds: shell.bounds,
            commands: 0,
            used: 0,
            seen_used: 0,
        }
    }

    /// Answers, writes and reads in turn, until the connection ends.
    async fn run(&mut self, mut stop: Stop) -> io::Result<()> {
        let stalled = self.bounds.stalled;
        let mut patience = ConnectionPatience::of(self.bounds);
        let mut draining = pin!(stop.draining());
        // Set once the process drains.
        let mut remainder = None;
        loop {
            let next = self.answer_all();
            let holds_commands = matches!(next, NextStep::Write);
            match next {
                NextStep::Wait { later, ends } => {
                    self.wait(later).await?;
                    if ends {
                        return self.end().await;
                    }
                    continue;
                }
                NextStep::Yield => {
                    // Replies of this turn leave before other connections have theirs.
                    self.wire.write_some().await?;
                    yield_now().await;
                    continue;
                }
                NextStep::End => return self.end().await,
                // Bytes of a command in part are dropped: the client has closed its side and cannot end it.
                NextStep::Read if self.wire.has_ended => return self.wire.flush(stalled).await,
                NextStep::Read if let Some(remainder) = &mut remainder => {
                    self.wire.write_some().await?;
                    if self.wire.read_remainder(remainder).await? == 0 {
                        return self.wire.flush(stalled).await;
                    }
                    continue;
                }
                NextStep::Read | NextStep::Write => {}
            }
            tokio::select! {
                // Bytes come first, so that a drain and a check see what has been done about them.
                biased;
                moved = poll_fn(|cx| self.wire.poll(cx, holds_commands)) => moved?,
                () = draining.as_mut(), if remainder.is_none() => remainder = Some(Remainder::of(&self.wire.stream, self.bounds)),
                () = patience.look() => if patience.ends(self.look()).is_some() {
                    return Ok(());
                },
            }
        }
    }

    /// Answers the commands that have arrived, one by one, until something else has to happen
    /// first.
    fn answer_all(&mut self) -> NextStep {
        // The clock is read once for all commands that are answered together.
        let read = self.session.state.decider.counts.now();
        let decided = self.session.decided;
        let commands = self.commands;
        let bytes = self.wire.output.bytes.len();
        let mut later = Vec::new();
        let next = loop {
            // Asked before each command, because every reply counts and the space depends on other connections as
            // well.
            if self.wire.output.has(self.wire.output.most()) {
                break NextStep::Write;
            }
            if self.commands - commands >= TURN_COMMANDS
                || self.wire.output.bytes.len() - bytes >= TURN_BYTES
            {
                break NextStep::Yield;
            }
            match self.answer_one(&mut later) {
                Some(CommandOutcome::Answered) => {}
                Some(CommandOutcome::Ends) => break NextStep::End,
                Some(CommandOutcome::Later) if self.goes_on(&later) => {}
                None | Some(CommandOutcome::Later) => break NextStep::Read,
            }
        };
        self.wire.output.count();
        self.session.state.decider.counts.took(read, self.session.decided - decided);
        match next {
            // Commands without an answer yet are read again after the waiting replies.
            next if !later.is_empty() => {
                NextStep::Wait { later, ends: matches!(next, NextStep::End) }
            }
            next => next,
        }
    }

    /// Returns whether further commands are read while others wait: the store answers many at a time, while limiters in
    /// process are asked in order. A refund is waited for if the denial memory could refuse the commands after it.
    fn goes_on(&self, waiting: &[PendingReply]) -> bool {
        let Some(gate) = self.session.state.decider.limiters.shared() else { return false };
        let is_awaited = match waiting.last().and_then(PendingReply::verb) {
            Some(CommandVerb::ResetLimiters) => true,
            Some(CommandVerb::Refund | CommandVerb::Settle) => {
                gate.store().settings().denial_memory
            }
            _ => false,
        };
        waiting.len() < AT_ONCE && !is_awaited
    }

    /// Answers one command; `None` if no command is complete.
    fn answer_one(&mut self, later: &mut Vec<PendingReply>) -> Option<CommandOutcome> {
        let Self { wire, parser, session, commands, used, .. } = self;
        // The command before may have authenticated the client, which then has other bounds.
        let bounds = session.bounds();
        parser.bounds = bounds;
        wire.input.bounds = bounds;
        wire.output.bounds = bounds;
        let out = &mut wire.output.bytes;
        let bytes = match parser.parse(wire.input.unread()) {
            Ok(bytes) => bytes?,
            // It is read again, and answered, after the commands that wait.
            Err(_) if !later.is_empty() => return None,
            Err(mistake) => {
                RespReply::new(out, session.proto).error(&mistake.message());
                return Some(CommandOutcome::Ends);
            }
        };
        let start = out.len();
        let proto = session.proto;
        let args = parser.args(wire.input.unread());
        let is_used = args.get(0).is_some();
        let answered = catch_unwind(AssertUnwindSafe(|| session.answer(&args, out)));
        let outcome = answered.unwrap_or_else(|_| {
            // A reply in part would be read as the beginning of the next.
            out.truncate(start);
            pending_reply::internal(&mut RespReply::new(out, proto));
            CommandOutcome::Answered
        });
        match outcome {
            CommandOutcome::Later => later.push(PendingReply::asked(session, args)),
            CommandOutcome::Answered | CommandOutcome::Ends if later.is_empty() => {}
            // Replies keep the order of the commands, so this reply waits with those before it.
            CommandOutcome::Answered | CommandOutcome::Ends => {
                later.push(PendingReply::Known(out.split_off(start)))
            }
        }
        *commands += 1;
        *used += u64::from(is_used);
        wire.input.consume(bytes);
        // The commands of a transaction run next, as if the client had sent them after EXEC.
        if !session.to_run.is_empty() {
            wire.input.put_before(&std::mem::take(&mut session.to_run));
        }
        Some(outcome)
    }

    /// Waits for replies, and writes those before them; ends if the client is gone. A client that
    /// has sent everything may be gone unnoticed, so its replies are waited for only as long as an
    /// idle connection is kept.
    async fn wait(&mut self, later: Vec<PendingReply>) -> io::Result<()> {
        let Bounds { half_closed, idle, .. } = self.bounds;
        let mut unseen = pin!(sleep(idle));
        let mut replies = pin!(join_all(later.into_iter().map(PendingReply::reply)));
        let mut grace = pin!(sleep(half_closed));
        let mut had_ended = false;
        let mut was_full = false;
        loop {
            // Both times begin when their cause is seen, however long the replies have been waited for. With a full input the
            // end of the client cannot be seen.
            if self.wire.has_ended && !had_ended {
                had_ended = true;
                grace.as_mut().reset(Instant::now() + half_closed);
            }
            if self.wire.input.is_full() && !was_full {
                was_full = true;
                unseen.as_mut().reset(Instant::now() + idle);
            }
            tokio::select! {
                // Replies that are ready are not lost because the time is over as well.
                biased;
                replies = replies.as_mut() => {
                    for reply in &replies {
                        self.wire.output.bytes.extend_from_slice(reply);
                    }
                    self.wire.output.count();
                    return Ok(());
                }
                moved = poll_fn(|cx| self.wire.poll(cx, false)) => moved?,
                () = grace.as_mut(), if had_ended => return Err(io::ErrorKind::ConnectionAborted.into()),
                () = unseen.as_mut(), if was_full => return Err(io::ErrorKind::TimedOut.into()),
            }
        }
    }

    /// The state of the connection at one check. Frees memory if nothing happens.
    fn look(&mut self) -> ConnectionCheck {
        self.wire.input.shrink();
        self.wire.output.shrink();
        let unread = (!self.wire.output.is_empty()).then_some(self.wire.written);
        // While replies are unread, whole commands may wait in the input, which the client need not end.
        let is_amid = unread.is_none() && !self.wire.input.unread().is_empty();
        let unended = if self.session.is_authenticated {
            is_amid.then_some(self.commands)
        } else {
            // Authenticating must not take longer than a command.
            Some(u64::MAX)
        };
        let is_used = std::mem::replace(&mut self.seen_used, self.used) != self.used;
        ConnectionCheck { is_used, unended, unread }
    }

    /// Ends the connection from the server's side in such a way that bytes on their way to it do
    /// not destroy the last reply.
    async fn end(&mut self) -> io::Result<()> {
        let bounds = self.bounds;
        self.wire.flush(bounds.stalled).await?;
        // A socket that is closed with unread input sends a reset, at which the client's system drops what it has not
        // read.
        let _ = timeout(bounds.half_closed, self.wire.discard()).await;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resp::testing;
    use tokio::io::AsyncWriteExt;

    /// The number of commands and bytes of replies in each turn, until all of the input is
    /// answered.
    fn turns(sent: &[u8]) -> Vec<(u64, usize)> {
        let (_client, server) = tokio::io::duplex(1);
        let mut connection = Connection::new(
            server,
            testing::session(testing::open()),
            &testing::shell(Bounds::default()).0,
        );
        let mut turns = Vec::new();
        let mut rest = sent;
        loop {
            let space = connection.wire.input.space();
            let taken = space.len().min(rest.len());
            space[..taken].copy_from_slice(&rest[..taken]);
            connection.wire.input.filled(taken);
            rest = &rest[taken..];
            if rest.is_empty() {
                break;
            }
        }
        loop {
            let before = (connection.commands, connection.wire.output.bytes.len());
            let next = connection.answer_all();
            let after = (connection.commands, connection.wire.output.bytes.len());
            turns.push((after.0 - before.0, after.1 - before.1));
            match next {
                NextStep::Yield => {}
                NextStep::Read => return turns,
                _ => unreachable!("all is answered in turns"),
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn line_ends_alone_keep_no_connection() {
        for sent in ["\r\n", "\n", "*0\r\n"] {
            let (mut client, server) = tokio::io::duplex(64);
            let (shell, _stop) = testing::shell(Bounds::default());
            tokio::spawn(serve(server, testing::session(testing::open()), shell));
            let mut times = 0;
            while client.write_all(sent.as_bytes()).await.is_ok() {
                times += 1;
                assert!(times < 200, "{sent:?} keeps it");
                sleep(std::time::Duration::from_secs(1)).await;
            }
        }
    }

    #[test]
    fn a_deep_pipeline_gives_others_a_turn() {
        let pings = turns(&b"PING\r\n".repeat(2_500));
        assert_eq!(pings, [(1_000, 7_000), (1_000, 7_000), (500, 3_500)]);
        let docs = turns(&b"COMMAND DOCS\r\n".repeat(100));
        let answered: u64 = docs.iter().map(|(commands, _)| commands).sum();
        assert!(docs.len() > 2 && answered == 100, "{docs:?}");
        assert!(docs.iter().all(|(_, bytes)| *bytes < TURN_BYTES + (16 << 10)), "{docs:?}");
    }
}
