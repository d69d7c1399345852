//! One request whose limiters live in several slots of a cluster: one step for each slot, all or nothing.
//!
//! The slots are asked one after the other, from the smallest N/W up, because that slot is the likeliest to
//! refuse. After a refusal, each slot asked before gives its units back in one more step. So no limit is ever
//! exceeded: units are available before the next slot is asked, and only units that still count are given back.
//! But other requests may be refused in between, for units that no request uses in the end. If the store or this
//! process becomes unavailable before units are given back, they count until they leave the limiter by
//! themselves.
//!
//! No rule here may remember answers or let requests wait. A remembered answer would report units as admitted
//! that were given back, and a request that asks again and again would hold units in passing each time. Loading
//! the policy refuses both.

use std::cmp::Ordering;
use std::sync::Arc;

use tidegate_core::{Limit, Micros, Rule, Timestamp};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::timeout_at;

use crate::request::Origin;
use crate::rules::Policy;
use crate::store::{
    GaveUp, Generation, KeyAsk, Late, StepArgs, StepReply, Store, StoreError, Verb, at_places,
    done_in_part, is_report,
};

/// Decides requests over several slots of the store `inner`.
#[derive(Clone, Debug)]
pub(crate) struct AcrossSlots<S> {
    pub(crate) inner: S,
    generation: Arc<Generation>,
}

/// The limiters of a request that live in one slot, by their indices in the request.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct SlotPart {
    places: Vec<usize>,
    when: When,
}

/// When a part is asked: parts that cannot be given back come after those that can, and parts that never refuse
/// come last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum When {
    ByRate(LimitRate),
    Queue,
    Shadow,
}

/// The rate N/W.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct LimitRate {
    limit: u64,
    window: Micros,
}

impl LimitRate {
    fn of(rule: &Rule) -> Self {
        let limit = match rule.spec().limit {
            Limit::Units(units) => units,
            Limit::Unlimited => u64::MAX,
        };
        Self { limit, window: rule.spec().window.map_or(Micros::from_micros(1), Micros::from) }
    }

    /// The product of this limit and the other's window.
    const fn times(self, other: Self) -> u128 {
        self.limit as u128 * other.window.as_micros() as u128
    }
}

impl Ord for LimitRate {
    fn cmp(&self, other: &Self) -> Ordering {
        // Compared as products, because a quotient would be rounded.
        self.times(*other).cmp(&other.times(*self))
    }
}

impl PartialOrd for LimitRate {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// A step in one slot, as it was asked and answered.
struct TakenStep {
    asks: Vec<KeyAsk>,
    leased: Vec<Option<Micros>>,
    at: Option<Timestamp>,
    reply: StepReply,
    places: Vec<usize>,
}

/// The replies of slots that gave units back, each with the indices of its limiters.
type Undone = Vec<(Vec<usize>, StepReply)>;

/// The steps so far. Dropping them gives back their units, even if no caller waits for the answer any more.
struct StepsTaken<S: Store> {
    store: S,
    steps: Vec<TakenStep>,
}

impl<S: Store> StepsTaken<S> {
    /// Keeps the units.
    fn keep(mut self) {
        self.steps.clear();
    }

    /// Starts to give back, in a task of its own.
    fn give_back(&mut self) -> Option<JoinHandle<Undone>> {
        let steps = std::mem::take(&mut self.steps);
        if steps.is_empty() {
            return None;
        }
        Some(self.store.host().spawn(give_back(self.store.clone(), steps)))
    }

    /// Gives back the units taken, unless the request is admitted without the store.
    fn unless_kept(mut self, error: GaveUp) -> GaveUp {
        let steps = std::mem::take(&mut self.steps);
        if steps.is_empty() {
            return error;
        }
        // The outer layer sends if the units are kept. If it drops the sender, the receiver gets an error.
        let (keep, kept) = oneshot::channel();
        let store = self.store.clone();
        let unless_kept = async move {
            if kept.await.is_err() {
                give_back(store, steps).await;
            }
        };
        drop(self.store.host().spawn(unless_kept));
        GaveUp { late: error.late.and(Late::unless_sent(keep)), ..error }
    }
}

impl<S: Store> Drop for StepsTaken<S> {
    fn drop(&mut self) {
        // The task runs without being awaited.
        drop(self.give_back());
    }
}

/// Gives back the units of these steps.
async fn give_back<S: Store>(store: S, steps: Vec<TakenStep>) -> Undone {
    let mut given_back = Vec::new();
    for TakenStep { asks, leased, at, reply, places } in steps {
        let asked = StepArgs::new(Verb::Ask, Origin::default(), store.host().deadline());
        let asked = StepArgs { leased: &leased, at, ..asked };
        given_back.push((places, store.undo(&asks, asked, &reply).await));
    }
    given_back
}

impl<S: Store> AcrossSlots<S> {
    pub(crate) const fn new(inner: S, generation: Arc<Generation>) -> Self {
        Self { inner, generation }
    }

