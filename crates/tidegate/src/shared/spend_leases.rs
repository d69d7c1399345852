//! A request that spends leased units: all of its cost, so that the store is not asked, or a part of it.

use std::sync::Arc;

use tidegate_core::{Decision, Micros, Outcome, Rule, Timestamp};

use super::denial_memory::DenialMemory;
use super::leases::Leases;
use super::share::limit_of;
use super::store::Store;
use super::{KeyAsk, SharedGate};
use crate::answer::Answer;
use crate::clock::Clock;
use crate::inline_list::InlineList;
use crate::lease::{Ask, Choice, Leased, Report, Wanted};
use crate::request::Origin;
use crate::step::{Decided, Done};

/// The leased units that a request spends, or holds until the store has decided the rest of it. If it is dropped, what
/// it holds is released.
pub(super) struct Spending<'a> {
    store: &'a Store,
    asks: &'a [KeyAsk],
    /// Empty if they are spent or released.
    held: Vec<Leased>,
    /// For each limiter that uses leased units, how it stands.
    standing: InlineList<Option<Here>>,
    /// Whether all limiters spend leased units.
    is_all: bool,
}

/// A limiter of which a request uses leased units.
#[derive(Clone, Copy)]
struct Here {
    report: Report,
    /// When the store took the oldest of these units, by its clock.
    since: Option<Timestamp>,
}

/// The limiters of a request that use leased units.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Parts {
    AsManyAsHaveEnough,
    /// All of them, or none.
    All,
}

