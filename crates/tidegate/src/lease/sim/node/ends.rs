//! The end of a node: it leaves, or crashes.

use std::mem::take;

use super::super::super::Unspent;
use super::super::history::{History, Source, Why};
use super::{Node, Sent};

impl Node<'_> {
    /// Gives back all leases, and takes no more.
    pub(in super::super) fn leave(&mut self) -> Vec<Sent> {
        (self.up, self.leaves) = (false, true);
        let unspent = self.take_all_out();
        unspent.iter().map(|one| self.give_back(one, false)).collect()
    }

    /// Forgets everything.
    pub(in super::super) fn crash(&mut self, time: u64, history: &mut History) {
        (self.up, self.leaves) = (false, false);
        for rest in self.take_all_out() {
            let of = Source::Lease(self.id(rest.ticket));
            history.miss(time, rest.key, of, rest.units, Why::Crashed);
        }
        let mut waiting: Vec<_> = take(&mut self.waiting).into_iter().collect();
        waiting.sort_by_key(|(request, _)| *request);
        for (_, waiting) in waiting {
            for part in waiting.spent {
                let (ticket, units) = part.units_of();
                let (key, of) = (waiting.asked[part.place].0, Source::Lease(self.id(ticket)));
                history.miss(time, key, of, units, Why::Crashed);
            }
        }
    }

    /// Takes what is left out of all leases, in an order that every run has.
    fn take_all_out(&mut self) -> Vec<Unspent<usize>> {
        let mut unspent = self.book.take_those_out(|_| true);
        unspent.sort_by_key(|rest| (rest.key, rest.ticket));
        unspent
    }
}
