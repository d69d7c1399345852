//! One request whose limiters live in several slots of a cluster: one step for each slot, all or nothing.
//!
//! The slots are asked one after the other, from the smallest N/W up, because that one is the likeliest to
//! refuse. After a refusal, each slot asked before gives its units back in one more step. So no limit is ever
//! exceeded: units are available before the next slot is asked, and only units that still count are given back.
//! But other requests may be refused in between, for units that nobody uses in the end. If the store or this
//! process becomes unavailable before units are given back, they count until they leave the limiter by
//! themselves.
//!
//! No rule here may remember answers or let requests wait. A remembered answer would report units as admitted
//! that were given back, and a request that asks again and again would hold units in passing each time. Loading
//! the policy refuses both.

use std::cmp::Ordering;

use tidegate_core::{Limit, Micros, Rule, Timestamp};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout_at};

use super::KeyAsk;
use super::late::{GivenBack, Took};
use super::store::Late;
use super::store::{StepArgs, Store, is_report};
use crate::request::Origin;
use crate::step::{Decided, Done};
use crate::store::redis::script::{self, Step};
use crate::store::redis::{StoreError, slot_of};

/// The limiters of a request that live in one slot, by their indices in the request.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Part {
    places: Vec<usize>,
    when: When,
}

/// When a part is asked: parts that cannot be given back come after those that can, and parts that never refuse
/// come last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum When {
    ByRate(Rate),
    Queue,
    Shadow,
}

/// The rate N/W.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Rate {
    limit: u64,
    window: Micros,
}

impl Rate {
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

impl Ord for Rate {
    fn cmp(&self, other: &Self) -> Ordering {
        self.times(*other).cmp(&other.times(*self))
    }
}

impl PartialOrd for Rate {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// A request without a reply, the units it took so far, and those a late reply takes. Dropping it gives them
/// back, unless they are kept.
pub(super) struct Unanswered {
    pub(super) error: StoreError,
    taken: Taken,
    late: Late,
}

impl Unanswered {
    /// Keeps the units, because the request is admitted.
    pub(super) fn keep(self) {
        self.taken.keep();
        self.late.keep();
    }
}

/// The units taken from the slots so far. Dropping it gives them back, even if nobody waits for the answer any
/// more.
pub(super) struct Taken {
    store: Store,
    asks: Vec<KeyAsk>,
    steps: Vec<Took>,
}

impl Taken {
    fn nothing(store: &Store, asks: &[KeyAsk]) -> Self {
        Self { store: store.clone(), asks: asks.to_vec(), steps: Vec::new() }
    }

    /// Keeps the units.
    fn keep(mut self) {
        self.steps.clear();
    }

    /// Starts to give back, in a task of its own.
    fn give_back(&mut self) -> Option<JoinHandle<Vec<GivenBack>>> {
        let (steps, asks) = (std::mem::take(&mut self.steps), std::mem::take(&mut self.asks));
        if steps.is_empty() {
            return None;
        }
        let store = self.store.clone();
        let runtime = store.client.runtime().clone();
        Some(runtime.spawn(async move {
            let mut given = Vec::with_capacity(steps.len());
            for took in steps {
                given.extend(store.give_back(&asks, &took).await);
            }
            given
        }))
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        // The task runs without being awaited.
        let _ = self.give_back();
    }
}

impl Store {
    /// Returns the limiters by slot, in the order in which they are asked; nothing if one step over all is
    /// enough.
    pub(super) fn parts(&self, asks: &[KeyAsk]) -> Vec<Part> {
        if !self.client.settings().url.is_cluster() || asks.len() < 2 {
            return Vec::new();
        }
        let mut slots: Vec<(u16, Vec<usize>)> = Vec::new();
        for (place, one) in asks.iter().enumerate() {
            let slot = slot_of(&one.fingerprint);
            match slots.iter_mut().find(|(known, _)| *known == slot) {
                Some((_, places)) => places.push(place),
                None => slots.push((slot, vec![place])),
            }
        }
        if slots.len() < 2 {
            return Vec::new();
        }
        let part = |(_, places): (u16, Vec<usize>)| Part { when: self.when(asks, &places), places };
        let mut parts: Vec<_> = slots.into_iter().map(part).collect();
        parts.sort_by_key(|part| part.when);
        parts
    }

    fn when(&self, asks: &[KeyAsk], places: &[usize]) -> When {
        let here = || places.iter().filter_map(|place| asks.get(*place));
        let is_queue = |rule: &Rule| rule.spec().algorithm.is_queue();
        let rules = || here().filter_map(|one| Some((one.enforced, one.rule_in(self.policy())?)));
        let enforced = rules().filter(|(enforced, _)| *enforced);
        let smallest = enforced.map(|(_, rule)| Rate::of(rule)).min();
        match smallest {
            None => When::Shadow,
            Some(_) if rules().any(|(_, rule)| is_queue(rule)) => When::Queue,
            Some(rate) => When::ByRate(rate),
        }
    }

    /// Checks whether these parts may be taken one after the other.
    ///
    /// # Errors
    /// A rule does not allow it, or more than one part could not be given back.
    fn may_be_apart(&self, asks: &[KeyAsk], parts: &[Part]) -> Result<(), StoreError> {
        let says_so = |one: &KeyAsk| {
            self.policy().rules().get(one.rule).is_some_and(|rule| rule.spec().across_slots)
        };
        let queues = parts.iter().filter(|part| part.when == When::Queue).count();
        if asks.iter().all(says_so) && queues < 2 { Ok(()) } else { Err(StoreError::CrossSlot) }
    }