impl SharedGate {
    /// Decides a request for whose limiters nobody waits in this process. Limiters with enough leased units spend those;
    /// the others are decided in the store, in one step, and if that refuses the request the units are released. What the
    /// store has just denied is refused before any unit is held.
    pub(super) async fn decide_with_leases(
        &self,
        store: &Arc<Store>,
        asks: &[KeyAsk],
        origin: Origin<'_>,
    ) -> Answer<'_> {
        if let Some(answer) = self.denied_beside_leases(store, asks, origin) {
            return answer;
        }
        let Some(spending) = self.spend_leases(store, asks, origin, Parts::AsManyAsHaveEnough)
        else {
            return self.ask_unless_denied(store, asks, origin).await;
        };
        if spending.is_all {
            return spending.admitted(self);
        }
        Box::pin(self.decide_rest(store, asks, origin, spending)).await
    }

    /// Decides a request for whose limiters nobody waits in this process, if all of them have enough leased units, or none
    /// has leases and the store has just denied it. Returns `None` for any other request, which then was not decided.
    pub(super) fn decide_here(
        &self,
        store: &Store,
        asks: &[KeyAsk],
        origin: Origin<'_>,
    ) -> Option<Answer<'_>> {
        if store.leases.are_spent() && asks.iter().any(|ask| store.terms(ask).is_some()) {
            return Some(self.spend_leases(store, asks, origin, Parts::All)?.admitted(self));
        }
        self.denied_again(store, asks, origin)
    }

    /// Refuses a request of which the store has just denied a limiter that has too few leased units; `None` if it has
    /// not.
    fn denied_beside_leases(
        &self,
        store: &Store,
        asks: &[KeyAsk],
        origin: Origin<'_>,
    ) -> Option<Answer<'_>> {
        let is_known = |memory: &Arc<DenialMemory>| memory.has_any(store.clock.now());
        if !store.leases.are_spent() || !store.denial_memory.as_ref().is_some_and(is_known) {
            return None;
        }
        let leases = &store.leases;
        let of_leases = lease_asks(store, asks);
        let now = leases.clock.now();
        let book = leases.book();
        let standing_of = |ask: &Ask<'_, KeyAsk>| {
            let report = || book.standing(now, ask.key).unwrap_or_default();
            book.has(now, ask).then(|| Here { report: report(), since: None })
        };
        let standing: InlineList<_> = of_leases.iter().map(standing_of).collect();
        drop(book);
        let is_all = standing.iter().all(Option::is_some);
        let here = Spending { store, asks, held: Vec::new(), standing, is_all };
        let answer = self.denied_again(store, &here.rest(), origin)?;
        Some(here.with_rest(answer, here.decisions()))
    }

    /// Decides in the store about the limiters that have too few leased units.
    async fn decide_rest(
        &self,
        store: &Arc<Store>,
        asks: &[KeyAsk],
        origin: Origin<'_>,
        mut spending: Spending<'_>,
    ) -> Answer<'_> {
        if spending.held.is_empty() {
            let answer = self.ask_unless_denied(store, asks, origin).await;
            store.leases.note(asks, &answer);
            return answer;
        }
        let rest = spending.rest();
        let answer = self.ask_unless_denied(store, &rest, origin).await;
        store.leases.note(&rest, &answer);
        let decisions = if answer.allowed {
            spending.commit(self);
            spending.decisions()
        } else {
            spending.refused()
        };
        spending.with_rest(answer, decisions)
    }

    /// Spends what is leased of the limiters of a request, and asks for more in the background; `None` if no limiter has
    /// leases, or the request has an id, for which the store may remember an answer, or not all `parts` have enough.
    fn spend_leases<'a>(
        &self,
        store: &'a Store,
        asks: &'a [KeyAsk],
        origin: Origin<'_>,
        parts: Parts,
    ) -> Option<Spending<'a>> {
        let leases = &store.leases;
        if !leases.are_spent() || origin.id.is_some() {
            return None;
        }
        let of_leases = lease_asks(store, asks);
        if of_leases.iter().all(|ask| ask.terms.is_none()) {
            return None;
        }
        let (now, nodes) = (leases.clock.now(), self.nodes());
        let mut book = leases.book();
        if parts == Parts::All && !book.has_all(now, &of_leases) {
            return None;
        }
        let (leased, is_all) = match book.decide(now, &of_leases) {
            Choice::Here(spent) => (spent, true),
            Choice::Store(held) => (held, false),
        };
        let with_leases = of_leases.iter().filter(|ask| ask.terms.is_some());
        let wanted: Vec<(&KeyAsk, Wanted)> = with_leases
            .filter_map(|ask| Some((ask.key, book.wants(now, ask.key, nodes)?)))
            .collect();
        let standing = asks.iter().enumerate().map(|(place, ask)| {
            let since = Leased::oldest(&leased, place)?;
            let report = book.standing(now, ask).unwrap_or_default();
            Some(Here { report, since: Some(since) })
        });
        let standing = standing.collect();
        drop(book);
        for (ask, wanted) in wanted {
            store.take_lease(ask, wanted);
        }
        let held = if is_all { Vec::new() } else { leased };
        Some(Spending { store, asks, held, standing, is_all })
    }
}

fn lease_asks<'a>(store: &Store, asks: &'a [KeyAsk]) -> InlineList<Ask<'a, KeyAsk>> {
    let ask = |ask: &'a KeyAsk| Ask { key: ask, terms: store.terms(ask), cost: ask.cost };
    asks.iter().map(ask).collect()
}

