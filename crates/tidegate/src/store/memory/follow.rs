//! Which table follows one that was closed.

use std::sync::Arc;

use tidegate_core::{Algorithm, Rule, RuleError, RuleErrors, Timestamp, Visitor, Word};

use super::budget::Budget;
use super::estate::{Estate, carried, same_algorithm};
use super::fixed::FixedEntry;
use super::inherited::Inherited;
use super::parameters::heap_bytes;
use super::sharded::Sharded;
use super::table::{Build, Heir, Legacy};

impl<R: Algorithm> Legacy for Estate<'_, R> {
    fn limiters(&self) -> usize {
        self.limiters.len()
    }

    fn budget(&self) -> &Arc<Budget> {
        self.budget
    }

    fn bytes_under(&self, rule: &Rule, build: &Build<'_>, now: Timestamp) -> usize {
        rule.visit(Weigh { estate: self, build, now }).unwrap_or(0)
    }

    fn pass_on(self: Box<Self>, rule: &Rule, build: &Build<'_>, now: Timestamp) -> Heir {
        rule.visit(PassOn { estate: *self, build, now }).unwrap_or_default()
    }

    fn stay(self: Box<Self>, build: &Build<'_>, now: Timestamp) -> Heir {
        Heir::of(
            self.algorithm,
            Inherited { limiters: self.limiters, shared: self.shared },
            build,
            now,
        )
    }
}

impl Heir {
    fn of<R: Algorithm>(
        algorithm: &R,
        from: Inherited<R>,
        build: &Build<'_>,
        now: Timestamp,
    ) -> Self {
        let limiters = from.limiters.len();
        Self { table: Some(build.table(algorithm.clone(), from, now)), limiters }
    }
}

impl<R: Algorithm> Estate<'_, R> {
    fn carry_to<New: Algorithm>(self, new: &New, now: Timestamp) -> Inherited<New> {
        let carry = |state| carried(self.algorithm, state, new, now);
        let limiters = self.limiters.into_iter();
        Inherited {
            limiters: limiters
                .filter_map(|(fingerprint, state)| Some((fingerprint, carry(state)?)))
                .collect(),
            shared: self.shared.and_then(carry),
        }
    }

    /// Bytes that they would take under an algorithm whose states are kept whole.
    fn bytes_whole<New: Algorithm>(&self, new: &New, now: Timestamp) -> usize {
        let kept_as_is =
            same_algorithm::<R, New>(self.algorithm).is_some_and(|old| new.same_shape(old));
        let mut begun = new.fresh(now);
        new.take(&mut begun, now, 1);
        let begun = heap_bytes(new, &begun);
        let heap = |state| if kept_as_is { heap_bytes(self.algorithm, state) } else { begun };
        let own = self
            .limiters
            .iter()
            .map(|(_, state)| Sharded::<FixedEntry<New>>::BYTES_BESIDE_HEAP + heap(state));
        own.chain(self.shared.iter().map(heap)).fold(0, usize::saturating_add)
    }
}

struct Weigh<'a, 'b, R: Algorithm> {
    estate: &'a Estate<'a, R>,
    build: &'a Build<'b>,
    now: Timestamp,
}

impl<Old: Algorithm> Visitor for Weigh<'_, '_, Old> {
    type Out = usize;

    fn visit<New: Algorithm>(self, algorithm: &New) -> usize {
        if self.build.packs(algorithm) { 0 } else { self.estate.bytes_whole(algorithm, self.now) }
    }
}

struct PassOn<'a, 'b, 'c, R: Algorithm> {
    estate: Estate<'a, R>,
    build: &'b Build<'c>,
    now: Timestamp,
}

impl<Old: Algorithm> Visitor for PassOn<'_, '_, '_, Old> {
    type Out = Heir;

    fn visit<New: Algorithm>(self, algorithm: &New) -> Heir {
        Heir::of(algorithm, self.estate.carry_to(algorithm, self.now), self.build, self.now)
    }
}

/// What follows tables of one rule that were closed, all at once.
pub(super) struct Followed {
    /// One for each of them.
    pub(super) heirs: Vec<Heir>,
    /// What counts the limiters of all of them.
    pub(super) budget: Arc<Budget>,
    /// Whether it is what was asked for.
    pub(super) told: Result<(), RuleErrors>,
}

/// What follows under `rules`, one for each of the tables (`None`: it was unlimited), which shared a
/// budget; or, where all the limiters there are would not fit in the memory of `build`, under the old
/// rules.
pub(super) fn follow(
    closed: Vec<Option<Box<dyn Legacy + '_>>>,
    rules: &[&Rule],
    build: &Build<'_>,
    now: Timestamp,
) -> Followed {
    let old = closed.iter().flatten().next().map(|legacy| Arc::clone(legacy.budget()));
    let both = || closed.iter().zip(rules);
    let bytes =
        both().filter_map(|(legacy, rule)| Some(legacy.as_ref()?.bytes_under(rule, build, now)));
    let bytes = bytes.fold(0, usize::saturating_add);
    let (cap, limiters) = (build.budget.bytes_cap(), closed.iter().flatten());
    let (budget, told) = match &old {
        Some(old) if bytes > cap => {
            let mistake = too_small(cap, bytes, limiters.map(|legacy| legacy.limiters()).sum());
            (Arc::new(old.anew()), Err(RuleErrors::from(mistake)))
        }
        _ => (Arc::clone(build.budget), Ok(())),
    };
    let fits = told.is_ok();
    let build = Build { budget: &budget, ..build.clone() };
    let heir = |(legacy, rule): (Option<Box<dyn Legacy + '_>>, &&Rule)| match legacy {
        Some(legacy) if fits => legacy.pass_on(rule, &build, now),
        Some(legacy) => legacy.stay(&build, now),
        None if fits => Heir { table: rule.visit(build.clone()), limiters: 0 },
        None => Heir::default(),
    };
    let heirs: Vec<_> = closed.into_iter().zip(rules).map(heir).collect();
    let taken_over = heirs.iter().map(|heir| heir.limiters).sum();
    old.iter().for_each(|old| old.end(taken_over));
    Followed { heirs, budget, told }
}

/// The mistake of a memory in which the limiters that there are have no room.
fn too_small(given: usize, bytes: usize, limiters: usize) -> RuleError {
    RuleError::OutOfRange {
        word: Word::MaxMemory,
        given: given.to_string(),
        expected: format!(
            "at least the {bytes} bytes that the {limiters} limiters in use would take"
        ),
    }
}
