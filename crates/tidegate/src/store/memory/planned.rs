//! Limiters whose figures come with each call: every one is kept with those that it was last under.
//!
//! A key whose figures change carries its state over in the step that brings them, so what was used
//! stays used; one that denies what it was asked leaves all as it was, unless the key's plan has changed. Nothing is kept of a rule but by the limiters that are under it (and of the last few of each
//! shard): whoever invents a new one with each call has one limiter, as any other key.

mod brought;
mod bystander;
mod figures;
mod hand;
mod held;
mod hold;
mod kept;
mod own;
mod shard;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use tidegate_core::{Room, Rule, Timestamp, Verdict, Visitor};

use super::ahead::{Ahead, ahead};
use super::budget::Budget;
use super::heap::need_of;
use super::overflow::Told;
use super::shards::{LOOKED_AT_PER_ADDED, LOOKED_AT_WHEN_FULL, SHARDS};
use super::sync::{AtomicUsize, Ordering::Relaxed};
use super::table::Part;
use crate::clock::Clock;
use crate::key::Fingerprint;
use crate::rules::{OnFull, RuleSpec};
use crate::step::{One, Step};
use brought::Coming;
use figures::Recent;
use held::Held;
use held::Own;
use kept::Kept;
use shard::Shard;

/// A table of limiters, each under figures of its own.
#[derive(Debug)]
pub(crate) struct PlannedTable {
    shards: Box<[Mutex<Shard>]>,
    budget: Budget,
    on_full: OnFull,
    /// The plan of keys that have none of their own.
    usual: RwLock<Arc<Rule>>,
    /// The one shared by keys without room, always under the usual plan: empty until it is asked.
    overflow: Mutex<Kept>,
    /// The shard that is looked through next when there is no room.
    next_swept: AtomicUsize,
}

/// What is asked of a key's limiter, and under which rule.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked<'a> {
    pub(crate) print: Fingerprint,
    pub(crate) rule: &'a Rule,
    pub(crate) cost: u64,
    pub(crate) step: Step,
    /// Whether the call brought the rule along: then it is put in force only by what it takes or gives
    /// back. A plan is in force once it is asked for.
    pub(crate) brought: bool,
}

/// One limiter's part in a request, under figures of its own.
#[derive(Clone, Copy, Debug)]
pub(super) struct PlannedPart<'a> {
    pub(super) part: Part,
    pub(super) rule: &'a Rule,
    /// As in [`Asked`].
    pub(super) brought: bool,
}

impl<'a> PlannedPart<'a> {
    const fn asked(&self) -> Asked<'a> {
        let Part { print, cost, step, .. } = self.part;
        Asked { print, rule: self.rule, cost, step, brought: self.brought }
    }
}

impl PlannedTable {
    /// An empty table under the caps of a rule, whose figures are the usual plan.
    pub(crate) fn new(caps: &RuleSpec, usual: Rule) -> Self {
        Self::part_of(None, caps, usual)
    }

    /// The same, whose limiters count in `whole` as well.
    pub(super) fn part_of(whole: Option<Arc<Budget>>, caps: &RuleSpec, usual: Rule) -> Self {
        Self {
            shards: (0..SHARDS).map(|_| Mutex::default()).collect(),
            budget: Budget::part_of(whole, caps.most_keys()).most_bytes(caps.most_bytes()),
            on_full: caps.on_full,
            usual: RwLock::new(Arc::new(usual)),
            overflow: Mutex::default(),
            next_swept: AtomicUsize::new(0),
        }
    }

    /// One step with one limiter, from finding it to storing it; `None` under an unlimited rule, which
    /// leaves the limiter as it is, but for what a reservation gives back that was taken before.
    pub(crate) fn one(&self, asked: Asked<'_>, clock: &dyn Clock) -> Option<One> {
        let one = asked.rule.visit(Stepping { table: self, asked, clock });
        if one.is_none() {
            self.give_back(asked, clock);
        }
        one
    }

