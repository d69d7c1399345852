//! A request that spends leased units: all of its cost, so that the store is not asked, or a part of it.

use std::sync::Arc;

use tidegate_core::{Decision, Micros, Outcome, Rule, Timestamp};

use super::leases::Leases;
use super::share::limit_of;
use super::store::Store;
use super::{KeyAsk, SharedGate};
use crate::answer::Answer;
use crate::inline_list::InlineList;
use crate::lease::{Ask, Choice, Report, Spent, Wanted};
use crate::request::Origin;
use crate::step::{Decided, Done};

/// The leased units that a request spends. If it is dropped, they are put back.
pub(super) struct Spending<'a> {
    store: &'a Store,
    met: &'a [KeyAsk],
    /// Empty once they are kept or put back.
    spent: Vec<Spent>,
    /// For each limiter that spends leased units, how it stands.
    standing: InlineList<Option<Report>>,
    /// Whether all limiters spend leased units.
    is_all: bool,
}

/// The limiters of a request that spend leased units.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Parts {
    AsManyAsHaveEnough,
    /// All of them, or none.
    All,
}

impl SharedGate {
    /// Decides a request for whose limiters nobody waits in this process. Limiters with enough leased units spend those;
    /// the others are decided in the store, in one step, and if that refuses the request the units are put back.
    pub(super) async fn decide_with_leases(
        &self,
        store: &Arc<Store>,
        met: &[KeyAsk],
        origin: Origin<'_>,
    ) -> Answer<'_> {
        let Some(spending) = self.spend_leases(store, met, origin, Parts::AsManyAsHaveEnough)
        else {
            return self.ask_unless_denied(store, met, origin).await;
        };
        if spending.is_all {
            return spending.admitted(self);
        }
        Box::pin(self.decide_rest(store, met, origin, spending)).await
    }

    /// Decides a request for whose limiters nobody waits in this process, if all of them have enough leased units, or none
    /// has leases and the store has just denied it. Returns `None` for any other request, which then was not decided.
    pub(super) fn decide_here(
        &self,
        store: &Store,
        met: &[KeyAsk],
        origin: Origin<'_>,
    ) -> Option<Answer<'_>> {
        if store.leases.are_spent() && met.iter().any(|met| store.terms(met).is_some()) {
            return Some(self.spend_leases(store, met, origin, Parts::All)?.admitted(self));
        }
        self.denied_again(store, met, origin)
    }

    /// Decides in the store about the limiters that spend no leased units.
    async fn decide_rest(
        &self,
        store: &Arc<Store>,
        met: &[KeyAsk],
        origin: Origin<'_>,
        spending: Spending<'_>,
    ) -> Answer<'_> {
        if spending.spent.is_empty() {
            let answer = self.ask_unless_denied(store, met, origin).await;
            store.leases.note(met, &answer);
            return answer;
        }
        let of_store = met.iter().zip(&spending.standing).filter(|(_, here)| here.is_none());
        let rest: InlineList<_> = of_store.map(|(met, _)| met.clone()).collect();
        let mut answer = self.ask_unless_denied(store, &rest, origin).await;
        store.leases.note(&rest, &answer);
        let (allowed, at) = (answer.allowed, answer.at);
        let decisions = if allowed {
            let decisions = spending.decisions();
            spending.keep(self);
            decisions
        } else {
            spending.refused()
        };
        let done = Done { allowed, at, repeated: false, decisions };
        answer.replies.extend(store.exact(met, done).replies);
        let place = |lineage, by| met.iter().position(|met| (met.lineage, met.by) == (lineage, by));
        answer.replies.sort_by_key(|reply| place(reply.lineage, reply.by));
        answer
    }

    /// Spends what is leased of the limiters of a request, and asks for more in the background; `None` if no limiter has
    /// leases, or the request has an id, for which the store may remember an answer, or not all `parts` have enough.
    fn spend_leases<'a>(
        &self,
        store: &'a Store,
        met: &'a [KeyAsk],
        origin: Origin<'_>,
        parts: Parts,
    ) -> Option<Spending<'a>> {
        let leases = &store.leases;
        if !leases.are_spent() || origin.id.is_some() {
            return None;
        }
        let asks = asks(store, met);
        if asks.iter().all(|ask| ask.terms.is_none()) {
            return None;
        }
        let (now, nodes) = (leases.clock.now(), self.nodes());
        let mut book = leases.book();
        if parts == Parts::All && !book.has_all(now, &asks) {
            return None;
        }
        let (spent, is_all) = match book.decide(now, &asks) {
            Choice::Here(spent) => (spent, true),
            Choice::Store(spent) => (spent, false),
        };
        let leased = asks.iter().filter(|ask| ask.terms.is_some());
        let wanted: Vec<(&KeyAsk, Wanted)> =
            leased.filter_map(|ask| Some((ask.key, book.wants(now, ask.key, nodes)?))).collect();
        let is_spent = |place| spent.iter().any(|part| part.place == place);
        let standing = met.iter().enumerate().map(|(place, met)| {
            is_spent(place).then(|| book.standing(now, met).unwrap_or_default())
        });
        let standing = standing.collect();
        drop(book);
        for (met, wanted) in wanted {
            store.take_lease(met, wanted);
        }
        Some(Spending { store, met, spent, standing, is_all })
    }
}