    fn policy(&self) -> &Policy {
        &self.generation.policy
    }

    /// Returns the limiters by slot, in the order in which they are asked; nothing if one step over all is
    /// enough.
    fn parts(&self, asks: &[KeyAsk]) -> Vec<SlotPart> {
        if asks.len() < 2 {
            return Vec::new();
        }
        let mut slots: Vec<(u16, Vec<usize>)> = Vec::new();
        for (place, one) in asks.iter().enumerate() {
            let Some(slot) = self.inner.slot(one) else { return Vec::new() };
            match slots.iter_mut().find(|(known, _)| *known == slot) {
                Some((_, places)) => places.push(place),
                None => slots.push((slot, vec![place])),
            }
        }
        if slots.len() < 2 {
            return Vec::new();
        }
        let parts = slots.into_iter();
        let mut parts: Vec<_> =
            parts.map(|(_, places)| SlotPart { when: self.when(asks, &places), places }).collect();
        parts.sort_by_key(|part| part.when);
        parts
    }

    fn when(&self, asks: &[KeyAsk], places: &[usize]) -> When {
        let mut smallest = None;
        let mut has_queue = false;
        for one in places.iter().filter_map(|place| asks.get(*place)) {
            let rule = one.rule_in(self.policy()).filter(|rule| !rule.is_unlimited());
            let Some(rule) = rule else { continue };
            // In shadow mode too: a request that is admitted there takes a place, which cannot be given back.
            has_queue |= rule.spec().algorithm.is_queue();
            if one.enforced {
                let rate = LimitRate::of(rule);
                smallest = Some(smallest.map_or(rate, |known| rate.min(known)));
            }
        }
        match smallest {
            None => When::Shadow,
            Some(_) if has_queue => When::Queue,
            Some(rate) => When::ByRate(rate),
        }
    }

    /// Checks whether these parts may be taken one after the other.
    ///
    /// # Errors
    /// A rule does not allow it, or more than one part could not be given back.
    fn may_be_apart(&self, asks: &[KeyAsk], parts: &[SlotPart]) -> Result<(), StoreError> {
        let limited = parts.iter().filter(|part| {
            let mut asks = part.places.iter().filter_map(|place| asks.get(*place));
            asks.any(|one| !one.is_unlimited(self.policy()))
        });
        // A place in a queue cannot be given back, so a queue is asked last, and there is one at most.
        let queues = limited.clone().filter(|part| part.when == When::Queue).count();
        if limited.count() < 2 {
            return Ok(());
        }
        let all_allow_it = asks.iter().filter(|one| !one.is_unlimited(self.policy())).all(|one| {
            self.policy().rules().get(one.rule).is_some_and(|rule| rule.spec().across_slots)
        });
        if all_allow_it && queues < 2 { Ok(()) } else { Err(StoreError::CrossSlot) }
    }

    /// Takes from all parts or, in the end, from none.
    async fn ask(
        &self,
        asks: &[KeyAsk],
        parts: &[SlotPart],
        args: StepArgs<'_>,
    ) -> Result<StepReply, GaveUp> {
        self.may_be_apart(asks, parts)?;
        let mut done = StepReply::nothing(asks.len(), args.at.unwrap_or(Timestamp::EPOCH));
        // No slot may remember an answer: its units come back if another slot refuses.
        let origin = Origin { id: None, ..args.origin };
        let mut taken = StepsTaken { store: self.inner.clone(), steps: Vec::new() };
        for (number, part) in parts.iter().enumerate() {
            let here = part.of(asks);
            let leased = part.of(args.leased);
            let args_here = StepArgs { origin, leased: &leased, ..args };
            let reply = match self.inner.step(&here, args_here).await {
                Ok(reply) => reply,
                Err(error) => return Err(taken.unless_kept(error)),
            };
            note(&mut done, &part.places, &reply);
            if !reply.allowed {
                let later = parts.get(number + 1..).unwrap_or_default();
                self.refused(asks, later, args, &mut taken, &mut done).await;
                return Ok(done);
            }
            let places = part.places.clone();
            taken.steps.push(TakenStep { asks: here, leased, at: args.at, reply, places });
        }
        taken.keep();
        Ok(done)
    }

