//! An entry for a limiter of any algorithm: a bucket is stored in the table itself, any other limiter in a box.
//!
//! Nearly all limiters with rules of their own are buckets; a box would cost each decision one more cache miss.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use tidegate_core::{Algorithm, Micros, Rule, Timestamp, TokenBucket};

use super::recent::Recent;
use crate::key::Fingerprint;
use crate::snapshot::Records;
use crate::step::{One, Step};
use crate::store::memory::budget::Need;
use crate::store::memory::fixed::FixedEntry;
use crate::store::memory::parameters::Parameters;
use crate::store::memory::preview::Preview;

/// A limiter under the parameters of one algorithm.
#[derive(Clone, Debug)]
pub(in crate::store::memory) struct Own<R: Algorithm> {
    pub(super) parameters: Arc<Parameters<R>>,
    /// When the state began; the epoch if it came from a table that knew its rules. A state that is dropped as idle
    /// forgets the rules that its units were taken under, because none of these units is in use any more.
    pub(super) began: Timestamp,
    pub(super) entry: FixedEntry<R>,
}

/// A limiter with any algorithm. Methods named like the methods of an entry do the same.
pub(in crate::store::memory) trait AnyOwn:
    Any + fmt::Debug + Send
{
    fn need(&self) -> Need;

    fn bytes(&self) -> usize;

    fn is_idle(&self, now: Timestamp) -> bool;

    fn began(&self) -> Timestamp;

    fn set_began(&mut self, began: Timestamp);

    fn run(&mut self, step: Step, cost: u64, now: Timestamp, in_place: bool) -> One;

    fn save(&self, fingerprint: Option<Fingerprint>, now: Timestamp, records: &mut Records<'_, '_>);

    /// Returns a copy.
    fn copy(&self) -> RuledEntry;

    fn has_state(&self) -> bool;

    /// Creates a preview under its own rule.
    fn preview(&self, now: Timestamp) -> Box<dyn Preview>;

    /// Advances its times to `now`, also if the clock went back by more than the window.
    fn pass(&mut self, now: Timestamp);

    /// The wait until it is idle.
    fn reset_after(&self, now: Timestamp) -> Micros;

    /// The units that are admitted if none is used.
    fn most_units(&self, now: Timestamp) -> u64;

    /// The wait until no more than `units` are used; `None` if its parameters cannot say.
    fn until_used(&self, units: u64, now: Timestamp) -> Option<Micros>;

    /// Returns the limiter under `rule` from `now` on, with its usage. `None` if `rule` is unlimited.
    fn carried_to(
        &mut self,
        rule: &Rule,
        recent: &mut Recent,
        now: Timestamp,
    ) -> Option<RuledEntry>;
}

/// A limiter with a rule of its own.
#[derive(Debug)]
pub(in crate::store::memory) enum RuledEntry {
    Bucket(Own<TokenBucket>),
    Other(Box<dyn AnyOwn>),
}

/// Evaluates an expression for the limiter of an entry. Unlike [`RuledEntry::any`] it calls no function through a
/// table if that is a bucket: a decision asks for several values of it.
macro_rules! for_each_kind {
    ($entry:expr, $own:ident => $value:expr) => {
        match $entry {
            RuledEntry::Bucket($own) => $value,
            RuledEntry::Other($own) => $value,
        }
    };
}
pub(super) use for_each_kind;

impl RuledEntry {
    #[inline]
    pub(in crate::store::memory) fn under_parameters<R: Algorithm>(
        parameters: Arc<Parameters<R>>,
        began: Timestamp,
        state: Option<R::State>,
    ) -> Self {
        Self::of(Own { parameters, began, entry: FixedEntry(state) })
    }

    #[inline]
    pub(super) fn of<R: Algorithm>(own: Own<R>) -> Self {
        match (&own as &dyn Any).downcast_ref::<Own<TokenBucket>>() {
            // Copied, because no value can be moved out of a reference to `dyn Any`.
            Some(bucket) => Self::Bucket(bucket.clone()),
            None => Self::Other(Box::new(own)),
        }
    }

    /// The limiter, with any algorithm.
    #[inline]
    pub(super) fn any(&self) -> &dyn AnyOwn {
        match self {
            Self::Bucket(own) => own,
            Self::Other(own) => &**own,
        }
    }

    #[inline]
    pub(super) fn any_mut(&mut self) -> &mut dyn AnyOwn {
        match self {
            Self::Bucket(own) => own,
            Self::Other(own) => &mut **own,
        }
    }

    /// The limiter, if it has this algorithm.
    #[inline]
    pub(super) fn under<R: Algorithm>(&self) -> Option<&Own<R>> {
        let own: &dyn Any = match self {
            Self::Bucket(own) => own,
            Self::Other(own) => &**own,
        };
        own.downcast_ref()
    }

    /// Runs a step outside of a table. A step that creates no limiter leaves none.
    pub(in crate::store::memory) fn run_alone(
        &mut self,
        step: Step,
        cost: u64,
        now: Timestamp,
    ) -> One {
        // A bucket that begins with fewer tokens exists after a reset, and is full.
        let begins = step.begins(cost) || matches!(step, Step::Reset { .. });
        // Copied before, because the verbs of the core may leave a fresh state.
        let unborn = (!begins && !self.any().has_state()).then(|| self.clone());
        let one = self.any_mut().run(step, cost, now, false);
        if let Some(unborn) = unborn {
            *self = unborn;
        }
        one
    }

    /// Creates a preview outside of a table.
    pub(in crate::store::memory) fn preview_alone(&self, now: Timestamp) -> Box<dyn Preview> {
        self.any().preview(now)
    }

    /// Puts the limiter under `rule`, if that is limited.
    pub(super) fn carry_to(&mut self, rule: &Rule, recent: &mut Recent, now: Timestamp) {
        if let Some(carried) = self.any_mut().carried_to(rule, recent, now) {
            *self = carried;
        }
    }
}

impl Clone for RuledEntry {
    fn clone(&self) -> Self {
        self.any().copy()
    }
}

/// A limiter with a rule of its own, outside of any table: the state in `LimiterState`, which a store of your own keeps
/// for each key.
#[cfg(feature = "redis")]
#[derive(Clone, Debug, Default)]
pub(crate) struct Single(Option<RuledEntry>);

#[cfg(feature = "redis")]
impl Single {
    /// Runs a step under `rule`, which takes effect; `None` if the rule is unlimited. The state may then be of a rule
    /// that had a limit: units come back to it, though no limit decides now.
    pub(crate) fn run(
        &mut self,
        rule: &Rule,
        step: Step,
        cost: u64,
        now: Timestamp,
    ) -> Option<One> {
        RuledEntry::put_under(&mut self.0, rule, now);
        let is_unlimited = rule.is_unlimited();
        let runs = !is_unlimited || matches!(step, Step::Settle { .. });
        let one = self.0.as_mut().filter(|_| runs).map(|entry| entry.run_alone(step, cost, now));
        one.filter(|_| !is_unlimited)
    }

    /// Returns whether a new limiter would decide the same, unless its rule begins in use.
    pub(crate) fn is_idle(&self, now: Timestamp) -> bool {
        self.0.as_ref().is_none_or(|entry| entry.any().is_idle(now))
    }

    pub(crate) const fn is_new(&self) -> bool {
        self.0.is_none()
    }
}
