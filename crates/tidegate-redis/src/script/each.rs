//! Requests of one limiter each in one call, each decided as though it had come alone.

use std::sync::Arc;

use super::ScriptStep;
use super::batch::without_error;
use super::call::{Call, CallForm, decimal};
use super::joined::{JoinedScript, Runner, ScriptId, script};
use super::reply::{NotAnAnswer, RedisReply};

/// Calls of one limiter each in one call. It costs the server less than the single calls if they are a few or
/// more; for calls that have a key in common a [`CallBatch`](super::CallBatch) costs less.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Each {
    /// The script.
    pub script: Arc<JoinedScript>,
    /// Its `KEYS`, one for each request.
    pub keys: Vec<Vec<u8>>,
    /// Its `ARGV`.
    pub args: Vec<Vec<u8>>,
}

impl Call {
    /// Returns whether it may go in an [`Each`]: a [`ScriptStep::Ask`] of one limiter, without an id and a bound of keys.
    #[must_use]
    pub fn can_go_with_others(&self) -> bool {
        self.form == CallForm::One
            && self.step == ScriptStep::Ask
            && self.counts.is_empty()
            && !self.has_no_memory
            && self.carried.is_empty()
    }
}

impl Each {
    /// The maximum number of requests of one call, so that no call occupies the store for long.
    pub const MOST: usize = 32;

    /// Up to [`Each::MOST`] calls that [can go with others](Call::can_go_with_others). Either all have the same time as
    /// an argument, or none has a time.
    #[must_use]
    pub fn of(calls: &[&Call]) -> Self {
        let mut values = Vec::<&Vec<u8>>::new();
        let mut numbers = Vec::with_capacity(calls.len());
        for arg in calls.iter().flat_map(|call| call.arguments()) {
            let known = values.iter().position(|known| *known == arg);
            // At most `MOST`, so it fits a byte.
            numbers.push(known.unwrap_or(values.len()) as u8 + 1);
            if known.is_none() {
                values.push(arg);
            }
        }
        // A script has the files of all algorithms or of one, so there are few scripts for any mix of calls.
        let mut all = calls.iter().map(|call| call.kinds);
        let first = all.next().unwrap_or(u32::MAX);
        let kinds = if all.all(|kinds| kinds == first) { first } else { u32::MAX };
        let mut args = vec![b"each".to_vec(), numbers];
        args.extend(values.into_iter().cloned());
        if let Some(at) = calls.first().and_then(|call| call.at) {
            args.resize(2 + calls.len(), Vec::new());
            args.push(decimal(at));
        }
        let keys = calls.iter().flat_map(|call| &call.keys).cloned().collect();
        Self { script: script(ScriptId::new(kinds, Runner::Each)), keys, args }
    }

    /// The reply to each request, for [`Call::answer`], or the server's error for it; in the order of the requests.
    ///
    /// # Errors
    /// Returns the reply if it is not the reply of such a call.
    pub fn replies(
        &self,
        reply: RedisReply,
    ) -> Result<Vec<Result<RedisReply, String>>, NotAnAnswer> {
        match reply {
            RedisReply::Array(replies) if replies.len() == self.keys.len() => {
                Ok(replies.into_iter().map(without_error).collect())
            }
            other => Err(NotAnAnswer::of(other)),
        }
    }
}
