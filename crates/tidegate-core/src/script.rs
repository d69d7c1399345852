//! What an algorithm and its script say to each other.

use alloc::vec::Vec;

use crate::decision::Verdict;
use crate::time::Timestamp;

/// The script of an algorithm, as text beside the algorithm's own code, in the paragraphs of the algorithm's verbs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Script {
    /// What a stored state says of its algorithm; never given to another one.
    pub kind: u8,
    /// The algorithm's folder.
    pub name: &'static str,
    /// The paragraphs, each behind a line `-- @name`.
    pub text: &'static str,
    /// How many numbers a state begins with; counters of 32 bits may follow.
    pub numbers: usize,
}

/// What a script is told of one limiter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// The algorithm's script.
    pub script: Script,
    /// What a stored state says of the rule it was made under: limit, window, two of the algorithm's own.
    pub figures: [u64; 4],
    /// What the algorithm needs to know of the rule and of the cost; -1 where something can not be.
    pub words: Vec<i64>,
}

/// What a script tells of one limiter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// What the clock read.
    pub now: Timestamp,
    /// The instant that counts.
    pub at: Timestamp,
    /// What was decided; a step that only gives back or settles decides nothing, and allows.
    pub verdict: Verdict,
    /// Whether the cost was taken.
    pub taken: bool,
    /// The numbers of the state, then its counters.
    pub words: Vec<u64>,
}
