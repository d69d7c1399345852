//! The places of one queue in the order of their tickets: a balanced tree with sums and deadlines.
//!
//! A queue asks it for its head, for the costs of the waiters before a ticket, and for the earliest deadline; in a
//! list each of these but the first would need a walk. The tree is a treap: a search tree by ticket, and a heap by
//! a number derived from the ticket. So its depth is logarithmic for any order of joining and leaving.

use std::cmp::Ordering::{Equal, Greater, Less};
use std::task::Waker;

use tidegate_core::Timestamp;

/// The number of a waiter, in the order of arrival.
pub(crate) type Ticket = u64;

/// A *place* in a queue: a waiter, with what it waits for.
#[derive(Debug)]
pub(super) struct QueuePlace {
    pub(super) ticket: Ticket,
    pub(super) cost: u64,
    pub(super) deadline: Timestamp,
    pub(super) waker: Option<Waker>,
}

type Tree = Option<Box<TreeNode>>;

/// A place, and the places before it (left) and after it (right) in its subtree.
#[derive(Debug)]
struct TreeNode {
    place: QueuePlace,
    /// No child has a larger priority.
    priority: u64,
    left: Tree,
    right: Tree,
    /// The sums of this subtree.
    sums: Sums,
    /// The earliest deadline in this subtree.
    earliest: Timestamp,
}

/// Places in the order of their tickets. Each operation takes logarithmic time.
#[derive(Debug, Default)]
pub(super) struct Places {
    root: Tree,
    len: usize,
}

impl Places {
    /// The number of places.
    pub(super) const fn len(&self) -> usize {
        self.len
    }

    /// The earliest deadline.
    pub(super) fn earliest(&self) -> Option<Timestamp> {
        self.root.as_ref().map(|node| node.earliest)
    }

    /// The first place.
    pub(super) fn first(&self) -> Option<&QueuePlace> {
        let mut node = self.root.as_deref()?;
        while let Some(left) = node.left.as_deref() {
            visited();
            node = left;
        }
        Some(&node.place)
    }

    pub(super) fn get(&self, ticket: Ticket) -> Option<&QueuePlace> {
        let mut at = self.root.as_deref();
        while let Some(node) = at {
            visited();
            at = match ticket.cmp(&node.place.ticket) {
                Equal => return Some(&node.place),
                Less => node.left.as_deref(),
                Greater => node.right.as_deref(),
            };
        }
        None
    }

    /// The last place before `ticket`.
    pub(super) fn right_before(&self, ticket: Ticket) -> Option<&QueuePlace> {
        let mut at = self.root.as_deref();
        let mut found = None;
        while let Some(node) = at {
            visited();
            at = if node.place.ticket < ticket {
                found = Some(&node.place);
                node.right.as_deref()
            } else {
                node.left.as_deref()
            };
        }
        found
    }

    /// The sums of the places before `ticket`.
    pub(super) fn sums_before(&self, ticket: Ticket) -> Sums {
        let mut at = self.root.as_deref();
        let mut sums = Sums::NONE;
        while let Some(node) = at {
            visited();
            // All of its left subtree precedes the ticket as well, and is not walked.
            at = if node.place.ticket < ticket {
                sums = sums.and(node.sums_of_left()).and(Sums::of(node.place.cost));
                node.right.as_deref()
            } else {
                node.left.as_deref()
            };
        }
        sums
    }

    /// The places before `ticket`, in order.
    pub(super) fn before(&self, ticket: Ticket) -> impl Iterator<Item = &QueuePlace> {
        let mut path = Vec::new();
        let mut down = self.root.as_deref();
        // The path from the root stands for the recursion, so that the walk can end anywhere.
        let in_order = std::iter::from_fn(move || {
            while let Some(node) = down {
                visited();
                path.push(node);
                down = node.left.as_deref();
            }
            let node: &TreeNode = path.pop()?;
            down = node.right.as_deref();
            Some(&node.place)
        });
        in_order.take_while(move |place| place.ticket < ticket)
    }

    /// Adds a place with a new ticket.
    pub(super) fn insert(&mut self, place: QueuePlace) {
        // As in every treap: split at the ticket, and join with the new place between the halves.
        let (before, behind) = split(self.root.take(), place.ticket);
        let sums = Sums::of(place.cost);
        let earliest = place.deadline;
        let priority = spread(place.ticket);
        let node = TreeNode { place, priority, left: None, right: None, sums, earliest };
        self.root = join(join(before, Some(Box::new(node))), behind);
        self.len += 1;
    }

