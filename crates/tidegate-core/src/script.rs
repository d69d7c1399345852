//! The input and the reply of a script, for one limiter. `scripted.rs` makes the input and reads the reply; a store
//! sends them.

use alloc::vec::Vec;

use crate::decision::Verdict;
use crate::time::Timestamp;

/// Exact division of a product, in Lua: a file for scripts that carry a state over to another rule.
pub const MULDIV: &str = include_str!("muldiv.lua");

/// The Lua script of an algorithm: one function, which runs the algorithm's verbs in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Script {
    /// The number of the algorithm in a stored state; never reused for another algorithm.
    pub kind: u8,
    /// The name of the algorithm's folder.
    pub name: &'static str,
    /// The file, which a store joins with its own.
    pub text: &'static str,
    /// A file that raises a state before units of a lease are taken; empty if leased units count as any others do.
    pub lease: &'static str,
    /// The number of integers at the beginning of a state; counters of 32 bits may follow them.
    pub state_integers: usize,
}

/// The input of a script for one limiter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptInput {
    /// The algorithm's script.
    pub script: Script,
    /// The parameters of the rule, which a stored state carries: limit, window, and two that the
    /// algorithm chooses.
    pub parameters: [u64; 4],
    /// The arguments that follow from the rule and the cost; -1 stands for an impossible value.
    pub args: Vec<i64>,
}

/// A script's reply for one limiter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScriptReply {
    /// The time that the clock showed.
    pub now: Timestamp,
    /// The instant that counts.
    pub at: Timestamp,
    /// The verdict; [`Verdict::Allow`] for a step that only gives units back or settles.
    pub verdict: Verdict,
    /// True if the cost was taken.
    pub taken: bool,
    /// The integers of the state, then its counters.
    pub state: Vec<u64>,
}
