//! The memory of a state about units that may still be given back.
//!
//! Most states remember nothing. A level with a reservation has a *mark*: the lowest level since the reservation took
//! its units. A state whose clock stepped back, that was reset, or whose rule got another meaning remembers since when:
//! units that were taken before come back no more. A level that a change has *eased* remembers its level without the
//! change, and a counter remembers the units that make no caller wait.

use alloc::boxed::Box;
use core::mem::ManuallyDrop;

use crate::rates::Rates;
use crate::time::{Micros, Timestamp};

/// When units were taken, as the caller that gives them back says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Since {
    /// The instant that counted.
    pub at: Timestamp,
    /// True if they opened a reservation, which the settlement closes.
    pub(crate) is_of_reservation: bool,
    /// True if the rule has another meaning since.
    is_of_other_rule: bool,
    /// Only the state knows which limits were in force after this.
    rated: Timestamp,
    /// Units that a level drained until then, times microseconds of the window.
    drained: u128,
}

impl Since {
    /// Units that were taken at that instant under the rule in force.
    #[must_use]
    pub const fn at(at: Timestamp) -> Self {
        Self { at, is_of_reservation: false, is_of_other_rule: false, rated: at, drained: 0 }
    }

    /// The same units where they were taken for a reservation that is open.
    #[must_use]
    pub const fn of_reservation(self) -> Self {
        Self { is_of_reservation: true, ..self }
    }

    /// The same units where the rule has another meaning since.
    #[must_use]
    pub const fn of_other_rule(self) -> Self {
        Self { is_of_other_rule: true, ..self }
    }

    /// The same units where these limits were in force, as the keeper of the state knows.
    #[must_use]
    pub fn under(self, rates: &Rates) -> Self {
        // Up to the last change that the keeper knows. The state knows the limits after that.
        let (drained, rated) = rates.drained(self.at, Timestamp::MAX);
        Self { rated, drained, ..self }
    }
}

/// The memory of a state about units that may still be given back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Past(ManuallyDrop<Option<Box<Memory>>>);

impl Drop for Past {
    #[inline]
    fn drop(&mut self) {
        // Nearly every decision drops a state that remembers nothing, and the drop of the option is never inlined.
        if self.0.is_some() {
            self.0.take();
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Memory {
    /// Units that were taken before this came to nothing by a reset, or by a clock that stepped back.
    lost_before: Timestamp,
    /// Units that were taken before this were taken under a rule with another meaning.
    ruled_since: Timestamp,
    /// The limits under which a level drained before.
    rates: Rates,
    /// The largest number of units that were in use or allowed before any of these.
    most: u64,
    /// When nothing counts any more that was taken before any of these.
    until: Timestamp,
    mark: Option<Box<LevelMark>>,
    eased: Option<Box<Eased>>,
    excess: Option<Box<Excess>>,
}

/// A level that was above the new capacity when the rule changed, as ends like the end of the level itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Eased {
    /// When all usage has drained, including units that make no caller wait.
    pub(crate) whole: u128,
    /// When the level was lowered; the epoch if it was not.
    pub(crate) cut: Timestamp,
    /// When the part that is above the capacity because of changes has drained; a debt is above it.
    pub(crate) caused: u128,
    /// The first instant after `whole`.
    pub(crate) until: Timestamp,
}

/// Units of one window of a counter that make no caller wait, because a change of the rule lowered the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Excess {
    pub(crate) units: u64,
    /// When the count was lowered by them; the epoch if it was not.
    pub(crate) cut: Timestamp,
    /// The part of the other units that is above the limit because of changes; a debt is above it.
    pub(crate) caused: u64,
    /// The first instant at which the window counts no more. It identifies the window. This may be the window before
    /// the epoch, where a clock that steps back to the epoch may have moved a window.
    pub(crate) until: Timestamp,
}

/// The open reservations of a level, in grains. For an eased level they are about all usage.
#[derive(Clone, Debug, PartialEq, Eq)]
struct LevelMark {
    /// When the first of the open reservations took its units.
    first: Timestamp,
    reservations: u64,
    /// Since when `least` holds.
    began: Timestamp,
    /// The lowest level since then, less the units that came back.
    least: u128,
}

impl Past {
    pub(crate) const NONE: Self = Self(ManuallyDrop::new(None));

