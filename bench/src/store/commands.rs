//! The commands that a Redis is asked by: the engine's scripts, and the floors below them.

use crate::resp::{self, Connection};
use std::time::Duration;
use tidegate::script::{Call, CallResult, Each, RedisReply, ScriptLimiter, ScriptStep};
use tidegate::{AlgorithmKind, Layout, Rule, Spec};

/// Counts and sets an expiry, which is the minimum for a limiter. Decides nothing.
const INCRBY_PEXPIRE: &str = "\
local units = redis.call('INCRBY', KEYS[1], ARGV[1])
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return units";

/// The log that people know: a member for each unit, by its time. Returns a verdict and no values; the
/// time is the member too, which is unique, because no two scripts run in one microsecond.
const SORTED_SET: &str = "\
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - ARGV[2])
if redis.call('ZCARD', KEYS[1]) >= tonumber(ARGV[1]) then return 0 end
redis.call('ZADD', KEYS[1], now, now)
redis.call('PEXPIRE', KEYS[1], ARGV[3])
return 1";

/// The work of redis-cell for a throttle, as a script: one read, the arithmetic of GCRA in whole microseconds, one write
/// with an expiry, and five numbers back.
const CELL: &str = "\
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local interval, burst = tonumber(ARGV[1]), tonumber(ARGV[2])
local tat = math.max(tonumber(redis.call('GET', KEYS[1]) or now), now)
local new = tat + interval
local over = new - now - interval * burst
if over > 0 then return {1, burst, 0, math.ceil(over / 1000000), math.ceil((tat - now) / 1000000)} end
redis.call('SET', KEYS[1], string.format('%d', new), 'PX', string.format('%d', math.ceil((new - now) / 1000)))
return {0, burst, math.floor(-over / interval), -1, math.ceil((new - now) / 1000000)}";

/// The command that is sent for a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// The verdict and all values, by the script that the engine sends; a log is in this layout.
    Engine(Layout),
    /// The verdict alone, by the script that the engine sends if the caller asks for no more.
    Verdict,
    /// The engine's script, a call for [`Each::MOST`] requests.
    Each,
    /// `INCR`, without any script.
    Incr,
    /// `EVALSHA` of a script that does nothing.
    Nothing,
    /// A script of `INCRBY` and `PEXPIRE`.
    IncrbyPexpire,
    /// A script of a log in a sorted set.
    SortedSet,
    /// A script that does the work of redis-cell.
    Cell,
}

/// The limit of each key.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limit {
    pub algorithm: AlgorithmKind,
    pub units: u64,
    pub window: Duration,
}

impl Limit {
    /// The rule; a log is kept in this layout.
    ///
    /// # Errors
    /// When no rule can be so.
    pub fn rule(&self, layout: Layout) -> Result<Rule, String> {
        let micros = u64::try_from(self.window.as_micros()).unwrap_or(u64::MAX);
        let mut spec = Spec::new(self.algorithm, self.units, Duration::from_micros(micros));
        spec.layout = Some(layout).filter(|_| self.algorithm == AlgorithmKind::SlidingLog);
        Rule::new(spec).map_err(|errors| errors.to_string())
    }
}

impl Shape {
    /// Returns whether it depends on the limit: the other floors only count.
    pub const fn decides(self) -> bool {
        !matches!(self, Self::Incr | Self::Nothing | Self::IncrbyPexpire)
    }

    /// The bytes of a command for each key, which takes one unit; of [`Shape::Each`] for each [`Each::MOST`] keys.
    /// Scripts are loaded first, and the engine's command is sent once, to make sure that its answer is a decision.
    ///
    /// # Errors
    /// When there is no such rule, or the server is gone.
    pub fn commands(
        self,
        limit: &Limit,
        keys: &[String],
        server: &mut Connection,
    ) -> Result<Vec<Vec<u8>>, String> {
        if self != Self::Each {
            return keys.iter().map(|key| self.command(limit, key, server)).collect();
        }
        let rule = limit.rule(Layout::String)?;
        let calls = keys.iter().filter_map(|key| {
            let limiter = ScriptLimiter::new(key.as_bytes(), &rule, 1)?;
            Some(Call::new(&[limiter], ScriptStep::Ask, None))
        });
        let calls: Vec<Call> = calls.collect();
        let together = calls.chunks(Each::MOST).map(|calls| {
            let Each { script, keys, args } = Each::of(&calls.iter().collect::<Vec<_>>());
            evalsha(&script.text, &keys, &args, server)
        });
        together.collect()
    }

