//! A small client that asks the scripts of a Redis of its own.
#![allow(unreachable_pub, dead_code, reason = "each test uses its part")]

pub mod held;
pub mod policies;
#[path = "../../common/words.rs"]
pub mod words;

use std::cell::{Cell, RefCell};
use std::rc::Rc;

use redis::{Connection, RedisError, Value};
use testkit::store;
pub use testkit::threads::long;
use tidegate::script::{
    Call, CallResult, DecidedStep, JoinedScript, NewerValues, RedisReply, ScriptLimiter, ScriptStep,
};
use tidegate::{Rule, Timestamp};

/// A connection to a server of its own, with counts of the replies that it recovers from.
pub struct Client {
    server: Rc<store::Server>,
    connection: RefCell<Connection>,
    /// Limiters found under another rule.
    pub changed: Cell<u64>,
    /// Limiters found under values that are not older.
    pub superseded: Cell<u64>,
    /// Scripts that the server did not know.
    pub loaded: Cell<u64>,
}

/// A reply, or the error in its place.
pub type Answered = Result<RedisReply, String>;

impl Client {
    /// Starts a server that ends with its last client.
    pub fn start() -> Self {
        Self::of(Rc::new(store::Server::start(&[], &[])))
    }

    fn of(server: Rc<store::Server>) -> Self {
        let client = redis::Client::open(server.url()).expect("an address");
        let connection = RefCell::new(client.get_connection().expect("a connection"));
        let [changed, superseded, loaded] = [(); 3].map(|()| Cell::new(0));
        Self { server, connection, changed, superseded, loaded }
    }

    /// Another connection to the server.
    pub fn another(&self) -> Self {
        Self::of(Rc::clone(&self.server))
    }

    /// Runs a command.
    pub fn run(&self, words: &[&[u8]]) -> Result<Value, RedisError> {
        let mut command = redis::cmd(std::str::from_utf8(words[0]).expect("a command"));
        for word in &words[1..] {
            command.arg(*word);
        }
        command.query(&mut self.connection.borrow_mut())
    }

    pub fn int(&self, words: &[&str]) -> i64 {
        let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        match self.run(&words) {
            Ok(Value::Int(number)) => number,
            other => panic!("{other:?}"),
        }
    }

    /// Runs a script by its name, or by its text where the server does not know it, and passes on what is wrong.
    pub fn try_eval(&self, script: &JoinedScript, keys: &[Vec<u8>], args: &[Vec<u8>]) -> Answered {
        let count = keys.len().to_string();
        let send = |verb: &[u8], text: &str| {
            let words = [verb, text.as_bytes(), count.as_bytes()].into_iter();
            let words = words.chain(keys.iter().chain(args).map(Vec::as_slice));
            self.run(&words.collect::<Vec<_>>())
        };
        let answer = match send(b"EVALSHA", &script.sha1) {
            Err(error) if error.code() == Some("NOSCRIPT") => {
                self.loaded.set(self.loaded.get() + 1);
                send(b"EVAL", &script.text)
            }
            answer => answer,
        };
        answer.map(reply).map_err(|error| error.to_string())
    }

    /// The reply of a script.
    pub fn eval(&self, script: &JoinedScript, keys: &[Vec<u8>], args: &[Vec<u8>]) -> RedisReply {
        match self.try_eval(script, keys, args) {
            // It was kept in another layout, and nothing was done.
            Err(error) if error.contains("WRONGTYPE") => RedisReply::Nil,
            reported => reported.unwrap_or_else(|error| panic!("{error}")),
        }
    }

    /// The reply to a call.
    pub fn ask(&self, call: &Call) -> RedisReply {
        self.eval(&call.script, &call.keys, &call.args)
    }

    /// The decisions of a call, which finds no rule changed.
    pub fn decide(&self, call: &Call, limiters: &[ScriptLimiter<'_>]) -> DecidedStep {
        match call.answer(limiters, &self.ask(call)) {
            Ok(CallResult::Decided(decided)) => decided,
            other => panic!("{other:?}"),
        }
    }

    /// Asserts that a key expires at the first millisecond at which its limiter, which decided alone, is idle.
    pub fn expires_when_idle(&self, key: &str, decided: &DecidedStep) {
        let idle_us = decided.at.plus(decided.decisions[0].reset_after()).as_micros();
        let expires_ms = self.int(&["PEXPIRETIME", key]);
        assert_eq!(expires_ms, idle_us.div_ceil(1_000).cast_signed(), "{key}");
    }

    /// One step, amending where that is needed.
    pub fn step(
        &self,
        limiters: &[ScriptLimiter<'_>],
        step: ScriptStep,
        at: Option<Timestamp>,
    ) -> DecidedStep {
        let (mut by, mut amends) = (NewerValues::default(), false);
        for _ in 0..4 {
            let limiters = by.limiters(limiters);
            let call = Call::new(&limiters, step, at);
            let call = if amends { call.amending() } else { call };
            let answer =
                call.answer(&limiters, &self.ask(&call)).unwrap_or_else(|error| panic!("{error}"));
            amends = answer == CallResult::Changed;
            match answer {
                CallResult::Decided(decided) => return decided,
                CallResult::Changed => self.changed.set(self.changed.get() + 1),
                CallResult::Superseded(newer) => {
                    self.superseded.set(self.superseded.get() + 1);
                    by = by.and(newer);
                }
                CallResult::NoSpace(lacks) => panic!("{lacks:?}"),
                CallResult::Lost(places) => panic!("{places:?} are lost"),
            }
        }
        panic!("not amended");
    }
}

/// A limiter that a call asks for so many units.
pub fn one<'a>(
    key: &'a (impl AsRef<[u8]> + ?Sized),
    rule: &'a Rule,
    cost: u64,
) -> ScriptLimiter<'a> {
    ScriptLimiter::new(key.as_ref(), rule, cost).expect("a limit")
}

/// A reply in the terms of the scripts.
pub fn reply(value: Value) -> RedisReply {
    match value {
        Value::Nil => RedisReply::Nil,
        Value::Int(number) => RedisReply::Int(number),
        Value::BulkString(bytes) => RedisReply::Bytes(bytes),
        Value::Array(values) => RedisReply::Array(values.into_iter().map(reply).collect()),
        other => panic!("no script answers {other:?}"),
    }
}
