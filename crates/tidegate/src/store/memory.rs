//! The memory store: every limiter of every rule in this process, one atomic step at a time.
//!
//! Each variant of a rule has a table of its own. How it keeps states is chosen once, when the store
//! is built: packed into a word each where the room can do that and the clock never steps back, else
//! whole. A step over one limiter is the table's own; a step over several holds all of them, in one
//! fixed order, reads the clock once they are held, and runs the core's verbs over all: nothing can
//! come between what is decided and what is taken.

mod ahead;
mod budget;
mod build;
mod cell;
mod estate;
mod hands;
mod later;
#[cfg(all(test, loom))]
mod models;
mod packed;
mod planned;
mod shared;
mod spin;
mod sync;
mod table;
mod whole;

use std::sync::Arc;

use tidegate_core::{Decision, Rule, RuleErrors, Timestamp, decide_all, look_at_all};

use crate::clock::{Clock, Reading};
use crate::few::Few;
use crate::gate::Met;
use crate::rules::{Policy, PolicyRule, RuleSpec};
#[cfg(feature = "redis")]
pub(crate) use ahead::ahead_of_told;
pub(crate) use ahead::{Ahead, Foreseen};
use budget::Budget;
use build::Build;
pub(crate) use cell::{Cell, cell_of};
pub(crate) use later::Later;
pub(crate) use planned::{Asked, PlannedTable};
use sync::{AtomicUsize, Ordering::Relaxed};
pub use table::OnFull;
pub(crate) use table::Step;
use table::{Grip, Holding, Part};
pub(crate) use table::{One, Table};

/// What one limiter of a step answered.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Decided {
    pub(crate) decision: Decision,
    pub(crate) overloaded: bool,
    /// It was not the key's own limiter that answered.
    pub(crate) elsewhere: bool,
}

impl Decided {
    /// What one limiter by itself answered; `None` where no figures were asked for.
    pub(crate) fn by(one: &One) -> Option<Self> {
        let One { overloaded, elsewhere, .. } = *one;
        one.decision.map(|decision| Self { decision, overloaded, elsewhere })
    }
}

