//! A counter under another limit: units of its running window that make no caller wait.
//!
//! Such units are an *excess*: a change lowered the limit below them. `used` leaves them out, `owed` has them, and they
//! count again when more is allowed. `Past` keeps the excess of a state. For example, the limit falls from 10 to 3 while
//! 10 units are counted: 7 are an excess, and callers wait for 3 alone.

use super::{SlidingCounter, State, View};
use crate::algorithm::Amend;
use crate::past::Excess;
use crate::time::Timestamp;

impl SlidingCounter {
    /// The excess of the running window.
    fn running_excess<'s>(&self, state: &'s State, at: Timestamp) -> Option<&'s Excess> {
        let at = self.not_before(state, at);
        state.past.excess().filter(|excess| excess.until.since(at) > self.window)
    }

    /// Gives back at most `units` of the state's window (`before` is 0) or of the previous window (1), taken at `since`
    /// or at any time. Units that make no caller wait leave first, unless the units were taken after the count was
    /// lowered.
    pub(super) fn lower(
        &self,
        state: &mut State,
        before: u64,
        units: u64,
        since: Option<Timestamp>,
    ) -> u64 {
        let count = if before == 0 { &mut state.current } else { &mut state.previous };
        let given = units.min(*count);
        *count -= given;
        // An excess belongs to the window that counts until then.
        let until = self.start(state.index.saturating_add(2) - before);
        if let Some(excess) = state.past.excess().filter(|excess| excess.until == until) {
            let is_of_it = since.is_none_or(|since| since <= excess.cut);
            let off = if is_of_it { given } else { 0 };
            let units = excess.units.saturating_sub(off).min(*count);
            let caused = excess.caused.min(*count - units);
            state.past.exceed(Some(Excess { units, caused, ..*excess }));
        }
        given
    }
}

impl Amend for SlidingCounter {
    fn same_shape(&self, old: &Self) -> bool {
        self.window == old.window
    }

    fn refit(&self, old: &Self, state: &mut State, _at: Timestamp) {
        if self.limit > old.limit {
            state.past.exceed(None);
        }
    }

    /// The units in use, and the units of them that are a debt: units of the running window above the limit, but for
    /// units that a change of the limit put above it (`caused`).
    fn owed(&self, state: &State, at: Timestamp) -> [u64; 2] {
        let whole = self.whole(state, at);
        let used = whole.current.saturating_add(self.inside(&whole));
        if self.limit == 0 {
            return [used, 0];
        }
        let caused = self.running_excess(state, at).map_or(0, |excess| excess.caused);
        [used, self.view(state, at).current.saturating_sub(self.limit.max(caused))]
    }

    /// Lowers the count of the running window to the limit plus a debt, or to the count that lets a unit pass after one
    /// window if that is larger. Units of the previous window leave with the running window.
    fn ease(&self, state: &mut State, at: Timestamp, debt: u64) {
        let Some(one_less) = self.limit.checked_sub(1) else {
            return state.past.exceed(None);
        };
        let at = self.not_before(state, at);
        let View { current, overlap_us, .. } = self.view(state, at);
        // One window later this count is the previous count, with a weight of
        // `overlap_us` / W. A unit fits then if `kept` x `overlap_us` <= (N - 1) x W.
        let passes = u128::from(one_less) * u128::from(self.window.as_micros());
        let passes = u64::try_from(passes / u128::from(overlap_us)).unwrap_or(u64::MAX);
        let kept = current.min(self.limit.max(passes).saturating_add(debt));
        let above = kept.saturating_sub(debt);
        let caused = if above > self.limit { above } else { 0 };
        let before = self.running_excess(state, at);
        if kept == current && caused == 0 && before.is_none() {
            return;
        }
        let cut = before.map_or(Timestamp::EPOCH, |excess| excess.cut);
        // If this change lowers nothing, an earlier lowering may still hold.
        let cut = if kept < current { at } else { cut };
        let units = self.whole(state, at).current - kept;
        let until = self.start(self.number(at) + 2);
        state.past.exceed(Some(Excess { units, cut, caused, until }));
    }
}
