//! The subjects: Tidegate's scripts, and the floors below them.

use super::cases::{Case, State};
use crate::resp::{self, Connection};
use std::time::Duration;
use tidegate::script::{Call, CallResult, RedisReply, ScriptLimiter, ScriptStep};
use tidegate::{AlgorithmKind, Layout, Rule};

/// Counts and sets an expiry, which is the minimum for a limiter. Decides nothing.
const INCRBY_PEXPIRE: &str = "\
local units = redis.call('INCRBY', KEYS[1], ARGV[1])
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return units";

/// The log that people know: a member for each unit, by its time. Tells a verdict and no figures; the
/// time is the member too, which is unique, for no two scripts run in one microsecond.
const SORTED_SET: &str = "\
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - ARGV[2])
if redis.call('ZCARD', KEYS[1]) >= tonumber(ARGV[1]) then return 0 end
redis.call('ZADD', KEYS[1], now, now)
redis.call('PEXPIRE', KEYS[1], ARGV[3])
return 1";

/// One who is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// The verdict and all figures, by the script that the engine sends.
    Tidegate,
    /// The verdict alone, by the script that the engine sends if the caller asks for no more.
    TidegateVerdict,
    /// Verdict and figures of a log that is kept in a sorted set (`layout = "sorted_set"`).
    TidegateSortedSet,
    /// `INCR`, without any script.
    Incr,
    /// A script of `INCRBY` and `PEXPIRE`.
    IncrbyPexpire,
    /// A script of a log in a sorted set.
    SortedSet,
}

impl Subject {
    /// Those of a case.
    pub fn of(case: &Case) -> &'static [Self] {
        match case.algorithm {
            AlgorithmKind::SlidingLog => &[
                Self::Tidegate,
                Self::TidegateVerdict,
                Self::TidegateSortedSet,
                Self::Incr,
                Self::IncrbyPexpire,
                Self::SortedSet,
            ],
            _ => &[Self::Tidegate, Self::TidegateVerdict, Self::Incr, Self::IncrbyPexpire],
        }
    }

    /// With whom the others of a case are compared.
    pub fn base(case: &Case) -> Self {
        match case.algorithm {
            AlgorithmKind::SlidingLog => Self::SortedSet,
            _ => Self::IncrbyPexpire,
        }
    }

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tidegate => "tidegate",
            Self::TidegateVerdict => "tidegate, verdict",
            Self::TidegateSortedSet => "tidegate, sorted_set",
            Self::Incr => "floor INCR",
            Self::IncrbyPexpire => "floor INCRBY+PEXPIRE",
            Self::SortedSet => "floor sorted-set log",
        }
    }

    /// Returns whether the engine's own script answers.
    pub const fn is_ours(self) -> bool {
        matches!(self, Self::Tidegate | Self::TidegateVerdict | Self::TidegateSortedSet)
    }

    /// Returns whether it depends on the limit: the other floors only count.
    const fn decides(self) -> bool {
        self.is_ours() || matches!(self, Self::SortedSet)
    }

    /// Returns whether its window must fit the rate at which it is asked.
    pub fn slides(self, case: &Case) -> bool {
        self.decides() && case.state == State::Sliding
    }

    /// Returns whether a reply meets the case's expectation.
    pub fn is_expected(self, case: &Case, reply: &RedisReply) -> bool {
        !self.decides() || self.admits(reply) == (case.state != State::Full)
    }

    fn admits(self, reply: &RedisReply) -> bool {
        match (self, reply) {
            (Self::Tidegate | Self::TidegateSortedSet, reply) => match reply {
                RedisReply::Bytes(_) => true,
                RedisReply::Array(parts) => parts.first() == Some(&RedisReply::Int(0)),
                _ => false,
            },
            (Self::TidegateVerdict, reply) => matches!(reply, RedisReply::Int(0..)),
            (_, reply) => *reply != RedisReply::Int(0),
        }
    }

    /// The key of a limiter: a different key for each window, so that no rule changes under a limiter.
    pub fn key(self, case: &Case, window: Duration, number: usize) -> String {
        let case = case.name().replace(' ', ":");
        format!("{:?}:{case}:{}:{number:04}", self, window.as_micros()).to_lowercase()
    }

    /// The bytes of the command that asks the limiter of `key` for one unit. Its script is loaded first.
    ///
    /// # Errors
    /// When the case has no rule, or the server is gone.
    pub fn command(
        self,
        case: &Case,
        window: Duration,
        key: &str,
        server: &mut Connection,
    ) -> Result<Vec<u8>, String> {
        let millis = window.as_millis().max(1).to_string();
        let micros = window.as_micros().to_string();
        let limit = case.limit.to_string();
        let (script, arguments) = match self {
            Self::Incr => return Ok(resp::command(&[b"INCR", key.as_bytes()])),
            Self::IncrbyPexpire => (INCRBY_PEXPIRE, vec!["1", &millis]),
            Self::SortedSet => (SORTED_SET, vec![limit.as_str(), &micros, &millis]),
            Self::Tidegate | Self::TidegateVerdict | Self::TidegateSortedSet => {
                let (step, layout) = match self {
                    Self::TidegateVerdict => (ScriptStep::Decide, Layout::String),
                    Self::TidegateSortedSet => (ScriptStep::Ask, Layout::SortedSet),
                    _ => (ScriptStep::Ask, Layout::String),
                };
                return tidegate(key, &case.rule(window, layout)?, step, server);
            }
        };
        let sha1 = load(script, server)?;
        let words = [b"EVALSHA".as_slice(), &sha1, b"1", key.as_bytes()];
        let arguments = arguments.iter().map(|argument| argument.as_bytes());
        Ok(resp::command(&words.into_iter().chain(arguments).collect::<Vec<_>>()))
    }
}

/// The command of the engine; its answer is read once, to make sure that it is an answer.
fn tidegate(
    key: &str,
    rule: &Rule,
    step: ScriptStep,
    server: &mut Connection,
) -> Result<Vec<u8>, String> {
    let limiters: Vec<ScriptLimiter<'_>> =
        ScriptLimiter::new(key.as_bytes(), rule, 1).into_iter().collect();
    let call = Call::new(&limiters, step, None);
    load(&call.script.text, server)?;
    let head = [b"EVALSHA".as_slice(), call.script.sha1.as_bytes(), b"1"];
    let tail = call.keys.iter().chain(&call.args).map(Vec::as_slice);
    let command = resp::command(&head.into_iter().chain(tail).collect::<Vec<_>>());
    server.send(&command)?;
    match call.answer(&limiters, &server.reply()?) {
        Ok(CallResult::Decided(_)) => Ok(command),
        other => Err(format!("the script's answer is {other:?}")),
    }
}

fn load(script: &str, server: &mut Connection) -> Result<Vec<u8>, String> {
    match server.ask(&[b"SCRIPT", b"LOAD", script.as_bytes()])? {
        RedisReply::Bytes(sha1) => Ok(sha1),
        other => Err(format!("SCRIPT LOAD answered {other:?}")),
    }
}
