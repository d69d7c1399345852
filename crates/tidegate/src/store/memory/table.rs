//! The limiters of one rule, by key, in shards.

use std::any::Any;
use std::collections::HashMap;
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tidegate_core::{Closed, Held, Room, Timestamp, Verbs, Visitor};

use crate::gate::Met;
use crate::key::Key;
use crate::rules::PolicyRule;

const SHARDS: usize = 64;
/// A shard is looked through for limiters as good as new when it has doubled since the last time,
/// and never before it holds this many.
const FEWEST_TO_SWEEP: usize = 64;

/// The limiters of one rule, whatever its algorithm.
pub(super) trait Table: fmt::Debug + Send + Sync {
    /// The number of the shard that a key lives in.
    fn shard_of(&self, key: &Key) -> usize;
    /// Locks a shard.
    fn lock(&self, shard: usize) -> Box<dyn Shard + '_>;
}

/// A locked shard, and the limiters taken out of it for one step.
pub(super) trait Shard {
    /// Takes a limiter out; `place` is its place in the request.
    fn take_out(&mut self, place: usize, met: &Met);
    /// The limiters that were taken out, each with its place.
    fn held(&mut self) -> Vec<(usize, Box<dyn Verbs + '_>)>;
    /// Puts them back, but for those that are as good as new, or that only now would begin although
    /// nothing `begins` in this step; unlocks.
    fn release(self: Box<Self>, at: Timestamp, begins: bool);
    /// Leaves them out, and unlocks.
    fn forget(self: Box<Self>);
}

/// A table for a rule; `None` for one that is never looked at.
pub(super) fn table_for(rule: &PolicyRule) -> Option<Box<dyn Table>> {
    // All variants are of one algorithm, but for limits of 0 and -1, which keep no state.
    let mut tables =
        (0..rule.variants()).filter_map(|variant| rule.variant(variant).visit(Build(rule)));
    let first = tables.next()?;
    Some(tables.fold(first, |chosen, table| if chosen.keeps_state { chosen } else { table }).table)
}

struct Built {
    keeps_state: bool,
    table: Box<dyn Table>,
}

/// Builds the table whose states are those of the room visited.
struct Build<'a>(&'a PolicyRule);

impl Visitor for Build<'_> {
    type Out = Built;

    fn visit<R: Room>(self, _room: &R) -> Built {
        let rooms = (0..self.0.variants())
            .map(|number| self.0.variant(number).visit(As::<R>::NEW).flatten());
        let shards = (0..SHARDS).map(|_| Mutex::default()).collect();
        let table = Keyed::<R> { rooms: rooms.collect(), hasher: RandomState::new(), shards };
        let keeps_state = size_of::<R::State>() > 0;
        Built { keeps_state, table: Box::new(table) }
    }
}

/// A room as an `R`, if it is one.
struct As<R>(std::marker::PhantomData<R>);

impl<R> As<R> {
    const NEW: Self = Self(std::marker::PhantomData);
}

impl<R: Room> Visitor for As<R> {
    type Out = Option<R>;

    fn visit<Other: Room>(self, room: &Other) -> Option<R> {
        (room as &dyn Any).downcast_ref().cloned()
    }
}

/// States by key, and the room of each variant of the rule; a variant without one is closed.
struct Keyed<R: Room> {
    rooms: Vec<Option<R>>,
    hasher: RandomState,
    shards: Box<[Mutex<States<R>>]>,
}

struct States<R: Room> {
    by_key: HashMap<Key, Entry<R>>,
    sweep_at: usize,
}

/// A limiter and the variant whose room it lives in.
struct Entry<R: Room> {
    variant: usize,
    state: R::State,
}

impl<R: Room> Default for States<R> {
    fn default() -> Self {
        Self { by_key: HashMap::new(), sweep_at: FEWEST_TO_SWEEP }
    }
}

impl<R: Room> fmt::Debug for Keyed<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keyed").field("rooms", &self.rooms).finish_non_exhaustive()
    }
}

impl<R: Room> Keyed<R> {
    fn room(&self, variant: usize) -> Option<&R> {
        self.rooms.get(variant)?.as_ref()
    }
}

impl<R: Room> Table for Keyed<R> {
    fn shard_of(&self, key: &Key) -> usize {
        (self.hasher.hash_one(key) % SHARDS as u64) as usize
    }

    fn lock(&self, shard: usize) -> Box<dyn Shard + '_> {
        // A panic inside a step can not leave a shard half done: states are taken out and put back
        // whole. What was out is then lost, which is why no verb may panic.
        let states = self.shards[shard].lock().unwrap_or_else(PoisonError::into_inner);
        Box::new(LockedShard { table: self, states, out: Vec::new() })
    }
}

struct LockedShard<'a, R: Room> {
    table: &'a Keyed<R>,
    states: MutexGuard<'a, States<R>>,
    out: Vec<Out<R>>,
}

/// A limiter taken out of its shard.
struct Out<R: Room> {
    place: usize,
    met: Met,
    existed: bool,
    slot: Option<R::State>,
    closed: Option<()>,
}

impl<R: Room> Shard for LockedShard<'_, R> {
    fn take_out(&mut self, place: usize, met: &Met) {
        let slot = self.states.by_key.remove(&met.key).map(|entry| entry.state);
        let existed = slot.is_some();
        self.out.push(Out { place, met: met.clone(), existed, slot, closed: None });
    }

    fn held(&mut self) -> Vec<(usize, Box<dyn Verbs + '_>)> {
        let table = self.table;
        self.out.iter_mut().map(|out| (out.place, out.held(table))).collect()
    }

    fn release(mut self: Box<Self>, at: Timestamp, begins: bool) {
        for out in std::mem::take(&mut self.out) {
            let (Some(state), Some(room)) = (out.slot, self.table.room(out.met.variant)) else {
                continue;
            };
            if (begins || out.existed) && !room.is_as_good_as_new(&state, at) {
                let entry = Entry { variant: out.met.variant, state };
                self.states.by_key.insert(out.met.key, entry);
            }
        }
        self.sweep(at);
    }

    fn forget(self: Box<Self>) {}
}

impl<R: Room> LockedShard<'_, R> {
    /// Drops limiters that are as good as new, once in a while: on average a constant time per step.
    fn sweep(&mut self, at: Timestamp) {
        if self.states.by_key.len() < self.states.sweep_at {
            return;
        }
        let table = self.table;
        let needed = |entry: &Entry<R>| {
            table.room(entry.variant).is_some_and(|room| !room.is_as_good_as_new(&entry.state, at))
        };
        self.states.by_key.retain(|_, entry| needed(entry));
        self.states.sweep_at = FEWEST_TO_SWEEP.max(2 * self.states.by_key.len());
    }
}

impl<R: Room> Out<R> {
    fn held<'a>(&'a mut self, table: &'a Keyed<R>) -> Box<dyn Verbs + 'a> {
        let (cost, enforced) = (self.met.cost, self.met.enforced);
        match table.room(self.met.variant) {
            Some(room) => in_mode(Held::new(room, &mut self.slot, cost), enforced),
            None => in_mode(Held::new(&Closed, &mut self.closed, cost), enforced),
        }
    }
}

fn in_mode<R: Room>(held: Held<'_, R>, enforced: bool) -> Box<dyn Verbs + '_> {
    Box::new(if enforced { held } else { held.shadow() })
}
