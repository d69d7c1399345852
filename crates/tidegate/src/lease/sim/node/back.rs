//! Units of leases that a node gives back, also when it leaves.

use super::super::super::Unspent;
use super::super::history::{LeasesEventKind, LeasesHistory};
use super::super::store::LeasesQuestion;
use super::{LeasesNode, RestDue, SentQuestion, Wait};

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

    /// Gives back the unspent units of a lease that is due.
    pub(in super::super) fn give_back_rest(
        &mut self,
        time: u64,
        due: RestDue,
        history: &mut LeasesHistory,
    ) -> Vec<SentQuestion> {
        let rest = self.book.close(&due.key, due.ticket);
        rest.into_iter().flat_map(|rest| self.end(time, rest, history)).collect()
    }

    /// Gives back the unspent units of a lease that is over, and renews it if it is a share.
    pub(super) fn end(
        &mut self,
        time: u64,
        rest: Unspent<usize>,
        history: &mut LeasesHistory,
    ) -> Vec<SentQuestion> {
        if rest.units > 0 {
            return self.give_back(rest, true);
        }
        self.book.finished(self.now(time), &rest.key, rest.ticket);
        self.renew(time, rest.key, history)
    }

    /// Drops the leases of a key, after a reset or because its rule changed.
    pub(in super::super) fn drop_leases(
        &mut self,
        time: u64,
        key: usize,
        history: &mut LeasesHistory,
    ) -> Vec<SentQuestion> {
        history.add(time, key, LeasesEventKind::Dropped { node: self.number });
        let unspent = self.book.close_those(|other| *other == key);
        unspent.into_iter().flat_map(|one| self.give_back(one, true)).collect()
    }

    /// Gives units back until the store replies.
    pub(super) fn give_back(&mut self, unspent: Unspent<usize>, ends: bool) -> Vec<SentQuestion> {
        self.next_back += 1;
        let number = self.next_back;
        let sent = vec![self.back(number, &unspent)];
        self.backs.insert(number, (unspent, ends));
        sent
    }

    /// The store has units back. Gives back the unspent units of their lease, if it was closed in between, or ends it.
    pub(super) fn is_back(
        &mut self,
        time: u64,
        number: u64,
        history: &mut LeasesHistory,
    ) -> Vec<SentQuestion> {
        let Some((rest, ends)) = self.backs.remove(&number) else { return Vec::new() };
        if !ends {
            let rest = self.book.excess_is_back(&rest.key, rest.ticket);
            return rest.into_iter().flat_map(|rest| self.end(time, rest, history)).collect();
        }
        self.book.finished(self.now(time), &rest.key, rest.ticket);
        self.renew(time, rest.key, history)
    }

    pub(super) const fn back(&self, number: u64, unspent: &Unspent<usize>) -> SentQuestion {
        let Unspent { key, ticket, units, kept, earlier } = *unspent;
        let id = self.id(ticket);
        (
            LeasesQuestion::GiveBack { id, number, key, units, kept, earlier },
            Some(Wait::Back(number)),
        )
    }
}