    #[cold]
    fn give_back(&self, asked: Asked<'_>, clock: &dyn Clock) {
        let Step::Settle { actual } = asked.step else { return };
        // Nothing is counted under an unlimited rule, so no more either.
        let asked = Asked { step: Step::Settle { actual: actual.min(asked.cost) }, ..asked };
        if let Some((kept, _)) = self.lock(shard_of(asked.print)).get_mut(asked.print) {
            kept.give_back(asked, clock.now(), &self.budget);
        }
    }

    /// One step with the limiter that keys without room share, for who knows to have been there; `None`
    /// where the usual plan is unlimited, and so there is none.
    pub(crate) fn shared(&self, asked: Asked<'_>, clock: &dyn Clock) -> Option<One> {
        let usual = self.usual();
        let asked = Asked { rule: &usual, brought: false, ..asked };
        usual.visit(SteppingShared(Stepping { table: self, asked, clock }))
    }

    /// A look ahead from a limiter's state as it would be under a rule; `None` where that is unlimited.
    pub(crate) fn ahead(
        &self,
        print: Fingerprint,
        rule: &Rule,
        brought: bool,
        now: Timestamp,
    ) -> Option<Box<dyn Ahead>> {
        let copy = self.lock(shard_of(print)).get(print).map(Kept::copy).unwrap_or_default();
        rule.visit(LookingAhead { copy, rule, brought, now })
    }

    /// Makes one limiter as good as new.
    pub(crate) fn forget(&self, print: Fingerprint) {
        self.lock(shard_of(print)).forget(print, &self.budget);
    }

    /// Limiters in existence.
    pub(crate) fn keys(&self) -> usize {
        self.budget.keys()
    }

    fn lock(&self, shard: usize) -> MutexGuard<'_, Shard> {
        // A panic inside a step leaves a shard as it was before or after, never between.
        self.shards[shard].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tries to find what was short, after a look for limiters that can go.
    fn after_a_look(&self, now: Timestamp, found: impl Fn() -> bool) -> bool {
        found() || {
            self.tidy(now);
            found()
        }
    }

    /// Puts another usual plan in force for the limiter that keys without room share.
    pub(super) fn amend(&self, usual: Rule) {
        *self.usual.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(usual);
    }

    fn usual(&self) -> Arc<Rule> {
        Arc::clone(&self.usual.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Drops some limiters that are as good as new, looking at a few and waiting for none.
    pub(super) fn tidy(&self, now: Timestamp) {
        let mut left = LOOKED_AT_WHEN_FULL;
        for _ in 0..SHARDS {
            let number = self.next_swept.fetch_add(1, Relaxed) % SHARDS;
            if let Ok(mut shard) = self.shards[number].try_lock() {
                left -= shard.sweep(&self.budget, left, now);
            }
            if left == 0 {
                break;
            }
        }
    }
}

fn shard_of(print: Fingerprint) -> usize {
    print.words()[0] as usize % SHARDS
}

/// A step, once the room of its rule is known.
struct Stepping<'a> {
    table: &'a PlannedTable,
    asked: Asked<'a>,
    clock: &'a dyn Clock,
}

impl Visitor for Stepping<'_> {
    type Out = One;

    fn visit<R: Room>(self, room: &R) -> One {
        let mut shard = self.table.lock(shard_of(self.asked.print));
        let now = self.clock.now();
        let one = match shard.get_mut(self.asked.print) {
            Some((kept, recent)) => self.with_kept(kept, recent, room, now),
            None => self.with_new(&mut shard, room, now),
        };
        drop(shard);
        one.unwrap_or_else(|| self.beyond(room))
    }
}

