//! The book when requests are decided and leases end: units are spent, can be spent again, or are given back.
//!
//! The layer calls it after the store has decided a request, and from the task that waits for the end of each
//! lease. The rest that comes out is sent to the store; when all of it is back, the ticket is finished.

use std::hash::Hash;

use tidegate_core::Micros;

use super::{Book, BookAsk, Leased};
use crate::lease::units::Rest;
use crate::store::Unspent;

impl<K: Clone + Eq + Hash> Book<K> {
    /// Spends units that a request holds, because the store admitted the rest of it. Returns the unspent units of
    /// leases that were closed while it held them.
    pub(crate) fn commit(&mut self, asks: &[BookAsk<'_, K>], held: &[Leased]) -> Vec<Unspent<K>> {
        self.counts.spent += held.iter().map(|part| part.units).sum::<u64>();
        self.decided(asks, held, true)
    }

    /// Releases units that a request holds, because the store refused it or did not reply. They can be spent until
    /// their lease is closed. Returns the unspent units of leases that were closed while it held them.
    pub(crate) fn release(&mut self, asks: &[BookAsk<'_, K>], held: &[Leased]) -> Vec<Unspent<K>> {
        self.decided(asks, held, false)
    }

    fn decided(
        &mut self,
        asks: &[BookAsk<'_, K>],
        held: &[Leased],
        is_spent: bool,
    ) -> Vec<Unspent<K>> {
        let mut all = Vec::new();
        for Leased { place, ticket, units, .. } in held {
            let Some(key) = asks.get(*place).map(|ask| ask.key) else { continue };
            // A limiter is forgotten only without leases, so none of its units is held.
            let Some(limiter) = self.limiters.get_mut(key) else { continue };
            if let Some(rest) = limiter.decided(*ticket, *units, is_spent) {
                all.push(self.taken_out(key.clone(), rest));
            }
        }
        all
    }

    /// Closes a lease when it is due, and takes out its unspent units. Returns `None` while requests hold units of it
    /// or some are on their way back; then the last of these takes them out. A lease that has ended is given back as
    /// well, because units that come back count from when they were taken.
    pub(crate) fn close(&mut self, key: &K, ticket: u64) -> Option<Unspent<K>> {
        let rest = self.limiters.get_mut(key)?.close(ticket)?;
        Some(self.taken_out(key.clone(), rest))
    }

    /// Closes the leases of all limiters that `of` selects, because they are reset, their rule changes or
    /// this process ends, and takes out their unspent units. Replies to questions sent before are not waited for.
    pub(crate) fn close_those(&mut self, of: impl Fn(&K) -> bool) -> Vec<Unspent<K>> {
        let mut all = Vec::new();
        for (key, limiter) in self.limiters.iter_mut().filter(|(key, _)| of(key)) {
            all.extend(limiter.close_all().into_iter().map(|rest| (key.clone(), rest)));
        }
        all.into_iter().map(|(key, rest)| self.taken_out(key, rest)).collect()
    }

    /// Counts the unspent units of a lease that the book no longer has.
    pub(super) const fn taken_out(&mut self, key: K, rest: Rest) -> Unspent<K> {
        self.counts.unspent += rest.units;
        let Rest { ticket, units, kept, earlier } = rest;
        // `kept` goes with the units: the store learns how many stay, and so knows a return that comes twice.
        Unspent { key, ticket, units, kept, earlier }
    }

    /// Notes that nothing more is asked of the store about a ticket: everything of its lease is spent or given back, or
    /// there is none.
    pub(crate) fn finished(&mut self, now: Micros, key: &K, ticket: u64) {
        if let Some(limiter) = self.limiters.get_mut(key) {
            // The limiter stays while it is of use: its demand says how large the next lease is to be.
            limiter.finished(ticket);
            if limiter.is_closed() && limiter.is_idle(now) {
                self.limiters.remove(key);
            }
        }
    }
}
