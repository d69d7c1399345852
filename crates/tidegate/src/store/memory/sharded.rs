//! Limiters in shards, each under a lock that is held briefly: limiters whose states do not fit a word, or that have
//! rules of their own.
//!
//! Their bytes are claimed before they are used: a new or growing state first claims as many bytes as it may take, and
//! gives the rest back afterwards. So the cap holds at every moment, with any concurrency.

mod locked;
mod migrate;
mod saved;
mod shard;

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use tidegate_core::{Algorithm, Rule, Timestamp};

use super::budget::{Budget, Need};
use super::entry::Entry;
use super::fixed::FixedEntry;
use super::overflow::Overflow;
use super::parameters::{Parameters, bytes_beside_heap, most_heap_bytes};
use super::preview::Preview;
use super::succession::{GenerationNumber, Moved, Succession};
use super::sync::{AtomicUsize, Ordering::Relaxed};
use super::table::{LockedLimiters, Part, Table};
use crate::clock::{Clock, Reading};
use crate::key::Fingerprint;
use crate::step::{One, Step};
use shard::{Kept, Shard};

const SHARDS: usize = 64;
/// Limiters that are swept whenever one is added.
const SWEPT_PER_ADDED: usize = 2;
/// Limiters that are swept when there is no room. Each sweep starts where the previous sweep ended, so all limiters get
/// their turn.
const SWEPT_WHEN_FULL: usize = 32;

/// A table of entries in shards.
#[derive(Debug)]
pub(super) struct Sharded<E: Entry> {
    rules: E::Rules,
    /// Made when the first is locked.
    shards: OnceLock<Box<[Mutex<Shard<E>>]>>,
    budget: Arc<Budget>,
    overflow: Overflow<E>,
    /// The shard that is swept next when there is no room.
    next_swept: AtomicUsize,
    /// Bytes that must suffice for a single limiter.
    bytes_of_one: usize,
    succession: Succession<dyn Table>,
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
        table.budget.has_space_for_one_of(bytes_of_one);
        Self { bytes_of_one, ..table }
    }
}

impl<E: Entry> Sharded<E> {
    pub(super) fn new(
        rules: E::Rules,
        budget: Arc<Budget>,
        succession: Succession<dyn Table>,
    ) -> Self {
        let (shards, overflow) = (OnceLock::new(), Overflow::new());
        let next_swept = AtomicUsize::new(0);
        Self { rules, shards, budget, overflow, next_swept, bytes_of_one: 0, succession }
    }

    fn shard_of(fingerprint: Fingerprint) -> usize {
        fingerprint.words()[0] as usize % SHARDS
    }

