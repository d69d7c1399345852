//! Remembered answers in a snapshot: written with the limiters, so that a request repeated after a restart takes
//! nothing.

use std::io;
use std::ops::Bound::{Excluded, Unbounded};
use std::sync::atomic::Ordering::Relaxed;

use tidegate_core::{Decision, Micros, Outcome, Timestamp};

use super::cache::{DedupeCache, KeptAnswer, held};
use crate::snapshot::{
    Blocks, Cursor, Kind, put_fingerprint, put_list, put_number, read_fingerprint,
};
use crate::step::Decided;

/// The maximum number of answers that are written under one lock.
const AT_ONCE: usize = 64;

impl DedupeCache {
    /// Writes the answers, a few under a lock at a time; returns their number.
    pub(crate) fn save(&self, blocks: &mut Blocks<'_>) -> io::Result<u64> {
        let mut answers = 0;
        for shard in &self.shards {
            let mut after = Unbounded;
            loop {
                let shard = held(shard);
                let mut payload = Vec::new();
                // By the end of their time, which is an order that lasts while other answers come and go.
                let next = shard.by_end.range((after, Unbounded)).take(AT_ONCE);
                let next: Vec<_> = next.copied().collect();
                for (_, fingerprint) in &next {
                    let Some(kept) = shard.kept.get(fingerprint) else { continue };
                    put_fingerprint(&mut payload, Some(*fingerprint));
                    kept.put(&mut payload);
                    answers += 1;
                }
                // Before the block is written: requests wait for this lock, and a disk may be slow.
                drop(shard);
                let Some(last) = next.last() else { break };
                blocks.put(Kind::Answers, &payload)?;
                // An answer that comes from now on and expires before this place is left out.
                after = Excluded(*last);
            }
        }
        Ok(answers)
    }

    /// Takes over the answers of a block that are not over at `at`, as far as there is room; returns their number.
    /// `None` if the payload is not answers.
    pub(crate) fn load(&self, payload: &[u8], at: Timestamp) -> Option<u64> {
        let mut from = Cursor(payload);
        let mut answers = 0;
        while !from.is_at_end() {
            let fingerprint = read_fingerprint(&mut from)??;
            let kept = KeptAnswer::read(&mut from)?;
            // The answer is skipped, but its bytes had to be read to find the answer after it.
            if kept.end <= at || self.len() >= self.most {
                continue;
            }
            let mut shard = held(&self.shards[self.number(fingerprint)]);
            let end = kept.end;
            match shard.kept.insert(fingerprint, kept) {
                Some(before) => _ = shard.by_end.remove(&(before.end, fingerprint)),
                None => _ = self.kept.fetch_add(1, Relaxed),
            }
            shard.by_end.insert((end, fingerprint));
            answers += 1;
        }
        Some(answers)
    }
}

impl KeptAnswer {
    fn put(&self, to: &mut Vec<u8>) {
        to.push(self.allowed.into());
        for time in [self.since, self.end, self.at] {
            put_number(to, time.as_micros());
        }
        put_list(to, self.decisions.iter(), put_decided);
    }

    fn read(from: &mut Cursor<'_>) -> Option<Self> {
        let allowed = from.flag()?;
        let since = Timestamp::from_micros(from.number()?);
        let end = Timestamp::from_micros(from.number()?);
        let at = Timestamp::from_micros(from.number()?);
        let decisions = from.list(read_decided)?.into();
        Some(Self { allowed, since, end, at, decisions })
    }
}

const OUTCOME: u8 = 0b11;
const OVERFLOW: u8 = 0b100;
const ELSEWHERE: u8 = 0b1000;

/// Appends one decision of an answer.
fn put_decided(to: &mut Vec<u8>, decided: &Decided) {
    let Decision { outcome, limit, remaining, reset_after } = decided.decision;
    let (outcome, wait) = match outcome {
        Outcome::Allow { delay } => (0, delay),
        Outcome::Deny { retry_after } => (1, retry_after),
        Outcome::Never => (2, Micros::ZERO),
    };
    let overflow = if decided.overflow { OVERFLOW } else { 0 };
    let elsewhere = if decided.elsewhere { ELSEWHERE } else { 0 };
    to.push(outcome | overflow | elsewhere);
    for number in [wait.as_micros(), limit, remaining, reset_after.as_micros()] {
        put_number(to, number);
    }
}

/// Reads one decision.
fn read_decided(from: &mut Cursor<'_>) -> Option<Decided> {
    // A gate writes no other bits.
    let flags = from.byte().filter(|flags| *flags <= OUTCOME | OVERFLOW | ELSEWHERE)?;
    let wait = Micros::from_micros(from.number()?);
    let outcome = match flags & OUTCOME {
        0 => Outcome::Allow { delay: wait },
        1 => Outcome::Deny { retry_after: wait },
        2 => Outcome::Never,
        _ => return None,
    };
    let limit = from.number()?;
    let remaining = from.number()?;
    let reset_after = Micros::from_micros(from.number()?);
    let decision = Decision { outcome, limit, remaining, reset_after };
    Some(Decided::of(decision, flags & OVERFLOW > 0, flags & ELSEWHERE > 0))
}