impl Spending<'_> {
    /// Returns the limiters that the store decides.
    fn rest(&self) -> InlineList<KeyAsk> {
        let of_store = self.asks.iter().zip(&self.standing).filter(|(_, here)| here.is_none());
        of_store.map(|(ask, _)| ask.clone()).collect()
    }

    /// Returns the decisions of the limiters that use leased units.
    fn decisions(&self) -> InlineList<Option<Decided>> {
        let policy = self.store.policy();
        let all = self.asks.iter().zip(&self.standing);
        let decided = all.map(|(ask, here)| {
            let Here { report, since } = (*here)?;
            let decision = decision(ask.rule_in(policy)?, report)?;
            Some(Decided { since, ..Decided::of(decision, false, false) })
        });
        decided.collect()
    }

    /// Adds these decisions to the answer about the other limiters, in the order of the request.
    fn with_rest<'g>(
        &self,
        mut answer: Answer<'g>,
        decisions: InlineList<Option<Decided>>,
    ) -> Answer<'g> {
        let (store, asks, allowed, at) = (self.store, self.asks, answer.allowed, answer.at);
        let done = Done { allowed, at, repeated: false, decisions };
        answer.replies.extend(store.exact(asks, done).replies);
        let place =
            |lineage, by| asks.iter().position(|ask| (ask.lineage, ask.by) == (lineage, by));
        answer.replies.sort_by_key(|reply| place(reply.lineage, reply.by));
        answer
    }

    /// Releases the units, and returns the decisions of their limiters with them.
    fn refused(&mut self) -> InlineList<Option<Decided>> {
        self.release();
        let leases = &self.store.leases;
        let (now, book) = (leases.clock.now(), leases.book());
        for (ask, standing) in self.asks.iter().zip(&mut self.standing) {
            if let Some(here) = standing {
                here.report = book.standing(now, ask).unwrap_or(here.report);
            }
        }
        drop(book);
        self.decisions()
    }

    /// Releases the units that are held.
    fn release(&mut self) {
        let held = std::mem::take(&mut self.held);
        if !held.is_empty() {
            let closed =
                self.store.leases.book().release(&lease_asks(self.store, self.asks), &held);
            self.store.go_on_with(closed);
        }
    }

    /// Spends the units that are held, because the request is admitted.
    fn commit(&mut self, gate: &SharedGate) {
        let held = std::mem::take(&mut self.held);
        let closed = self.store.leases.book().commit(&lease_asks(self.store, self.asks), &held);
        self.store.go_on_with(closed);
        self.learn(gate);
    }

    fn learn(&self, gate: &SharedGate) {
        let is_here = |place: usize| matches!(self.standing.get(place), Some(Some(_)));
        gate.fallback.learn(&self.store.generation.policy, self.asks, is_here);
    }

    /// Returns the reading of the store's clock now, as far as it is known.
    fn at(&self) -> Timestamp {
        self.standing.iter().flatten().map(|here| here.report.at).max().unwrap_or_default()
    }

    /// Returns the answer to a request whose limiters all spend leased units.
    fn admitted<'g>(self, gate: &'g SharedGate) -> Answer<'g> {
        self.learn(gate);
        let (at, decisions) = (self.at(), self.decisions());
        self.store.exact(self.asks, Done { allowed: true, at, repeated: false, decisions })
    }
}

/// The decision of a limiter that admits from a lease. What other nodes did since the store's last reply is not known.
fn decision(rule: &Rule, report: Report) -> Option<Decision> {
    let limit = limit_of(rule)?;
    let reset_after = report.idle_at.since(report.at).max(Micros::from_micros(1));
    let outcome = Outcome::Allow { delay: Micros::ZERO };
    Some(Decision { outcome, limit, remaining: report.remaining.min(limit), reset_after })
}

impl Drop for Spending<'_> {
    fn drop(&mut self) {
        self.release();
    }
}

impl Leases {
    /// Notes what the store reported of limiters with leases.
    fn note(&self, asks: &[KeyAsk], answer: &Answer<'_>) {
        if answer.is_degraded() || answer.is_repeated() {
            return;
        }
        let (now, at) = (self.clock.now(), answer.at);
        let mut book = self.book();
        let own = answer.replies.iter().filter(|one| !one.overflow && one.values.is_none());
        for reply in own.filter(|one| self.terms(one.number, one.variant).is_some()) {
            let of_reply = |ask: &&KeyAsk| (ask.lineage, ask.by) == (reply.lineage, reply.by);
            if let Some(ask) = asks.iter().find(of_reply) {
                let Decision { remaining, reset_after, .. } = reply.decision;
                book.reported(now, ask, Report { remaining, at, idle_at: at.plus(reset_after) });
            }
        }
    }
}
