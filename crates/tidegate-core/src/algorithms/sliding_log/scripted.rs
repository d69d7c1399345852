//! A sliding log in the scripts of a store.
//!
//! There are two layouts, one string or a sorted set, each with a script of its own.

use alloc::vec::Vec;
use core::time::Duration;

use super::ring::LogEntry;
use super::{SlidingLog, State};
use crate::algorithm::{Decide, Scripted};
use crate::script::Script;
use crate::spec::{Layout, MAX_MAX_MEMORY, Spec};
use crate::time::{Micros, Timestamp};

/// The script of a log in a sorted set. Its arguments and its reply have the format of the other
/// script.
const SORTED_SET: Script = Script {
    kind: 8,
    name: "sliding_log",
    text: include_str!("sorted_set.lua"),
    lease: "",
    state_integers: 5,
};

/// A log in one string: bytes in front of the ring, bytes of an entry, and entries in a block. The
/// ring consists of whole blocks. `script.lua` describes the format.
const STRING_HEADER_BYTES: u64 = 237;
const STRING_ENTRY_BYTES: u64 = 10;
const STRING_BLOCK_ENTRIES: u64 = 8;

impl Scripted for SlidingLog {
    /// Kind 6 was this log in an earlier format, without the copies of eight entries. It stays unused, because a store may
    /// still hold such a state.
    const SCRIPT: Script = Script {
        kind: 9,
        name: "sliding_log",
        text: include_str!("script.lua"),
        lease: "",
        state_integers: 5,
    };
    const SCRIPTS: &'static [Script] = &[Self::SCRIPT, SORTED_SET];
    const REPLY_IS_WHOLE: bool = false;

    fn parameters(&self) -> [u64; 4] {
        [self.limit, self.window.as_micros(), self.tick_us, 0]
    }

    /// The memory was checked when the rule was built.
    fn restore_fields(kind: u8, [_, _, tick_us, _]: [u64; 4], spec: &mut Spec) {
        spec.resolution = Some(Duration::from_micros(tick_us));
        spec.layout = (kind == SORTED_SET.kind).then_some(Layout::SortedSet);
        spec.max_memory = Some(MAX_MAX_MEMORY);
    }

    fn script(&self) -> Script {
        match self.layout {
            Layout::String => Self::SCRIPT,
            Layout::SortedSet => SORTED_SET,
        }
    }

    fn most_stored_bytes(&self) -> u64 {
        match self.layout {
            Layout::String => {
                let slots = self.most_entries.next_multiple_of(STRING_BLOCK_ENTRIES);
                STRING_HEADER_BYTES + STRING_ENTRY_BYTES * slots
            }
            Layout::SortedSet => 0,
        }
    }

    fn script_args(&self, _cost: u64) -> Vec<i64> {
        [self.limit, self.tick_us, self.most_entries].map(u64::cast_signed).to_vec()
    }

    /// A script returns a digest in place of its log: a state of two entries from which the same
    /// values follow.
    fn decode_state(&self, numbers: &[u64]) -> Option<State> {
        let [counted, over, over_leaves, newest_leaves, last] = *numbers else { return None };
        let mut state = self.fresh(Timestamp::EPOCH);
        // If all units must leave, both are the same entry, and `record` keeps the second.
        for (total, leaves_us) in [(over.min(counted), over_leaves), (counted, newest_leaves)] {
            if total > 0 {
                let leaves = Timestamp::EPOCH.plus(Micros::from_micros(leaves_us));
                state.ring.record(LogEntry { leaves, total });
            }
        }
        state.last = Timestamp::from_micros(last);
        Some(state)
    }
}