    /// Gives back the units taken before a refusal, and looks at the limiters that were not asked, so that the
    /// answer has all of them, if time allows.
    async fn refused(
        &self,
        asks: &[KeyAsk],
        later: &[SlotPart],
        args: StepArgs<'_>,
        taken: &mut StepsTaken<S>,
        done: &mut StepReply,
    ) {
        // The giving back begins before the looks, and goes on if the deadline ends the wait for it.
        let giving = taken.give_back();
        let peek = StepArgs { at: args.at, ..StepArgs::peek(args.deadline) };
        for part in later {
            if let Ok(reply) = self.inner.step(&part.of(asks), peek).await {
                note(done, &part.places, &reply);
            }
        }
        if let Some(giving) = giving {
            let given = timeout_at(args.deadline, giving).await.map(Result::unwrap_or_default);
            for (places, reply) in given.unwrap_or_default() {
                note(done, &places, &reply);
            }
        }
        done.allowed = false;
    }

    /// Runs a step that takes nothing, or whose parts are independent, in each slot.
    ///
    /// # Errors
    /// The error of the first slot that did not reply. The step has run in the slots before it.
    async fn each_slot(
        &self,
        asks: &[KeyAsk],
        parts: &[SlotPart],
        args: StepArgs<'_>,
    ) -> Result<StepReply, GaveUp> {
        // A reset of one slot is complete without the others, so no rule has to allow it.
        if args.verb != Verb::Reset {
            self.may_be_apart(asks, parts)?;
        }
        let mut done = StepReply::nothing(asks.len(), Timestamp::EPOCH);
        for (number, part) in parts.iter().enumerate() {
            let args_here = StepArgs {
                costs: &part.of(args.costs),
                actual: &part.of(args.actual),
                under: &part.of(args.under),
                leased: &part.of(args.leased),
                ..args
            };
            let reply = self.inner.step(&part.of(asks), args_here).await;
            // If nothing was done so far, the caller may try again.
            let untouched = number == 0 || args.verb == Verb::Peek;
            let reply = reply.map_err(|gave_up| {
                if untouched { gave_up } else { GaveUp::from(done_in_part(gave_up.error)) }
            })?;
            note(&mut done, &part.places, &reply);
        }
        Ok(done)
    }
}

impl<S: Store> Store for AcrossSlots<S> {
    async fn step(&self, asks: &[KeyAsk], args: StepArgs<'_>) -> Result<StepReply, GaveUp> {
        let parts = self.parts(asks);
        if parts.is_empty() {
            return self.inner.step(asks, args).await;
        }
        match args.verb {
            // No part of a report can refuse, so nothing needs to be given back.
            Verb::Ask if !is_report(asks) => Box::pin(self.ask(asks, &parts, args)).await,
            _ => Box::pin(self.each_slot(asks, &parts, args)).await,
        }
    }

    fn under(&self, generation: &Arc<Generation>) -> Self {
        Self { inner: self.inner.under(generation), generation: Arc::clone(generation) }
    }

    pass_inward!(undo leases store counts);
}

impl SlotPart {
    /// Returns the elements at the indices of this part.
    fn of<T: Clone>(&self, all: &[T]) -> Vec<T> {
        at_places(all, &self.places)
    }
}

/// Notes the reply of one slot for the limiters at these indices.
fn note(done: &mut StepReply, places: &[usize], reply: &StepReply) {
    done.allowed &= reply.allowed;
    done.now = done.now.max(reply.now);
    done.put_all(places.iter().copied(), reply.replies.iter().cloned());
    done.standing = done.standing_by_replies();
}

#[cfg(test)]
mod tests;
