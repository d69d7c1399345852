//! One limiter, stored with the parameters under which it was last asked: the methods of an entry with a rule of
//! its own.

use tidegate_core::{Algorithm, Micros, Past, Rule, Timestamp, Visitor};

use super::held::{AnyOwn, Own, RuledEntry};
use super::recent::Recent;
use crate::key::Fingerprint;
use crate::snapshot::Records;
use crate::step::{One, Step};
use crate::store::memory::budget::Need;
use crate::store::memory::entry::Entry as _;
use crate::store::memory::leaving::carried;
use crate::store::memory::parameters::Parameters;
use crate::store::memory::preview::{Preview, preview};

/// The estimated overhead of the allocator for each allocation.
const BYTES_OF_AN_ALLOCATION: usize = 16;

impl<R: Algorithm> Own<R> {
    /// Counted as if the parameters were not shared, and the limiter always boxed.
    pub(super) const BYTES: usize =
        size_of::<Self>() + size_of::<Parameters<R>>() + 2 * BYTES_OF_AN_ALLOCATION;
}

impl<R: Algorithm> AnyOwn for Own<R> {
    #[inline]
    fn need(&self) -> Need {
        let heap = self.entry.need(&self.parameters);
        Need { first: Self::BYTES + heap.first, ..heap }
    }

    #[inline]
    fn bytes(&self) -> usize {
        Self::BYTES.saturating_add(self.entry.bytes(&self.parameters))
    }

    #[inline]
    fn is_idle(&self, now: Timestamp) -> bool {
        self.entry.is_idle(&self.parameters, now)
    }

    fn began(&self) -> Timestamp {
        self.began
    }

    fn set_began(&mut self, began: Timestamp) {
        self.began = began;
    }

    #[inline]
    fn run(&mut self, step: Step, cost: u64, now: Timestamp, in_place: bool) -> One {
        // Units from before that were taken under rules that the state does not know any more.
        let step = step.on_limiter_since(self.began);
        self.entry.run(&self.parameters, step, cost, now, in_place)
    }

    fn save(
        &self,
        fingerprint: Option<Fingerprint>,
        now: Timestamp,
        records: &mut Records<'_, '_>,
    ) {
        self.entry.save(&self.parameters, fingerprint, now, records);
    }

    fn copy(&self) -> RuledEntry {
        RuledEntry::of(self.clone())
    }

    fn has_state(&self) -> bool {
        self.entry.0.is_some()
    }

    fn preview(&self, now: Timestamp) -> Box<dyn Preview> {
        preview(&self.parameters.algorithm, self.entry.0.clone(), now)
    }

    fn pass(&mut self, now: Timestamp) {
        if let Some(state) = &mut self.entry.0 {
            self.parameters.algorithm.advance(state, now);
        }
    }

    fn reset_after(&self, now: Timestamp) -> Micros {
        let Some(mut state) = self.entry.0.clone() else { return Micros::ZERO };
        let algorithm = &self.parameters.algorithm;
        let at = algorithm.advance(&mut state, now);
        // Under other values all usage may count.
        let eased_until = algorithm.past(&state).map_or(at, Past::eased_until);
        at.plus(algorithm.reset_after(&state, at)).max(eased_until).since(now)
    }

    fn most_units(&self, now: Timestamp) -> u64 {
        let algorithm = &self.parameters.algorithm;
        algorithm.remaining(&algorithm.fresh(now), now)
    }

    fn until_used(&self, units: u64, now: Timestamp) -> Option<Micros> {
        let algorithm = &self.parameters.algorithm;
        let mut state = self.entry.0.clone()?;
        // No more than `units` are used exactly when this cost fits.
        let cost = self.most_units(now).checked_sub(units)?;
        let at = algorithm.advance(&mut state, now);
        let fits = algorithm.decide(&state, at, cost).is_allowed();
        (!fits).then(|| at.plus(algorithm.retry_after(&state, at, cost)).since(now))
    }

    fn carried_to(
        &mut self,
        rule: &Rule,
        recent: &mut Recent,
        now: Timestamp,
    ) -> Option<RuledEntry> {
        rule.visit(Carrying { old: self, recent, now })
    }
}

struct Carrying<'a, Old: Algorithm> {
    old: &'a mut Own<Old>,
    recent: &'a mut Recent,
    now: Timestamp,
}

impl<Old: Algorithm> Visitor for Carrying<'_, Old> {
    type Out = RuledEntry;

    fn visit<New: Algorithm>(self, algorithm: &New) -> RuledEntry {
        let Self { old, recent, now } = self;
        let state = old.entry.0.take();
        let known = &old.parameters.algorithm;
        let slot = state.and_then(|state| carried(known, state, algorithm, now));
        // An idle limiter has no units that could come back, so it begins again.
        let began = if slot.is_some() { old.began } else { now };
        RuledEntry::under_parameters(recent.parameters(algorithm), began, slot)
    }
}