    /// Locks the shard of a limiter, after moving the limiter there if it is in an old table.
    #[inline(always)]
    fn lock(
        &self,
        fingerprint: Fingerprint,
        generation: GenerationNumber,
    ) -> Result<MutexGuard<'_, Shard<E>>, Moved> {
        let mut shard = self.lock_as_it_is(Self::shard_of(fingerprint));
        if self.succession.check(generation)? {
            self.move_in(&mut shard, fingerprint);
        }
        Ok(shard)
    }

    #[inline(always)]
    fn lock_as_it_is(&self, shard: usize) -> MutexGuard<'_, Shard<E>> {
        let shards = self.shards.get_or_init(|| (0..SHARDS).map(|_| Mutex::default()).collect());
        // A panic in a step leaves a shard as it was before or after the step, never in between.
        shards[shard].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tries `found`, and again after each of two searches for idle limiters.
    fn after_sweeps(&self, shard: &mut Shard<E>, now: Timestamp, found: impl Fn() -> bool) -> bool {
        found()
            || {
                shard.sweep(&self.rules, &self.budget, SWEPT_WHEN_FULL, now);
                found()
            }
            || self.after_tidy(now, found)
    }

    fn after_tidy(&self, now: Timestamp, found: impl Fn() -> bool) -> bool {
        self.tidy(now);
        found()
    }

    /// Finds room for one more limiter in a locked shard; claims it if it `stays`.
    fn find_space(&self, shard: &mut Shard<E>, need: Need, stays: bool, now: Timestamp) -> bool {
        if stays {
            shard.sweep(&self.rules, &self.budget, SWEPT_PER_ADDED, now);
        }
        self.after_sweeps(shard, now, || match stays {
            true => self.budget.claim_with_memory(need),
            false => self.budget.has_memory_for(need),
        })
    }

    /// Bytes that a limiter needs when it is created, and for its next unit.
    fn need(&self, entry: &E) -> Need {
        let heap = entry.need(&self.rules);
        Need { first: bytes_beside_heap::<E>() + heap.first, ..heap }
    }

    /// Bytes that a step may grow a limiter by.
    #[inline]
    fn growth(&self, entry: &E, part: &Part<'_>) -> usize {
        let grows = !entry.has_place(&self.rules) && part.step.grows(part.cost);
        if grows { entry.need(&self.rules).next } else { 0 }
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
        if entry.is_idle(&self.rules, at) {
            self.budget.resize(claimed, 0);
            self.budget.release(1);
        } else {
            shard.insert(fingerprint, entry, &self.rules, &self.budget, claimed);
        }
    }

    /// Decides and takes on a limiter that exists and need not grow, without values and claims. `None` if it does not
    /// exist or would grow, or the table may not be asked any more.
    #[inline]
    fn ask_found(&self, fingerprint: Fingerprint, cost: u64, clock: &dyn Clock) -> Option<bool> {
        let mut shard = self.lock(fingerprint, 0).ok()?;
        let (kept, _) = shard.get_mut(fingerprint)?;
        let entry = kept.entry.as_mut()?;
        let allowed = entry.ask(&self.rules, cost, clock)?;
        kept.weigh(&self.rules, &self.budget, 0);
        Some(allowed)
    }

    /// Runs a step on a limiter in a locked shard; `None` if it is not there.
    #[inline]
    fn with_found(&self, shard: &mut Shard<E>, part: &Part<'_>, now: Timestamp) -> Option<One> {
        let (kept, recent) = shard.get_mut(part.fingerprint)?;
        if !kept.entry.as_ref()?.is_under(part)
            && let Err(one) = self.put_under(kept, part, recent, now)
        {
            return Some(one);
        }
        let growth = self.growth(kept.entry.as_ref()?, part);
        if !self.budget.claim_bytes(growth) {
            return self.without_growth(shard, part, now);
        }
        self.run(kept, part, now, growth)
    }

    /// Runs a step on a limiter with `claimed` bytes.
    #[inline]
    fn run(
        &self,
        kept: &mut Kept<E>,
        part: &Part<'_>,
        now: Timestamp,
        growth: usize,
    ) -> Option<One> {
        let entry = kept.entry.as_mut()?;
        let one = entry.run(&self.rules, part.step, part.cost, now);
        kept.weigh(&self.rules, &self.budget, growth);
        Some(one)
    }

    /// Puts a limiter under the rule of `part`.
    ///
    /// # Errors
    /// Returns the reply if the limiter stays under its old rule.
    #[cold]
    fn put_under(
        &self,
        kept: &mut Kept<E>,
        part: &Part<'_>,
        recent: &mut E::Recent,
        now: Timestamp,
    ) -> Result<(), One> {
        let (mut claimed, bytes) = (0, kept.bytes);
        let claim = |heap: usize| {
            let wanted = (bytes_beside_heap::<E>() + heap).saturating_sub(bytes);
            let found = || self.budget.claim_bytes(wanted);
            let has_memory = found() || self.after_tidy(now, found);
            claimed = if has_memory { wanted } else { 0 };
            has_memory
        };
        let entry = kept.entry.as_mut();
        let changed = entry.map_or(Ok(()), |entry| entry.come_under(part, recent, now, claim));
        kept.weigh(&self.rules, &self.budget, claimed);
        changed
    }

    /// Runs a step on a limiter without memory to grow. Sweeps idle limiters, including this limiter; if there are
    /// none, goes on with the memory that the limiter has.
    #[cold]
    fn without_growth(&self, shard: &mut Shard<E>, part: &Part<'_>, now: Timestamp) -> Option<One> {
        let growth = self.growth(shard.get(part.fingerprint)?, part);
        let claimed = self.after_sweeps(shard, now, || self.budget.claim_bytes(growth));
        // An idle limiter that cannot grow may lack memory even for one unit: its key is treated as one without room.
        if !claimed && shard.get(part.fingerprint)?.is_idle(&self.rules, now) {
            shard.forget(part.fingerprint, &self.budget);
        }
        match shard.get_mut(part.fingerprint) {
            Some((kept, _)) if claimed => self.run(kept, part, now, growth),
            Some((kept, _)) => self.give_back(kept, *part, now),
            None => {
                self.budget.resize(if claimed { growth } else { 0 }, 0);
                None
            }
        }
    }

    /// Runs a step on a limiter under its old rule and with the memory that it has; `None` if it has no state.
    fn give_back(&self, kept: &mut Kept<E>, part: Part<'_>, now: Timestamp) -> Option<One> {
        let entry = kept.entry.as_mut()?;
        let one = entry.run_in_place(&self.rules, part.step, part.cost, now);
        kept.weigh(&self.rules, &self.budget, 0);
        one
    }

    /// Drops a limiter that a step has reset, unless it remembers that.
    fn drop_if_reset(&self, shard: &mut Shard<E>, part: &Part<'_>, now: Timestamp) {
        let is_idle = |entry: &E| entry.is_idle(&self.rules, now);
        if matches!(part.step, Step::Reset { .. })
            && shard.get(part.fingerprint).is_some_and(is_idle)
        {
            shard.forget(part.fingerprint, &self.budget);
        }
    }

    /// Runs a step on a limiter that is not in its locked shard; `None` if there is no room for it.
    fn with_new(&self, shard: &mut Shard<E>, part: &Part<'_>, now: Timestamp) -> Option<One> {
        let mut entry = E::new(part, &mut shard.recent, now)?;
        // Also at no cost: a bucket that is created with fewer tokens starts to fill.
        let (need, stays) = (self.need(&entry), part.step.begins(part.cost));
        if !self.find_space(shard, need, stays, now) {
            return None;
        }
        let one = entry.run(&self.rules, part.step, part.cost, now);
        if stays {
            self.add(shard, part.fingerprint, entry, need.first, now);
        }
        Some(one)
    }

    /// Runs a step of a key without room.
    #[cold]
    fn without_space(&self, part: &Part<'_>, reading: Reading<'_>) -> Result<One, Moved> {
        if let Some(never) = E::never(part, reading.early()) {
            return Ok(never);
        }
        self.one_of_overflow(&Part { step: part.step.beyond(part.cost), ..*part }, reading)
    }

    fn one_of_overflow(&self, part: &Part<'_>, reading: Reading<'_>) -> Result<One, Moved> {
        self.overflow.one(&self.rules, &self.budget, &self.succession, part, reading)
    }

    /// Runs a step under an unlimited rule. It leaves the limiter unchanged, except that a reservation gives back the
    /// units that it took before.
    #[cold]
    fn unlimited(&self, part: &Part<'_>, reading: Reading<'_>) -> Result<One, Moved> {
        if let Some(step) = part.unconditional_step(true)
            && let shard = &mut *self.lock(part.fingerprint, part.generation)?
            && let Some((kept, _)) = shard.get_mut(part.fingerprint)
        {
            let now = reading.anew();
            self.give_back(kept, Part { step, ..*part }, now);
            self.drop_if_reset(shard, part, now);
        }
        Ok(One::unlimited(reading.early()))
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
        let (part, reading) =
            (Part::alone(fingerprint, cost, Step::Decide), Reading::joined(early, clock));
        self.one(&part, reading).map(|one| one.verdict.is_allowed())
    }

    #[inline]
    fn one(&self, part: &Part<'_>, reading: Reading<'_>) -> Result<One, Moved> {
        if E::is_unlimited(part) {
            return self.unlimited(part, reading);
        }
        let mut shard = self.lock(part.fingerprint, part.generation)?;
        let now = reading.anew();
        let one =
            self.with_found(&mut shard, part, now).or_else(|| self.with_new(&mut shard, part, now));
        self.drop_if_reset(&mut shard, part, now);
        drop(shard);
        one.map_or_else(|| self.without_space(part, reading), Ok)
    }

    fn shared(&self, part: &Part<'_>, reading: Reading<'_>) -> Result<One, Moved> {
        self.one_of_overflow(part, reading)
    }

    fn hold<'a>(
        &'a self,
        parts: &[Part<'a>],
        clock: &dyn Clock,
    ) -> Result<Box<dyn LockedLimiters + 'a>, Moved> {
        self.lock_shards(parts, clock.now())
    }

    fn tidy(&self, now: Timestamp) {
        let Some(shards) = self.shards.get() else { return };
        let mut left = SWEPT_WHEN_FULL;
        for _ in 0..SHARDS {
            let number = self.next_swept.fetch_add(1, Relaxed) % SHARDS;
            if let Ok(mut shard) = shards[number].try_lock() {
                let looked_at = left.min(shard.turns());
                shard.sweep(&self.rules, &self.budget, looked_at, now);
                left -= looked_at;
            }
            if left == 0 {
                break;
            }
        }
    }

    fn preview(&self, part: &Part<'_>, reading: Reading<'_>) -> Result<Box<dyn Preview>, Moved> {
        let shard = self.lock(part.fingerprint, part.generation)?;
        let copy = shard.get(part.fingerprint).cloned();
        drop(shard);
        Ok(E::preview(copy, &self.rules, part, reading.anew()))
    }

    fn amend(&self, rule: &Rule) {
        E::amend(&self.rules, rule);
    }

    fn bytes_of_one(&self) -> usize {
        self.bytes_of_one
    }

    fn budget(&self) -> &Budget {
        &self.budget
    }

    fn succession(&self) -> &Succession<dyn Table> {
        &self.succession
    }
}
