//! The memory store: every limiter of every rule in this process, decided by atomic steps.
//!
//! Each variant of a rule has a table of its own. When it is built (`build`), the table chooses how it keeps
//! states: packed into a word each, if the algorithm can do that and the clock never steps back, else unpacked in
//! shards. A table runs a step over one limiter by itself. A step over several locks all of them in one fixed
//! order, then reads the clock, and runs the core's verbs over all: nothing can happen between deciding and taking.
//!
//! A decision goes from the newest generation (`generation`) to [`MemoryStore::step`], which finds the
//! table of each limiter. One limiter: `Table::one` of its table (`table`). Several: `several`, on their words
//! alone if all are packed (`locked_words`), else in full (`home`, `entry`). A step that meets the mark of a table
//! whose rule has changed (`succession`) gets [`Moved`], and asks again in the newest generation.
//!
//! | limiters | are in | under a lock for each |
//! | --- | --- | --- |
//! | with a state of one, two or six words | `packed`: `chains` of cache `lines`, debts `spilled` | chain |
//! | with any other state | `sharded`: entries with only a state (`fixed`) | `shard` |
//! | with a rule of their own | `sharded`: entries with state and rule (`ruled`) | `shard` |
//! | of keys without space | the overflow limiter of their table (`common`) | table |
//! | of one rule without a policy | a table of either kind, in `alone` | as the table |
//! | without a key | `cell` | limiter, if it does not fit a word |
//!
//! A table of either kind is a `home` of limiters, and has a `budget` (the caps on limiters and bytes) and
//! `parameters` (the memory of a state). A change of the policy goes through `replace` (which rules stay), `known`
//! (which tables of a rule stay), `build` (new tables), `migration` (moves the limiters) and `leaving` (a state
//! under another rule); `alone` does the same for one rule. `per_key` says whose limiters have rules of their own,
//! `preview` foretells waits, and `saved` is the snapshot.

mod alone;
mod budget;
mod build;
mod cell;
mod common;
mod entry;
mod fixed;
mod generation;
mod home;
mod known;
mod leaving;
mod locked_words;
mod migration;
mod packed;
mod parameters;
mod per_key;
mod preview;
mod replace;
mod ruled;
mod saved;
mod several;
mod sharded;
mod succession;
mod sync;
mod table;

use std::sync::Arc;

use tidegate_core::Timestamp;

use crate::clock::{Clock, Reading};
use crate::inline_list::InlineList;
use crate::rules::{Policy, PolicyErrors};
use crate::step::{Ask, Done, One, Step};
pub(crate) use alone::Limiters;
use budget::Budget;
pub(crate) use cell::Unkeyed;
pub use generation::KeptOfRule;
pub(crate) use generation::{Kept, MemoryGeneration, Newest};
pub(crate) use per_key::PerKey;
#[cfg(feature = "redis")]
pub(crate) use preview::preview_of_reply;
pub(crate) use preview::{Forecast, Preview};
use replace::Lineages;
#[cfg(feature = "redis")]
pub(crate) use ruled::Single;
pub(crate) use saved::{Loading, Target};
use several::Locked;
pub(crate) use succession::Moved;
use sync::{AtomicUsize, Mutex, Ordering::Relaxed};
pub(crate) use table::Part;

/// All limiters of a gate, through all its policies.
#[derive(Debug)]
pub(crate) struct MemoryStore {
    newest: Newest<MemoryGeneration>,
    /// Locked while a policy is put in force, until all limiters are moved.
    changing: Mutex<Lineages>,
    /// The budget of all rules together.
    whole: Arc<Budget>,
    per_key: PerKey,
    /// The base of packed times; `None` if the clock may step back.
    base: Option<Timestamp>,
    /// The table that is swept next when room is short.
    hand: AtomicUsize,
}

impl MemoryStore {
    pub(crate) fn new(policy: Policy, clock: &dyn Clock) -> Self {
        Self::with_rules_per_key(policy, clock, PerKey::FromRequests)
    }

    /// Creates the limiters of a policy, with a rule for each limiter of the rules in `per_key`.
    pub(crate) fn with_rules_per_key(policy: Policy, clock: &dyn Clock, per_key: PerKey) -> Self {
        let base = clock.never_steps_back().then(|| clock.now());
        let store = Self {
            newest: Newest::new(MemoryGeneration::none_yet()),
            changing: Mutex::new(Lineages::default()),
            whole: Arc::new(Budget::new(usize::MAX)),
            per_key,
            base,
            hand: AtomicUsize::new(0),
        };
        // There are no limiters yet that could lack room.
        let at = base.unwrap_or(Timestamp::EPOCH);
        let _ = store.change(|| at, |_| Ok::<_, PolicyErrors>(policy), |_| ());
        store
    }

    /// The generation that is in force.
    #[inline]
    pub(crate) fn newest(&self) -> Kept<MemoryGeneration> {
        self.newest.read()
    }

    /// Asks in the newest generation, and again in a newer one if the step reports that there is one; returns the
    /// reply with its generation.
    #[inline]
    pub(crate) fn ask<T>(
        &self,
        ask: impl Fn(&MemoryGeneration) -> Result<T, Moved>,
    ) -> (Kept<MemoryGeneration>, T) {
        self.newest.ask(ask)
    }

