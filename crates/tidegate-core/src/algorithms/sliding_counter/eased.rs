//! A counter under another limit: units of its running window that make no caller wait.

use super::{SlidingCounter, State, View};
use crate::algorithm::Amend;
use crate::past::Excess;
use crate::time::{Micros, Timestamp};

impl SlidingCounter {
    /// The first instant at which the units of a window count no more.
    pub(super) fn counts_until(&self, window: u64) -> Timestamp {
        let end = window.saturating_add(2).saturating_mul(self.window.as_micros());
        Timestamp::EPOCH.plus(Micros::from_micros(end))
    }

    /// Notes that units of a window came back, `off` of them of those that make no caller wait.
    pub(super) fn lower_excess(state: &mut State, window: u64, off: u64) {
        let Some(excess) = state.past.excess().filter(|excess| excess.window == window) else {
            return;
        };
        let count = match state.window.checked_sub(window) {
            Some(0) => state.current,
            Some(1) => state.previous,
            _ => 0,
        };
        let units = excess.units.saturating_sub(off).min(count);
        let caused = excess.caused.min(count - units);
        state.past.exceed(Some(Excess { units, caused, ..excess.clone() }));
    }
}

impl Amend for SlidingCounter {
    fn same_shape(&self, old: &Self) -> bool {
        self.window == old.window
    }

    fn refit(&self, old: &Self, state: &mut State, _at: Timestamp) {
        if self.limit > old.limit || self.limit == 0 {
            state.past.exceed(None);
        }
    }

    /// A debt is above the limit in the running window alone: no other way leads there but a change.
    fn owed(&self, state: &State, at: Timestamp) -> [u64; 2] {
        let whole = self.whole(state, at);
        let number = self.number(self.not_before(state, at));
        let excess = state.past.excess().filter(|excess| excess.window == number);
        let without = self.limit.max(excess.map_or(0, |excess| excess.caused));
        let debt = self.view(state, at).current.saturating_sub(without);
        let debt = if self.limit == 0 { 0 } else { debt };
        [whole.current.saturating_add(self.inside(&whole)), debt]
    }

    /// Lowers the count of the running window to the limit, and a debt, or to what lets a unit pass after one window if
    /// that is more. Units of the window before leave with the running one.
    fn ease(&self, state: &mut State, at: Timestamp, debt: u64) {
        let Some(one_less) = self.limit.checked_sub(1) else {
            return state.past.exceed(None);
        };
        let at = self.not_before(state, at);
        let window = self.number(at);
        let View { current, overlap_us, .. } = self.view(state, at);
        let passes = u128::from(one_less) * u128::from(self.window.as_micros());
        let passes = u64::try_from(passes / u128::from(overlap_us)).unwrap_or(u64::MAX);
        let kept = current.min(self.limit.max(passes).saturating_add(debt));
        let above = kept.saturating_sub(debt);
        let caused = if above > self.limit { above } else { 0 };
        let before = state.past.excess().filter(|excess| excess.window == window);
        if kept == current && caused == 0 && before.is_none() {
            return;
        }
        let cut = before.map_or(Timestamp::EPOCH, |excess| excess.cut);
        let cut = if kept < current { at } else { cut };
        let units = self.whole(state, at).current - kept;
        let until = self.counts_until(window);
        state.past.exceed(Some(Excess { window, units, cut, caused, until }));
    }
}
