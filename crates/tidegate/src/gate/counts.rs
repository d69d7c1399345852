//! The counts of a gate's memory.

use crate::rules::PolicyRule;
use crate::store::memory::{Kept, KeptOfRule, MemoryGeneration};

/// The counts of a gate's memory ([`Gate::counts`](crate::Gate::counts)).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct GateCounts {
    /// Limiters in existence, over all rules, also of rules that were removed.
    pub keys: usize,
    /// Remembered answers to requests with an id; expired ones count until they are dropped.
    pub remembered_answers: usize,
    /// Answers that were dropped so far before they expired, for lack of room.
    pub forgotten_answers: u64,
    pub(super) generation: Kept<MemoryGeneration>,
}

impl GateCounts {
    /// The rules in force, each with the limiters that are kept for it, in the order of the policy.
    pub fn rules(&self) -> impl Iterator<Item = (&PolicyRule, KeptOfRule)> {
        self.generation.kept()
    }
}