    /// The bytes that it holds on the heap.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        self.0.as_deref().map_or(0, |past| {
            let mark = past.mark.as_ref().map_or(0, |_| size_of::<LevelMark>());
            let eased = past.eased.as_ref().map_or(0, |_| size_of::<Eased>());
            let excess = past.excess.as_ref().map_or(0, |_| size_of::<Excess>());
            size_of::<Memory>() + past.rates.heap_bytes() + mark + eased + excess
        })
    }

    #[inline]
    pub(crate) fn is_none(&self) -> bool {
        self.0.is_none()
    }

    /// Returns whether units that were taken at `since` may come back.
    pub(crate) fn admits(&self, since: Since) -> bool {
        let begins = self.0.as_deref().map(|past| past.lost_before.max(past.ruled_since));
        !since.is_of_other_rule && begins.is_none_or(|begins| since.at >= begins)
    }

    /// Units that were taken up to `at` come back no more. They would count until `until`.
    pub(crate) fn lose(&mut self, at: Timestamp, until: Timestamp) {
        let past = self.0.get_or_insert_default();
        past.mark = None;
        past.rates.forget();
        // Units of `at` itself are lost as well, and `admits` lets units of `lost_before` come back.
        past.lost_before = past.lost_before.max(at.plus(Micros::from_micros(1)));
        past.until = past.until.max(until);
    }

    /// Units that were taken before `at` were taken under another rule, at most `most`; after `gone` they count no
    /// more.
    pub(crate) fn rule_changes(
        &mut self,
        at: Timestamp,
        most: u64,
        gone: impl FnOnce(u64) -> Micros,
    ) {
        let past = self.0.get_or_insert_default();
        past.rates.forget();
        past.ruled_since = past.ruled_since.max(at);
        past.outlast(at, most, gone);
    }

    /// Notes that a level drained under this limit until `at`. `most` units at most are in use or were allowed, which took
    /// no longer than `gone`; units will take as long as `gone_now` says.
    pub(crate) fn limit_ends(
        &mut self,
        limit: u64,
        at: Timestamp,
        most: u64,
        gone: Micros,
        gone_now: impl FnOnce(u64) -> Micros,
    ) {
        let past = self.0.get_or_insert_default();
        if past.until <= at {
            // Earlier limits are forgotten, because nothing counts that was taken so long ago.
            past.most = 0;
            past.ruled_since = past.ruled_since.max(at.minus(gone));
        }
        past.rates.end(limit, at);
        past.outlast(at, most, gone_now);
    }

    /// The units that a level drained since these were taken, until the last change of the limit, times microseconds of
    /// the window; and when that change was.
    pub(crate) fn drained(&self, since: Since, at: Timestamp) -> (u128, Timestamp) {
        let Some(past) = self.0.as_deref() else { return (since.drained, since.rated) };
        let (drained, rated) = past.rates.drained(since.rated, at);
        (since.drained.saturating_add(drained), rated)
    }

    /// Forgets since when the rule holds, because the keeper of the state knows it.
    pub fn forget_rule(&mut self) {
        if let Some(past) = &mut *self.0 {
            past.ruled_since = Timestamp::EPOCH;
            past.rates.forget();
            // A loss stays, because only the state knows of it.
            self.0.take_if(|past| past.lost_before == Timestamp::EPOCH && past.is_bare());
        }
    }

    /// Returns whether it says nothing any more at `at`, where nothing is used.
    pub(crate) fn is_over(&self, at: Timestamp) -> bool {
        self.0.as_deref().is_none_or(|past| past.is_over(at))
    }

    /// Drops the parts that say nothing any more. It stays out of line, because most states remember nothing.
    #[cold]
    pub(crate) fn pass(&mut self, at: Timestamp) {
        if let Some(past) = &mut *self.0 {
            past.eased.take_if(|eased| eased.until <= at);
            if past.until <= at {
                past.rates.forget();
            }
            // An excess ends with `counted` alone, because the clock may step back.
            if past.is_over(at) && past.mark.is_none() && past.excess.is_none() {
                self.0.take();
            }
        }
    }

    pub(crate) fn eased(&self) -> Option<&Eased> {
        self.0.as_deref()?.eased.as_deref()
    }

    /// When no eased units count any more; the epoch if no change has eased any.
    #[must_use]
    pub fn eased_until(&self) -> Timestamp {
        let level = self.eased().map_or(Timestamp::EPOCH, |eased| eased.until);
        self.excess().map_or(level, |excess| excess.until)
    }

    #[inline]
    pub(crate) fn excess(&self) -> Option<&Excess> {
        self.0.as_deref()?.excess.as_deref()
    }

    /// A counter took units at `at`, before which no time counts any more: its excess may be over. A look at a later time
    /// does not end it, because the clock may step back.
    #[inline]
    pub(crate) fn counted(&mut self, at: Timestamp) {
        if self.excess().is_some_and(|excess| excess.until <= at) {
            self.exceed(None);
        }
    }

    /// Notes the units of a counter that make no caller wait, or that all do.
    pub(crate) fn exceed(&mut self, excess: Option<Excess>) {
        // Else there is no change, and no memory is allocated to say so.
        if excess.is_some() || self.excess().is_some() {
            let excess = excess.filter(|excess| excess.units > 0 || excess.caused > 0);
            self.0.get_or_insert_default().excess = excess.map(Box::new);
            self.drop_bare();
        }
    }

    /// Notes how a change has eased the level, or that nothing is left to note.
    pub(crate) fn ease(&mut self, eased: Option<Eased>) {
        if eased.is_some() || self.eased().is_some() {
            self.0.get_or_insert_default().eased = eased.map(Box::new);
            self.drop_bare();
        }
    }

    /// Nothing is used any more, even if units were reserved or the level was eased.
    pub(crate) fn run_empty(&mut self) {
        self.ease(None);
        self.exceed(None);
        self.see(0);
    }

    /// A reservation took its units at `at`, which left this level.
    pub(crate) fn open(&mut self, at: Timestamp, level: u128) {
        let mark = &mut self.0.get_or_insert_default().mark;
        match mark {
            Some(mark) => {
                mark.reservations += 1;
                // Nothing is left of earlier units, so the mark may begin again with these.
                if mark.least == 0 {
                    mark.began = at;
                    mark.least = level;
                }
            }
            None => {
                *mark = Some(Box::new(LevelMark {
                    first: at,
                    reservations: 1,
                    began: at,
                    least: level,
                }));
            }
        }
    }

    /// One of the reservations that took their units at `since` or later is settled.
    pub(crate) fn close(&mut self, since: Timestamp) {
        self.change(|mark| {
            // An older reservation was counted by an earlier mark, which went when the level ran empty.
            if mark.first <= since {
                mark.reservations -= 1;
            }
            mark.reservations > 0
        });
    }

    /// The level is as low as this.
    #[inline]
    pub(crate) fn see(&mut self, level: u128) {
        if self.0.is_some() {
            self.change(|mark| {
                mark.least = mark.least.min(level);
                // An empty level has none of the reserved units any more, so its mark is done.
                level > 0
            });
        }
    }

    /// So many grains came back, as though they had never been taken.
    pub(crate) fn lower(&mut self, grains: u128) {
        self.convert(|least| least.saturating_sub(grains));
    }

    /// The level drains at another rate, in other grains.
    pub(crate) fn convert(&mut self, convert: impl FnOnce(u128) -> u128) {
        if let Some(mark) = self.0.as_mut().and_then(|past| past.mark.as_mut()) {
            mark.least = convert(mark.least);
        }
    }

    /// The lowest level since units were taken at `since`, as far as it is known; 0 if they came to nothing.
    pub(crate) fn least_since(&self, since: Timestamp) -> u128 {
        let past = self.0.as_deref().filter(|past| since >= past.lost_before);
        let mark = past.and_then(|past| past.mark.as_ref());
        // Before the mark began the level may have been lower.
        mark.filter(|mark| mark.began <= since).map_or(0, |mark| mark.least)
    }

    /// Changes the mark, and drops it unless `stays` says that it stays.
    fn change(&mut self, stays: impl FnOnce(&mut LevelMark) -> bool) {
        if let Some(past) = &mut *self.0 {
            past.mark.take_if(|mark| !stays(mark));
            self.drop_bare();
        }
    }

    fn drop_bare(&mut self) {
        self.0.take_if(|past| past.is_bare() && past.until == Timestamp::EPOCH);
    }
}

impl Memory {
    /// Lasts as long as `gone` says that the largest number of units counts, from `at` on.
    fn outlast(&mut self, at: Timestamp, most: u64, gone: impl FnOnce(u64) -> Micros) {
        self.most = self.most.max(most);
        // If the clock has stepped back, the lost units are from after `at`.
        self.until = self.lost_before.max(at).plus(gone(self.most));
    }

    /// Returns whether it remembers times alone.
    const fn is_bare(&self) -> bool {
        self.mark.is_none() && self.eased.is_none() && self.excess.is_none() && self.rates.is_none()
    }

    fn is_over(&self, at: Timestamp) -> bool {
        self.until <= at
            && self.eased.as_ref().is_none_or(|eased| eased.until <= at)
            && self.excess.as_ref().is_none_or(|excess| excess.until <= at)
    }
}
