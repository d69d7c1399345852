//! Revisions of a rule's values, and the values that a stored state was written under.

use std::sync::Arc;

use tidegate_core::{Rule, Timestamp};

use super::{HEAD, VERSION};

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
    /// No revision: older than every other. Values without one take effect in the order of the requests that
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
