//! Leases are asked for and given back in the background, so that no caller waits for that.

use std::slice::from_ref;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use tidegate_core::Micros;
use tokio::task::JoinHandle;
use tokio::time::{timeout, timeout_at};

use super::KeyAsk;
use super::late::Took;
use super::leases::Leases;
use super::store::Store;
use crate::lease::{Grant, Granted, Report, Unspent, Wanted};
use crate::step::Lineage;
use crate::store::redis::script::{Answer, Call, Decided, Limiter};
use crate::store::redis::{Delivered, NoReply, Route, StoreEvent, heard};

/// How long the end of a gate may wait for its leases to be given back, beside the deadline of the store.
const AT_THE_END: Duration = Duration::from_millis(500);

/// A reply to a question for a lease.
#[derive(Clone, Copy)]
struct Reply {
    is_in_time: bool,
    /// How the limiter stands, and the lease if it was granted; `None` if the store did not decide, because the limiter
    /// has other values or no room.
    decided: Option<(Report, Option<Grant>)>,
}

impl Store {
    /// Asks for a lease, and gives back what is left of it later. A share is renewed then, as long as requests come.
    pub(super) fn take_lease(&self, met: &KeyAsk, wanted: Wanted) {
        let (store, met) = (self.clone(), met.clone());
        self.client.runtime().spawn(async move {
            let mut next = Some(wanted);
            while let Some(wanted) = next {
                if let Some(held) = store.lease(&met.costing(wanted.units), wanted).await {
                    store.hold_lease(&met, wanted, held).await;
                }
                next = store.renewal(&met);
            }
        });
    }

    /// Asks for a lease; returns when it is due and when it ends. One that comes too late is given back.
    async fn lease(&self, met: &KeyAsk, wanted: Wanted) -> Option<[Micros; 2]> {
        let leases = &self.leases;
        let Wanted { ticket, units, .. } = wanted;
        let _under_way = leases.under_way();
        if !leases.are_spent() {
            return None;
        }
        let (reply, route) = self.ask_for_lease(met, wanted).await.unzip();
        let granted = leases.answered(met, ticket, reply);
        self.count(met, reply, granted);
        if let Granted::Held { due, ends } = granted {
            return Some([due, ends]);
        }
        let (_, grant) = reply?.decided?;
        let (grant, terms, calls) = (grant?, self.terms(met)?, leases.calls());
        calls.units_late.fetch_add(units, Relaxed);
        if !leases.book().is_valid(met, ticket) {
            calls.kept.fetch_add(units, Relaxed);
            return None;
        }
        let (since, version) = (terms.counted_from(grant.since), terms.version());
        let late = Unspent { key: met.clone(), ticket, units, since, version };
        self.give_back_lease(&late, route).await;
        None
    }

    /// Counts a question for a lease, and reports if many in a row are in vain.
    fn count(&self, met: &KeyAsk, reply: Option<Reply>, granted: Granted) {
        let calls = self.leases.calls();
        let counter = match (reply, granted) {
            (None, _) => &calls.unanswered,
            (_, Granted::Held { .. }) => &calls.granted,
            (Some(Reply { decided: Some((_, Some(_))), .. }), _) => &calls.late,
            _ => &calls.refused,
        };
        counter.fetch_add(1, Relaxed);
        let in_time = reply.is_some_and(|reply| reply.is_in_time) && granted != Granted::Ended;
        if in_time && calls.in_time() {
            self.client.report(StoreEvent::LeasesInTime);
        }
        if !in_time && calls.in_vain() {
            let rule = self.policy().rules().get(met.rule).map_or("", |rule| rule.name());
            self.client.report(StoreEvent::LeasesLate { rule });
        }
    }

    /// Waits until a lease is due; while the store is unavailable, until it ends. Gives back what is left then, and
    /// meanwhile what exceeds this node's share if other nodes join.
    async fn hold_lease(&self, met: &KeyAsk, wanted: Wanted, [due, ends]: [Micros; 2]) {
        let (leases, Wanted { ticket, life, .. }) = (&self.leases, wanted);
        let left_until = |time: Micros| {
            let left = time.as_micros().saturating_sub(leases.clock.now().as_micros());
            Duration::from_micros(left.min(life.as_micros()))
        };
        let mut nodes = leases.nodes();
        // They may have changed while the lease was asked for.
        nodes.mark_changed();
        while let Ok(Ok(())) = timeout(left_until(due), nodes.changed()).await {
            let (nodes, _under_way) = (*nodes.borrow_and_update(), leases.under_way());
            let excess = leases.book().excess(met, ticket, nodes);
            if let Some(excess) = excess {
                self.give_back_lease(&excess, None).await;
            }
        }
        let _ = timeout(left_until(ends), self.client.fit()).await;
        let _under_way = leases.under_way();
        let rest = leases.book().take_out(met, ticket);
        if let Some(rest) = rest {
            self.give_back_lease(&rest, None).await;
        }
    }