impl Stepping<'_> {
    /// A step with a limiter that is there; `None` where there is no memory for it.
    #[inline]
    fn with_kept<R: Room>(
        &self,
        kept: &mut Kept,
        recent: &mut Recent,
        room: &R,
        now: Timestamp,
    ) -> Option<One> {
        let budget = &self.table.budget;
        let claim = |bytes| self.table.after_a_look(now, || budget.claim_bytes(bytes));
        kept.step(self.asked, room, now, budget, recent, claim)
    }

    /// A step with a limiter that is not in its locked shard; `None` where there is no room for it.
    fn with_new<R: Room>(&self, shard: &mut Shard, room: &R, now: Timestamp) -> Option<One> {
        let Asked { print, cost, step, .. } = self.asked;
        let (need, budget) = (Own::<R>::need(need_of(room)), &self.table.budget);
        // Also at no cost, for a bucket that begins with fewer tokens begins to fill then.
        let stays = step.begins(cost);
        if stays {
            shard.sweep(budget, LOOKED_AT_PER_ADDED, now);
        }
        let has_room = self.table.after_a_look(now, || match stays {
            true => budget.claim_with_memory(need),
            false => budget.has_memory_for(need),
        });
        if !has_room {
            return None;
        }
        let mut slot = None;
        let (one, _) = step.run(room, &mut slot, cost, now);
        if stays {
            let figures = shard.recent.figures(room);
            shard.add(print, Own { figures, slot }, budget, now);
        }
        Some(one)
    }

    /// A step of a key for which there is no room.
    #[cold]
    fn beyond<R: Room>(&self, room: &R) -> One {
        let Asked { step, cost, .. } = self.asked;
        let step = step.beyond(cost);
        let refusal = || Told::refusal(room, cost, true).one(step, self.clock.now());
        never(room, self.asked, self.clock.now())
            .or_else(|| self.table.shared(Asked { step, ..self.asked }, self.clock))
            .unwrap_or_else(refusal)
    }
}

/// What the key's own plan never admits, the usual plan does not admit in its place.
fn never<R: Room>(room: &R, asked: Asked<'_>, now: Timestamp) -> Option<One> {
    let Asked { step, cost, .. } = asked;
    let (one, _) = Step::Peek.run(room, &mut None, cost, now);
    let decision = one.decision.filter(|_| step.wants_figures());
    let one = One { decision, overflow: true, elsewhere: true, ..one };
    (one.verdict == Verdict::Never && !step.is_unconditional()).then_some(one)
}

/// The same with the limiter that keys without room share, under the figures of the usual plan.
struct SteppingShared<'a>(Stepping<'a>);

impl Visitor for SteppingShared<'_> {
    type Out = One;

    fn visit<R: Room>(self, room: &R) -> One {
        let Stepping { table, asked, clock } = self.0;
        let refusal = || Told::refusal(room, asked.cost, true).one(asked.step, clock.now());
        if table.on_full == OnFull::Refuse {
            return refusal();
        }
        let mut kept = table.overflow.lock().unwrap_or_else(PoisonError::into_inner);
        let claim = |bytes| table.budget.claim_bytes(bytes);
        let mut recent = Recent::default();
        let one = kept.step(asked, room, clock.now(), &table.budget, &mut recent, claim);
        One { overflow: true, elsewhere: true, ..one.unwrap_or_else(refusal) }
    }
}

/// A look ahead, once the room of the rule is known.
struct LookingAhead<'a> {
    copy: Held,
    rule: &'a Rule,
    brought: bool,
    now: Timestamp,
}

impl Visitor for LookingAhead<'_> {
    type Out = Box<dyn Ahead>;

    fn visit<R: Room>(self, room: &R) -> Box<dyn Ahead> {
        let Self { copy: mut held, rule, brought, now } = self;
        if !brought || held.any().is_none() || held.under(room).is_some() {
            return ahead(room, held.state_under(room, rule, now), now);
        }
        held.pass(now);
        let (room, rule) = (room.clone(), rule.clone());
        Box::new(Coming { held, room, rule, now, then: None })
    }
}
