//! The mark of a level: how low it was since the oldest reservation that is open.

use super::rate::Rate;

/// A level's open reservations. Levels are in parts of a unit.
///
/// A mark begins with a reservation where none is open, and goes with the last that is settled, or when the level was
/// empty since. What a reservation gives back was not taken, so it lowers the level of the whole time.
#[derive(Clone, Debug, Default)]
pub(super) struct Mark(Option<Open>);

#[derive(Clone, Debug)]
struct Open {
    /// When the first of the reservations took its units.
    began: i128,
    reservations: u64,
    /// The lowest level since then, less what came back.
    least: i128,
}

impl Mark {
    /// A reservation took its units at `t`, which left this level.
    pub(super) fn begin(&mut self, t: i128, level: i128) {
        let fresh = Open { began: t, reservations: 0, least: level };
        self.0.get_or_insert(fresh).reservations += 1;
    }

    /// The level is this low at some time.
    pub(super) fn see(&mut self, level: i128) {
        self.0 = self.0.take().map(|open| Open { least: open.least.min(level), ..open });
        self.0.take_if(|open| open.least <= 0);
    }

    /// One of the reservations since `since` is settled.
    pub(super) fn close(&mut self, since: i128) {
        let open = self.0.as_mut().filter(|open| open.began <= since);
        open.into_iter().for_each(|open| open.reservations -= 1);
        self.0.take_if(|open| open.reservations == 0);
    }

    /// As much of what was taken at `since` as nothing else can have drained: what has not drained at the rate, which
    /// is the present one since `rated`; or as much as the level held all the time.
    pub(super) fn credit(&self, rate: Rate, t: i128, of_take: (i128, i128), rated: i128) -> i128 {
        let (parts, since) = of_take;
        let undrained = if since >= rated { parts - (t - since).max(0) * rate.n } else { 0 };
        let open = self.0.as_ref().filter(|open| open.began <= since);
        undrained.max(open.map_or(0, |open| open.least.min(parts))).max(0)
    }

    /// Parts of the level come back.
    pub(super) fn lower(&mut self, parts: i128) {
        self.0 = self.0.take().map(|open| Open { least: open.least - parts, ..open });
        self.0.take_if(|open| open.least <= 0);
    }

    /// The same units in the parts of another rate, rounded down, so that there is no credit.
    pub(super) fn convert(&mut self, old: Rate, new: Rate) {
        let convert = |open: Open| Open { least: open.least * new.w / old.w, ..open };
        self.0 = self.0.take().map(convert);
        self.0.take_if(|open| open.least <= 0);
    }
}
