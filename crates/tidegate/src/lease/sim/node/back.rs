//! Units of leases that a node gives back.

use super::super::super::Unspent;
use super::super::history::{History, What};
use super::super::store::Question;
use super::{Due, Node, Sent, Wait};

impl Node<'_> {
    /// Gives back the unspent units of a lease that is due.
    pub(in super::super) fn give_back_rest(
        &mut self,
        time: u64,
        due: Due,
        history: &mut History,
    ) -> Vec<Sent> {
        let rest = self.book.close(&due.key, due.ticket);
        rest.into_iter().flat_map(|rest| self.end(time, rest, history)).collect()
    }

    /// Gives back the unspent units of a lease that is over, and renews it if it is a share.
    pub(super) fn end(
        &mut self,
        time: u64,
        rest: Unspent<usize>,
        history: &mut History,
    ) -> Vec<Sent> {
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
        history: &mut History,
    ) -> Vec<Sent> {
        history.add(time, key, What::Dropped { node: self.number });
        let unspent = self.book.close_those(|other| *other == key);
        unspent.into_iter().flat_map(|one| self.give_back(one, true)).collect()
    }

    /// Gives units back until the store replies.
    pub(super) fn give_back(&mut self, unspent: Unspent<usize>, ends: bool) -> Vec<Sent> {
        self.next_back += 1;
        let number = self.next_back;
        let sent = vec![self.back(number, &unspent)];
        self.backs.insert(number, (unspent, ends));
        sent
    }

    /// The store has units back. Gives back the unspent units of their lease, if it was closed in between, or ends it.
    pub(super) fn is_back(&mut self, time: u64, number: u64, history: &mut History) -> Vec<Sent> {
        let Some((rest, ends)) = self.backs.remove(&number) else { return Vec::new() };
        if !ends {
            let rest = self.book.excess_is_back(&rest.key, rest.ticket);
            return rest.into_iter().flat_map(|rest| self.end(time, rest, history)).collect();
        }
        self.book.finished(self.now(time), &rest.key, rest.ticket);
        self.renew(time, rest.key, history)
    }

    pub(super) const fn back(&self, number: u64, unspent: &Unspent<usize>) -> Sent {
        let Unspent { key, ticket, units, kept, earlier } = *unspent;
        let id = self.id(ticket);
        (Question::GiveBack { id, number, key, units, kept, earlier }, Some(Wait::Back(number)))
    }
}
