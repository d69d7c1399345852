//! The traits of an algorithm next to its verbs: how a store scripts, amends, leases and writes its states.

use alloc::vec::Vec;

pub use crate::decide::Decide;
pub use crate::packing::{HORIZON, Pack, Packing};
pub(crate) use crate::packing::{WORD_BITS, resized};
use crate::past::Since;
use crate::script::Script;
use crate::spec::Spec;
use crate::time::{Micros, Timestamp};

/// The exchange of states between an algorithm and its script, for a store that runs scripts.
pub trait Scripted: Decide {
    /// The script that decides in place of this code in a store that runs scripts.
    const SCRIPT: Script;

    /// All scripts of the algorithm, among which [`Scripted::script`] chooses.
    const SCRIPTS: &'static [Script] = &[Self::SCRIPT];

    /// True if a script returns the whole state, and not only the part that the values of its decision need.
    const REPLY_IS_WHOLE: bool = true;

    /// The parameters of the rule that a script stores in front of a state: limit, window, and two that the algorithm
    /// chooses. They show whether the rule has changed, and how to read the state.
    fn parameters(&self) -> [u64; 4];

    /// Writes into `spec` the fields of the rule whose states carry these parameters, except limit and window; `kind`
    /// is the kind of its script.
    fn restore_fields(_kind: u8, _parameters: [u64; 4], _spec: &mut Spec) {}

    /// The script for this rule: the algorithm's own, except where a rule can choose among several.
    fn script(&self) -> Script {
        Self::SCRIPT
    }

    /// The largest size in bytes of one stored value, not counting debts, if it can be too large
    /// for a store; else 0.
    fn most_stored_bytes(&self) -> u64 {
        0
    }

    /// The script's arguments for `cost`, in the order in which it reads them after cost and window.
    fn script_args(&self, cost: u64) -> Vec<i64>;

    /// Decodes the state that a script returned; `None` if the numbers are not a state.
    fn decode_state(&self, numbers: &[u64]) -> Option<Self::State>;
}

/// Carrying a state over when its rule changes.
pub trait Amend: Decide {
    /// Returns whether a state of `old` has the same meaning under this rule, except for how much is
    /// allowed. If not, the used units are taken again.
    fn same_shape(&self, _old: &Self) -> bool {
        false
    }

    /// Turns a state of `old`, which has the same shape, into a state of this rule; used units stay used.
    fn refit(&self, _old: &Self, _state: &mut Self::State, _at: Timestamp) {}

    /// All units in use, also those that make no caller wait; and how many of them are a debt that drains at the rate.
    fn owed(&self, state: &Self::State, at: Timestamp) -> [u64; 2] {
        [self.used(state, at), 0]
    }

    /// Lets a change keep no caller waiting for more than one window because of it; a `debt` is waited for as before.
    fn ease(&self, _state: &mut Self::State, _at: Timestamp, _debt: u64) {}
}

/// Taking units of an algorithm ahead.
pub trait Lease: Decide {
    /// Returns the instant before which units taken at `at` can be spent, or [`Timestamp::MAX`] if any end will do
    /// after [`Lease::prepare`]; `None` if the algorithm grants no leases.
    fn lease_end(&self, _state: &Self::State, _at: Timestamp) -> Option<Timestamp> {
        None
    }

    /// Changes the state so that units taken next count as though they were taken at `end`.
    fn prepare(&self, _state: &mut Self::State, _end: Timestamp) {}

    /// Gives back unspent units of a lease that was taken at `since`, as far as they still count. Returns how many did.
    fn give_back_lease(
        &self,
        state: &mut Self::State,
        at: Timestamp,
        units: u64,
        since: Timestamp,
    ) -> u64 {
        self.give_back_since(state, at, units, Since::at(since))
    }

    /// Returns the largest number of units that a lease with this life can have, when nothing else is in use.
    fn most_leased(&self, _life: Micros) -> u64 {
        self.limit()
    }
}

/// Writing a state down, for a store whose limiters outlive its process.
pub trait Persist: Scripted {
    /// Appends the numbers of a state, from which [`Persist::restore`] makes a state that decides alike. `last` is the
    /// time of its last unit, which a packed state does not keep. Which units a reset has forgotten is not in the
    /// numbers, so no unit that was taken before may be given back to the restored state by its time.
    fn persist(&self, state: &Self::State, last: Timestamp, numbers: &mut Vec<u64>);

    /// The state of these numbers; `None` if they are not a state of this rule. By default they are the numbers of a script.
    fn restore(&self, numbers: &[u64]) -> Option<Self::State> {
        self.decode_state(numbers)
    }
}

/// Carrying the units in use to a store that lost them.
pub trait CarryUnits: Decide {
    /// True if each unit in use counts until a time of its own. Else all leave together or drain at one rate, so that
    /// the state with more in use admits less at every later time as well.
    const UNITS_HAVE_TIMES: bool = true;

    /// Calls `note` with the units in use and the time when they count as taken, oldest first. Taken at these times
    /// from [`CarryUnits::unused`], they leave a state that admits no more than this state, and as much to the
    /// microsecond.
    fn used_units(&self, state: &Self::State, at: Timestamp, note: &mut dyn FnMut(Timestamp, u64));

    /// The amount in use, by a measure of the algorithm that is as fine as its states.
    fn amount(&self, state: &Self::State, at: Timestamp) -> u128 {
        self.used(state, at).into()
    }

    /// When units that were taken at `since` count no more, if each unit has a time of its own.
    fn ends(&self, since: Timestamp) -> Timestamp {
        since.plus(self.window())
    }

    /// A state in which nothing is used, also if a fresh state begins with units in use.
    fn unused(&self) -> Self::State {
        self.fresh(Timestamp::EPOCH)
    }
}

/// One algorithm with the checked parameters of one rule: every trait that a store uses.
pub trait Algorithm: Decide + Pack + Scripted + Amend + Persist + Lease + CarryUnits {}

impl<A: Decide + Pack + Scripted + Amend + Persist + Lease + CarryUnits> Algorithm for A {}
