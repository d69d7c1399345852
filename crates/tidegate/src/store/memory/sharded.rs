//! Limiters in shards, each under a lock that is held briefly: limiters whose states do not fit a word, or that
//! have rules of their own.
//!
//! They serve logs and other states that do not pack, rules whose values come with requests or plans, and every rule if
//! the clock may step back. Their bytes are claimed before they are used: a new or growing state first claims as many
//! bytes as it may take, and gives the rest back afterwards. So the cap holds at every moment, with any concurrency.

mod home;
mod shard;

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use tidegate_core::{Algorithm, Timestamp};

use super::budget::{Budget, Need};
use super::common::Common;
use super::entry::{Entry, Standing};
use super::fixed::FixedEntry;
use super::home::Home as _;
use super::parameters::{Parameters, bytes_beside_heap, most_heap_bytes};
use super::succession::{GenerationNumber, Moved, Succession};
use super::sync::{AtomicUsize, Ordering::Relaxed};
use super::table::{Overflow as _, Part, Table};
use crate::clock::{Clock, Reading};
use crate::key::Fingerprint;
use crate::step::{One, Step};
use shard::Shard;

/// Groups of shards, and the shards of each.
const GROUPS: usize = 8;
const OF_GROUP: usize = 8;
const SHARDS: u32 = (GROUPS * OF_GROUP) as u32;
/// Limiters that are swept whenever one is added.
const SWEPT_PER_ADDED: usize = 2;
/// Limiters that are swept when there is no room. Each sweep starts where the previous sweep ended, so all limiters get
/// their turn.
const SWEPT_WHEN_FULL: usize = 32;

type ShardGroup<E> = OnceLock<Box<[OnceLock<Box<Mutex<Shard<E>>>>; OF_GROUP]>>;

/// A table of entries in shards.
#[derive(Debug)]
pub(super) struct Sharded<E: Entry> {
    common: Common<E>,
    /// Made when the first shard is locked, each group with the first of its shards, and each shard by itself: a table
    /// with few limiters takes little memory.
    groups: OnceLock<Box<[ShardGroup<E>; GROUPS]>>,
    /// The shard that is swept next when there is no room.
    next_swept: AtomicUsize,
    /// Bytes that must suffice for a single limiter.
    bytes_of_one: usize,
}

impl<R: Algorithm> Sharded<FixedEntry<R>> {
    /// Creates a table of states under one rule.
    pub(super) fn of_one_rule(
        algorithm: R,
        budget: Arc<Budget>,
        succession: Succession<dyn Table>,
    ) -> Self {
        let most_heap = most_heap_bytes(&algorithm);
        let table = Self::new(Parameters::new(algorithm), budget, succession);
        let need = table.need(&FixedEntry(None));
        // A log has chunks at both ends that are not full, and one more claimed.
        let bytes_of_one = need.first + most_heap + 3 * need.next;
        table.common.budget.has_space_for_one_of(bytes_of_one);
        Self { bytes_of_one, ..table }
    }
}

impl<E: Entry> Sharded<E> {
    pub(super) fn new(
        rules: E::Rules,
        budget: Arc<Budget>,
        succession: Succession<dyn Table>,
    ) -> Self {
        let common = Common::new(rules, budget, succession);
        let next_swept = AtomicUsize::new(0);
        Self { common, groups: OnceLock::new(), next_swept, bytes_of_one: 0 }
    }

    fn shard_of(fingerprint: Fingerprint) -> u32 {
        fingerprint.words()[0] % SHARDS
    }

