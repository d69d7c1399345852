//! The memory store: every limiter of every rule in this process, one atomic step at a time.
//!
//! Each variant of a rule has a table of its own. How it keeps states is chosen once, when the store
//! is built: packed into a word each where the algorithm can do that and the clock never steps back, else
//! whole. A step over one limiter is the table's own; a step over several holds all of them, in one
//! fixed order, reads the clock once they are held, and runs the core's verbs over all: nothing can
//! come between what is decided and what is taken.

mod amend;
mod budget;
mod cell;
mod entry;
mod estate;
mod fixed;
mod follow;
mod inherited;
mod kind;
mod later;
mod locked;
#[cfg(all(test, loom))]
mod models;
mod overflow;
mod packed;
mod parameters;
mod per_key;
mod preset;
mod preview;
mod ruled;
mod sharded;
mod spin;
mod sync;
mod table;

use std::sync::Arc;

use tidegate_core::{Rule, Timestamp, decide_all, look_at_all};

use crate::clock::{Clock, Reading};
use crate::inline_list::InlineList;
use crate::rules::{Policy, PolicyRule, RuleSpec};
use crate::step::{Decided, Done, Met, One, Step};
use amend::Changes;
use budget::Budget;
pub(crate) use cell::{Cell, cell_of};
pub(crate) use later::Later;
#[cfg(feature = "redis")]
pub(crate) use preview::preview_of_told;
pub(crate) use preview::{Forecast, Preview};
use ruled::RuledTable;
use sync::{AtomicUsize, Ordering::Relaxed};
use table::Build;
use table::{Grip, Hold, Holding};
pub(crate) use table::{Part, Table};

/// All limiters of a policy.
#[derive(Debug)]
pub(crate) struct MemoryStore {
    /// By rule, then by variant; none where the rule is unlimited. One for all variants where the limits of
    /// the rule come with each request.
    tables: Vec<Vec<Option<Box<dyn Table>>>>,
    /// By rule: what decides once it was changed.
    changes: Vec<Changes>,
    /// By rule, then by variant: its limits for keys that have none of their own, where limits come with
    /// each request. Empty where there is no such rule.
    own: Vec<Vec<Rule>>,
    /// What counts the limiters of all rules, if they share a cap.
    shared: Option<Arc<Budget>>,
    /// What packed times count from; `None` where the clock may step back.
    base: Option<Timestamp>,
    /// The table that is tidied next when room is short.
    hand: AtomicUsize,
}

impl MemoryStore {
    pub(crate) fn new(policy: &Policy, clock: &dyn Clock) -> Self {
        Self::with_figures(policy, clock, |rule| rule.spec().limit_from_request)
    }

    /// The same, where the figures of such rules come with each request.
    pub(crate) fn with_figures(
        policy: &Policy,
        clock: &dyn Clock,
        is_figured: impl Fn(&PolicyRule) -> bool,
    ) -> Self {
        let shared = policy.max_keys().map(|most| Arc::new(Budget::new(most.get())));
        let base = clock.never_steps_back().then(|| clock.now());
        let tables = |rule: &PolicyRule| tables_of(rule, shared.as_ref(), base);
        let (tables, changes) = policy.rules().iter().map(tables).unzip();
        let (own, hand) = (Vec::new(), AtomicUsize::new(0));
        let mut store = Self { tables, changes, own, shared, base, hand };
        for (number, rule) in policy.rules().iter().enumerate() {
            if is_figured(rule) {
                store.keep_figures(policy, number);
            }
        }
        store
    }

