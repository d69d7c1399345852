//! What a closed limiter leaves to the rule that follows: what was used stays used.

use std::any::Any;
use std::sync::Arc;

use tidegate_core::{Held, Room, Rule, RuleError, RuleErrors, Timestamp, Visitor, Word};

use super::budget::Budget;
use super::build::{Build, Inherited};
use super::later::Later;
use super::table::{Followed, Table};
use super::whole::{Whole, heap_bytes};
use crate::key::Fingerprint;

/// What a limiter of the rule `old` is under the rule `new`; `None` where that is as good as new.
pub(super) fn carried<Old: Room, New: Room>(
    old: &Old,
    state: Old::State,
    new: &New,
    now: Timestamp,
) -> Option<New::State> {
    let (mut left, mut slot) = (Some(state), None);
    let states = (&mut left as &mut dyn Any).downcast_mut::<Option<New::State>>();
    match same_room(old).zip(states) {
        Some((old, left)) => {
            slot = left.take();
            Held::new(new, &mut slot, 0).amend(now, old);
        }
        None => Held::new(new, &mut slot, 0).carry_over(now, old, left?),
    }
    slot.filter(|state| !new.is_as_good_as_new(state, now))
}

/// The same room, if it is of the type `New`.
fn same_room<Old: Room, New: Room>(old: &Old) -> Option<&New> {
    (old as &dyn Any).downcast_ref()
}

/// All limiters of a table that was closed.
pub(super) struct Estate<'a, R: Room> {
    pub(super) room: &'a R,
    pub(super) limiters: Vec<(Fingerprint, R::State)>,
    /// The one shared by keys without room.
    pub(super) shared: Option<R::State>,
    /// A time at or after the last unit taken from them.
    pub(super) now: Timestamp,
    /// Under whose caps they were.
    pub(super) budget: &'a Budget,
}

impl<R: Room> Estate<'_, R> {
    /// The table of `rule` with all of them, or, where they would not fit in its memory, one of the old
    /// rule, and the mistake.
    pub(super) fn pass_on(self, rule: &Rule, build: &Build<'_>) -> Followed {
        let heir = Heir { estate: self, build };
        rule.visit(heir).map_or((None, Ok(())), |(table, told)| (Some(table), told))
    }

    fn stay(self, build: &Build<'_>) -> Box<dyn Table> {
        let budget = Arc::new(self.budget.anew());
        let build = Build { budget: &budget, later: Later::none_yet(), ..build.clone() };
        let from = Inherited { limiters: self.limiters, shared: self.shared };
        build.table(self.room.clone(), from, self.now)
    }

    fn carry_to<New: Room>(self, new: &New) -> Inherited<New> {
        let carry = |state| carried(self.room, state, new, self.now);
        let limiters = self.limiters.into_iter();
        Inherited {
            limiters: limiters.filter_map(|(print, state)| Some((print, carry(state)?))).collect(),
            shared: self.shared.and_then(carry),
        }
    }

    /// Bytes that they would take under a room whose states are kept whole.
    fn bytes_under<New: Room>(&self, new: &New) -> usize {
        let kept_as_is = same_room::<R, New>(self.room).is_some_and(|old| new.same_shape(old));
        let mut begun = new.fresh(self.now);
        new.take(&mut begun, self.now, 1);
        let begun = heap_bytes(new, &begun);
        let heap = |state| if kept_as_is { heap_bytes(self.room, state) } else { begun };
        let own =
            self.limiters.iter().map(|(_, state)| Whole::<New>::BYTES_BESIDE_HEAP + heap(state));
        own.chain(self.shared.iter().map(heap)).fold(0, usize::saturating_add)
    }
}

struct Heir<'a, 'b, R: Room> {
    estate: Estate<'a, R>,
    build: &'a Build<'b>,
}

impl<Old: Room> Visitor for Heir<'_, '_, Old> {
    type Out = (Box<dyn Table>, Result<(), RuleErrors>);

    fn visit<New: Room>(self, room: &New) -> Self::Out {
        let Self { estate, build } = self;
        let (cap, now) = (build.budget.bytes_cap(), estate.now);
        if build.packs(room) {
            return (build.table(room.clone(), estate.carry_to(room), now), Ok(()));
        }
        match estate.bytes_under(room) {
            bytes if bytes > cap => {
                let mistake = too_small(cap, bytes, estate.limiters.len());
                (estate.stay(build), Err(mistake.into()))
            }
            _ => (build.table(room.clone(), estate.carry_to(room), now), Ok(())),
        }
    }
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
