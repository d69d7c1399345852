//! The end of a node: it leaves, or crashes.

use super::super::history::LeasesHistory;
use super::{LeasesNode, SentQuestion};

impl LeasesNode<'_> {
    /// Gives back all leases, and takes no more.
    pub(in super::super) fn leave(&mut self) -> Vec<SentQuestion> {
        (self.up, self.leaves) = (false, true);
        let mut unspent = self.book.close_those(|_| true);
        // In an order that every run has.
        unspent.sort_by_key(|rest| (rest.key, rest.ticket));
        unspent.into_iter().flat_map(|rest| self.give_back(rest, true)).collect()
    }

    /// Forgets everything.
    pub(in super::super) fn crash(&mut self, history: &mut LeasesHistory) {
        (self.up, self.leaves) = (false, false);
        history.gone.insert((self.number, self.begun));
    }
}
