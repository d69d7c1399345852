//! The knowledge of a node about the data of a store: the units in use that it may have to carry there, and which
//! server replied.

use std::sync::Arc;

use tidegate_core::{KnownUnits, Timestamp, UsedUnits};

/// The knowledge of a node of the use of a limiter, next to a question about it.
#[derive(Clone, Debug, Default)]
pub enum KnownUse {
    /// No units that count.
    #[default]
    Nothing,
    /// Units count, as the server with this number knows: it must have a state.
    Stored {
        /// The number of the server.
        server: u64,
    },
    /// The server may have lost these units: it decides from them, or from the state that it has, whichever admits
    /// less.
    Carried {
        /// The units, oldest first.
        used: Arc<[UsedUnits]>,
        /// When they were reported.
        reported: Timestamp,
        /// The time of the last unit, unless the server is known to have lost data: then a state that is as new stays.
        last: Option<Timestamp>,
        /// The server, if it reported them itself and was not known to lack them before this question: it must decide, and
        /// keeps each state that it has, unless it lacks one that it reported.
        own: Option<u64>,
    },
}

impl KnownUse {
    /// The units that are carried.
    pub fn carried(&self) -> Option<KnownUnits<'_>> {
        match self {
            Self::Carried { used, reported, last, .. } => {
                Some(KnownUnits { used, reported: *reported, last: *last })
            }
            Self::Nothing | Self::Stored { .. } => None,
        }
    }

    /// True if the server that they are carried to reported them itself, and was not known to lack them.
    pub const fn is_own(&self) -> bool {
        matches!(self, Self::Carried { own: Some(_), .. })
    }

    /// True if the server must have a state.
    pub const fn is_stored(&self) -> bool {
        matches!(self, Self::Stored { .. })
    }

    /// The server that must decide, if any.
    pub const fn server(&self) -> Option<u64> {
        match self {
            Self::Stored { server } => Some(*server),
            Self::Carried { own, .. } => *own,
            Self::Nothing => None,
        }
    }
}

/// The data of the store, as a reply says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StoredData {
    /// The server that replied. Another number is another server, or the same after it lost its data.
    pub server: u64,
    /// True if the server does not have the known state of some limiter, or the known server is another. Then nothing
    /// was taken.
    pub is_lost: bool,
    /// The limiters for which carried units took the place of what the server had.
    pub carried: LimiterPlaces,
}

/// Some limiters of a step, by their places in it. All from the 64th on count as the 64th.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LimiterPlaces(u64);

impl LimiterPlaces {
    /// No limiter.
    pub const NONE: Self = Self(0);

    /// The number of limiters.
    pub const fn count(self) -> u64 {
        self.0.count_ones() as u64
    }

    /// Returns whether the limiter in this place is one of them.
    pub const fn has(self, place: usize) -> bool {
        self.0 & Self::bit(place) > 0
    }

    /// The same limiters in other places, of `all` limiters of the step.
    #[must_use]
    pub fn moved(self, all: usize, to: impl Fn(usize) -> usize) -> Self {
        (0..all).filter(|place| self.has(*place)).map(to).collect()
    }

    /// The limiters of both.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    const fn bit(place: usize) -> u64 {
        1 << if place < 63 { place } else { 63 }
    }
}

impl Extend<usize> for LimiterPlaces {
    fn extend<T: IntoIterator<Item = usize>>(&mut self, places: T) {
        places.into_iter().for_each(|place| self.0 |= Self::bit(place));
    }
}

impl FromIterator<usize> for LimiterPlaces {
    fn from_iter<T: IntoIterator<Item = usize>>(places: T) -> Self {
        let mut all = Self::default();
        all.extend(places);
        all
    }
}