    /// Runs one step over all limiters of `met`, which names none twice.
    pub(crate) fn step(&self, met: &[Met], clock: &impl Clock, step: Step) -> Done {
        match met {
            [] => Done {
                allowed: true,
                at: clock.now(),
                repeated: false,
                decisions: InlineList::new(),
            },
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
        let part = self.part(0, met, step);
        let one = if let Some(table) = self.table(met) {
            table.one(&part, Reading::of(clock))
        } else if let Some(later) = self.later(met) {
            later.one(&part, Reading::of(clock))
        } else {
            return Done {
                allowed: true,
                at: clock.now(),
                repeated: false,
                decisions: InlineList::new(),
            };
        };
        self.tidy_if(one.overflow, one.at);
        done_by(met, one, step)
    }

    /// One step of one kind, `step`, over limiters by their places in `met`.
    fn step_with_all(&self, met: &[Met], clock: &impl Clock, step: impl Fn(usize) -> Step) -> Done {
        let early = clock.now();
        let by_table = self.by_table(met, &step);
        let (done, short) = match hold_all(self.first_tables(&by_table), early) {
            Ok(holds) => run(holds, met, clock, &step),
            Err(_) => self.with_changed(&by_table, early, |holds, changed| {
                let (done, short) = run(holds, met, clock, &step);
                (changed.told(done, met.len(), step(0)), short)
            }),
        };
        self.tidy_if(short, done.at);
        done
    }

    /// The tables of a step, each with its number and parts, as though no rule was ever changed.
    fn first_tables<'a>(&'a self, by_table: &'a [OfTable<'a>]) -> impl Iterator<Item = Asked<'a>> {
        let tables = by_table.iter().enumerate();
        tables.map(|(number, (first, parts))| (number, self.table(first), &**parts))
    }

    /// When there was no room: looks for some in one table after another, for tables share caps, and
    /// those that nobody asks any more would keep their limiters for ever.
    fn tidy_if(&self, short: bool, now: Timestamp) {
        if !short {
            return;
        }
        let count = self.tables.iter().flatten().count();
        if let Some(next) = self.hand.fetch_add(1, Relaxed).checked_rem(count) {
            self.tidy_one(next, now);
        }
    }

    /// A preview on a limiter; `None` where there is none.
    pub(crate) fn preview(&self, met: &Met, clock: &impl Clock) -> Option<Box<dyn Preview>> {
        let part = self.part(0, met, Step::Peek);
        match self.table(met) {
            Some(table) => Some(table.preview(&part, Reading::of(clock))),
            None => self.later(met).map(|later| later.preview(&part, Reading::of(clock))),
        }
    }

    /// Makes every limiter of `met` as good as new, all at once.
    pub(crate) fn forget(&self, met: &[Met], now: Timestamp) {
        fn forget<'h>(holds: Vec<Box<dyn Hold + 'h>>) {
            holds.into_iter().rev().for_each(|hold| hold.forget());
        }
        let by_table = self.by_table(met, &|_| Step::Refund);
        match hold_all(self.first_tables(&by_table), now) {
            Ok(holds) => forget(holds),
            Err(_) => self.with_changed(&by_table, now, |holds, _| forget(holds)),
        }
    }

    /// The parts of each table that is met, in the one order in which tables are held.
    fn by_table<'m>(&'m self, met: &'m [Met], step: &impl Fn(usize) -> Step) -> Vec<OfTable<'m>> {
        let mut order: Vec<_> = met.iter().enumerate().collect();
        order.sort_by_key(|(_, met)| self.table_number(met));
        let of_one_table = order.chunk_by(|a, b| self.table_number(a.1) == self.table_number(b.1));
        let with_parts = of_one_table.filter_map(|of_one| {
            let part = |(place, met): &(usize, &'m Met)| self.part(*place, met, step(*place));
            Some((of_one.first()?.1, of_one.iter().map(part).collect()))
        });
        with_parts.collect()
    }

    fn table(&self, met: &Met) -> Option<&dyn Table> {
        let (rule, number) = self.table_number(met);
        self.tables.get(rule)?.get(number)?.as_deref()
    }
}

/// The parts of a step in one table, and the first limiter of them.
type OfTable<'m> = (&'m Met, Vec<Part<'m>>);

/// A table of a step, its number and its parts.
type Asked<'a> = (usize, Option<&'a dyn Table>, &'a [Part<'a>]);

/// Holds all limiters, table by table in their one order.
///
/// # Errors
/// The number of a table that is closed or not there; nothing is held.
fn hold_all<'a>(
    tables: impl Iterator<Item = Asked<'a>>,
    now: Timestamp,
) -> Result<Vec<Box<dyn Hold + 'a>>, usize> {
    let mut holds = Vec::with_capacity(tables.size_hint().1.unwrap_or(0));
    for (number, table, parts) in tables {
        match table.and_then(|table| table.hold(parts, now)) {
            Some(hold) => holds.push(hold),
            None => {
                let_go(holds, now);
                return Err(number);
            }
        }
    }
    Ok(holds)
}

