//! The memory store: every limiter of every rule in this process, one atomic step at a time.
//!
//! Each variant of a rule has a table of its own. How it keeps states is chosen once, when the store
//! is built: packed into a word each where the room can do that and the clock never steps back, else
//! whole. A step over one limiter is the table's own; a step over several holds all of them, in one
//! fixed order, reads the clock once they are held, and runs the core's verbs over all: nothing can
//! come between what is decided and what is taken.

mod budget;
mod cell;
mod hands;
#[cfg(all(test, loom))]
mod models;
mod packed;
mod spin;
mod sync;
mod table;
mod whole;

use std::sync::Arc;

use tidegate_core::{Decision, Packing, Room, Rule, Timestamp, Visitor, decide_all, look_at_all};

use crate::clock::{Clock, Reading};
use crate::gate::Met;
use crate::rules::{Policy, PolicyRule, RuleSpec};
use budget::Budget;
pub(crate) use cell::{Cell, cell_of};
use packed::Packed;
use sync::{AtomicUsize, Ordering::Relaxed};
pub use table::OnFull;
pub(crate) use table::Step;
use table::{Holding, Part};
pub(crate) use table::{One, Table};
use whole::Whole;

/// What one limiter of a step answered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Decided {
    pub(crate) decision: Decision,
    pub(crate) overloaded: bool,
}

/// What came of a step: one decision for each limiter, in the order they were met (none for
/// [`Step::Decide`]).
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) allowed: bool,
    pub(crate) at: Timestamp,
    pub(crate) decisions: Vec<Decided>,
}

/// All limiters of a policy.
#[derive(Debug)]
pub(crate) struct MemoryStore {
    /// By rule, then by variant; none where the rule is off or unlimited.
    tables: Vec<Vec<Option<Box<dyn Table>>>>,
    /// The table that is tidied next when room is short.
    hand: AtomicUsize,
}

impl MemoryStore {
    pub(crate) fn new(policy: &Policy, clock: &dyn Clock) -> Self {
        let shared = policy.max_keys().map(|most| Arc::new(Budget::new(most.get())));
        let tables = policy.rules().iter().map(|rule| tables_of(rule, shared.as_ref(), clock));
        Self { tables: tables.collect(), hand: AtomicUsize::new(0) }
    }

    /// Runs one step over all limiters of `met`, which names none twice.
    pub(crate) fn step(&self, met: &[Met], clock: &impl Clock, step: Step) -> Done {
        match met {
            [] => Done { allowed: true, at: clock.now(), decisions: Vec::new() },
            [one] => self.step_with_one(one, clock, step),
            several => self.step_with_all(several, clock, step),
        }
    }

    fn step_with_one(&self, met: &Met, clock: &impl Clock, step: Step) -> Done {
        let Some(table) = self.table(met) else {
            return Done { allowed: true, at: clock.now(), decisions: Vec::new() };
        };
        let one = table.one(met.print, met.cost, step, Reading::of(clock));
        self.tidy_if(one.overloaded, one.at);
        let decided = one.decision.map(|decision| Decided { decision, overloaded: one.overloaded });
        Done {
            allowed: one.verdict.is_allowed() || !met.enforced,
            at: one.at,
            decisions: decided.into_iter().collect(),
        }
    }

    fn step_with_all(&self, met: &[Met], clock: &impl Clock, step: Step) -> Done {
        let early = clock.now();
        let mut holds: Vec<_> = self
            .by_table(met)
            .into_iter()
            .map(|(table, parts)| table.hold(&parts, step, early))
            .collect();
        let at = clock.now();
        let mut holdings: Vec<Holding<'_>> =
            holds.iter_mut().flat_map(|hold| hold.held()).collect();
        holdings.sort_unstable_by_key(|holding| holding.place);
        let overloaded: Vec<_> = holdings.iter().map(|holding| holding.overloaded).collect();
        let mut held: Vec<_> = holdings.into_iter().map(|holding| holding.verbs).collect();
        let allowed = match step {
            Step::Decide | Step::Ask => decide_all(&mut held, at),
            Step::Peek => look_at_all(&mut held, at),
            Step::Refund => {
                look_at_all(&mut held, at);
                held.iter_mut().for_each(|one| one.give_back());
                look_at_all(&mut held, at)
            }
        };
        let short = overloaded.contains(&true);
        let told = if step == Step::Decide { &[][..] } else { held.as_slice() };
        let decided = told.iter().zip(overloaded);
        let decisions = decided
            .map(|(one, overloaded)| Decided { decision: one.report(), overloaded })
            .collect();
        drop(held);
        // The last first: a table that grows as it is let go of waits for one of its chains, which may
        // be held by somebody who waits for a later table.
        holds.into_iter().rev().for_each(|hold| hold.release(at));
        self.tidy_if(short, at);
        Done { allowed, at, decisions }
    }