    /// Removes the place of `ticket`.
    pub(super) fn remove(&mut self, ticket: Ticket) -> Option<QueuePlace> {
        let removed = remove(&mut self.root, ticket)?;
        self.len -= 1;
        Some(removed)
    }

    /// Removes a place with the earliest deadline.
    pub(super) fn remove_earliest(&mut self) -> Option<QueuePlace> {
        let mut node = self.root.as_deref()?;
        while node.place.deadline != node.earliest {
            visited();
            // Only a subtree with the same earliest deadline has the place.
            let left = node.left.as_deref().filter(|left| left.earliest == node.earliest);
            node = left.or(node.right.as_deref())?;
        }
        self.remove(node.place.ticket)
    }

    /// Changes a place, except its ticket.
    pub(super) fn change<T>(
        &mut self,
        ticket: Ticket,
        change: impl FnOnce(&mut QueuePlace) -> T,
    ) -> Option<T> {
        changed(&mut self.root, ticket, change)
    }
}

impl TreeNode {
    fn sums_of_left(&self) -> Sums {
        self.left.as_ref().map_or(Sums::NONE, |left| left.sums)
    }

    /// Recomputes the sums of this subtree from its children.
    fn sum_up(&mut self) {
        self.sums = Sums::of(self.place.cost);
        self.earliest = self.place.deadline;
        for part in [&self.left, &self.right].into_iter().flatten() {
            self.sums = self.sums.and(part.sums);
            self.earliest = self.earliest.min(part.earliest);
        }
    }
}

/// Splits the tree into the places before `ticket` and the others.
fn split(tree: Tree, ticket: Ticket) -> (Tree, Tree) {
    let Some(mut node) = tree else { return (None, None) };
    visited();
    if node.place.ticket < ticket {
        let (before, behind) = split(node.right.take(), ticket);
        node.right = before;
        node.sum_up();
        (Some(node), behind)
    } else {
        let (before, behind) = split(node.left.take(), ticket);
        node.left = behind;
        node.sum_up();
        (before, Some(node))
    }
}

/// Joins two trees; every place of `before` precedes all others.
fn join(before: Tree, behind: Tree) -> Tree {
    let (mut before, mut behind) = match (before, behind) {
        (Some(before), Some(behind)) => (before, behind),
        (one, none) => return one.or(none),
    };
    visited();
    // The root with the larger priority stays above, so that no child has a larger priority.
    if before.priority > behind.priority {
        before.right = join(before.right.take(), Some(behind));
        before.sum_up();
        Some(before)
    } else {
        behind.left = join(Some(before), behind.left.take());
        behind.sum_up();
        Some(behind)
    }
}

fn remove(tree: &mut Tree, ticket: Ticket) -> Option<QueuePlace> {
    let node = tree.as_mut()?;
    visited();
    let part = match ticket.cmp(&node.place.ticket) {
        Less => &mut node.left,
        Greater => &mut node.right,
        Equal => {
            let node = tree.take()?;
            *tree = join(node.left, node.right);
            return Some(node.place);
        }
    };
    let removed = remove(part, ticket)?;
    node.sum_up();
    Some(removed)
}

fn changed<T>(
    tree: &mut Tree,
    ticket: Ticket,
    change: impl FnOnce(&mut QueuePlace) -> T,
) -> Option<T> {
    let node = tree.as_mut()?;
    visited();
    // The deadline may have changed, so the sums on the path to it are made again.
    let changed = match ticket.cmp(&node.place.ticket) {
        Less => changed(&mut node.left, ticket, change),
        Greater => changed(&mut node.right, ticket, change),
        Equal => Some(change(&mut node.place)),
    };
    node.sum_up();
    changed
}

/// A number that looks random (splitmix64).
const fn spread(ticket: Ticket) -> u64 {
    let mut mixed = ticket.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// The number of some waiters, and their total cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sums {
    pub(crate) count: u64,
    pub(crate) costs: u64,
    /// The smallest cost of one waiter; `u64::MAX` if there is none.
    pub(crate) least: u64,
}

impl Sums {
    pub(crate) const NONE: Self = Self { count: 0, costs: 0, least: u64::MAX };

    /// Returns the sums of one waiter.
    pub(super) const fn of(cost: u64) -> Self {
        Self { count: 1, costs: cost, least: cost }
    }

    pub(super) fn and(self, other: Self) -> Self {
        Self {
            count: self.count + other.count,
            costs: self.costs.saturating_add(other.costs),
            least: self.least.min(other.least),
        }
    }
}

/// Counts a visit to a place, for tests.
fn visited() {
    #[cfg(all(test, not(loom)))]
    super::tests::count();
}
