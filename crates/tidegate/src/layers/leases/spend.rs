//! A request that spends leased units: all of its cost, so that the store is not asked, or a part of it.

use tidegate_core::{Decision, Micros, Outcome, Rule, Timestamp};

use super::Leases;
use crate::inline_list::InlineList;
use crate::lease::{BookAsk, Choice, Leased};
use crate::rules::limit_of;
use crate::step::{Decided, TakenUnits};
use crate::store::{
    GaveUp, KeyAsk, Late, LimiterReply, LimiterReport, StepArgs, StepReply, Store, Wanted,
    at_places,
};

/// The leased units that a request spends, or holds until the store has decided the rest of it. If it is dropped, it
/// releases the units it holds.
pub(super) struct Spending<'a, S: Store> {
    layer: &'a Leases<S>,
    asks: &'a [KeyAsk],
    /// Empty if they are spent or released.
    held: Vec<Leased>,
    /// The standing of each limiter that uses leased units.
    standing: InlineList<Option<Here>>,
    /// True if all limiters spend leased units.
    pub(super) is_all: bool,
}

/// A limiter whose leased units a request uses.
#[derive(Clone, Copy)]
struct Here {
    report: LimiterReport,
    /// When the store took the oldest of these units, by its clock.
    since: Option<Timestamp>,
}

/// The limiters of a request that must have enough leased units, so that it uses any.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum LeasesNeeded {
    Any,
    All,
}

impl<S: Store> Leases<S> {
    /// Spends leased units of the limiters of a request, and asks for more in the background; `None` if no limiter has
    /// leases, or not all limiters that must have enough have it.
    pub(super) fn spend<'a>(
        &'a self,
        asks: &'a [KeyAsk],
        need: LeasesNeeded,
    ) -> Option<Spending<'a, S>> {
        let of_leases = self.lease_asks(asks);
        if of_leases.iter().all(|ask| ask.terms.is_none()) {
            return None;
        }
        let now = self.inner.host().uptime();
        let nodes = *self.state.held.nodes.borrow();
        // Locked once for the decision, the wants and the report, so that no request comes between them.
        let mut book = self.state.book();
        if need == LeasesNeeded::All && !book.has_all(now, &of_leases) {
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
            self.begin_lease(ask, wanted);
        }
        let held = if is_all { Vec::new() } else { leased };
        Some(Spending { layer: self, asks, held, standing, is_all })
    }

    /// Decides in the store about the limiters that have too few leased units.
    pub(super) async fn decide_rest(
        &self,
        asks: &[KeyAsk],
        args: StepArgs<'_>,
        mut spending: Spending<'_, S>,
    ) -> Result<StepReply, GaveUp> {
        // No limiter has enough leased units, so one step in the store decides about all of them.
        if spending.held.is_empty() {
            let reply = self.inner.step(asks, args).await?;
            self.note(asks, &reply);
            return Ok(reply);
        }
        let places = spending.places_of_rest();
        let rest = at_places(asks, &places);
        let leased = self.leased(&rest);
        let reply = match self.inner.step(&rest, StepArgs { leased: &leased, ..args }).await {
            Ok(reply) => reply,
            Err(gave_up) => return Err(spending.unless_kept(&places, gave_up)),
        };
        self.note(&rest, &reply);
        let decisions = if reply.allowed {
            self.commit(asks, &std::mem::take(&mut spending.held));
            spending.decisions()
        } else {
            spending.refused()
        };
        Ok(with_rest(decisions, &places, reply))
    }

    /// Returns the decisions of limiters that have enough leased units now; empty if no lease can be spent.
    pub(super) fn decisions_covered(&self, asks: &[KeyAsk]) -> InlineList<Option<Decided>> {
        if !self.state.may_spend() {
            return InlineList::new();
        }
        let now = self.inner.host().uptime();
        let book = self.state.book();
        let covered = self.lease_asks(asks).into_iter().map(|ask| {
            if !book.has(now, &ask) {
                return None;
            }
            let report = book.standing(now, ask.key).unwrap_or_default();
            decided(ask.key.rule_in(&self.generation.policy)?, report, None)
        });
        covered.collect()
    }

    fn release(&self, asks: &[KeyAsk], held: &[Leased]) {
        if !held.is_empty() {
            let closed = self.state.book().release(&self.lease_asks(asks), held);
            self.go_on_with(closed);
        }
    }

    fn commit(&self, asks: &[KeyAsk], held: &[Leased]) {
        let closed = self.state.book().commit(&self.lease_asks(asks), held);
        self.go_on_with(closed);
    }

    fn lease_asks<'a>(&self, asks: &'a [KeyAsk]) -> InlineList<BookAsk<'a, KeyAsk>> {
        asks.iter()
            .map(|ask| BookAsk { key: ask, terms: self.terms(ask), cost: ask.cost })
            .collect()
    }

    /// Notes the store's reports about limiters with leases.
    fn note(&self, asks: &[KeyAsk], reply: &StepReply) {
        if reply.repeated {
            return;
        }
        let now = self.inner.host().uptime();
        let at = reply.now;
        let mut book = self.state.book();
        for (place, ask) in asks.iter().enumerate() {
            let Some(decision) = reply.own_under_own_values(place) else { continue };
            if self.terms(ask).is_some() {
                let Decision { remaining, reset_after, .. } = decision;
                book.reported(
                    now,
                    ask,
                    LimiterReport { remaining, at, idle_at: at.plus(reset_after) },
                );
            }
        }
    }
}

