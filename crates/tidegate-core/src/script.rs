//! The data that an algorithm and its script exchange.

use alloc::vec::Vec;

use crate::decision::Verdict;
use crate::time::Timestamp;

/// The script of an algorithm, as text beside the algorithm's own code, in the paragraphs of the algorithm's verbs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Script {
    /// The number of the algorithm in a stored state; never reused for another one.
    pub kind: u8,
    /// The algorithm's folder.
    pub name: &'static str,
    /// The paragraphs, each behind a line `-- @name`.
    pub text: &'static str,
    /// The number of integers that a state begins with; counters of 32 bits may follow.
    pub numbers: usize,
}

/// A script's arguments for one limiter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// The algorithm's script.
    pub script: Script,
    /// The parameters that a stored state carries of its rule: limit, window, and two of the
    /// algorithm's own.
    pub figures: [u64; 4],
    /// The algorithm's arguments about the rule and the cost; -1 stands for an impossible one.
    pub words: Vec<i64>,
}

/// A script's reply for one limiter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// The reading of the clock.
    pub now: Timestamp,
    /// The instant that counts.
    pub at: Timestamp,
    /// The verdict; a step that only gives back or settles decides nothing, and allows.
    pub verdict: Verdict,
    /// Whether the cost was taken.
    pub taken: bool,
    /// The integers of the state, then its counters.
    pub words: Vec<u64>,
}
