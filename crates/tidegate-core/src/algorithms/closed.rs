//! The room of a limit of 0, whatever the algorithm: every cost of one or more is refused for ever.

use crate::algorithm::Room;
use crate::decision::Verdict;
use crate::error::RuleErrors;
use crate::rule::{Spec, Word};
use crate::time::{Micros, Timestamp};

/// Admits nothing and remembers nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Closed;

impl Room for Closed {
    type State = ();
    const WORDS: &'static [Word] = &[];

    fn build(_spec: &Spec, _limit: u64, _window: Micros) -> Result<Self, RuleErrors> {
        Ok(Self)
    }

    fn fresh(&self, _now: Timestamp) {}

    fn decide(&self, _state: &(), _at: Timestamp, _cost: u64) -> Verdict {
        Verdict::Never
    }

    fn take(&self, _state: &mut (), _at: Timestamp, _cost: u64) {}

    fn give_back(&self, _state: &mut (), _at: Timestamp, _units: u64) {}

    fn window(&self) -> Micros {
        Micros::ZERO
    }

    fn last(&self, _state: &()) -> Timestamp {
        Timestamp::EPOCH
    }

    fn rewind(&self, _state: &mut (), _to: Timestamp) {}

    fn limit(&self) -> u64 {
        0
    }

    fn remaining(&self, _state: &(), _at: Timestamp) -> u64 {
        0
    }

    fn retry_after(&self, _state: &(), _at: Timestamp, _cost: u64) -> Micros {
        Micros::MAX
    }

    fn reset_after(&self, _state: &(), _at: Timestamp) -> Micros {
        Micros::ZERO
    }

    fn bound(&self, _largest_cost: u64) -> u64 {
        0
    }

    fn used(&self, _state: &(), _at: Timestamp) -> u64 {
        0
    }

    fn same_shape(&self, _old: &Self) -> bool {
        true
    }
}
