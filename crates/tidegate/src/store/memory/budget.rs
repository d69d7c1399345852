//! The caps on limiters and on bytes of sharded states, counted exactly: for a rule over all of its tables, and
//! (only limiters) for all rules together if they share a cap.
//!
//! Tables claim here before they add a limiter or let a state grow, and release afterwards; a claim that fails
//! makes them look for idle limiters, and then the overflow limiter decides.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use super::sync::{AtomicUsize, Ordering::Relaxed};
use crate::rules::{OnFull, RuleSpec, most_bytes, most_keys};

/// If states grow, no new limiter may use the last eighth of the bytes: it is kept for existing limiters, even when
/// others flood the table.
const KEPT_FOR_GROWTH: usize = 8;

/// The number of limiters and its cap, and their bytes.
#[derive(Debug)]
pub(crate) struct Budget {
    keys: AtomicUsize,
    most_keys: AtomicUsize,
    /// 1 if keys without room share the overflow limiter, 0 if they are refused.
    shares: AtomicUsize,
    /// Bytes of sharded states; packed ones are bounded by their number.
    bytes: AtomicUsize,
    most_bytes: AtomicUsize,
    /// Bytes that a single limiter needs: a smaller cap is raised to that.
    least_bytes: AtomicUsize,
    /// Idle limiters that were dropped so far; no step depends on it, so the model checker does not see it.
    dropped: AtomicU64,
    /// The whole budget, if this is a part.
    whole: Option<Arc<Self>>,
}

/// The bytes that a sharded state needs when it is created, and for its next unit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Need {
    pub(super) first: usize,
    /// 0 if states do not grow.
    pub(super) next: usize,
}

impl Budget {
    pub(super) fn new(most_keys: usize) -> Self {
        Self::part_of(None, most_keys)
    }

    /// Creates a budget whose limiters also count in `whole`.
    pub(super) fn part_of(whole: Option<Arc<Self>>, most_keys: usize) -> Self {
        Self {
            keys: AtomicUsize::new(0),
            most_keys: AtomicUsize::new(most_keys),
            shares: AtomicUsize::new(1),
            bytes: AtomicUsize::new(0),
            most_bytes: AtomicUsize::new(usize::MAX),
            least_bytes: AtomicUsize::new(0),
            dropped: AtomicU64::new(0),
            whole,
        }
    }

    /// Puts the caps of a rule in force, and its treatment of keys without room.
    pub(super) fn follow(&self, caps: &RuleSpec) {
        self.most_keys.store(most_keys(caps), Relaxed);
        self.most_bytes.store(most_bytes(caps), Relaxed);
        self.shares.store(usize::from(caps.on_full == OnFull::Share), Relaxed);
    }

    /// Puts another cap on limiters in force; `None` removes it.
    pub(super) fn cap_keys(&self, most_keys: Option<usize>) {
        self.most_keys.store(most_keys.unwrap_or(usize::MAX), Relaxed);
    }

    /// The treatment of keys without room.
    pub(super) fn on_full(&self) -> OnFull {
        if self.shares.load(Relaxed) == 1 { OnFull::Share } else { OnFull::Refuse }
    }

    /// Raises the cap to the bytes that a limiter needs, if it is lower.
    pub(super) fn has_space_for_one_of(&self, bytes: usize) {
        self.least_bytes.fetch_max(bytes, Relaxed);
    }

    /// Sets the bytes that the largest limiter needs, in place of earlier rules' bytes.
    pub(super) fn largest_needs(&self, bytes: usize) {
        self.least_bytes.store(bytes, Relaxed);
    }

    /// Counts one more limiter and its first bytes, if there is room for both.
    pub(super) fn claim_with_memory(&self, need: Need) -> bool {
        if !self.claim() {
            return false;
        }
        let claimed = self.claim_up_to(self.newcomers_cap(need, 1), need.first);
        if !claimed {
            self.release(1);
        }
        claimed
    }

    /// Returns whether [`Budget::claim_with_memory`] would find room; claims nothing.
    pub(super) fn has_memory_for(&self, need: Need) -> bool {
        let bytes = self.bytes.load(Relaxed).saturating_add(need.first);
        self.has_space() && bytes <= self.newcomers_cap(need, 0)
    }

    /// Claims bytes for the growth of a state, if there is room.
    pub(super) fn claim_bytes(&self, bytes: usize) -> bool {
        bytes == 0 || self.claim_up_to(self.bytes_cap(), bytes)
    }

    fn claim_up_to(&self, cap: usize, bytes: usize) -> bool {
        let more = |held: usize| held.checked_add(bytes).filter(|sum| *sum <= cap);
        // Relaxed everywhere: each count is exact by itself, and the locks of tables publish the limiters.
        self.bytes.fetch_update(Relaxed, Relaxed, more).is_ok()
    }

    /// The maximum number of bytes with one new limiter: the whole cap if it is the only one. `own` is 1 if it is
    /// counted already, else 0.
    fn newcomers_cap(&self, need: Need, own: usize) -> usize {
        // A single limiter may have all of it, because no other limiter can grow.
        let cap = self.bytes_cap();
        if need.next > 0 && self.keys() > own { cap - cap / KEPT_FOR_GROWTH } else { cap }
    }

