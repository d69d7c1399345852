//! A level that a change has *eased*: it counts as less than all usage, so that no caller waits long for the change.
//!
//! All usage is kept next to it, and counts again when more is allowed.

use super::{Level, Rate};
use crate::past::Eased;
use crate::time::Timestamp;

impl Level {
    /// All units in use, and how many of them are a debt: above the capacity, and there whatever changed. While nothing
    /// drains, none is known to be a debt.
    pub(crate) fn owed(&self, rate: Rate, at: Timestamp, capacity: u64) -> [u64; 2] {
        let whole = rate.units_ceil(self.whole(rate, at));
        if rate.n == 0 {
            return [whole, 0];
        }
        let caused = self.past.eased().map_or(0, |eased| eased.caused);
        let caused = rate.units_ceil(caused.saturating_sub(rate.instant(at)));
        let debt = rate.units_ceil(self.left(rate, at)).saturating_sub(capacity.max(caused));
        [whole, debt]
    }

    /// Lowers a level that is above the capacity of its new rule, except by a debt, so far that a unit fits after one
    /// window. All usage counts again when more is allowed.
    pub(crate) fn ease(
        &mut self,
        rate: Rate,
        at: Timestamp,
        capacity: u64,
        per_window: u64,
        debt: u64,
    ) {
        // Where nothing drains, a lower level would keep a caller waiting as long.
        if rate.n == 0 {
            return self.past.ease(None);
        }
        let left = self.left(rate, at);
        let whole = self.whole(rate, at);
        // One window drains `per_window` units, and then a unit fits if `capacity - 1` are left.
        let most = rate.grains(capacity.saturating_add(per_window - 1).saturating_add(debt));
        let kept = left.min(most);
        let above = kept.saturating_sub(rate.grains(debt));
        let before = self.past.eased().map_or(Timestamp::EPOCH, |eased| eased.cut);
        // If this change lowers nothing, an earlier lowering may still hold.
        let cut = if kept < left { at } else { before };
        let is_above = above > rate.grains(capacity);
        let caused = if is_above { rate.instant(at).saturating_add(above) } else { 0 };
        let eased = Self::eased(rate, at, whole, cut, caused);
        self.past.ease((whole > kept || caused > 0).then_some(eased));
        if kept < left {
            self.empty_at = rate.instant(at).saturating_add(kept);
        }
    }

    /// The notes about a level that was lowered at `cut`, with `whole` grains of all usage.
    pub(super) fn eased(
        rate: Rate,
        at: Timestamp,
        whole: u128,
        cut: Timestamp,
        caused: u128,
    ) -> Eased {
        let until = at.plus(rate.wait_from(at, whole));
        Eased { whole: rate.instant(at).saturating_add(whole), cut, caused, until }
    }

    /// Sets the grains of all usage, if a change of the rule has eased the level.
    pub(super) fn set_whole(&mut self, rate: Rate, at: Timestamp, whole: u128) {
        if let Some(eased) = self.past.eased() {
            // Of units that came back none was there because of a change.
            let caused = eased.caused.min(self.empty_at);
            let eased = Self::eased(rate, at, whole, eased.cut, caused);
            self.past.ease((eased.until > self.last).then_some(eased));
        }
    }

    /// Away from the path of levels that remember nothing, which is inlined.
    #[cold]
    pub(super) fn note_added(&mut self, rate: Rate, at: Timestamp, units: u64) {
        let whole = self.whole(rate, at);
        self.past.see(whole);
        self.set_whole(rate, at, whole.saturating_add(rate.grains(units)));
    }
}
