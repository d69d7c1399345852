//! What one connection has said of itself, and what becomes of each of its commands.

use std::sync::Arc;

use super::args::Args;
use super::limits::{Bounds, KNOWN, STRANGER};
use super::reply::{Proto, Reply};
use super::shared::Shared;
use super::table::{self, Command, Verb};
use super::throttle::Plans;
use super::{check, handshake, inform, throttle};

/// What a command leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Its reply is written.
    Answered,
    /// The same, and the connection ends.
    Ends,
    /// Nothing is written: it has to wait, for a limiter or for the store.
    Later,
}

/// One connection, as far as its commands know it.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) shared: Arc<Shared>,
    pub(super) proto: Proto,
    /// Whether it may ask.
    pub(super) is_known: bool,
    /// Wrong tokens since a right one.
    pub(super) wrong_tokens: u32,
    pub(super) number: u64,
    pub(super) name: Vec<u8>,
    pub(super) plans: Plans,
}

impl Session {
    pub(super) fn begin(shared: Arc<Shared>) -> Self {
        let (number, is_known) = (shared.begin(), shared.secret.is_none());
        let (proto, name, plans) = (Proto::default(), Vec::new(), Plans::default());
        Self { shared, proto, is_known, wrong_tokens: 0, number, name, plans }
    }

    /// Answers one command behind what is written already.
    pub(super) fn answer(&mut self, args: &Args<'_>, out: &mut Vec<u8>) -> Outcome {
        let mut reply = Reply::new(out, self.proto);
        let Some(name) = args.get(0) else { return Outcome::Answered };
        let Some(command) = table::find(name) else {
            self.unknown(args, &mut reply);
            return Outcome::Answered;
        };
        if !command.takes_words(args.len()) {
            wrong_number(command.name, &mut reply);
            return Outcome::Answered;
        }
        if !self.is_known && !command.is_open {
            reply.error("NOAUTH Authentication required.");
            return Outcome::Answered;
        }
        self.run(command, args, &mut reply)
    }

    fn run(&mut self, command: &Command, args: &Args<'_>, reply: &mut Reply<'_>) -> Outcome {
        match command.verb {
            Verb::Throttle => return throttle::answer(self, args, reply),
            Verb::Check => return check::answer(self, check::Kind::Check, args, reply),
            Verb::Peek => return check::answer(self, check::Kind::Peek, args, reply),
            Verb::Ping => ping(args, reply),
            Verb::Echo => reply.bulk(args.word(1)),
            Verb::Hello => return handshake::hello(self, args, reply),
            Verb::Auth => return handshake::auth(self, args, reply),
            Verb::Client => handshake::client(self, args, reply),
            Verb::Select => handshake::select(args, reply),
            Verb::Reset => handshake::reset(self, reply),
            Verb::Command => inform::command(&self.shared, args, reply),
            Verb::Info => inform::info(&self.shared, args, reply),
            Verb::Quit => {
                reply.ok();
                return Outcome::Ends;
            }
        }
        Outcome::Answered
    }

    /// How much it may send and leave unread.
    pub(super) const fn bounds(&self) -> &'static Bounds {
        if self.is_known { &KNOWN } else { &STRANGER }
    }

    /// Strangers are told nothing of what there is.
    fn unknown(&self, args: &Args<'_>, reply: &mut Reply<'_>) {
        match self.is_known {
            true => reply.error(&unknown(args)),
            false => reply.error("NOAUTH Authentication required."),
        }
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.shared.end();
    }
}

fn ping(args: &Args<'_>, reply: &mut Reply<'_>) {
    match args.len() {
        1 => reply.simple("PONG"),
        2 => reply.bulk(args.word(1)),
        _ => wrong_number("ping", reply),
    }
}

/// As Redis says it.
pub(super) fn wrong_number(command: &str, reply: &mut Reply<'_>) {
    reply.error(&format!("ERR wrong number of arguments for '{command}' command"));
}

/// As Redis says it, with the first words that came with the command.
fn unknown(args: &Args<'_>) -> String {
    /// Most bytes that are told of a name, and of the words behind it.
    const TOLD: usize = 128;
    let told = |word: &[u8], most: usize| {
        String::from_utf8_lossy(word.get(..most).unwrap_or(word)).into_owned()
    };
    let mut words = String::new();
    for word in args.iter().skip(1) {
        let Some(most) = TOLD.checked_sub(words.len()).filter(|most| *most > 0) else { break };
        words += &format!("'{}' ", told(word, most));
    }
    let name = told(args.word(0), TOLD);
    format!("ERR unknown command '{name}', with args beginning with: {words}")
}
