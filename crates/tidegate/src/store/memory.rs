//! The memory store: every limiter of every rule in this process, one atomic step at a time.
//!
//! Each rule has a table of its own, cut into shards, each behind a lock. A step locks the shards of
//! all limiters it meets, in one fixed order, reads the clock once they are held, and runs the core's
//! verbs over all of them: nothing can come between what is decided and what is taken.

mod table;

use tidegate_core::{Decision, Timestamp, decide_all, look_at_all};

use crate::clock::Clock;
use crate::gate::Met;
use crate::rules::Policy;
use table::{Shard, Table, table_for};

/// What is to be done with the limiters a request meets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Decide and take; no figures.
    Decide,
    /// Decide and take, with figures.
    Ask,
    /// Decide only, with figures.
    Peek,
    /// Give back, with figures.
    Refund,
}

/// What came of a step: one decision for each limiter, in the order they were met (none for
/// [`Step::Decide`]).
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) allowed: bool,
    pub(crate) at: Timestamp,
    pub(crate) decisions: Vec<Decision>,
}

/// All limiters of a policy.
#[derive(Debug)]
pub(crate) struct MemoryStore {
    tables: Vec<Option<Box<dyn Table>>>,
}

impl MemoryStore {
    pub(crate) fn new(policy: &Policy) -> Self {
        Self { tables: policy.rules().iter().map(table_for).collect() }
    }

    /// Runs one step over all limiters of `met`, which names none twice.
    pub(crate) fn step(&self, met: &[Met], clock: &dyn Clock, step: Step) -> Done {
        let mut shards = self.lock(met);
        let at = clock.now();
        let mut held: Vec<_> = shards.iter_mut().flat_map(|shard| shard.held()).collect();
        held.sort_unstable_by_key(|(place, _)| *place);
        let mut held: Vec<_> = held.into_iter().map(|(_, one)| one).collect();
        let allowed = match step {
            Step::Decide | Step::Ask => decide_all(&mut held, at),
            Step::Peek => look_at_all(&mut held, at),
            Step::Refund => {
                look_at_all(&mut held, at);
                held.iter_mut().for_each(|one| one.give_back());
                look_at_all(&mut held, at)
            }
        };
        let figures = if step == Step::Decide { &[][..] } else { held.as_slice() };
        let decisions = figures.iter().map(|one| one.report()).collect();
        drop(held);
        let begins = matches!(step, Step::Decide | Step::Ask);
        shards.into_iter().for_each(|shard| shard.release(at, begins));
        Done { allowed, at, decisions }
    }

    /// Makes every limiter of `met` as good as new.
    pub(crate) fn forget(&self, met: &[Met]) {
        self.lock(met).into_iter().for_each(|shard| shard.forget());
    }

    /// Locks, in one order that is the same for every step, the shards of all limiters of `met`, and
    /// takes the limiters out of them.
    fn lock(&self, met: &[Met]) -> Vec<Box<dyn Shard + '_>> {
        let place = |(place, met)| Some((self.table(met)?.shard_of(&met.key), place, met));
        let mut places: Vec<_> = met.iter().enumerate().filter_map(place).collect();
        places.sort_unstable_by_key(|(shard, _, met)| (met.rule, *shard));
        let mut shards = Vec::with_capacity(places.len());
        for of_one_shard in places.chunk_by(|a, b| (a.2.rule, a.0) == (b.2.rule, b.0)) {
            let Some((number, _, met)) = of_one_shard.first() else {
                continue;
            };
            let Some(table) = self.table(met) else {
                continue;
            };
            let mut shard = table.lock(*number);
            of_one_shard.iter().for_each(|(_, place, met)| shard.take_out(*place, met));
            shards.push(shard);
        }
        shards
    }

    fn table(&self, met: &Met) -> Option<&dyn Table> {
        self.tables.get(met.rule)?.as_deref()
    }
}
