//! A limiter of any kind in its place: a bucket in the table itself, any other one behind a box.
//!
//! Of what is limited by plans, nearly all is a bucket; a box would cost each decision one more line of
//! memory that is in no cache.

use std::any::{self, Any};
use std::fmt;
use std::sync::Arc;

use tidegate_core::{Micros, Room, Rule, Timestamp, TokenBucket};

use super::figures::{Figures, Recent};
use crate::step::{One, Step};

/// A limiter under the figures of one room.
#[derive(Clone, Debug)]
pub(super) struct Own<R: Room> {
    pub(super) figures: Arc<Figures<R>>,
    /// Empty for one that is as good as new.
    pub(super) slot: Option<R::State>,
}

/// A limiter, whatever figures it is under.
pub(super) trait AnyOwn: any::Any + fmt::Debug + Send {
    /// Whether forgetting it would change no later decision.
    fn is_as_good_as_new(&self, now: Timestamp) -> bool;

    /// Bytes that it takes now.
    fn bytes(&self) -> usize;

    /// Another one like it.
    fn copy(&self) -> Held;

    /// Time passes: a clock that went back by more than the window moves its times.
    fn pass(&mut self, now: Timestamp);

    /// The wait until it is as good as new.
    fn reset_after(&self, now: Timestamp) -> Micros;

    /// The wait until no more than `units` are used; `None` where its figures do not tell.
    fn until_used(&self, units: u64, now: Timestamp) -> Option<Micros>;

    /// A step that gives back under the figures it has, in the memory it has; `None` where nothing is
    /// used.
    fn give_back(&mut self, step: Step, cost: u64, now: Timestamp) -> Option<One>;

    /// The limiter that it is under `rule` from `now` on: what was used stays used. Empty where that is
    /// unlimited.
    fn carried_to(&mut self, rule: &Rule, recent: &mut Recent, now: Timestamp) -> Held;
}

/// A limiter, unless it is still to begin.
#[derive(Debug, Default)]
pub(super) enum Held {
    #[default]
    Empty,
    /// In the hand of a step over several limiters, who puts it back.
    InHand,
    Bucket(Own<TokenBucket>),
    Other(Box<dyn AnyOwn>),
}

impl Held {
    pub(super) fn new<R: Room>(own: Own<R>) -> Self {
        let mut own = Some(own);
        let any: &mut dyn Any = &mut own;
        match any.downcast_mut::<Option<Own<TokenBucket>>>().and_then(Option::take) {
            Some(bucket) => Self::Bucket(bucket),
            None => own.map_or(Self::Empty, |own| Self::Other(Box::new(own))),
        }
    }

    /// The limiter, whatever it is.
    pub(super) fn any(&self) -> Option<&dyn AnyOwn> {
        match self {
            Self::Empty | Self::InHand => None,
            Self::Bucket(own) => Some(own),
            Self::Other(own) => Some(&**own),
        }
    }

    pub(super) fn any_mut(&mut self) -> Option<&mut dyn AnyOwn> {
        match self {
            Self::Empty | Self::InHand => None,
            Self::Bucket(own) => Some(own),
            Self::Other(own) => Some(&mut **own),
        }
    }

    /// The limiter, if it is under just these figures.
    #[inline]
    pub(super) fn under<R: Room>(&mut self, room: &R) -> Option<&mut Own<R>> {
        let own: &mut dyn Any = match self {
            Self::Empty | Self::InHand => return None,
            Self::Bucket(own) => own,
            Self::Other(own) => &mut **own,
        };
        own.downcast_mut::<Own<R>>().filter(|own| own.figures.room == *room)
    }

    /// Time passes, under the figures that it has.
    pub(super) fn pass(&mut self, now: Timestamp) {
        if let Some(own) = self.any_mut() {
            own.pass(now);
        }
    }

    /// Another one like it.
    pub(super) fn copy(&self) -> Self {
        self.any().map(AnyOwn::copy).unwrap_or_default()
    }

    /// The limiter that it is under `rule`; it is empty itself from then on.
    pub(super) fn carried_to(mut self, rule: &Rule, recent: &mut Recent, now: Timestamp) -> Self {
        let own = self.any_mut();
        own.map(|own| own.carried_to(rule, recent, now)).unwrap_or_default()
    }

    /// The state that it has under these figures, which are those of `rule`.
    pub(super) fn state_under<R: Room>(
        mut self,
        room: &R,
        rule: &Rule,
        now: Timestamp,
    ) -> Option<R::State> {
        if self.under(room).is_none() {
            self = self.carried_to(rule, &mut Recent::default(), now);
        }
        self.under(room)?.slot.take()
    }
}
