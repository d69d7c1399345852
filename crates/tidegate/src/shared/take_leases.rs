//! Leases are asked for in the background, held until they are due, and renewed if they are shares.

use std::slice::from_ref;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use tidegate_core::Micros;
use tokio::time::timeout;

use super::KeyAsk;
use super::leases::Leases;
use super::store::Store;
use crate::lease::{Grant, Granted, Report, Unspent, Wanted};
use crate::store::redis::script::{Answer, Call, Decided, Limiter};
use crate::store::redis::{Delivered, NoReply, StoreError, StoreEvent, heard};

/// A reply to a question for a lease.
#[derive(Clone, Copy)]
struct Reply {
    is_in_time: bool,
    result: Replied,
}

/// What is known of a lease that was asked for.
#[derive(Clone, Copy)]
enum Replied {
    /// How the limiter stands, and the lease if it was granted.
    Decided(Report, Option<Grant>),
    /// It was not granted, because the limiter has other values or no room.
    Undecided,
    /// The question was not sent.
    NotSent,
    /// The question was sent, and no reply will come: the store may have granted the lease.
    Unknown,
}

impl Store {
    /// Asks for a lease, and gives back what is left of it later. A share is renewed then, as long as requests come.
    pub(super) fn take_lease(&self, ask: &KeyAsk, wanted: Wanted) {
        let (store, ask) = (self.clone(), ask.clone());
        self.client.runtime().spawn(async move { store.take_leases(&ask, wanted).await });
    }

    async fn take_leases(&self, ask: &KeyAsk, wanted: Wanted) {
        let mut next = Some(wanted);
        while let Some(wanted) = next {
            if let Some(held) = self.lease(ask, wanted).await {
                // If requests still hold units of it, the last of them goes on.
                let Some(rest) = self.hold_lease(ask, wanted, held).await else { return };
                self.end_lease(&rest).await;
            }
            next = self.renewal(ask);
        }
    }

    /// Gives back what is left of leases that were closed while requests held units of them, and takes the next shares.
    pub(super) fn go_on_with(&self, closed: Vec<Unspent<KeyAsk>>) {
        for rest in closed {
            let store = self.clone();
            self.client.runtime().spawn(async move {
                store.end_lease(&rest).await;
                if let Some(wanted) = store.renewal(&rest.key) {
                    store.take_leases(&rest.key, wanted).await;
                }
            });
        }
    }

    /// Asks for a lease; returns when it is due and when it ends. One that comes too late is given back, and one of
    /// which no reply says whether it was granted.
    async fn lease(&self, ask: &KeyAsk, wanted: Wanted) -> Option<[Micros; 2]> {
        let leases = &self.leases;
        let _under_way = leases.under_way();
        let result = if leases.are_spent() {
            let reply = self.ask_for_lease(ask, wanted).await;
            let granted = leases.answered(ask, wanted.ticket, reply.result);
            self.count(ask, reply, granted);
            if let Granted::Held { due, ends } = granted {
                return Some([due, ends]);
            }
            reply.result
        } else {
            Replied::NotSent
        };
        let rest = wanted.unspent(ask.clone());
        match result {
            Replied::Decided(_, Some(_)) => {
                leases.calls().units_late.fetch_add(rest.units, Relaxed);
                self.end_lease(&rest).await;
            }
            Replied::Unknown => self.end_unknown_lease(&rest).await,
            Replied::Decided(_, None) | Replied::Undecided | Replied::NotSent => {
                leases.book().finished(leases.clock.now(), ask, wanted.ticket);
            }
        }
        None
    }

    /// Counts a question for a lease, and reports if many in a row are in vain. A question that the store answered
    /// without deciding was not in vain: it came in time.
    fn count(&self, ask: &KeyAsk, reply: Reply, granted: Granted) {
        let calls = self.leases.calls();
        let counter = match (reply.result, granted) {
            (_, Granted::Held { .. }) => &calls.granted,
            (Replied::Unknown | Replied::NotSent, _) => &calls.unanswered,
            (Replied::Decided(_, Some(_)), _) => &calls.late,
            (Replied::Decided(_, None) | Replied::Undecided, _) => &calls.refused,
        };
        counter.fetch_add(1, Relaxed);
        let in_time = reply.is_in_time && granted != Granted::Ended;
        if in_time && calls.in_time() {
            self.client.report(StoreEvent::LeasesInTime);
        }
        if !in_time && calls.in_vain() {
            let rule = self.policy().rules().get(ask.rule).map_or("", |rule| rule.name());
            self.client.report(StoreEvent::LeasesLate { rule });
        }
    }

