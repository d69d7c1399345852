//! The book for shares alone: renewals, and the units for a node that joins.
//!
//! The task that holds a share calls it when other nodes join and when the share ends.

use std::hash::Hash;

use tidegate_core::Micros;

use super::Book;
use crate::store::{Unspent, Wanted};

impl<K: Clone + Eq + Hash> Book<K> {
    /// Returns a share to ask the store for as one ends, without a request; `None` if the limiter has no shares, no
    /// request asked lately, or its terms have another version by now.
    pub(crate) fn renewal(
        &mut self,
        now: Micros,
        key: &K,
        nodes: u64,
        version: u64,
    ) -> Option<Wanted> {
        let limiter = self.limiters.get_mut(key)?;
        if limiter.terms.version() != version {
            return None;
        }
        let units = limiter.renewal(now, nodes)?;
        self.ask(now, key, units, nodes)
    }

    /// Takes the units above this node's part out of a share, because there are more nodes than before; `None` if there
    /// are no such units. Until [`Book::excess_is_back`] nothing else of the share is given back.
    pub(crate) fn excess(&mut self, key: &K, ticket: u64, nodes: u64) -> Option<Unspent<K>> {
        let excess = self.limiters.get_mut(key)?.excess(ticket, nodes)?;
        Some(self.taken_out(key.clone(), excess))
    }

    /// Notes that the units above a share are back, or lost. Returns the unspent units of the share if it was closed in
    /// between.
    pub(crate) fn excess_is_back(&mut self, key: &K, ticket: u64) -> Option<Unspent<K>> {
        let rest = self.limiters.get_mut(key)?.excess_is_back(ticket)?;
        Some(self.taken_out(key.clone(), rest))
    }

    /// Returns how long units of a limiter can still be spent here. Until then it admits nothing on top of them in
    /// place of the store.
    pub(crate) fn lasts(&self, now: Micros, key: &K) -> Option<Micros> {
        self.limiters.get(key)?.lasts(now)
    }
}
