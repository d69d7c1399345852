//! Commands in a pipeline on one connection: the floors, and the engine's scripts alone and together.

use super::{Sample, Subject};
use crate::clock::process_cpu;
use crate::redis_server::RedisServer;
use crate::resp::{self, Connection};
use std::time::{Duration, Instant};
use tidegate::script::{Call, Each, RedisReply, ScriptLimiter, ScriptStep};
use tidegate::{AlgorithmKind, Rule, Spec};

/// Decisions on their way at once.
const DEPTH: usize = Each::MOST;
/// The number of keys.
const KEYS: usize = 32_000;

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

/// The command that is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    Incr,
    /// `EVALSHA` of a script that does nothing.
    Nothing,
    /// A script that does what redis-cell does.
    Cell,
    /// The engine's script, a call for each request.
    Alone,
    /// The engine's script, a call for many requests.
    Each,
}

/// A server of its own, and the pipelines that it is sent in turn.
pub struct Raw {
    shape: Shape,
    server: RedisServer,
    connection: Connection,
    pipelines: Vec<Vec<u8>>,
    at: usize,
}

impl Raw {
    /// Starts a server, and makes the pipelines.
    ///
    /// # Errors
    /// When redis-server is missing, or refuses a script.
    pub fn begin(shape: Shape) -> Result<Self, String> {
        let server = RedisServer::start()?;
        let mut connection = server.connect()?;
        let rule = Spec::new(AlgorithmKind::TokenBucket, 1_000_000, Duration::from_secs(1));
        let rule = Rule::new(rule).map_err(|errors| errors.to_string())?;
        let keys: Vec<_> = (0..KEYS).map(|number| format!("scale:user:{number:06}")).collect();
        let pipeline = |keys: &[String]| shape.pipeline(keys, &rule, &mut connection);
        let pipelines = keys.chunks(DEPTH).map(pipeline).collect::<Result<_, _>>()?;
        Ok(Self { shape, server, connection, pipelines, at: 0 })
    }
}

impl Subject for Raw {
    fn sample(&mut self, length: Duration) -> Result<Sample, String> {
        let replies = if self.shape == Shape::Each { 1 } else { DEPTH };
        let (mut asked, mut us) = (0_u64, Vec::new());
        let (before, cpu_before, begun) = (self.server.did()?, process_cpu(), Instant::now());
        while begun.elapsed() < length {
            let sent = Instant::now();
            self.connection.send(&self.pipelines[self.at])?;
            self.at = (self.at + 1) % self.pipelines.len();
            for _ in 0..replies {
                self.shape.check(&self.connection.reply()?)?;
            }
            us.push(u32::try_from(sent.elapsed().as_micros()).unwrap_or(u32::MAX));
            asked += DEPTH as u64;
        }
        let (wall, cpu) = (begun.elapsed(), process_cpu().saturating_sub(cpu_before));
        let did = self.server.did()?.since(before);
        let sample = Sample::of(asked, wall, cpu, did, &mut us);
        Ok(Sample { round_trips: replies as f64 / DEPTH as f64, ..sample })
    }
}

impl Shape {
    fn pipeline(
        self,
        keys: &[String],
        rule: &Rule,
        connection: &mut Connection,
    ) -> Result<Vec<u8>, String> {
        let limiter = |key: &'_ String| {
            let limiter = ScriptLimiter::new(key.as_bytes(), rule, 1);
            limiter.map(|limiter| Call::new(&[limiter], ScriptStep::Ask, None))
        };
        let calls: Vec<Call> = keys.iter().filter_map(limiter).collect();
        if self == Self::Each {
            let Each { script, keys, args } = Each::of(&calls.iter().collect::<Vec<_>>());
            return evalsha(&script.text, &keys, &args, connection);
        }
        let each = keys.iter().zip(&calls).map(|(key, call)| {
            let key = [key.as_bytes().to_vec()];
            match self {
                Self::Incr => Ok(resp::command(&[b"INCR", &key[0]])),
                Self::Nothing => evalsha("return 1", &[], &[], connection),
                Self::Cell => {
                    evalsha(CELL, &key, &[b"1".to_vec(), b"1000000".to_vec()], connection)
                }
                Self::Alone | Self::Each => {
                    evalsha(&call.script.text, &call.keys, &call.args, connection)
                }
            }
        });
        Ok(each.collect::<Result<Vec<_>, _>>()?.concat())
    }

    /// Returns whether all requests were admitted.
    fn check(self, reply: &RedisReply) -> Result<(), String> {
        let admits = |reply: &RedisReply| match reply {
            RedisReply::Bytes(_) => true,
            RedisReply::Array(parts) => parts.first() == Some(&RedisReply::Int(0)),
            RedisReply::Int(_) | RedisReply::Nil => false,
        };
        let is_expected = match (self, reply) {
            (Self::Incr | Self::Nothing, reply) => matches!(reply, RedisReply::Int(_)),
            (Self::Each, RedisReply::Array(replies)) => {
                replies.len() == DEPTH && replies.iter().all(admits)
            }
            (_, reply) => admits(reply),
        };
        is_expected.then_some(()).ok_or_else(|| format!("{self:?} was answered {reply:?}"))
    }
}

fn evalsha(
    script: &str,
    keys: &[Vec<u8>],
    args: &[Vec<u8>],
    connection: &mut Connection,
) -> Result<Vec<u8>, String> {
    let RedisReply::Bytes(sha1) = connection.ask(&[b"SCRIPT", b"LOAD", script.as_bytes()])? else {
        return Err("SCRIPT LOAD was not answered by a digest".to_owned());
    };
    let count = keys.len().to_string();
    let words = [b"EVALSHA".as_slice(), &sha1, count.as_bytes()];
    let words = words.into_iter().chain(keys.iter().chain(args).map(Vec::as_slice));
    Ok(resp::command(&words.collect::<Vec<_>>()))
}