    /// Corrects the count from `before` to `after` bytes; a larger `after` must have been claimed.
    pub(super) fn resize(&self, before: usize, after: usize) {
        if after > before {
            self.bytes.fetch_add(after - before, Relaxed);
        } else if before > after {
            self.bytes.fetch_sub(before - after, Relaxed);
        }
    }

    /// The maximum number of bytes of sharded states.
    pub(super) fn bytes_cap(&self) -> usize {
        self.most_bytes.load(Relaxed).max(self.least_bytes.load(Relaxed))
    }

    /// Counts one more limiter, if there is room.
    pub(super) fn claim(&self) -> bool {
        if !self.claim_here() {
            return false;
        }
        // In both budgets or in none. For a moment this budget counts one too many, which can only refuse.
        let claimed = self.whole.as_ref().is_none_or(|whole| whole.claim());
        if !claimed {
            self.keys.fetch_sub(1, Relaxed);
        }
        claimed
    }

    fn claim_here(&self) -> bool {
        let more = |keys| (keys < self.most_here()).then_some(keys + 1);
        self.keys.fetch_update(Relaxed, Relaxed, more).is_ok()
    }

    /// Returns whether [`Budget::claim`] would find room; claims nothing.
    pub(super) fn has_space(&self) -> bool {
        self.keys() < self.most_here() && self.whole.as_ref().is_none_or(|whole| whole.has_space())
    }

    /// Uncounts `keys` limiters.
    pub(super) fn release(&self, keys: usize) {
        if keys > 0 {
            self.keys.fetch_sub(keys, Relaxed);
            self.whole.iter().for_each(|whole| whole.release(keys));
        }
    }

    /// Uncounts `keys` limiters that were idle.
    pub(super) fn release_idle(&self, keys: usize) {
        if keys > 0 {
            self.release(keys);
            self.dropped.fetch_add(keys as u64, Relaxed);
        }
    }

    pub(super) fn keys(&self) -> usize {
        self.keys.load(Relaxed)
    }

    /// Bytes of sharded states.
    pub(super) fn bytes(&self) -> usize {
        self.bytes.load(Relaxed)
    }

    /// The number of idle limiters that were dropped so far.
    pub(super) fn dropped(&self) -> u64 {
        self.dropped.load(Relaxed)
    }

    /// The maximum number of limiters that are ever possible.
    pub(super) fn most_keys(&self) -> usize {
        let whole = self.whole.as_ref().map(|whole| whole.most_keys());
        whole.map_or(self.most_here(), |most| most.min(self.most_here()))
    }

    fn most_here(&self) -> usize {
        self.most_keys.load(Relaxed)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use std::thread;

    fn two_of(whole: &Arc<Budget>, most_keys: usize) -> [Budget; 2] {
        [(); 2].map(|()| Budget::part_of(Some(Arc::clone(whole)), most_keys))
    }

    #[test]
    fn a_limiter_counts_in_both_budgets_or_in_none() {
        let whole = Arc::new(Budget::new(3));
        let [a, b] = two_of(&whole, 2);
        assert_eq!([a.claim(), a.claim(), a.claim()], [true, true, false], "its own cap is 2");
        assert_eq!([b.claim(), b.claim()], [true, false], "the common cap is 3");
        assert_eq!((a.keys(), b.keys(), whole.keys()), (2, 1, 3));
        a.release(1);
        assert_eq!((a.keys(), b.keys(), whole.keys()), (1, 1, 2));
        assert!(b.claim() && !a.claim());
        assert_eq!((a.keys(), b.keys(), whole.keys()), (1, 2, 3));
    }

    #[test]
    fn tables_are_made_for_the_smaller_of_both() {
        let whole = Arc::new(Budget::new(3));
        assert_eq!(two_of(&whole, 2).map(|part| part.most_keys()), [2, 2]);
        assert_eq!(two_of(&whole, 5).map(|part| part.most_keys()), [3, 3]);
        assert_eq!(Budget::new(7).most_keys(), 7);
    }

    /// Each thread claims and releases; the final count is the number that they kept.
    #[test]
    fn the_count_is_exact_under_any_concurrency() {
        let whole = Arc::new(Budget::new(50));
        let parts = two_of(&whole, 40);
        let kept: usize = thread::scope(|scope| {
            let kept = |part| scope.spawn(move || (0..9_000).filter(|n| keep(part, *n)).count());
            let threads: Vec<_> = parts.iter().chain(&parts).map(kept).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        assert_eq!(kept, whole.keys());
        assert_eq!(kept, parts.iter().map(Budget::keys).sum::<usize>());
        let more = parts.iter().map(|part| (0..100).filter(|_| part.claim()).count());
        assert_eq!(kept + more.sum::<usize>(), 50, "free places are not withheld");
    }

    /// Claims one limiter, and releases it if the number is odd; returns whether it was kept.
    fn keep(part: &Budget, number: usize) -> bool {
        let claimed = part.claim();
        let kept = claimed && number.is_multiple_of(2);
        part.release(usize::from(claimed && !kept));
        kept
    }
}