    /// Waits until the generation that a step reported is published.
    pub(crate) fn wait_for_newer(&self) {
        self.newest.wait_for_newer();
    }

    /// Limiters in existence, over all rules.
    pub(crate) fn keys(&self) -> usize {
        self.whole.keys()
    }

    /// Runs one step over all limiters of `asks`, which has each limiter once.
    pub(crate) fn step(
        &self,
        generation: &MemoryGeneration,
        asks: &[Ask],
        clock: &impl Clock,
        step: Step,
    ) -> Result<Done, Moved> {
        self.run(generation, asks, clock, |_| step)
    }

    /// Settles a reservation with all limiters of `asks`, each for its own `actual` units.
    pub(crate) fn settle(
        &self,
        generation: &MemoryGeneration,
        asks: &[Ask],
        actual: &[u64],
        clock: &impl Clock,
    ) -> Result<Done, Moved> {
        self.run(generation, asks, clock, |place| {
            let (actual, one) = (actual.get(place).copied().unwrap_or(0), asks.get(place));
            let since = one.and_then(Ask::since);
            let step = Step::Settle { actual, token: one.and_then(|one| one.taken.token), since };
            let table = one.and_then(|one| generation.table(one));
            // A table knows since when its rule has its meaning, and which limits it had.
            table.map_or(step, |table| table.succession().dated(step))
        })
    }

    /// Renews the permits of `asks`; allowed if all are still out.
    pub(crate) fn renew(
        &self,
        generation: &MemoryGeneration,
        asks: &[Ask],
        clock: &impl Clock,
    ) -> Result<Done, Moved> {
        self.run(generation, asks, clock, |place| Step::Renew {
            token: asks.get(place).and_then(|one| one.taken.token),
        })
    }

    /// Runs one step over limiters, with `step` for their indices in `asks`.
    #[inline]
    fn run(
        &self,
        generation: &MemoryGeneration,
        asks: &[Ask],
        clock: &impl Clock,
        step: impl Fn(usize) -> Step,
    ) -> Result<Done, Moved> {
        // One limiter needs no order of locks, and its table reads the clock.
        if let [ask] = asks {
            let step = step(0);
            let one = match generation.table(ask) {
                Some(table) => table.one(&generation.part(ask, step), Reading::of(clock))?,
                None => One::unlimited(clock.now()),
            };
            self.tidy_if(generation, one.decided.overflow, one.at);
            return Ok(done_by(ask, one, step));
        }
        // In the usual case all limiters are packed, and in their tables.
        if let Some(done) = generation.step_in_words(asks, clock, &step)? {
            return Ok(done);
        }
        let mut locked = Locked::default();
        generation.lock_all(asks, clock, &step, &mut locked)?;
        let (done, short) = locked.run(asks, clock, &step);
        self.tidy_if(generation, short, done.at);
        Ok(done)
    }

    /// If a key found no room, sweeps one table after another: tables share caps, and a table that is not asked any
    /// more would keep its limiters for ever.
    fn tidy_if(&self, generation: &MemoryGeneration, short: bool, now: Timestamp) {
        if !short {
            return;
        }
        let count = generation.tables().count();
        if let Some(next) = self.hand.fetch_add(1, Relaxed).checked_rem(count) {
            generation.tables().nth(next).into_iter().for_each(|table| table.tidy(now));
        }
    }

    /// Resets every limiter of `asks`, in one step: nothing counts as used.
    pub(crate) fn reset(
        &self,
        generation: &MemoryGeneration,
        asks: &[Ask],
        clock: &impl Clock,
    ) -> Result<(), Moved> {
        // A limiter that does not exist would begin with units in use; so each of those exists first.
        let begins = asks.iter().filter(|ask| ask.begins_in_use(&generation.policy));
        let begins: Vec<_> = begins.map(|ask| ask.costing(0)).collect();
        if !begins.is_empty() {
            self.step(generation, &begins, clock, Step::Ask)?;
        }
        self.step(generation, asks, clock, Step::Reset { remembers: true }).map(drop)
    }
}

impl MemoryGeneration {
    /// The generation before the first policy.
    fn none_yet() -> Self {
        Self { number: 0, policy: Arc::default(), rules: Vec::new(), removed: Vec::new() }
    }

    /// Creates a preview of a limiter; `None` if there is none.
    pub(crate) fn preview(
        &self,
        ask: &Ask,
        clock: &impl Clock,
    ) -> Result<Option<Box<dyn Preview>>, Moved> {
        let part = self.part(ask, Step::Peek);
        self.table(ask).map(|table| table.preview(&part, Reading::of(clock))).transpose()
    }
}

/// Turns the reply of one limiter into the reply of a step.
fn done_by(ask: &Ask, one: One, step: Step) -> Done {
    let (allowed, at) = (one.verdict.is_allowed() || !ask.enforced, one.at);
    let mut decisions = InlineList::new();
    if step.wants_values() {
        decisions.push(one.decided);
    }
    Done { allowed, at, repeated: false, decisions }
}

#[cfg(all(test, loom))]
mod models;

#[cfg(test)]
#[cfg(feature = "redis")]
pub(crate) use leaving::carried;
