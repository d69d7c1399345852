//! Leases are asked for in the background, held until they are due, and renewed if they are shares.
//!
//! One task carries a lease through its life, and the book (`lease/book.rs`) has its state. It is wanted
//! ([`Leases::begin_lease`]), granted ([`Leases::granted`]), held until it is due ([`Leases::hold_lease`]), *closed*, so
//! that no request spends more of it, and finished once its unspent units are back (`end_lease`). While requests hold
//! units of a closed lease, its task ends: the last of the requests goes on with it ([`Leases::go_on_with`]).

use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use tidegate_core::Micros;
use tokio::time::timeout;

use super::Leases;
use super::state::LeaseState;
use crate::lease::{Grant, Granted};
use crate::store::{
    KeyAsk, KnownUse, LeaseAsk, LeaseReply, LeaseResult, Store, StoreEvent, Unspent, Wanted,
};

impl<S: Store> Leases<S> {
    /// Asks for a lease, and gives back its unspent units later. A share is renewed then, as long as requests come.
    pub(super) fn begin_lease(&self, ask: &KeyAsk, wanted: Wanted) {
        let layer = self.clone();
        let ask = ask.clone();
        drop(self.inner.host().spawn(async move { layer.take_leases(&ask, wanted).await }));
    }

    async fn take_leases(&self, ask: &KeyAsk, wanted: Wanted) {
        let mut next = Some(wanted);
        while let Some(wanted) = next {
            if let Some(held) = self.granted(ask, wanted).await {
                // If requests still hold units of it, the last of them goes on.
                let Some(rest) = self.hold_lease(ask, wanted, held).await else { return };
                self.end_lease(&rest).await;
            }
            next = self.renewal(ask);
        }
    }

    /// Gives back the unspent units of leases that were closed while requests held units of them, and takes the next
    /// shares.
    pub(super) fn go_on_with(&self, closed: Vec<Unspent<KeyAsk>>) {
        for rest in closed {
            let layer = self.clone();
            drop(self.inner.host().spawn(async move {
                layer.end_lease(&rest).await;
                if let Some(wanted) = layer.renewal(&rest.key) {
                    layer.take_leases(&rest.key, wanted).await;
                }
            }));
        }
    }

    /// Asks for a lease; returns when it is due and when it ends. A lease that comes too late is given back, and so is
    /// a lease whose grant is unknown, because no reply came.
    async fn granted(&self, ask: &KeyAsk, wanted: Wanted) -> Option<[Micros; 2]> {
        let state = &self.state;
        // Until a lease that nothing waits for is given back: the end of a gate waits for that too.
        let _under_way = state.under_way();
        // The gate may have closed since the lease was wanted.
        let result = if state.may_spend() {
            let reply = self.ask_for_lease(ask, wanted).await;
            let result = reply.result;
            let granted =
                state.answered(self.inner.host().uptime(), ask, wanted.ticket, reply.result);
            self.count(ask, &reply, granted);
            if let Granted::Held { due, ends } = granted {
                return Some([due, ends]);
            }
            result
        } else {
            LeaseResult::NotSent
        };
        let rest = wanted.unspent(ask.clone());
        match result {
            LeaseResult::Decided(_, Some(_)) => {
                state.held.calls.units_late.fetch_add(rest.units, Relaxed);
                self.end_lease(&rest).await;
            }
            LeaseResult::Unknown => self.end_unknown_lease(&rest).await,
            LeaseResult::Decided(_, None) | LeaseResult::Undecided | LeaseResult::NotSent => {
                state.book().finished(self.inner.host().uptime(), ask, wanted.ticket);
            }
        }
        None
    }

    /// Asks the store for a lease.
    async fn ask_for_lease(&self, ask: &KeyAsk, wanted: Wanted) -> LeaseReply {
        let state = &self.state;
        let lease = LeaseAsk {
            wanted: &wanted,
            node: state.held.node,
            // The limiter waits for it no longer, and asks again after a pause. A late lease is given back.
            on_late: &|| state.book().not_granted(self.inner.host().uptime(), ask, wanted.ticket),
            known: &KnownUse::Nothing,
        };
        self.inner.lease(ask, lease).await
    }