    fn command(self, limit: &Limit, key: &str, server: &mut Connection) -> Result<Vec<u8>, String> {
        let millis = limit.window.as_millis().max(1).to_string();
        let micros = limit.window.as_micros().to_string();
        let units = limit.units.to_string();
        let (script, args) = match self {
            Self::Incr => return Ok(resp::command(&[b"INCR", key.as_bytes()])),
            Self::Nothing => return evalsha("return 1", &[], &[], server),
            Self::Engine(layout) => {
                return engine(key, &limit.rule(layout)?, ScriptStep::Ask, server);
            }
            Self::Each => {
                return engine(key, &limit.rule(Layout::String)?, ScriptStep::Ask, server);
            }
            Self::Verdict => {
                return engine(key, &limit.rule(Layout::String)?, ScriptStep::Decide, server);
            }
            Self::IncrbyPexpire => (INCRBY_PEXPIRE, vec!["1", &millis]),
            Self::SortedSet => (SORTED_SET, vec![units.as_str(), &micros, &millis]),
            Self::Cell => (CELL, vec!["1", &units]),
        };
        let args: Vec<_> = args.into_iter().map(|arg| arg.as_bytes().to_vec()).collect();
        evalsha(script, &[key.as_bytes().to_vec()], &args, server)
    }

    /// Returns whether a reply admits all that its command asked for.
    pub fn admits(self, reply: &RedisReply) -> bool {
        match (self, reply) {
            (Self::Incr | Self::Nothing | Self::IncrbyPexpire, _) => {
                matches!(reply, RedisReply::Int(_))
            }
            (Self::Each, RedisReply::Array(replies)) => {
                let is_admitted = |reply| Self::Engine(Layout::String).admits(reply);
                replies.len() == Each::MOST && replies.iter().all(is_admitted)
            }
            (Self::Engine(_) | Self::Cell, RedisReply::Array(parts)) => {
                parts.first() == Some(&RedisReply::Int(0))
            }
            (Self::Engine(_), RedisReply::Bytes(_)) => true,
            (Self::Verdict, _) => matches!(reply, RedisReply::Int(0..)),
            (Self::SortedSet, _) => *reply != RedisReply::Int(0),
            _ => false,
        }
    }
}

/// The command of the engine.
fn engine(
    key: &str,
    rule: &Rule,
    step: ScriptStep,
    server: &mut Connection,
) -> Result<Vec<u8>, String> {
    let limiters: Vec<ScriptLimiter<'_>> =
        ScriptLimiter::new(key.as_bytes(), rule, 1).into_iter().collect();
    let call = Call::new(&limiters, step, None);
    let command = evalsha(&call.script.text, &call.keys, &call.args, server)?;
    server.send(&command)?;
    match call.answer(&limiters, &server.reply()?) {
        Ok(CallResult::Decided(_)) => Ok(command),
        other => Err(format!("the script's answer is {other:?}")),
    }
}

fn evalsha(
    script: &str,
    keys: &[Vec<u8>],
    args: &[Vec<u8>],
    server: &mut Connection,
) -> Result<Vec<u8>, String> {
    let RedisReply::Bytes(sha1) = server.ask(&[b"SCRIPT", b"LOAD", script.as_bytes()])? else {
        return Err("SCRIPT LOAD was not answered by a digest".to_owned());
    };
    let count = keys.len().to_string();
    let words = [b"EVALSHA".as_slice(), &sha1, count.as_bytes()];
    let words = words.into_iter().chain(keys.iter().chain(args).map(Vec::as_slice));
    Ok(resp::command(&words.collect::<Vec<_>>()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_refusal_admits_nothing() {
        let refused = RedisReply::Array(vec![RedisReply::Int(1), RedisReply::Int(7)]);
        let engine = Shape::Engine(Layout::String);
        assert!(!engine.admits(&refused) && !Shape::Cell.admits(&refused));
        assert!(engine.admits(&RedisReply::Bytes(b"0".to_vec())));
        let mut replies = vec![RedisReply::Bytes(b"0".to_vec()); Each::MOST];
        assert!(Shape::Each.admits(&RedisReply::Array(replies.clone())));
        replies[7] = refused;
        assert!(!Shape::Each.admits(&RedisReply::Array(replies)));
        assert!(!Shape::Verdict.admits(&RedisReply::Int(-3)));
        assert!(!Shape::SortedSet.admits(&RedisReply::Int(0)));
        assert!(Shape::Incr.admits(&RedisReply::Int(0)) && !Shape::Incr.admits(&RedisReply::Nil));
    }
}
