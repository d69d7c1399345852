//! A Redis of the test's own, and a small client that asks the scripts.
#![allow(unreachable_pub, dead_code, reason = "each test uses its part")]

pub mod held;
pub mod policies;
#[path = "../../common/words.rs"]
mod words;

use std::cell::{Cell, RefCell};

use redis::{Connection, RedisError, Value};
use testkit::store;
use tidegate::Timestamp;
use tidegate::script::{
    Call, CallResult, DecidedStep, JoinedScript, NewerValues, RedisReply, ScriptLimiter, ScriptStep,
};

/// A server that ends with the test.
pub struct Server(store::Server);

impl Server {
    pub fn start() -> Self {
        Self::start_with(&[])
    }

    /// Starts a server with more arguments.
    pub fn start_with(arguments: &[&str]) -> Self {
        Self(store::Server::start(&[], arguments))
    }

    pub fn client(&self) -> Client {
        let client = redis::Client::open(self.0.url()).expect("an address");
        let connection = client.get_connection().expect("a connection");
        let [changed, superseded, loaded] = [(); 3].map(|()| Cell::new(0));
        Client { connection: RefCell::new(connection), changed, superseded, loaded }
    }
}

/// A connection, with counts of the replies that it recovers from.
pub struct Client {
    connection: RefCell<Connection>,
    /// Limiters found under another rule.
    pub changed: Cell<u64>,
    /// Limiters found under values that are not older.
    pub superseded: Cell<u64>,
    /// Scripts that the server did not know.
    pub loaded: Cell<u64>,
}

impl Client {
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

    /// Runs a script by its name; by its text where the server does not know it.
    pub fn eval(&self, script: &JoinedScript, keys: &[Vec<u8>], args: &[Vec<u8>]) -> RedisReply {
        let count = keys.len().to_string();
        let words = |verb: &'static [u8], text: &str| {
            let mut words =
                vec![verb.to_vec(), text.as_bytes().to_vec(), count.clone().into_bytes()];
            words.extend_from_slice(keys);
            words.extend_from_slice(args);
            words
        };
        let send = |words: Vec<Vec<u8>>| {
            let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
            self.run(&words)
        };
        let answer = match send(words(b"EVALSHA", &script.sha1)) {
            Err(error) if error.code() == Some("NOSCRIPT") => {
                self.loaded.set(self.loaded.get() + 1);
                send(words(b"EVAL", &script.text))
            }
            other => other,
        };
        match answer {
            // It was kept in another layout, and nothing was done.
            Err(error) if error.to_string().contains("WRONGTYPE") => RedisReply::Nil,
            reported => reply(reported.unwrap_or_else(|error| panic!("{error}"))),
        }
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
            let reply = self.eval(&call.script, &call.keys, &call.args);
            let answer = call.answer(&limiters, &reply).unwrap_or_else(|error| panic!("{error}"));
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

fn failed(script: &JoinedScript, error: RedisError) -> ! {
    panic!("{error}\n{}", script.text);
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

/// Returns whether many cases are asked for.
pub fn long() -> bool {
    std::env::var_os("TIDEGATE_LONG").is_some()
}