    /// Returns the share of a limiter to ask for after one has ended; `None` under an older policy, which is not kept for
    /// that: the next request asks under the newest one.
    fn renewal(&self, met: &KeyAsk) -> Option<Wanted> {
        let wanted = self.leases.renewal(met, self.terms(met)?)?;
        self.leases.calls().renewed.fetch_add(1, Relaxed);
        Some(wanted)
    }

    /// Asks the store for a lease. After the deadline its caller has nothing to wait for, but units of a late reply are
    /// to be given back, over the connection that brought it.
    async fn ask_for_lease(&self, met: &KeyAsk, wanted: Wanted) -> Option<(Reply, Route)> {
        let limiters = self.limiters(from_ref(met), &[], &[]);
        let limiter = limiters.first()?;
        let call = Arc::new(Call::lease(limiter, wanted.life, None));
        let in_time = heard(self.client.ask(&call, 0, self.client.deadline()).await);
        let is_in_time = in_time.is_ok();
        let Delivered { reply, route } = match in_time {
            Ok(delivered) => delivered,
            Err(NoReply { late, .. }) => {
                let leases = &self.leases;
                leases.book().not_granted(leases.clock.now(), met, wanted.ticket);
                late?.await.ok()?.ok()?
            }
        };
        let answer = call.answer(from_ref(limiter), &reply).ok()?;
        Some((Reply { is_in_time, decided: read(&answer, limiter, wanted) }, route))
    }

    /// Gives back what is left of a lease, unless its rule has changed since; over one connection if there is a `route`.
    async fn give_back_lease(&self, rest: &Unspent<KeyAsk>, route: Option<Route>) {
        let is_back = self.is_given_back(rest, route).await;
        let calls = self.leases.calls();
        let counter = if is_back { &calls.returned } else { &calls.kept };
        counter.fetch_add(rest.units, Relaxed);
        if is_back {
            self.wake(from_ref(&rest.key));
        }
    }

    /// Gives back what is left of a lease; whether the store has it.
    async fn is_given_back(&self, rest: &Unspent<KeyAsk>, route: Option<Route>) -> bool {
        if self.terms(&rest.key).is_none_or(|terms| terms.version() != rest.version) {
            return false;
        }
        let met = rest.key.costing(rest.units);
        let _turn = self.leases.turn_to_give_back().await;
        let back = self.give_back(from_ref(&met), &Took::of_one(rest.since, route)).await;
        let report = back.first().and_then(|(_, done)| report(done));
        if let Some(report) = report {
            self.leases.book().reported(self.leases.clock.now(), &met, report);
        }
        !back.is_empty()
    }

    /// Gives back the leases of these rules in the background, because others were put in force.
    pub(super) fn give_back_leases(&self, of: &[Lineage]) {
        let is_of = |key: &KeyAsk| of.iter().any(|rule| rule.is_of_rule(key.lineage));
        drop(self.give_back_all(self.leases.take_out(is_of)));
    }

    /// Takes no more leases, and gives back all there are, as far as the store does that soon.
    pub(super) async fn end_leases(&self) {
        let deadline = self.client.deadline() + AT_THE_END;
        for returned in self.give_back_all(self.leases.end()) {
            let _ = timeout_at(deadline, returned).await;
        }
        let _ = timeout_at(deadline, self.leases.none_under_way()).await;
    }

    fn give_back_all(&self, all: Vec<Unspent<KeyAsk>>) -> Vec<JoinHandle<()>> {
        let give_back = |mut rest: Unspent<KeyAsk>| {
            let (store, key) = (self.clone(), &mut rest.key);
            // The leases may be of a policy in which the rule has another number.
            key.rule = self.generation.number_of(key).unwrap_or(key.rule);
            self.client.runtime().spawn(async move { store.give_back_lease(&rest, None).await })
        };
        all.into_iter().map(give_back).collect()
    }

    /// Forgets the leases of limiters that are reset. There is nothing to give back.
    pub(super) fn forget_leases(&self, met: &[KeyAsk]) {
        let leases = &self.leases;
        let units: u64 =
            leases.take_out(|key| met.contains(key)).iter().map(|rest| rest.units).sum();
        leases.calls().kept.fetch_add(units, Relaxed);
    }
}

impl Leases {
    /// Takes the reply to a question, if one came.
    fn answered(&self, met: &KeyAsk, ticket: u64, reply: Option<Reply>) -> Granted {
        let (now, mut book) = (self.clock.now(), self.book());
        let decided = reply.and_then(|reply| reply.decided);
        if let Some((report, _)) = decided {
            book.reported(now, met, report);
        }
        match decided.and_then(|(_, grant)| grant) {
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
fn read(answer: &Answer, limiter: &Limiter<'_>, wanted: Wanted) -> Option<(Report, Option<Grant>)> {
    let Answer::Decided(done) = answer else { return None };
    let report = report(done)?;
    let end = done.lease_end(limiter, wanted.life);
    Some((report, end.map(|end| Grant { ticket: wanted.ticket, since: done.at, end })))
}
