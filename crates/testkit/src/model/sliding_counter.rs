//! `sliding_counter`: the previous window, weighted by the share of it still inside, plus the
//! current one, stay at or under N. Compared as exact fractions over W.
//!
//! After a lower limit, the running window *shows* a part of its count: at most the limit, or the count that lets a
//! unit pass after one window, plus a debt. Hidden units count again when more is allowed.

use super::{Policy, history::History, meaning::Meaning, rate::ceil_div};

/// Units by the number of their aligned window.
#[derive(Clone, Debug)]
pub(super) struct SlidingCounter {
    limit: i128,
    window: i128,
    history: History,
    hidden: Option<Hidden>,
}

/// Units that the count of a window does not show.
#[derive(Clone, Debug)]
struct Hidden {
    number: i128,
    units: i128,
    /// When the count was last lowered.
    cut: Option<i128>,
    /// Units that show and are above the limit because of changes.
    caused: i128,
}

impl SlidingCounter {
    pub(super) fn fresh(policy: &Policy) -> Self {
        Self {
            limit: policy.limit.into(),
            window: policy.window_us.into(),
            history: History::default(),
            hidden: None,
        }
    }

    fn number(&self, t: i128) -> i128 {
        t.div_euclid(self.window)
    }

    fn count(&self, number: i128) -> i128 {
        self.history.sum(|place| place == number)
    }

    fn shown(&self, number: i128) -> i128 {
        let hidden = self.hidden.as_ref().filter(|hidden| hidden.number == number);
        self.count(number) - hidden.map_or(0, |hidden| hidden.units)
    }

    /// Units of a window came back; so many of them do not show.
    fn came_back(&mut self, number: i128, units: i128) {
        let count = self.count(number);
        if let Some(hidden) = self.hidden.as_mut().filter(|hidden| hidden.number == number) {
            hidden.units = (hidden.units - units).max(0).min(count);
            hidden.caused = hidden.caused.min(count - hidden.units);
        }
    }

    /// The estimate at `t`, in W-ths of a unit.
    fn estimate(&self, t: i128) -> i128 {
        let (number, elapsed) = (self.number(t), t.rem_euclid(self.window));
        self.shown(number - 1) * (self.window - elapsed) + self.shown(number) * self.window
    }
}

impl Meaning for SlidingCounter {
    fn used(&self, t: i128) -> i128 {
        ceil_div(self.estimate(t), self.window)
    }

    fn admits(&self, t: i128, cost: i128) -> bool {
        self.estimate(t) + cost * self.window <= self.limit * self.window
    }

    fn remaining(&self, t: i128) -> i128 {
        self.limit - self.used(t)
    }

    /// The estimate never grows while nothing arrives and is 0 after two windows: halve.
    fn retry_after(&self, t: i128, cost: i128) -> Option<i128> {
        if cost > self.limit {
            return None;
        }
        let (mut too_soon, mut enough) = (t, t + 2 * self.window);
        while enough - too_soon > 1 {
            let middle = (too_soon + enough) / 2;
            if self.admits(middle, cost) {
                enough = middle;
            } else {
                too_soon = middle;
            }
        }
        Some(enough - t)
    }

    fn reset_after(&self, t: i128) -> i128 {
        self.history.newest().map_or(0, |number| (number + 2) * self.window - t)
    }

    fn charge(&mut self, t: i128, units: i128) {
        self.history.add(self.number(t), units);
    }

    fn refund(&mut self, t: i128, units: i128) {
        let number = self.number(t);
        let left = self.history.give_back(units, |place| place == number);
        let rest = self.history.give_back(left, |place| place == number - 1);
        self.came_back(number, units - left);
        self.came_back(number - 1, left - rest);
    }

    /// They come back to the window in which they were taken, if that is the current or the previous window.
    fn give_back(&mut self, t: i128, units: i128, since: i128, _drained: i128) -> i128 {
        let (number, of_take) = (self.number(t), self.number(since));
        let counts = of_take == number || of_take == number - 1;
        let given = units - self.history.give_back(units, |place| counts && place == of_take);
        // Units from before the count was lowered come back from those that do not show.
        let is_before = self.hidden.as_ref().is_some_and(|hidden| hidden.cut >= Some(since));
        self.came_back(of_take, if is_before { given } else { 0 });
        given
    }

    fn move_back(&mut self, last: i128, t: i128) {
        let windows = self.number(last) - self.number(t);
        self.history.move_back(windows);
        if let Some(hidden) = &mut self.hidden {
            hidden.number -= windows;
            hidden.cut = hidden.cut.map(|cut| cut.min(t));
        }
    }

    fn amend(&mut self, _t: i128, policy: &Policy) {
        self.limit = policy.limit.into();
    }

    fn ease(&mut self, t: i128, policy: &Policy, debt: i128) {
        let number = self.number(t);
        let rest = self.window - t.rem_euclid(self.window);
        let limit = i128::from(policy.limit);
        if limit == 0 {
            return self.count_all();
        }
        // So many weigh a unit less than the limit after one window.
        let passes = (limit - 1) * self.window / rest;
        let shown = self.shown(number);
        let kept = shown.min(limit.max(passes) + debt);
        // Without the debt, units above the limit show only because of the change.
        let caused = if kept - debt > limit { kept - debt } else { 0 };
        let before = self.hidden.as_ref().filter(|hidden| hidden.number == number);
        if kept < shown || caused > 0 || before.is_some() {
            let cut = if kept < shown { Some(t) } else { before.and_then(|hidden| hidden.cut) };
            let units = self.count(number) - kept;
            self.hidden = Some(Hidden { number, units, cut, caused });
        }
    }

    fn count_all(&mut self) {
        self.hidden = None;
    }

    fn debt(&self, t: i128) -> i128 {
        let number = self.number(t);
        let hidden = self.hidden.as_ref().filter(|hidden| hidden.number == number);
        let without = self.limit.max(hidden.map_or(0, |hidden| hidden.caused));
        if self.limit == 0 { 0 } else { (self.shown(number) - without).max(0) }
    }
}
