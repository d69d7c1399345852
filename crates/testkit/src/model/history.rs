//! Every unit ever taken, as (place, units). A place is a time, a tick, a bucket or a window.
//!
//! The models of windows, logs and counters keep their units in it.

/// Units by place, oldest first.
#[derive(Clone, Debug, Default)]
pub(super) struct History {
    entries: Vec<(i128, i128)>,
}

impl History {
    /// Units taken at `place`, which is never before the newest one.
    pub(super) fn add(&mut self, place: i128, units: i128) {
        match self.entries.last_mut() {
            Some((newest, sum)) if *newest == place => *sum += units,
            _ => self.entries.push((place, units)),
        }
    }

    /// Units at the places that count.
    pub(super) fn sum(&self, counts: impl Fn(i128) -> bool) -> i128 {
        self.entries.iter().filter(|(place, _)| counts(*place)).map(|(_, units)| units).sum()
    }

    /// Gives back units from the places that count, oldest first; returns the units that were not
    /// found.
    pub(super) fn give_back(&mut self, units: i128, counts: impl Fn(i128) -> bool) -> i128 {
        let mut left = units;
        for (_, held) in self.entries.iter_mut().filter(|(place, _)| counts(*place)) {
            let part = left.min(*held);
            *held -= part;
            left -= part;
        }
        self.entries.retain(|(_, held)| *held > 0);
        left
    }

    /// The places that hold units, oldest first.
    pub(super) fn places(&self) -> impl Iterator<Item = i128> + '_ {
        self.entries.iter().map(|(place, _)| *place)
    }

    /// The newest place that holds units.
    pub(super) fn newest(&self) -> Option<i128> {
        self.entries.last().map(|(place, _)| *place)
    }

    /// Moves every place back.
    pub(super) fn move_back(&mut self, by: i128) {
        for (place, _) in &mut self.entries {
            *place -= by;
        }
    }
}