    /// Counts a question for a lease, and reports if many in a row are in vain. A question that the store answered
    /// without deciding was not in vain: it came in time.
    fn count(&self, ask: &KeyAsk, reply: &LeaseReply, granted: Granted) {
        let calls = &self.state.held.calls;
        let counter = match (reply.result, granted) {
            (_, Granted::Held { .. }) => &calls.granted,
            (LeaseResult::Unknown | LeaseResult::NotSent, _) => &calls.unanswered,
            // The store granted it, but it had ended, or nothing waited for it any more.
            (LeaseResult::Decided(_, Some(_)), _) => &calls.late,
            (LeaseResult::Decided(_, None) | LeaseResult::Undecided, _) => &calls.refused,
        };
        counter.fetch_add(1, Relaxed);
        let in_time = reply.is_in_time && granted != Granted::Ended;
        if in_time && calls.in_time() {
            (self.handles.report)(StoreEvent::LeasesInTime);
        }
        if !in_time && calls.in_vain() {
            let rule = self.generation.policy.rules().get(ask.rule);
            let rule = rule.map_or("", |rule| rule.name());
            (self.handles.report)(StoreEvent::LeasesLate { rule });
        }
    }

    /// Waits until a lease is due, or until it ends while the store is unavailable. If other nodes join before, gives
    /// back the units above this node's share. Returns the unspent units at the end of the wait or when the lease is
    /// closed; `None` while requests hold units of it.
    async fn hold_lease(
        &self,
        ask: &KeyAsk,
        wanted: Wanted,
        [due, ends]: [Micros; 2],
    ) -> Option<Unspent<KeyAsk>> {
        let state = &self.state;
        let Wanted { ticket, life, .. } = wanted;
        let mut nodes = state.held.nodes.subscribe();
        // They may have changed while the lease was asked for.
        nodes.mark_changed();
        while let Ok(Ok(())) = timeout(self.time_until(due, life), nodes.changed()).await {
            let nodes = *nodes.borrow_and_update();
            let excess = state.book().excess(ask, ticket, nodes);
            if let Some(excess) = excess {
                self.give_back_units(&excess).await;
                let rest = state.book().excess_is_back(ask, ticket);
                if rest.is_some() {
                    return rest;
                }
            }
        }
        // While the store is unavailable, units are better spent here than held to be given back.
        let _ = timeout(self.time_until(ends, life), self.inner.fit()).await;
        state.book().close(ask, ticket)
    }

    /// Returns the time until this instant, at most the `life` of a lease.
    fn time_until(&self, instant: Micros, life: Micros) -> Duration {
        let left = instant.as_micros().saturating_sub(self.inner.host().uptime().as_micros());
        Duration::from_micros(left.min(life.as_micros()))
    }

    /// Returns the share of a limiter to ask for after one has ended; `None` under an older policy, which is not kept for
    /// that: the next request asks under the newest one.
    fn renewal(&self, ask: &KeyAsk) -> Option<Wanted> {
        let wanted = self.state.renewal(self.inner.host().uptime(), ask, self.terms(ask)?)?;
        self.state.held.calls.renewed.fetch_add(1, Relaxed);
        Some(wanted)
    }
}

impl LeaseState {
    /// Takes the reply to a question, if one came.
    fn answered(&self, now: Micros, ask: &KeyAsk, ticket: u64, result: LeaseResult) -> Granted {
        let mut book = self.book();
        if let LeaseResult::Decided(report, lease) = result {
            book.reported(now, ask, report);
            if let Some([since, end]) = lease {
                return book.granted(now, ask, &Grant { ticket, since, end });
            }
        }
        book.not_granted(now, ask, ticket);
        Granted::NotAsked
    }
}