    /// Locks the shard of a limiter, after moving the limiter there if it is in an old table.
    #[inline(always)]
    fn lock(
        &self,
        fingerprint: Fingerprint,
        generation: GenerationNumber,
    ) -> Result<MutexGuard<'_, Shard<E>>, Moved> {
        let mut shard = self.lock_shard(Self::shard_of(fingerprint));
        if self.common.succession.check(generation)? {
            self.move_in(&mut shard, fingerprint);
        }
        Ok(shard)
    }

    /// A shard that was made.
    fn shard(&self, number: usize) -> Option<&Mutex<Shard<E>>> {
        let group = self.groups.get()?.get(number / OF_GROUP)?.get()?;
        group[number % OF_GROUP].get().map(|shard| &**shard)
    }

    #[inline(always)]
    fn lock_shard(&self, number: u32) -> MutexGuard<'_, Shard<E>> {
        let number = number as usize;
        let groups = self.groups.get_or_init(Box::default);
        let group = groups[number / OF_GROUP].get_or_init(Box::default);
        // A panic in a step leaves a shard as it was before or after the step, never in between.
        let shard = group[number % OF_GROUP].get_or_init(Box::default);
        shard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tries `found`, and again after each of two searches for idle limiters.
    fn after_sweeps(&self, shard: &mut Shard<E>, now: Timestamp, found: impl Fn() -> bool) -> bool {
        found()
            || {
                shard.sweep(&self.common, SWEPT_WHEN_FULL, now);
                found()
            }
            || {
                // In all shards. It waits for no lock, because this shard is locked.
                self.tidy(now);
                found()
            }
    }

    /// Finds room for one more limiter in a locked shard; claims it if it `stays`.
    fn find_space(&self, shard: &mut Shard<E>, need: Need, stays: bool, now: Timestamp) -> bool {
        if stays {
            // Each new limiter pays for a look at two others, so that idle limiters go long before the cap.
            shard.sweep(&self.common, SWEPT_PER_ADDED, now);
        }
        let budget = &self.common.budget;
        self.after_sweeps(shard, now, || {
            if stays { budget.claim_with_memory(need) } else { budget.has_memory_for(need) }
        })
    }

    /// Bytes that a limiter needs when it is created, and for its next unit.
    fn need(&self, entry: &E) -> Need {
        let heap = entry.need(&self.common.rules);
        Need { first: bytes_beside_heap::<E>() + heap.first, ..heap }
    }

    /// Bytes that a step may grow a limiter by.
    #[inline]
    fn growth(&self, entry: &E, part: &Part<'_>) -> usize {
        if part.step.grows(part.cost) { entry.need(&self.common.rules).next } else { 0 }
    }

    /// Puts a limiter whose place and first bytes are claimed into its shard, or drops it if it is idle.
    fn add(
        &self,
        shard: &mut Shard<E>,
        fingerprint: Fingerprint,
        entry: E,
        claimed: usize,
        at: Timestamp,
    ) {
        if entry.is_idle(&self.common.rules, at) {
            self.common.budget.resize(claimed, 0);
            self.common.budget.release(1);
        } else {
            shard.insert(fingerprint, entry, &self.common, claimed);
        }
    }

    /// Decides and takes on a limiter that exists and need not grow, without values and claims. `None` if it does not
    /// exist or would grow, or the table may not be asked any more.
    #[inline]
    fn ask_found(&self, fingerprint: Fingerprint, cost: u64, clock: &dyn Clock) -> Option<bool> {
        let mut shard = self.lock(fingerprint, 0).ok()?;
        let (kept, _) = shard.get_mut(fingerprint)?;
        let entry = kept.entry.as_mut()?;
        let allowed = entry.ask(&self.common.rules, cost, clock)?;
        kept.weigh(&self.common, 0);
        Some(allowed)
    }

    /// Runs a step on a limiter in a locked shard; `None` if it is not there, or needs another rule or more memory.
    #[inline]
    fn with_found(&self, shard: &mut Shard<E>, part: &Part<'_>, now: Timestamp) -> Option<One> {
        let (kept, _) = shard.get_mut(part.fingerprint)?;
        let entry = kept.entry.as_mut().filter(|entry| entry.is_under(part))?;
        // Claimed before the step, so that no two limiters can grow into the same bytes.
        let growth = self.growth(entry, part);
        if !self.common.budget.claim_bytes(growth) {
            return None;
        }
        let one = entry.run(&self.common.rules, part.step, part.cost, now, false);
        kept.weigh(&self.common, growth);
        Some(one)
    }

    /// Runs a step on any other limiter in a locked shard, as in a step over several; `None` if there is no room for it.
    #[cold]
    fn with_any(
        &self,
        shard: &mut MutexGuard<'_, Shard<E>>,
        part: &Part<'_>,
        now: Timestamp,
    ) -> Option<One> {
        let mut locked = self.lock_entry(shard, *part, now);
        if matches!(locked.standing, Standing::NoSpace) {
            return None;
        }
        self.begin(shard, &mut locked, now);
        let one = locked.run(&self.common.rules, None, part.step, now);
        self.put_back(shard, &mut locked, now);
        Some(one)
    }

    /// Drops a limiter that a step has reset, unless it remembers that. A limiter that was given back everything waits
    /// for its turn in a sweep: to drop it here would look through the turns of the shard with each refund.
    fn drop_if_reset(
        &self,
        shard: &mut Shard<E>,
        fingerprint: Fingerprint,
        step: Step,
        now: Timestamp,
    ) {
        if matches!(step, Step::Reset { .. })
            && let Some(entry) = shard.get(fingerprint)
            && entry.is_idle(&self.common.rules, now)
        {
            shard.forget(fingerprint, &self.common.budget);
        }
    }
}

impl<E: Entry> Table for Sharded<E> {
    fn admits(
        &self,
        fingerprint: Fingerprint,
        cost: u64,
        early: Timestamp,
        clock: &dyn Clock,
    ) -> Result<bool, Moved> {
        if let Some(allowed) = self.ask_found(fingerprint, cost, clock) {
            return Ok(allowed);
        }
        let part = Part::alone(fingerprint, cost, Step::Decide);
        self.one(&part, Reading::joined(early, clock)).map(|one| one.verdict.is_allowed())
    }

    #[inline]
    fn one(&self, part: &Part<'_>, reading: Reading<'_>) -> Result<One, Moved> {
        let mut shard = self.lock(part.fingerprint, part.generation)?;
        // Under the lock: these states would take an earlier reading for a clock that stepped back.
        let now = reading.anew();
        if let Some(one) = self.with_found(&mut shard, part, now) {
            self.drop_if_reset(&mut shard, part.fingerprint, part.step, now);
            return Ok(one);
        }
        if let Some(one) = self.with_any(&mut shard, part, now) {
            return Ok(one);
        }
        drop(shard);
        let (step, cost) = part.step.beyond(part.cost);
        self.common.one(&Part { step, cost, ..*part }, reading)
    }

    fn tidy(&self, now: Timestamp) {
        if self.groups.get().is_none() {
            return;
        }
        let mut left = SWEPT_WHEN_FULL;
        for _ in 0..SHARDS {
            let number = self.next_swept.fetch_add(1, Relaxed) % SHARDS as usize;
            let Some(shard) = self.shard(number) else { continue };
            // A shard that is in use keeps its turn for another time: a sweep waits for no lock.
            if let Ok(mut shard) = shard.try_lock() {
                let looked_at = left.min(shard.turns());
                shard.sweep(&self.common, looked_at, now);
                left -= looked_at;
            }
            if left == 0 {
                break;
            }
        }
    }

    fn bytes_of_one(&self) -> usize {
        self.bytes_of_one
    }
}
