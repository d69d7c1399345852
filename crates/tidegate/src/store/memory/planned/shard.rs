//! Some of a table's limiters, under one lock.

use std::collections::{HashMap, VecDeque};
use std::hash::BuildHasherDefault;

use tidegate_core::{Room, Timestamp};

use super::figures::Recent;
use super::held::{AnyOwn as _, Own};
use super::kept::Kept;
use crate::key::Fingerprint;
use crate::store::memory::budget::Budget;
use crate::store::memory::shards::Spread;

/// Some of a table's limiters, and all of their fingerprints in the order they are looked at.
#[derive(Debug, Default)]
pub(super) struct Shard {
    limiters: HashMap<Fingerprint, Kept, BuildHasherDefault<Spread>>,
    turns: VecDeque<Fingerprint>,
    pub(super) recent: Recent,
}

impl Shard {
    pub(super) fn get(&self, print: Fingerprint) -> Option<&Kept> {
        self.limiters.get(&print)
    }

    #[inline]
    pub(super) fn get_mut(&mut self, print: Fingerprint) -> Option<(&mut Kept, &mut Recent)> {
        Some((self.limiters.get_mut(&print)?, &mut self.recent))
    }

    /// Adds a limiter whose place and first bytes are claimed, or forgets it if it is as good as new.
    pub(super) fn add<R: Room>(
        &mut self,
        print: Fingerprint,
        own: Own<R>,
        budget: &Budget,
        now: Timestamp,
    ) {
        if own.is_as_good_as_new(now) {
            budget.resize(Own::<R>::need(own.figures.heap).first, 0);
            budget.release(1);
        } else {
            self.limiters.insert(print, Kept::new(own, budget));
            self.turns.push_back(print);
        }
    }

    /// Drops a limiter and its turn.
    pub(super) fn forget(&mut self, print: Fingerprint, budget: &Budget) {
        self.remove(print, budget);
        // Or its next life would have two turns, and one that is reset often ever more.
        self.turns.retain(|turn| *turn != print);
    }

    /// Drops a limiter, and then what was accounted for it.
    fn remove(&mut self, print: Fingerprint, budget: &Budget) {
        if let Some(kept) = self.limiters.remove(&print) {
            let bytes = kept.bytes();
            drop(kept);
            budget.resize(bytes, 0);
            budget.release(1);
        }
    }

    /// Looks at the next few limiters, at most `most`, and drops those that are as good as new; answers
    /// how many it looked at.
    pub(super) fn sweep(&mut self, budget: &Budget, most: usize, now: Timestamp) -> usize {
        let looked_at = most.min(self.turns.len());
        for _ in 0..looked_at {
            let Some(print) = self.turns.pop_front() else { break };
            match self.limiters.get(&print) {
                Some(kept) if !kept.is_as_good_as_new(now) => self.turns.push_back(print),
                Some(_) => self.remove(print, budget),
                None => {}
            }
        }
        looked_at
    }
}