/// What came of a step over one limiter.
fn done_by(met: &Met, one: One, step: Step) -> Done {
    let (allowed, at) = (one.verdict.is_allowed() || !met.enforced, one.at);
    Done { allowed, at, repeated: false, decisions: Decided::by(one, step).into_iter().collect() }
}

/// Runs a step over limiters that are held, and lets go of them; tells also whether one had no room.
fn run<'h>(
    mut holds: Vec<Box<dyn Hold + 'h>>,
    met: &[Met],
    clock: &impl Clock,
    step: &impl Fn(usize) -> Step,
) -> (Done, bool) {
    let at = clock.now();
    holds.iter_mut().for_each(|hold| hold.begin(at));
    let mut holdings: Vec<Holding<'_>> = holds.iter_mut().flat_map(|hold| hold.held()).collect();
    holdings.sort_unstable_by_key(|holding| holding.place);
    let (places, mut held): (Vec<_>, Vec<_>) =
        holdings.into_iter().map(|holding| (holding.place, holding.verbs)).unzip();
    let allowed = match step(0) {
        Step::Decide | Step::Ask => ask_all(&mut held, &places, met, at),
        Step::Peek | Step::Look | Step::Report => look_at_all(&mut held, at),
        Step::Refund => {
            look_at_all(&mut held, at);
            held.iter_mut().for_each(|one| one.give_back());
            look_at_all(&mut held, at)
        }
        Step::Settle { .. } => {
            settle_all(&mut held, &places, met, at, step);
            look_at_all(&mut held, at)
        }
    };
    let short = held.iter().any(|one| one.is_overflow());
    let told = if step(0).wants_figures() { held.as_slice() } else { &[] };
    let decided =
        told.iter().map(|one| Decided::of(one.report(), one.is_overflow(), one.is_elsewhere()));
    let decisions = decided.collect();
    drop(held);
    let_go(holds, at);
    (Done { allowed, at, repeated: false, decisions }, short)
}

/// Stores what was done with limiters that are held, if anything was.
fn let_go(holds: Vec<Box<dyn Hold + '_>>, at: Timestamp) {
    // The last first: a table that grows as it is let go of waits for one of its chains, which may
    // be held by somebody who waits for a later table.
    holds.into_iter().rev().for_each(|hold| hold.release(at));
}

/// Takes from all limiters if all that are enforced admit, else from none; but what is reported is taken
/// whatever they say.
fn ask_all<'a>(
    held: &mut [Box<dyn Grip + 'a>],
    places: &[usize],
    met: &[Met],
    at: Timestamp,
) -> bool {
    if met.iter().all(|met| met.asks == met.cost && !met.report) {
        return decide_all(held, at);
    }
    let part = |place: &usize| met.get(*place).map(|met| met.part(Step::Ask).1);
    for (one, place) in held.iter_mut().zip(places) {
        if part(place) == Some(Step::Report) {
            one.take_reported(at);
        }
    }
    let goes_on = look_at_all(held, at);
    for (one, place) in held.iter_mut().zip(places).filter(|_| goes_on) {
        if part(place) == Some(Step::Ask) && one.verdict().is_allowed() {
            one.take();
        }
    }
    goes_on
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
    base: Option<Timestamp>,
) -> (Vec<Option<Box<dyn Table>>>, Changes) {
    let budget = budget_of(rule.spec(), shared.cloned());
    let laters: Vec<_> = (0..rule.variants()).map(|_| Later::none_yet()).collect();
    let table = |(number, later): (usize, &Arc<Later<dyn Table>>)| {
        let (on_full, later) = (rule.spec().on_full, Arc::clone(later));
        rule.variant(number).visit(Build { base, budget: &budget, on_full, later })
    };
    let tables = laters.iter().enumerate().map(table).collect();
    (tables, Changes::none_yet(laters, budget))
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

/// A table of limiters, each with a rule of its own: `usual` for keys that have none.
pub(crate) fn table_of_rules(usual: Rule, caps: &RuleSpec) -> Box<dyn Table> {
    Box::new(RuledTable::under(caps, usual, budget_of(caps, None)))
}

fn budget_of(spec: &RuleSpec, shared: Option<Arc<Budget>>) -> Arc<Budget> {
    Arc::new(Budget::part_of(shared, spec.most_keys()).most_bytes(spec.most_bytes()))
}