    /// Waits until a lease is due; while the store is unavailable, until it ends. Gives back meanwhile what exceeds
    /// this node's share if other nodes join. Returns what is left then; `None` while requests hold units of it.
    async fn hold_lease(
        &self,
        ask: &KeyAsk,
        wanted: Wanted,
        [due, ends]: [Micros; 2],
    ) -> Option<Unspent<KeyAsk>> {
        let (leases, Wanted { ticket, life, .. }) = (&self.leases, wanted);
        let left_until = |time: Micros| {
            let left = time.as_micros().saturating_sub(leases.clock.now().as_micros());
            Duration::from_micros(left.min(life.as_micros()))
        };
        let mut nodes = leases.nodes();
        // They may have changed while the lease was asked for.
        nodes.mark_changed();
        while let Ok(Ok(())) = timeout(left_until(due), nodes.changed()).await {
            let nodes = *nodes.borrow_and_update();
            let excess = leases.book().excess(ask, ticket, nodes);
            if let Some(excess) = excess {
                self.give_back_lease(&excess).await;
            }
        }
        let _ = timeout(left_until(ends), self.client.fit()).await;
        leases.book().close(ask, ticket)
    }

    /// Returns the share of a limiter to ask for after one has ended; `None` under an older policy, which is not kept for
    /// that: the next request asks under the newest one.
    fn renewal(&self, ask: &KeyAsk) -> Option<Wanted> {
        let wanted = self.leases.renewal(ask, self.terms(ask)?)?;
        self.leases.calls().renewed.fetch_add(1, Relaxed);
        Some(wanted)
    }

    /// Asks the store for a lease. After the deadline its caller has nothing to wait for, but units of a late reply are
    /// to be given back.
    async fn ask_for_lease(&self, ask: &KeyAsk, wanted: Wanted) -> Reply {
        let asked = ask.costing(wanted.units);
        let limiters = self.limiters(from_ref(&asked), &[], &[]);
        let not_sent = Reply { is_in_time: false, result: Replied::NotSent };
        let Some(limiter) = limiters.first() else { return not_sent };
        let record = self.lease_record(ask, wanted.ticket);
        let call = Arc::new(Call::lease(limiter, wanted.life, (&record, wanted.oldest), None));
        let in_time = heard(self.client.ask(&call, 0, self.client.deadline()).await);
        let is_in_time = in_time.is_ok();
        let reply = match in_time {
            Ok(reply) => Ok(reply),
            Err(NoReply { late: Some(late), .. }) => {
                let leases = &self.leases;
                leases.book().not_granted(leases.clock.now(), ask, wanted.ticket);
                late.await.unwrap_or(Err(StoreError::Timeout))
            }
            Err(NoReply { error, late: None }) => Err(error),
        };
        let result = match reply {
            Ok(Delivered { reply, .. }) => match call.answer(from_ref(limiter), &reply) {
                Ok(answer) => read(&answer, limiter, wanted),
                Err(_) => Replied::Unknown,
            },
            Err(error) if error.is_of_other_layout() => Replied::Undecided,
            Err(StoreError::Away | StoreError::Overloaded { .. }) => Replied::NotSent,
            Err(_) => Replied::Unknown,
        };
        Reply { is_in_time, result }
    }
}

impl Leases {
    /// Takes the reply to a question, if one came.
    fn answered(&self, ask: &KeyAsk, ticket: u64, replied: Replied) -> Granted {
        let (now, mut book) = (self.clock.now(), self.book());
        if let Replied::Decided(report, _) = replied {
            book.reported(now, ask, report);
        }
        if let Replied::Decided(_, Some(grant)) = replied {
            return book.granted(now, ask, &grant);
        }
        book.not_granted(now, ask, ticket);
        Granted::NotAsked
    }
}

/// Returns how the only limiter of a reply stands.
pub(super) fn report(done: &Decided) -> Option<Report> {
    let decision = done.decisions.first()?;
    let idle_at = done.at.plus(decision.reset_after);
    Some(Report { remaining: decision.remaining, at: done.at, idle_at })
}

/// Reads the answer about a lease.
fn read(answer: &Answer, limiter: &Limiter<'_>, wanted: Wanted) -> Replied {
    let Answer::Decided(done) = answer else { return Replied::Undecided };
    let Some(report) = report(done) else { return Replied::Unknown };
    let end = done.lease_end(limiter, wanted.life);
    let grant = end.map(|end| Grant { ticket: wanted.ticket, since: done.at, end });
    Replied::Decided(report, grant)
}