    /// Takes from all parts or, in the end, from none.
    pub(super) async fn ask_across(
        &self,
        asks: &[KeyAsk],
        parts: &[Part],
        origin: Origin<'_>,
        at: Option<Timestamp>,
    ) -> Result<SlotReplies, Unanswered> {
        let deadline = self.client.deadline();
        let mut taken = Taken::nothing(self, asks);
        if is_report(asks) {
            // No part can refuse, so nothing needs to be given back.
            let ask = StepArgs { at, ..StepArgs::new(Step::Ask, origin) };
            let done = self.each_slot(asks, parts, ask, deadline).await;
            return done.map_err(|error| Unanswered { error, taken, late: Late::default() });
        }
        if let Err(error) = self.may_be_apart(asks, parts) {
            return Err(Unanswered { error, taken, late: Late::default() });
        }
        let mut done = no_replies(asks, at.unwrap_or(Timestamp::EPOCH));
        let ask = StepArgs { at, ..StepArgs::new(Step::Ask, Origin { id: None, ..origin }) };
        for (number, part) in parts.iter().enumerate() {
            let (here, late) = (part.of(asks), Late::default());
            let ask = StepArgs { late: Some(&late), ..ask };
            let reply = match self.step_until(&here, ask, deadline).await {
                Ok(reply) => reply,
                Err(error) => return Err(Unanswered { error, taken, late }),
            };
            done.note(&part.places, &reply);
            if !reply.allowed {
                let behind = parts.get(number + 1..).unwrap_or_default();
                self.refused(asks, behind, at, deadline, &mut taken, &mut done).await;
                return Ok(done);
            }
            taken.steps.extend(self.took(asks, &part.places, &reply, at, late.route()));
        }
        taken.keep();
        Ok(done)
    }

    /// Gives back the units taken before a refusal, and looks at the limiters that were not asked, so that the
    /// answer has all of them, if time allows.
    async fn refused(
        &self,
        asks: &[KeyAsk],
        behind: &[Part],
        at: Option<Timestamp>,
        deadline: Instant,
        taken: &mut Taken,
        done: &mut SlotReplies,
    ) {
        let giving = taken.give_back();
        let peek = StepArgs { at, ..StepArgs::new(Step::Peek, Origin::default()) };
        for part in behind {
            let here = part.of(asks);
            if let Ok(reply) = self.step_until(&here, peek, deadline).await {
                done.note(&part.places, &reply);
            }
        }
        done.allowed = false;
        let Some(giving) = giving else { return };
        let given = timeout_at(deadline, giving).await.map(Result::unwrap_or_default);
        for (places, reply) in given.unwrap_or_default() {
            done.note(&places, &reply);
        }
        done.allowed = false;
    }

    /// Runs a step that takes nothing, or whose parts are independent, in each slot.
    ///
    /// # Errors
    /// The error of the first slot that did not reply. The step has run in the slots before it.
    pub(super) async fn each_slot(
        &self,
        asks: &[KeyAsk],
        parts: &[Part],
        args: StepArgs<'_>,
        deadline: Instant,
    ) -> Result<SlotReplies, StoreError> {
        self.may_be_apart(asks, parts)?;
        let mut done = no_replies(asks, Timestamp::EPOCH);
        for (number, part) in parts.iter().enumerate() {
            let (here, actual) = (part.of(asks), of(args.actual, &part.places));
            let under = of(args.under, &part.places);
            let here_args = StepArgs { actual: &actual, under: &under, ..args };
            let reply = self.step_until(&here, here_args, deadline).await;
            let untouched = number == 0 || args.step == Step::Peek;
            let reply = reply.map_err(|error| if untouched { error } else { error.in_part() })?;
            done.note(&part.places, &reply);
        }
        Ok(done)
    }
}

impl Part {
    fn of<T: Clone>(&self, all: &[T]) -> Vec<T> {
        of(all, &self.places)
    }

    /// Returns the keys of the limiters of this part.
    pub(super) fn keys(&self, asks: &[KeyAsk]) -> Vec<Vec<u8>> {
        self.of(asks).into_iter().map(|one| one.fingerprint).collect()
    }
}

/// Returns the elements at these indices.
fn of<T: Clone>(all: &[T], places: &[usize]) -> Vec<T> {
    places.iter().filter_map(|place| all.get(*place).cloned()).collect()
}

/// The replies of the slots asked so far.
type SlotReplies = Done<Option<Decided>>;

/// An answer without any replies.
fn no_replies(asks: &[KeyAsk], at: Timestamp) -> SlotReplies {
    Done { allowed: true, at, repeated: false, decisions: asks.iter().map(|_| None).collect() }
}

impl SlotReplies {
    /// Notes the reply of one slot for the limiters at these indices.
    fn note(&mut self, places: &[usize], reply: &script::Decided) {
        self.allowed &= reply.allowed;
        self.at = self.at.max(reply.now);
        let reply = reply.decisions.iter().zip(&reply.seen);
        for (place, (decision, seen)) in places.iter().zip(reply) {
            if let Some(known) = self.decisions.get_mut(*place) {
                *known = Some(seen.reply(*decision));
            }
        }
    }
}
