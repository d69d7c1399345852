//! Leases are asked for and given back in the background, so that no caller waits for that.

use std::slice::from_ref;
use std::sync::Arc;
use std::time::Duration;

use tidegate_core::Micros;
use tokio::task::JoinHandle;
use tokio::time::{timeout, timeout_at};

use super::KeyAsk;
use super::late::Took;
use super::leases::Leases;
use super::store::Store;
use crate::lease::{Grant, Granted, Report, Unspent, Wanted};
use crate::store::redis::script::{Answer, Call, Decided, Limiter};
use crate::store::redis::{NoReply, heard};

/// How long the end of a gate may wait for its leases to be given back, beside the deadline of the store.
const AT_THE_END: Duration = Duration::from_millis(500);

/// A reply to a question for a lease: how the limiter stands, and when the lease was taken and ends if it was granted.
type Reply = (Report, Option<Grant>);

impl Store {
    /// Asks for a lease, and gives back what is left of it later. A share is renewed then, as long as requests come.
    pub(super) fn take_lease(&self, met: &KeyAsk, wanted: Wanted) {
        let (store, met) = (self.clone(), met.clone());
        self.client.runtime().spawn(async move {
            let mut next = Some(wanted);
            while let Some(wanted) = next {
                if let Some(rest) = store.lease(&met.costing(wanted.units), wanted).await {
                    store.return_lease(&rest).await;
                }
                next = store.leases.renewal(&met);
            }
        });
    }

    /// Asks for a lease, and waits until what is left of it is to be given back.
    async fn lease(&self, met: &KeyAsk, wanted: Wanted) -> Option<Unspent<KeyAsk>> {
        let leases = &self.leases;
        let Wanted { ticket, units, .. } = wanted;
        let reply = self.ask_for_lease(met, wanted).await;
        let grant = reply.and_then(|(_, grant)| grant);
        match leases.answered(met, ticket, reply) {
            Granted::Held { due, ends } => self.hold_lease(met, wanted, [due, ends]).await,
            Granted::NotAsked => {
                let (grant, terms) = (grant?, self.terms(met)?);
                if !leases.book().is_valid(ticket) {
                    return None;
                }
                let (since, version) = (terms.counted_from(grant.since), terms.version());
                Some(Unspent { key: met.clone(), ticket, units, since, version })
            }
            Granted::Ended => None,
        }
    }

    /// Waits until a lease is due; while the store is unavailable, until it ends. Gives back meanwhile what exceeds this
    /// node's share if other nodes join. Returns what is left then.
    async fn hold_lease(
        &self,
        met: &KeyAsk,
        wanted: Wanted,
        [due, ends]: [Micros; 2],
    ) -> Option<Unspent<KeyAsk>> {
        let (leases, Wanted { ticket, life, .. }) = (&self.leases, wanted);
        let left_until = |time: Micros| {
            let left = time.as_micros().saturating_sub(leases.clock.now().as_micros());
            Duration::from_micros(left.min(life.as_micros()))
        };
        let mut nodes = leases.nodes();
        while let Ok(Ok(())) = timeout(left_until(due), nodes.changed()).await {
            let (now, nodes) = (leases.clock.now(), *nodes.borrow_and_update());
            let excess = leases.book().excess(now, met, ticket, nodes);
            if let Some(excess) = excess {
                self.return_lease(&excess).await;
            }
        }
        let _ = timeout(left_until(ends), self.client.fit()).await;
        leases.book().take_out(leases.clock.now(), met, ticket)
    }

    /// Asks the store for a lease. After the deadline its caller has nothing to wait for, but units of a late reply are
    /// to be given back.
    async fn ask_for_lease(&self, met: &KeyAsk, wanted: Wanted) -> Option<Reply> {
        let limiters = self.limiters(from_ref(met), &[], &[]);
        let limiter = limiters.first()?;
        let call = Arc::new(Call::lease(limiter, wanted.life, None));
        let reply = match heard(self.client.ask(&call, 0, self.client.deadline()).await) {
            Ok(reply) => reply,
            Err(NoReply { late, .. }) => {
                let leases = &self.leases;
                leases.book().not_granted(leases.clock.now(), met, wanted.ticket);
                late?.await.ok()?.ok()?
            }
        };
        read(&call.answer(from_ref(limiter), &reply).ok()?, limiter, wanted)
    }

    /// Gives back what is left of a lease, unless the values of its rule have changed since.
    async fn return_lease(&self, rest: &Unspent<KeyAsk>) {
        if rest.version != self.leases.version {
            return;
        }
        let met = rest.key.costing(rest.units);
        let _turn = self.leases.turn_to_return().await;
        let back = self.take_back(from_ref(&met), &Took::of_one(rest.since)).await;
        if let Some((_, done)) = back.first() {
            if let Some(report) = report(done) {
                self.leases.book().reported(self.leases.clock.now(), &met, report);
            }
            self.queues.wake_those(|queue| queue.is_of(met.lineage));
        }
    }

    /// Gives back all leases in the background, because another policy was put in force.
    pub(super) fn give_leases_back(&self) {
        drop(self.returning());
    }

    /// Takes no more leases, and gives back all there are, as far as the store does that soon.
    pub(super) async fn end_leases(&self) {
        self.leases.end();
        let deadline = self.client.deadline() + AT_THE_END;
        for returned in self.returning() {
            let _ = timeout_at(deadline, returned).await;
        }
    }

    fn returning(&self) -> Vec<JoinHandle<()>> {
        let give_back = |rest| {
            let store = self.clone();
            self.client.runtime().spawn(async move { store.return_lease(&rest).await })
        };
        self.leases.all().into_iter().map(give_back).collect()
    }

    /// Forgets the leases of limiters that are reset. There is nothing to give back.
    pub(super) fn forget_leases(&self, met: &[KeyAsk]) {
        let leases = &self.leases;
        if leases.are_spent() {
            leases.book().drop_those(leases.clock.now(), |key| met.contains(key));
        }
    }
}

impl Leases {
    /// Takes the reply to a question, if one came.
    fn answered(&self, met: &KeyAsk, ticket: u64, reply: Option<Reply>) -> Granted {
        let (now, mut book) = (self.clock.now(), self.book());
        if let Some((report, _)) = reply {
            book.reported(now, met, report);
        }
        match reply.and_then(|(_, grant)| grant) {
            Some(grant) => book.granted(now, met, &grant),
            None => {
                book.not_granted(now, met, ticket);
                Granted::NotAsked
            }
        }
    }
}

/// Returns how the only limiter of a reply stands.
fn report(done: &Decided) -> Option<Report> {
    let decision = done.decisions.first()?;
    let idle_at = done.at.plus(decision.reset_after);
    Some(Report { remaining: decision.remaining, at: done.at, idle_at })
}

/// Reads the answer about a lease; `None` if it was not decided, because the limiter has other values or no room.
fn read(answer: &Answer, limiter: &Limiter<'_>, wanted: Wanted) -> Option<Reply> {
    let Answer::Decided(done) = answer else { return None };
    let report = report(done)?;
    let end = done.lease_end(limiter, wanted.life);
    Some((report, end.map(|end| Grant { ticket: wanted.ticket, since: done.at, end })))
}
