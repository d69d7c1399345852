//! The mark of a level: its lowest point since the oldest open reservation.
//!
//! The models of levels keep one, because a unit of an open reservation comes back as far as the level never fell
//! below it.

use super::rate::Rate;

/// A level's open reservations. Levels are in parts of a unit.
///
/// A mark begins with a reservation where none is open, and goes with the last that is settled, or when the level is
/// empty. Units that a reservation gives back count as never taken, so they lower the level over the whole time. A mark
/// without any level left begins again with the next reservation.
#[derive(Clone, Debug, Default)]
pub(super) struct Mark(Option<Open>);

#[derive(Clone, Debug)]
struct Open {
    /// When the first of the reservations took its units.
    first: i128,
    reservations: u64,
    /// Since when the level is known.
    began: i128,
    /// The lowest level since then, less the units that came back.
    least: i128,
}

impl Mark {
    /// A reservation took its units at `t`, which left this level.
    pub(super) fn begin(&mut self, t: i128, level: i128) {
        let fresh = Open { first: t, reservations: 0, began: t, least: level };
        let open = self.0.get_or_insert(fresh);
        open.reservations += 1;
        if open.least <= 0 {
            (open.began, open.least) = (t, level);
        }
    }

    /// The level is this low at some time.
    pub(super) fn see(&mut self, level: i128) {
        self.0 = self.0.take().map(|open| Open { least: open.least.min(level), ..open });
        self.0.take_if(|_| level <= 0);
    }

    /// One of the reservations since `since` is settled.
    pub(super) fn close(&mut self, since: i128) {
        let open = self.0.as_mut().filter(|open| open.first <= since);
        open.into_iter().for_each(|open| open.reservations -= 1);
        self.0.take_if(|open| open.reservations == 0);
    }

    /// The lowest level since units were taken at `since`, as far as it is known.
    pub(super) fn least_since(&self, since: i128) -> i128 {
        let open = self.0.as_ref().filter(|open| open.began <= since);
        open.map_or(0, |open| open.least)
    }

    /// Parts of the level come back.
    pub(super) fn lower(&mut self, parts: i128) {
        self.0 = self.0.take().map(|open| Open { least: (open.least - parts).max(0), ..open });
    }

    /// The same units in the parts of another rate, rounded down, so that there is no credit.
    pub(super) fn convert(&mut self, old: Rate, new: Rate) {
        let convert = |open: Open| Open { least: open.least * new.w / old.w, ..open };
        self.0 = self.0.take().map(convert);
    }
}
