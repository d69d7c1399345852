//! The units that every key was admitted within its last window, within a budget of bytes.
//!
//! A key whose last window has passed is dropped when a new key comes, which changes no sum. If that leaves no room,
//! another key is forgotten too early: the key with the fewest units among a few.

use super::fingerprint::Fingerprint;
use super::recent::RecentAdmissions;
use super::recent_by_key::{NOWHERE, RecentByKey};

/// The number of entries that are searched for a key to forget.
const LOOKED_AT: usize = 32;

#[derive(Clone, Debug)]
pub(super) struct Watched {
    window_us: u64,
    most_bytes: usize,
    keys: RecentByKey,
    /// Bytes of memory of keys with several admissions.
    own_bytes: usize,
    cursor: usize,
    forgotten: u64,
}

impl Watched {
    pub(super) fn new(window_us: u64, most_bytes: usize) -> Self {
        let keys = RecentByKey::new();
        Self { window_us, most_bytes, keys, own_bytes: 0, cursor: 0, forgotten: 0 }
    }

    /// Lowers the budget to `most_bytes`, but not below the bytes in use.
    pub(super) fn hold_at_most(&mut self, most_bytes: usize) {
        self.most_bytes = most_bytes;
    }

    /// Counts units of `key`, requested at `now_us` and admitted at `at_us`; returns the sum in the
    /// window that ends then. Times of requests never fall, nor do times of admission for one key.
    pub(super) fn add(&mut self, key: Fingerprint, now_us: u64, at_us: u64, units: u64) -> u64 {
        let Some(index) = self.keys.find(key).or_else(|| self.begin(key, now_us)) else {
            self.forgotten += 1; // the budget has no room for a single key
            return units;
        };
        // Before the growth is asked for: admissions that have left the window leave their places.
        self.change(index, |recent, window_us| recent.drop_left(at_us, window_us));
        let growth = self.keys.recent(index).map_or(0, |recent| recent.growth(at_us, units));
        if growth > 0 && !self.has_space(growth) {
            self.make_space(index, growth, now_us);
        }
        self.change(index, |recent, _| recent.add(at_us, units));
        self.keys.touch(index);
        self.keys.recent(index).map_or(units, RecentAdmissions::units)
    }

    /// The number of times that a key or an admission was forgotten within its window.
    pub(super) const fn forgotten(&self) -> u64 {
        self.forgotten
    }

    pub(super) fn bytes(&self) -> usize {
        self.keys.bytes() + self.own_bytes
    }

    fn has_space(&self, growth: usize) -> bool {
        self.bytes() + growth <= self.most_bytes
    }

    /// A quarter of the budget is for keys with several admissions, and the table cannot use it.
    fn table_has_space(&self, growth: usize) -> bool {
        self.keys.bytes() + growth <= self.most_bytes / 4 * 3 && self.has_space(growth)
    }

    /// An entry for a new key.
    fn begin(&mut self, key: Fingerprint, now_us: u64) -> Option<u32> {
        self.drop_passed(NOWHERE, now_us);
        if self.keys.is_full() {
            if self.table_has_space(self.keys.growth()) {
                self.keys.grow();
            } else {
                self.forget_one(NOWHERE, now_us, |_| true);
            }
        }
        self.keys.insert(key)
    }

    /// Makes room for a key to grow: from other keys with several admissions, or else from its own
    /// past.
    fn make_space(&mut self, index: u32, growth: usize, now_us: u64) {
        self.drop_passed(index, now_us);
        while !self.has_space(growth) && self.forget_one(index, now_us, |recent| recent.bytes() > 0)
        {
        }
        if !self.has_space(growth) {
            // The admission that follows takes the place of the dropped one, and needs no growth.
            self.change(index, |recent, _| recent.drop_oldest());
            self.forgotten += 1;
        }
    }

    /// Drops keys that cannot be in any later window. Keys with departures still to come stay, and
    /// so do those after them.
    fn drop_passed(&mut self, kept: u32, now_us: u64) {
        while self.keys.earliest() != kept && self.has_passed(self.keys.earliest(), now_us) {
            self.remove(self.keys.earliest());
        }
    }

    fn has_passed(&self, index: u32, now_us: u64) -> bool {
        let recent = self.keys.recent(index);
        recent.is_some_and(|recent| now_us.saturating_sub(recent.last_us()) >= self.window_us)
    }

    /// Forgets the key with the fewest units among the next few keys after the cursor, except `kept`.
    fn forget_one(
        &mut self,
        kept: u32,
        now_us: u64,
        may_go: impl Fn(&RecentAdmissions) -> bool,
    ) -> bool {
        let mut least: Option<(u64, u32)> = None;
        // The search goes on where the last search ended, so that every key is looked at in turn.
        for _ in 0..LOOKED_AT.min(self.keys.capacity()) {
            self.cursor = (self.cursor + 1) % self.keys.capacity();
            let index = self.cursor as u32;
            // An entry without units is free, so nothing is won by it.
            let recent = self.keys.recent(index).filter(|recent| recent.units() > 0);
            let Some(recent) = recent.filter(|recent| index != kept && may_go(recent)) else {
                continue;
            };
            // A key whose window has passed is forgotten without any loss.
            let units = if self.has_passed(index, now_us) { 0 } else { recent.units() };
            least = Some(least.map_or((units, index), |least| least.min((units, index))));
        }
        let Some((units, index)) = least else { return false };
        self.remove(index);
        self.forgotten += u64::from(units > 0);
        true
    }

    fn change(&mut self, index: u32, change: impl FnOnce(&mut RecentAdmissions, u64)) {
        if let Some(recent) = self.keys.recent_mut(index) {
            self.own_bytes -= recent.bytes();
            change(recent, self.window_us);
            self.own_bytes += recent.bytes();
        }
    }

    fn remove(&mut self, index: u32) {
        self.own_bytes -= self.keys.recent(index).map_or(0, RecentAdmissions::bytes);
        self.keys.remove(index);
    }
}

#[cfg(test)]
mod tests;
