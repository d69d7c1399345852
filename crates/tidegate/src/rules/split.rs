//! How a limit is split among nodes.

use std::fmt;
use std::ops::RangeInclusive;

/// The numbers of nodes that a limit can be split among.
pub(crate) const SPLIT_NODES: RangeInclusive<u64> = 1..=1_000_000;
/// The values of `nodes` in `split`, in messages.
pub(crate) const SPLIT_NODES_EXPECTED: &str =
    "the number of nodes that share the limit, from 1 to 1000000";

/// How a limit is split among the nodes that share it, so that each decides by its own part.
///
/// Over a shared store ([`SharedGate`](crate::SharedGate)) a node takes its share of what is left from the store and
/// renews it every second or two, as its callers need it: all nodes together never admit more than the limit, whatever they
/// know of each other. A gate in memory knows no other nodes. Under [`Split::Among`] it decides by a fixed part of the
/// limit, of each override and of each plan ([`Gate::with_plans`](crate::Gate::with_plans)), and under [`Split::Live`] by
/// the whole, as the only node.
///
/// ```
/// use tidegate::{Gate, Policy, RuleSpec, Split};
///
/// let rule = RuleSpec::new("calls", "100/s").key(["user"]).split(Split::Among(20));
/// let gate = Gate::new(Policy::new(vec![rule])?);
/// assert_eq!(gate.available(&[("user", "ada")]), 5);
/// # Ok::<(), tidegate::PolicyErrors>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Split {
    /// Among the nodes that share the store ([`StoreSettings::nodes`](crate::StoreSettings)).
    Live,
    /// Among this many nodes, 1 to a million, however many there are.
    Among(u64),
}

impl Split {
    /// Returns the number of nodes, if it is fixed.
    #[must_use]
    pub const fn nodes(self) -> Option<u64> {
        match self {
            Self::Live => None,
            Self::Among(nodes) => Some(nodes),
        }
    }
}

/// Displays as in a configuration.
impl fmt::Display for Split {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Live => f.write_str("true"),
            Self::Among(nodes) => write!(f, "nodes {nodes}"),
        }
    }
}
