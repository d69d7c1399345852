//! Dispatch: finds the command of a client in the table, checks that the client may use it, and answers it.
//! `connection.rs` calls [`Session::answer`] for each command.

use super::args::Args;
use super::reply::RespReply;
use super::session::{CommandOutcome, Session};
use super::table::{self, Command, CommandVerb, Subcommand};
use super::usage::{self, wrong_number};
use super::{check, cluster, handshake, introspection, throttle};
use crate::limiters;

impl Session {
    /// Answers one command after the replies written already.
    pub(super) fn answer(&mut self, args: &Args<'_>, out: &mut Vec<u8>) -> CommandOutcome {
        let mut reply = RespReply::new(out, self.proto);
        let Some(name) = args.get(0) else { return CommandOutcome::Answered };
        // For each command, so that the removal of a token has its effect at once.
        self.follow_tokens();
        let Some(command) = self.allowed(name, args, &mut reply) else {
            if let Some(transaction) = &mut self.transaction {
                // As in Redis, one wrong command makes EXEC refuse all.
                transaction.abort();
            }
            return CommandOutcome::Answered;
        };
        let transaction = self.transaction.as_mut().filter(|_| !command.verb.is_never_kept());
        if let Some(transaction) = transaction {
            transaction.keep(args, &mut reply);
            return CommandOutcome::Answered;
        }
        self.run(command, args, &mut reply)
    }

    /// The command of this name, if the client may use it in this way; else the error is written.
    fn allowed(
        &self,
        name: &[u8],
        args: &Args<'_>,
        reply: &mut RespReply<'_>,
    ) -> Option<&'static Command> {
        let Some(command) = table::find(name) else {
            self.unknown(args, reply);
            return None;
        };
        // In the order of Redis: a wrong number of words comes before a missing token.
        if !command.takes_words(args.len()) {
            wrong_number(command.name, reply);
            return None;
        }
        if !self.is_authenticated && !command.is_open {
            reply.error("NOAUTH Authentication required.");
            return None;
        }
        if let Some(verb) = command.verb.public().filter(|verb| !self.verbs.has(*verb)) {
            reply.refuse(&verb.refusal(self.state.clients.verbs));
            return None;
        }
        is_subcommand_right(command, args, reply).then_some(command)
    }

    /// Runs a command that the client may use.
    fn run(
        &mut self,
        command: &Command,
        args: &Args<'_>,
        reply: &mut RespReply<'_>,
    ) -> CommandOutcome {
        // CLIENT CACHING is about one command, and Redis counts neither CLIENT nor the frame of a transaction.
        if let Some(tracking) = &mut self.tracking
            && !matches!(command.verb, CommandVerb::Client | CommandVerb::Multi | CommandVerb::Exec)
        {
            tracking.is_caching = false;
        }
        match command.verb {
            CommandVerb::Throttle => return throttle::answer(self, args, reply),
            CommandVerb::Check => {
                return check::answer(self, limiters::RequestVerb::Check, args, reply);
            }
            CommandVerb::Peek => {
                return check::answer(self, limiters::RequestVerb::Peek, args, reply);
            }
            CommandVerb::Reserve
            | CommandVerb::Settle
            | CommandVerb::Renew
            | CommandVerb::Refund
            | CommandVerb::ResetLimiters => {
                // Their limiters answer by a future, also in memory, so they always wait.
                return CommandOutcome::Later;
            }
            CommandVerb::Ping => ping(args, reply),
            CommandVerb::Echo => reply.bulk(args.word(1)),
            CommandVerb::Hello => return handshake::hello(self, args, reply),
            CommandVerb::Auth => return handshake::auth(self, args, reply),
            CommandVerb::Client => handshake::client(self, command, args, reply),
            CommandVerb::Cluster => cluster::cluster(self, command, args, reply),
            CommandVerb::Select => handshake::select(args, reply),
            CommandVerb::Reset => handshake::reset(self, reply),
            CommandVerb::Command => introspection::command(self, command, args, reply),
            CommandVerb::Info => introspection::info(&self.state, args, reply),
            CommandVerb::Multi => self.multi(reply),
            CommandVerb::Exec => self.exec(reply),
            CommandVerb::Discard => self.discard(reply),
            CommandVerb::Quit => {
                reply.ok();
                return CommandOutcome::Ends;
            }
        }
        CommandOutcome::Answered
    }

    fn multi(&mut self, reply: &mut RespReply<'_>) {
        if self.transaction.is_some() {
            return reply.error("ERR MULTI calls can not be nested");
        }
        self.transaction = Some(Box::default());
        reply.ok();
    }

    fn exec(&mut self, reply: &mut RespReply<'_>) {
        match self.transaction.take() {
            Some(transaction) => self.to_run = transaction.exec(reply),
            None => reply.error("ERR EXEC without MULTI"),
        }
    }

    fn discard(&mut self, reply: &mut RespReply<'_>) {
        match self.transaction.take() {
            Some(_) => reply.ok(),
            None => reply.error("ERR DISCARD without MULTI"),
        }
    }

    /// A client that has not authenticated learns no names of commands here. A wrong number of words shows that a command exists.
    fn unknown(&self, args: &Args<'_>, reply: &mut RespReply<'_>) {
        if self.is_authenticated {
            usage::unknown(args, reply);
        } else {
            reply.error("NOAUTH Authentication required.");
        }
    }
}

/// Returns whether the second word is one of the command's subcommands, with as many words as it takes; else the error is
/// written.
fn is_subcommand_right(command: &Command, args: &Args<'_>, reply: &mut RespReply<'_>) -> bool {
    // COMMAND may stand alone.
    if command.subcommands().is_empty() || args.len() == 1 {
        return true;
    }
    let word = args.word(1);
    match command.subcommand(word) {
        None => usage::unknown_subcommand(&command.name.to_ascii_uppercase(), word, reply),
        Some(subcommand) if subcommand.takes_words(args.len()) => return true,
        Some(Subcommand { name, .. }) => wrong_number(&format!("{}|{name}", command.name), reply),
    }
    false
}

fn ping(args: &Args<'_>, reply: &mut RespReply<'_>) {
    match args.len() {
        1 => reply.simple("PONG"),
        2 => reply.bulk(args.word(1)),
        _ => wrong_number("ping", reply),
    }
}