/// What came of a step: one decision for each limiter, in the order they were met (none for
/// [`Step::Decide`]).
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) allowed: bool,
    pub(crate) at: Timestamp,
    /// Whether it is what the same request was answered before, under its id.
    pub(crate) repeated: bool,
    pub(crate) decisions: Few<Decided>,
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
            [] => Done { allowed: true, at: clock.now(), repeated: false, decisions: Few::new() },
            [one] => self.step_with_one(one, clock, step),
            several => self.step_with_all(several, clock, |_| step),
        }
    }

    /// Settles what was reserved with all limiters of `met`, each for its own `actual` units.
    pub(crate) fn settle(&self, met: &[Met], actual: &[u64], clock: &impl Clock) -> Done {
        let settle =
            |place: usize| Step::Settle { actual: actual.get(place).copied().unwrap_or(0) };
        match met {
            [one] => self.step_with_one(one, clock, settle(0)),
            all => self.step_with_all(all, clock, settle),
        }
    }

    fn step_with_one(&self, met: &Met, clock: &impl Clock, step: Step) -> Done {
        let Some(table) = self.table(met) else {
            return Done { allowed: true, at: clock.now(), repeated: false, decisions: Few::new() };
        };
        let one = table.one(met.print, met.cost, step, Reading::of(clock));
        self.tidy_if(one.overloaded, one.at);
        let decided = Decided::by(&one);
        Done {
            allowed: one.verdict.is_allowed() || !met.enforced,
            at: one.at,
            repeated: false,
            decisions: decided.into_iter().collect(),
        }
    }

    /// One step of one kind, `step`, over limiters by their places in `met`.
    fn step_with_all(&self, met: &[Met], clock: &impl Clock, step: impl Fn(usize) -> Step) -> Done {
        let early = clock.now();
        let by_table = self.by_table(met, &step).into_iter();
        let mut holds: Vec<_> = by_table.map(|(table, parts)| table.hold(&parts, early)).collect();
        let at = clock.now();
        let mut holdings: Vec<Holding<'_>> =
            holds.iter_mut().flat_map(|hold| hold.held()).collect();
        holdings.sort_unstable_by_key(|holding| holding.place);
        let (places, mut held): (Vec<_>, Vec<_>) =
            holdings.into_iter().map(|holding| (holding.place, holding.verbs)).unzip();
        let allowed = match step(0) {
            Step::Decide | Step::Ask => decide_all(&mut held, at),
            Step::Peek => look_at_all(&mut held, at),
            Step::Refund => {
                look_at_all(&mut held, at);
                held.iter_mut().for_each(|one| one.give_back());
                look_at_all(&mut held, at)
            }
            Step::Settle { .. } => {
                settle_all(&mut held, &places, met, at, &step);
                look_at_all(&mut held, at)
            }
        };
        let short = held.iter().any(|one| one.is_overloaded());
        let told = if step(0).wants_figures() { held.as_slice() } else { &[] };
        let decided = told.iter().map(|one| Decided {
            decision: one.report(),
            overloaded: one.is_overloaded(),
            elsewhere: one.is_elsewhere(),
        });
        let decisions = decided.collect();
        drop(held);
        // The last first: a table that grows as it is let go of waits for one of its chains, which may
        // be held by somebody who waits for a later table.
        holds.into_iter().rev().for_each(|hold| hold.release(at));
        self.tidy_if(short, at);
        Done { allowed, at, repeated: false, decisions }
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

    /// A look ahead on a limiter; `None` where there is none.
    pub(crate) fn ahead(&self, met: &Met, clock: &impl Clock) -> Option<Box<dyn Ahead>> {
        Some(self.table(met)?.ahead(met.print, Reading::of(clock)))
    }

    /// Makes every limiter of `met` as good as new, all at once.
    pub(crate) fn forget(&self, met: &[Met], now: Timestamp) {
        let by_table = self.by_table(met, |_| Step::Refund).into_iter();
        let holds: Vec<_> = by_table.map(|(table, parts)| table.hold(&parts, now)).collect();
        holds.into_iter().rev().for_each(|hold| hold.forget());
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
    fn by_table(&self, met: &[Met], step: impl Fn(usize) -> Step) -> Vec<(&dyn Table, Vec<Part>)> {
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
                step: step(*place),
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

/// Settles with each limiter what its place in the request says.
fn settle_all<'a>(
    held: &mut [Box<dyn Grip + 'a>],
    places: &[usize],
    met: &[Met],
    at: Timestamp,
    step: impl Fn(usize) -> Step,
) {
    for (one, place) in held.iter_mut().zip(places) {
        if let (Step::Settle { actual }, Some(met)) = (step(*place), met.get(*place)) {
            one.settle(at, met.cost, actual);
        }
    }
}

/// The tables of a rule's variants, which share one budget; it is a part of `shared`, if there is one.
fn tables_of(
    rule: &PolicyRule,
    shared: Option<&Arc<Budget>>,
    clock: &dyn Clock,
) -> Vec<Option<Box<dyn Table>>> {
    let budget = budget_of(rule.spec(), shared.cloned());
    let base = clock.never_steps_back().then(|| clock.now());
    let build =
        || Build { base, budget: &budget, on_full: rule.spec().on_full, later: Later::none_yet() };
    (0..rule.variants()).map(|number| rule.variant(number).visit(build())).collect()
}

/// The table of a rule that is alone; `later` decides once it is closed.
pub(crate) fn table_of(
    rule: &Rule,
    spec: &RuleSpec,
    base: Option<Timestamp>,
    later: Arc<Later<dyn Table>>,
) -> Option<Box<dyn Table>> {
    let budget = budget_of(spec, None);
    rule.visit(Build { base, budget: &budget, on_full: spec.on_full, later })
}

impl Later<dyn Table> {
    /// Puts `rule` in force in place of that of `first`, or of what followed it.
    ///
    /// # Errors
    /// The limiters there are would not fit in the memory that `spec` allows: the old rule stays.
    pub(crate) fn amend(
        &self,
        first: Option<&(dyn Table + 'static)>,
        rule: &Rule,
        spec: &RuleSpec,
        base: Option<Timestamp>,
        reading: Reading<'_>,
    ) -> Result<(), RuleErrors> {
        let budget = budget_of(spec, None);
        let later = Self::none_yet();
        let build = Build { base, budget: &budget, on_full: spec.on_full, later };
        self.change(first, |last| match last {
            Some(table) => table.close(rule, &build, reading),
            None => (rule.visit(build), Ok(())),
        })
    }
}

fn budget_of(spec: &RuleSpec, shared: Option<Arc<Budget>>) -> Arc<Budget> {
    Arc::new(Budget::part_of(shared, spec.most_keys()).most_bytes(spec.most_bytes()))
}
