//! Several requests in one call, each decided in turn as though it had come alone.

use std::collections::HashMap;
use std::sync::Arc;

use super::ScriptStep;
use super::call::{Call, CallForm, decimal};
use super::joined::{JoinedScript, Runner, ScriptId, script};
use super::limiter::CountedKey;
use super::reply::{NotAnAnswer, RedisReply};

/// Several calls in one, decided in their order at one instant: replies and stored states are the same as for calls
/// sent one after another. A call that fails leaves the others as they are. It costs the server less than the single
/// calls if they have a key in common, and more if they have none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallBatch {
    /// The script.
    pub script: Arc<JoinedScript>,
    /// Its `KEYS`, each once.
    pub keys: Vec<Vec<u8>>,
    /// Its `ARGV`.
    pub args: Vec<Vec<u8>>,
    /// True if it counts keys: then its last argument is the part of a cluster's node that runs it.
    pub(crate) counts: bool,
    /// The number of times that each request is asked.
    times: Vec<usize>,
}

/// A reply to a request of a [`CallBatch`], and how many times in a row it was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replies {
    /// The reply, for [`Call::answer`]; or the server's error for this request.
    pub reply: Result<RedisReply, String>,
    /// The number of times: 1 or more.
    pub times: usize,
}

impl Call {
    /// Returns whether it may go in a [`CallBatch`]: a [`ScriptStep::Ask`] that amends nothing, over a few limiters.
    #[must_use]
    pub fn can_merge(&self) -> bool {
        self.step == ScriptStep::Ask
            && matches!(self.form, CallForm::One | CallForm::Several)
            && !self.has_no_memory
            && self.carried.is_empty()
            && (1..=CallBatch::MOST_KEYS).contains(&self.keys.len())
    }

    /// Returns whether the other call is identical, and has no id.
    #[must_use]
    pub fn is_repeat_of(&self, other: &Self) -> bool {
        self.dedupe.is_none() && self == other
    }
}

impl CallBatch {
    /// The maximum number of keys that the calls of one batch should have: the server's time for a batch depends on its
    /// keys.
    pub const MOST_KEYS: usize = 32;

    /// Calls in the order in which they are decided, each with the number of times that it is asked. All of them [can
    /// be merged](Call::can_merge). Either all have the same time as an argument, or none has a time.
    #[must_use]
    pub fn of(calls: &[(&Call, usize)]) -> Self {
        let mut keys = Distinct::default();
        let mut values = Distinct::default();
        let mut plan = Vec::new();
        let mut counts = Vec::<CountedKey>::new();
        for (call, times) in calls {
            let limiters = call.enforced.len();
            let answer_key = call.keys.get(limiters).map_or(0, |key| keys.of(key));
            plan.extend([*times, limiters, answer_key].into_iter().flat_map(number));
            let dedupe = call.dedupe.as_deref().map_or(0, |dedupe| values.of(dedupe));
            plan.extend(number(dedupe));
            for ((key, arg), flag) in call.keys.iter().zip(call.arguments()).zip(&call.enforced) {
                plan.extend([keys.of(key), values.of(arg)].into_iter().flat_map(number));
                plan.push(*flag);
            }
            // A count names its key by the place in its own call, and the batch has other places.
            for count in &call.counts {
                let key = call.keys.get(count.key).map_or(0, |key| keys.of(key) - 1);
                if counts.iter().all(|known| known.key != key) {
                    counts.push(CountedKey { key, bound: count.bound.clone() });
                }
            }
        }
        let at = calls.first().and_then(|(call, _)| call.at).map(decimal).unwrap_or_default();
        let has_bounds = !counts.is_empty();
        let id = ScriptId { has_bounds, ..ScriptId::new(u32::MAX, Runner::Batch) };
        // Time, time of an undo, memory, carried units, counted keys and part of the node.
        let mut last = vec![at, Vec::new(), Vec::new(), Vec::new()];
        last.extend(CountedKey::arguments(&counts));
        last.resize(6, Vec::new());
        let args = [vec![b"batch".to_vec(), plan], values.all, last].concat();
        let times = calls.iter().map(|(_, times)| *times).collect();
        Self { script: script(id), keys: keys.all, args, counts: has_bounds, times }
    }

    /// The replies to each request, in the order of the requests.
    ///
    /// # Errors
    /// Returns the reply if it is not the reply of a batch.
    pub fn replies(&self, reply: RedisReply) -> Result<Vec<Vec<Replies>>, NotAnAnswer> {
        let RedisReply::Array(requests) = reply else { return Err(NotAnAnswer::of(reply)) };
        if requests.len() != self.times.len() {
            return Err(NotAnAnswer::of(RedisReply::Array(requests)));
        }
        let each = requests.into_iter().zip(&self.times);
        each.map(|(replies, times)| replies_of(replies, *times)).collect()
    }
}

/// The replies to a request that was asked `times` times.
fn replies_of(reply: RedisReply, times: usize) -> Result<Vec<Replies>, NotAnAnswer> {
    let RedisReply::Array(parts) = reply else { return Err(NotAnAnswer::of(reply)) };
    let mut all = Vec::with_capacity(parts.len() / 2);
    let mut given = 0_usize;
    let mut parts = parts.into_iter();
    while let (Some(count), Some(reply)) = (parts.next(), parts.next()) {
        let times = match count {
            RedisReply::Int(count) => usize::try_from(count).unwrap_or_default(),
            _ => 0,
        };
        given = given.saturating_add(times);
        all.push(Replies { reply: without_error(reply), times });
    }
    // Each repeat takes one reply, so a count that is wrong would hand replies to the wrong callers.
    if given != times || all.iter().any(|one| one.times == 0) {
        return Err(NotAnAnswer::of(RedisReply::Int(i64::try_from(given).unwrap_or(i64::MAX))));
    }
    Ok(all)
}

/// An error stands alone in an array.
pub(super) fn without_error(reply: RedisReply) -> Result<RedisReply, String> {
    match reply {
        RedisReply::Array(parts) => match parts.as_slice() {
            [RedisReply::Bytes(error)] => Err(String::from_utf8_lossy(error).into_owned()),
            _ => Ok(RedisReply::Array(parts)),
        },
        reply => Ok(reply),
    }
}

/// The distinct values, in the order of their first use.
#[derive(Default)]
struct Distinct<'a> {
    all: Vec<Vec<u8>>,
    indices: HashMap<&'a [u8], usize>,
}

impl<'a> Distinct<'a> {
    /// The position of a value, from 1.
    fn of(&mut self, value: &'a [u8]) -> usize {
        let next = self.all.len() + 1;
        let index = *self.indices.entry(value).or_insert(next);
        if index == next {
            self.all.push(value.to_vec());
        }
        index
    }
}

fn number(number: usize) -> [u8; 4] {
    u32::try_from(number).unwrap_or(u32::MAX).to_le_bytes()
}
