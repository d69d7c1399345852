//! Dispatch: finds the command, checks that the client may use it, and answers it.

use super::args::Args;
use super::reply::Reply;
use super::session::{Outcome, Session};
use super::table::{self, Command, Verb};
use super::usage::{self, wrong_number};
use super::{check, handshake, introspection, throttle};
use crate::limiters;

impl Session {
    /// Answers one command after the replies written already.
    pub(super) fn answer(&mut self, args: &Args<'_>, out: &mut Vec<u8>) -> Outcome {
        let mut reply = Reply::new(out, self.proto);
        let Some(name) = args.get(0) else { return Outcome::Answered };
        self.follow_tokens();
        let Some(command) = self.allowed(name, args, &mut reply) else {
            if let Some(transaction) = &mut self.transaction {
                transaction.abort();
            }
            return Outcome::Answered;
        };
        let transaction = self.transaction.as_mut().filter(|_| !command.verb.is_never_kept());
        if let Some(transaction) = transaction {
            transaction.keep(args, &mut reply);
            return Outcome::Answered;
        }
        self.run(command, args, &mut reply)
    }

    /// The command of this name, if the client may use it in this way; else the error is written.
    fn allowed(
        &self,
        name: &[u8],
        args: &Args<'_>,
        reply: &mut Reply<'_>,
    ) -> Option<&'static Command> {
        let Some(command) = table::find(name) else {
            self.unknown(args, reply);
            return None;
        };
        if !command.takes_words(args.len()) {
            wrong_number(command.name, reply);
            return None;
        }
        if !self.is_authenticated && !command.is_open {
            reply.error("NOAUTH Authentication required.");
            return None;
        }
        if let Some(verb) = command.verb.public().filter(|verb| !self.verbs.has(*verb)) {
            reply.error(&format!("NOPERM {}", verb.refusal(self.state.clients.verbs)));
            return None;
        }
        Some(command)
    }

    fn run(&mut self, command: &Command, args: &Args<'_>, reply: &mut Reply<'_>) -> Outcome {
        match command.verb {
            Verb::Throttle => return throttle::answer(self, args, reply),
            Verb::Check => return check::answer(self, limiters::Verb::Check, args, reply),
            Verb::Peek => return check::answer(self, limiters::Verb::Peek, args, reply),
            Verb::Reserve | Verb::Settle | Verb::Renew | Verb::Refund | Verb::ResetLimiters => {
                return Outcome::Later;
            }
            Verb::Ping => ping(args, reply),
            Verb::Echo => reply.bulk(args.word(1)),
            Verb::Hello => return handshake::hello(self, args, reply),
            Verb::Auth => return handshake::auth(self, args, reply),
            Verb::Client => handshake::client(self, args, reply),
            Verb::Select => handshake::select(args, reply),
            Verb::Reset => handshake::reset(self, reply),
            Verb::Command => introspection::command(self, args, reply),
            Verb::Info => introspection::info(&self.state, args, reply),
            Verb::Multi => self.multi(reply),
            Verb::Exec => self.exec(reply),
            Verb::Discard => self.discard(reply),
            Verb::Quit => {
                reply.ok();
                return Outcome::Ends;
            }
        }
        Outcome::Answered
    }

    fn multi(&mut self, reply: &mut Reply<'_>) {
        if self.transaction.is_some() {
            return reply.error("ERR MULTI calls can not be nested");
        }
        self.transaction = Some(Box::default());
        reply.ok();
    }

    fn exec(&mut self, reply: &mut Reply<'_>) {
        match self.transaction.take() {
            Some(transaction) => self.to_run = transaction.exec(reply),
            None => reply.error("ERR EXEC without MULTI"),
        }
    }

    fn discard(&mut self, reply: &mut Reply<'_>) {
        match self.transaction.take() {
            Some(_) => reply.ok(),
            None => reply.error("ERR DISCARD without MULTI"),
        }
    }

    /// Clients that have not authenticated do not learn the names of commands.
    fn unknown(&self, args: &Args<'_>, reply: &mut Reply<'_>) {
        match self.is_authenticated {
            true => usage::unknown(args, reply),
            false => reply.error("NOAUTH Authentication required."),
        }
    }
}

fn ping(args: &Args<'_>, reply: &mut Reply<'_>) {
    match args.len() {
        1 => reply.simple("PONG"),
        2 => reply.bulk(args.word(1)),
        _ => wrong_number("ping", reply),
    }
}