fn asks<'a>(store: &Store, met: &'a [KeyAsk]) -> InlineList<Ask<'a, KeyAsk>> {
    let ask = |met: &'a KeyAsk| Ask { key: met, terms: store.terms(met), cost: met.cost };
    met.iter().map(ask).collect()
}

impl Spending<'_> {
    /// Returns the decisions of the limiters that spend leased units.
    fn decisions(&self) -> InlineList<Option<Decided>> {
        let policy = self.store.policy();
        let all = self.met.iter().zip(&self.standing);
        let decided = all.map(|(met, report)| {
            let decision = decision(met.rule_in(policy)?, (*report)?)?;
            Some(Decided::of(decision, false, false))
        });
        decided.collect()
    }

    /// Puts the units back, and returns the decisions of their limiters with them.
    fn refused(mut self) -> InlineList<Option<Decided>> {
        for Spent { place, .. } in self.put_back() {
            if let (Some(met), Some(Some(report))) =
                (self.met.get(place), self.standing.get_mut(place))
            {
                let leases = &self.store.leases;
                *report = leases.book().standing(leases.clock.now(), met).unwrap_or(*report);
            }
        }
        self.decisions()
    }

    /// Puts the units back, and returns what they were.
    fn put_back(&mut self) -> Vec<Spent> {
        let spent = std::mem::take(&mut self.spent);
        if !spent.is_empty() {
            let leases = &self.store.leases;
            leases.book().put_back(leases.clock.now(), &asks(self.store, self.met), &spent);
        }
        spent
    }

    /// Returns the reading of the store's clock now, as far as it is known.
    fn at(&self) -> Timestamp {
        self.standing.iter().flatten().map(|report| report.at).max().unwrap_or_default()
    }

    /// Returns the answer to a request whose limiters all spend leased units.
    fn admitted<'g>(self, gate: &'g SharedGate) -> Answer<'g> {
        let (store, met, at, decisions) = (self.store, self.met, self.at(), self.decisions());
        self.keep(gate);
        store.exact(met, Done { allowed: true, at, repeated: false, decisions })
    }

    /// Keeps the units as spent, because the request is admitted.
    fn keep(mut self, gate: &SharedGate) {
        let is_here = |place: usize| matches!(self.standing.get(place), Some(Some(_)));
        gate.fallback.learn(&self.store.generation.policy, self.met, is_here);
        let spent = std::mem::take(&mut self.spent);
        if !self.is_all {
            self.store.leases.book().keep(&spent);
        }
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
        let _ = self.put_back();
    }
}

impl Leases {
    /// Notes what the store reported of limiters with leases.
    fn note(&self, met: &[KeyAsk], answer: &Answer<'_>) {
        if answer.is_degraded() || answer.is_repeated() {
            return;
        }
        let (now, at) = (self.clock.now(), answer.at);
        let mut book = self.book();
        let own = answer.replies.iter().filter(|one| !one.overflow && one.figures.is_none());
        for reply in own.filter(|one| self.terms(one.number, one.variant).is_some()) {
            let of_reply = |met: &&KeyAsk| (met.lineage, met.by) == (reply.lineage, reply.by);
            if let Some(met) = met.iter().find(of_reply) {
                let Decision { remaining, reset_after, .. } = reply.decision;
                book.reported(now, met, Report { remaining, at, idle_at: at.plus(reset_after) });
            }
        }
    }
}