    /// When there was no room: looks for some in one table after another, for tables share caps, and
    /// those that nobody asks any more would keep their limiters for ever.
    fn tidy_if(&self, short: bool, now: Timestamp) {
        if !short {
            return;
        }
        let tables = || self.tables.iter().flatten().flatten();
        let next = self.hand.fetch_add(1, Relaxed).checked_rem(tables().count());
        if let Some(table) = next.and_then(|next| tables().nth(next)) {
            table.tidy(now);
        }
    }

    /// Makes every limiter of `met` as good as new.
    pub(crate) fn forget(&self, met: &[Met], now: Timestamp) {
        for (table, parts) in self.by_table(met) {
            table.hold(&parts, Step::Peek, now).forget();
        }
    }

    /// Limiters in existence, over all rules.
    pub(crate) fn keys(&self) -> usize {
        // The variants of a rule share one count.
        self.tables
            .iter()
            .filter_map(|variants| variants.iter().flatten().next())
            .map(|t| t.keys())
            .sum()
    }

    /// The parts of each table that is met, in the one order in which tables are held.
    fn by_table(&self, met: &[Met]) -> Vec<(&dyn Table, Vec<Part>)> {
        let mut order: Vec<_> = met.iter().enumerate().collect();
        order.sort_by_key(|(_, met)| (met.rule, met.variant));
        let of_one_table =
            order.chunk_by(|a, b| (a.1.rule, a.1.variant) == (b.1.rule, b.1.variant));
        let with_table = of_one_table.filter_map(|of_one| {
            let table = self.table(of_one.first()?.1)?;
            let part = |(place, met): &(usize, &Met)| Part {
                place: *place,
                print: met.print,
                cost: met.cost,
                enforced: met.enforced,
            };
            Some((table, of_one.iter().map(part).collect()))
        });
        with_table.collect()
    }

    fn table(&self, met: &Met) -> Option<&dyn Table> {
        self.tables.get(met.rule)?.get(met.variant)?.as_deref()
    }
}

/// The tables of a rule's variants, which share one budget; it is a part of `shared`, if there is one.
fn tables_of(
    rule: &PolicyRule,
    shared: Option<&Arc<Budget>>,
    clock: &dyn Clock,
) -> Vec<Option<Box<dyn Table>>> {
    let variants: Vec<_> = (0..rule.variants()).map(|number| rule.variant(number)).collect();
    let budget = budget_of(rule.spec(), shared.cloned());
    let build = Build { clock, budget: &budget, on_full: rule.spec().on_full };
    variants.iter().map(|variant| variant.visit(build)).collect()
}

/// The table of a rule that is alone.
pub(crate) fn table_of(rule: &Rule, spec: &RuleSpec, clock: &dyn Clock) -> Option<Box<dyn Table>> {
    let budget = budget_of(spec, None);
    rule.visit(Build { clock, budget: &budget, on_full: spec.on_full })
}

fn budget_of(spec: &RuleSpec, shared: Option<Arc<Budget>>) -> Arc<Budget> {
    Arc::new(Budget::part_of(shared, spec.most_keys()).most_bytes(spec.most_bytes()))
}

/// Chooses, once, how the states of a room are kept.
#[derive(Clone, Copy)]
struct Build<'a> {
    clock: &'a dyn Clock,
    budget: &'a Arc<Budget>,
    on_full: OnFull,
}

impl Visitor for Build<'_> {
    type Out = Box<dyn Table>;

    fn visit<R: Room>(self, room: &R) -> Box<dyn Table> {
        let (room, budget) = (room.clone(), Arc::clone(self.budget));
        if room.packing() == Packing::One && self.clock.never_steps_back() {
            Box::new(Packed::new(room, self.clock.now(), budget, self.on_full))
        } else {
            Box::new(Whole::new(room, budget, self.on_full))
        }
    }
}
