//! Revisions of a rule's values, the values that a stored state was written under, and values of a newer revision, which
//! decide in place of a node's own.

use std::iter;
use std::sync::Arc;

use tidegate_core::{Rule, Timestamp};

use super::limiter::ScriptLimiter;
use super::{HEAD, VERSION};
use crate::step::Values;

/// The revision of a rule's values: a number that a policy gives itself, and when the values were
/// loaded.
///
/// The revision with the larger number is newer; 0 stands for a policy without a revision. Of equal numbers, the
/// revision that was loaded later is newer. A limiter in a store is decided by the values of the newest revision that
/// has taken from it, whichever node asks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Revision {
    given: u32,
    loaded: Timestamp,
}

impl Revision {
    /// No revision: older than every other. Values without one come in force in the order of the requests that
    /// supply them.
    pub const NONE: Self = Self { given: 0, loaded: Timestamp::EPOCH };
    /// Bytes of a revision in a state.
    pub(super) const BYTES: usize = 11;

    /// Values of a policy with this number (0 for none), loaded when the store's clock read
    /// `loaded`.
    #[must_use]
    pub const fn new(given: u32, loaded: Timestamp) -> Self {
        Self { given, loaded }
    }

    /// Returns whether this is a revision.
    #[must_use]
    pub fn is_some(self) -> bool {
        self != Self::NONE
    }

    /// The form that scripts compare: the number in four bytes, the microseconds in seven.
    pub(super) fn stamp(self) -> [u8; Self::BYTES] {
        let mut stamp = [0; Self::BYTES];
        stamp[..4].copy_from_slice(&self.given.to_le_bytes());
        stamp[4..].copy_from_slice(&self.loaded.as_micros().to_le_bytes()[..7]);
        stamp
    }

    fn of_stamp(stamp: [u8; Self::BYTES]) -> Self {
        let [given @ .., _, _, _, _, _, _, _] = stamp;
        Self {
            given: u32::from_le_bytes(given),
            loaded: Timestamp::from_micros(number(&stamp[4..])),
        }
    }
}

/// The values that a limiter in a store was written under.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Written {
    pub(crate) rule: Arc<Rule>,
    pub(crate) revision: Revision,
}

impl Written {
    /// Reads the values of a state with these first bytes, for nodes whose own rule is `own`; `None` if this
    /// version does not know such values.
    pub(super) fn read(begins: &[u8], own: &Rule) -> Option<Self> {
        let (head, stamp) = begins.split_first_chunk::<HEAD>()?;
        if head[0] != VERSION {
            return None;
        }
        let parameters = [&head[2..6], &head[6..12], &head[12..18], &head[18..22]].map(number);
        let rule = Arc::new(own.of_parameters(head[1], parameters)?);
        let revision = Revision::of_stamp(*stamp.first_chunk()?);
        Some(Self { rule, revision })
    }
}

/// For each limiter, the newer values that decide in place of its own.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NewerValues(pub(super) Vec<Option<Written>>);

impl NewerValues {
    /// Reads the values that begin each state; values that are not older than the limiter's own decide. `None` if there
    /// are none.
    pub(super) fn newer(limiters: &[ScriptLimiter<'_>], state_prefixes: &[&[u8]]) -> Option<Self> {
        let newer = limiters.iter().zip(state_prefixes).map(|(one, prefix)| {
            let written = Written::read(prefix, one.rule)?;
            (one.revision.is_some() && written.revision >= one.revision).then_some(written)
        });
        let newer: Vec<_> = newer.collect();
        newer.iter().any(Option::is_some).then_some(Self(newer))
    }

    /// Adds values that were found later.
    #[must_use]
    pub fn and(mut self, later: Self) -> Self {
        let count = self.0.len().max(later.0.len());
        self.0.resize(count, None);
        for (known, later) in self.0.iter_mut().zip(later.0) {
            *known = later.or_else(|| known.take());
        }
        self
    }

    /// Returns whether every limiter is decided by its own values.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns whether under these values units count as under the limiters' own.
    pub(crate) fn count_as(&self, limiters: &[ScriptLimiter<'_>]) -> bool {
        let mut both = self.0.iter().zip(limiters);
        both.all(|(newer, one)| {
            newer.as_ref().is_none_or(|newer| {
                let values = Values::of(&newer.rule).zip(Values::of(one.rule));
                values.is_some_and(|(newer, own)| newer.counts_as(&own))
            })
        })
    }

    /// Makes place for a limiter that is decided by its own values.
    pub(super) fn insert_none(&mut self, place: usize) {
        if place < self.0.len() {
            self.0.insert(place, None);
        }
    }

    /// Returns the values of the limiters at these indices.
    pub(crate) fn at(&self, places: &[usize]) -> Self {
        Self(places.iter().map(|place| self.0.get(*place).cloned().flatten()).collect())
    }

    /// The limiters to ask about in place of the original ones.
    #[must_use]
    pub fn limiters<'a>(&'a self, limiters: &[ScriptLimiter<'a>]) -> Vec<ScriptLimiter<'a>> {
        let newer = self.0.iter().map(Option::as_ref).chain(iter::repeat(None));
        let under = limiters.iter().zip(newer);
        under
            .map(|(one, newer)| newer.map_or_else(|| one.clone(), |newer| one.under(newer)))
            .collect()
    }
}

/// An integer, low byte first.
fn number(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_larger_word_is_newer_whenever_it_was_loaded_and_of_equal_words_the_later_one() {
        let at = |given, us| Revision::new(given, Timestamp::from_micros(us));
        let in_order = [Revision::NONE, at(0, 1), at(0, 1 << 50), at(1, 0), at(1, 7), at(2, 3)];
        assert!(in_order.is_sorted_by(|one, other| one < other));
        for one in in_order {
            assert_eq!(Revision::of_stamp(one.stamp()), one);
            assert_eq!(one.is_some(), one != Revision::NONE);
        }
    }
}