impl<S: Store> Spending<'_, S> {
    /// Returns the indices of the limiters that the store decides.
    fn places_of_rest(&self) -> Vec<usize> {
        let places = self.standing.iter().enumerate();
        places.filter(|(_, here)| here.is_none()).map(|(place, _)| place).collect()
    }

    /// Returns the decisions of the limiters that use leased units.
    fn decisions(&self) -> InlineList<Option<Decided>> {
        let all = self.asks.iter().zip(&self.standing);
        let decided = all.map(|(ask, here)| {
            let Here { report, since } = (*here)?;
            decided(ask.rule_in(&self.layer.generation.policy)?, report, since)
        });
        decided.collect()
    }

    /// Releases the units, and returns the decisions of their limiters with them.
    fn refused(&mut self) -> InlineList<Option<Decided>> {
        self.release();
        let now = self.layer.inner.host().uptime();
        let book = self.layer.state.book();
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
        self.layer.release(self.asks, &std::mem::take(&mut self.held));
    }

    /// Holds the units while an outer layer decides about the limiters at these places, because the store did not.
    fn unless_kept(mut self, places: &[usize], gave_up: GaveUp) -> GaveUp {
        let mut covered = self.decisions().into_vec();
        for place in places {
            if let Some(one) = covered.get_mut(*place) {
                *one = None;
            }
        }
        // An outer layer decides later what becomes of the units, so dropping this must not release them.
        let held = std::mem::take(&mut self.held);
        let layer = self.layer.clone();
        let asks = self.asks.to_vec();
        let held = Late::new(move |is_kept| {
            if is_kept {
                layer.commit(&asks, &held);
            } else {
                layer.release(&asks, &held);
            }
        });
        let GaveUp { error, late, .. } = gave_up;
        GaveUp { error, covered, late: late.and(held) }
    }

    /// Returns the reply to a request whose limiters all spend leased units.
    pub(super) fn admitted(self) -> StepReply {
        // The reading of the store's clock now, as far as it is known.
        let at = self.standing.iter().flatten().map(|here| here.report.at).max();
        let reply = StepReply::nothing(self.asks.len(), at.unwrap_or_default());
        with_rest(self.decisions(), &[], reply)
    }
}

/// Adds the decisions of limiters that use leased units to the reply for the limiters at `places`.
fn with_rest(
    decisions: InlineList<Option<Decided>>,
    places: &[usize],
    mut reply: StepReply,
) -> StepReply {
    let of_rest = std::mem::take(&mut reply.replies);
    let decisions = decisions.into_iter();
    reply.replies = decisions.map(|decided| decided.map(LimiterReply::of_layer)).collect();
    reply.put_all(places.iter().copied(), of_rest);
    reply
}

/// The reply of a limiter that admits from a lease. Decisions of other nodes since the store's last reply are not
/// known.
fn decided(rule: &Rule, report: LimiterReport, since: Option<Timestamp>) -> Option<Decided> {
    let limit = limit_of(rule)?;
    // Units of a lease count as used in the store, so the limiter is not idle.
    let reset_after = report.idle_at.since(report.at).max(Micros::from_micros(1));
    let outcome = Outcome::Allow { delay: Micros::ZERO };
    // The leased units were added to an earlier report of the store, and the sum may pass the limit.
    let remaining = report.remaining.min(limit);
    let decision = Decision { outcome, limit, remaining, reset_after };
    let taken = TakenUnits::new(None, since);
    Some(Decided { taken, ..Decided::of(decision, false, false) })
}

impl<S: Store> Drop for Spending<'_, S> {
    fn drop(&mut self) {
        self.release();
    }
}
