//! The end of a request at a node: it is admitted, refused, or undone because no caller waits for it.

use super::super::super::Leased;
use super::super::history::{LeasesEventKind, LeasesHistory, RequestId};
use super::super::store::{LeasesQuestion, Stands};
use super::{LeasesNode, SentQuestion, WaitingRequest, of_store};

impl LeasesNode<'_> {
    /// Undoes a request that no caller waits for, once.
    pub(super) fn late(
        &mut self,
        request: RequestId,
        server: usize,
        admitted: bool,
        limiters: &[Stands],
        history: &mut LeasesHistory,
    ) -> Vec<SentQuestion> {
        history.late += 1;
        if !admitted || !self.answered.insert(request.2) {
            return Vec::new();
        }
        let undo = |one: &Stands| {
            let Stands { key, cost: units, at, revision, .. } = *one;
            let terms = self.plan.keys[key].terms(self.number, revision);
            let since = terms.map_or(at, |terms| at.minus(terms.exact_earlier()));
            (LeasesQuestion::Undo { by: request, server, key, units, since }, None)
        };
        limiters.iter().map(undo).collect()
    }

    /// Ends a request: the limiters of the store admitted it, or it is refused.
    pub(super) fn decided(
        &mut self,
        time: u64,
        request: u64,
        is_admitted: bool,
        history: &mut LeasesHistory,
    ) -> Vec<SentQuestion> {
        let Some(waiting) = self.waiting.remove(&request) else { return Vec::new() };
        let WaitingRequest { asked, held, since, revisions } = waiting;
        let asks = self.asks(&asked);
        let closed = if is_admitted {
            self.answered.insert(request);
            for (key, units) in of_store(&asked, &held) {
                history.add(time, key, LeasesEventKind::Answered { by: self.id(request), units });
            }
            let closed = self.book.commit(&asks, &held);
            self.admitted(since, &asked, &held, &revisions, history);
            closed
        } else {
            self.decide_here(time, &asked, &held, history);
            history.put_back += held.iter().map(|part| part.units_of().1).sum::<u64>();
            self.book.release(&asks, &held)
        };
        closed.into_iter().flat_map(|rest| self.end(time, rest, history)).collect()
    }

    /// Admits a request in place of the store, if no message comes through and the limiters allow that.
    fn decide_here(
        &self,
        time: u64,
        asked: &[(usize, u64)],
        held: &[Leased],
        history: &mut LeasesHistory,
    ) {
        for (key, _) in of_store(asked, held).filter(|_| time < self.cut_until) {
            if self.book.lasts(self.now(time), &key).is_none() {
                history.add(time, key, LeasesEventKind::Local { held: self.held(time, key) });
            }
        }
    }
}
