//! The limiter of one key, and the rule that a call is under.

use std::sync::{Mutex, PoisonError};

use tidegate_core::Rule;

use super::KeyedLimiter;
use super::engine::Source;
use super::plans::Plan;
use crate::clock::{Clock, Reading};
use crate::key::Fingerprint;
use crate::step::{One, Step};
use crate::store::memory::{Part, Preview};

/// The rule that a call is under.
#[derive(Debug)]
pub(super) enum Terms<'a> {
    /// The rule of the table.
    Table,
    /// The key's own.
    Own(&'a Rule),
    /// The one that the call supplies.
    Supplied(&'a Rule),
    /// The key's own whenever the call asks.
    LookedUp(Box<LookedUp>),
}

/// The limiter of one key.
#[derive(Debug)]
pub(crate) struct OfKey<'a, C> {
    pub(super) all: &'a KeyedLimiter<C>,
    pub(super) fingerprint: Fingerprint,
    pub(super) terms: Terms<'a>,
}

impl<'a, C: Clock> OfKey<'a, C> {
    /// Hands `with` its part in a step, under the rule that holds now.
    #[inline]
    fn part<T>(&self, cost: u64, step: Step, with: impl FnOnce(&Part<'_>) -> T) -> T {
        let part = Part::alone(self.fingerprint, cost, step);
        match &self.terms {
            Terms::Table => with(&part),
            Terms::Own(rule) => with(&part.under(rule, false)),
            Terms::Supplied(rule) => with(&part.under(rule, true)),
            Terms::LookedUp(looked_up) => {
                let plan = looked_up.plan(self.all);
                with(&part.under(self.all.usual.of(&plan), false))
            }
        }
    }

    #[inline]
    fn reading(&self) -> Reading<'a> {
        self.all.reading(&self.all.clock)
    }
}

impl<C: Clock> Source for OfKey<'_, C> {
    #[inline]
    fn one(&self, cost: u64, step: Step) -> One {
        let one = self.part(cost, step, |part| match self.all.limiters() {
            Some(table) => table.one(part, self.reading()),
            None if self.all.later.has_begun() => self.all.later.one(part, self.reading()),
            None => One::unlimited(self.all.clock.now()),
        });
        match &self.terms {
            Terms::LookedUp(looked_up) => One { figures: looked_up.plan(self.all), ..one },
            Terms::Table | Terms::Own(_) | Terms::Supplied(_) => one,
        }
    }

    fn preview(&self) -> Option<Box<dyn Preview>> {
        let later = &self.all.later;
        self.part(1, Step::Peek, |part| match self.all.limiters() {
            Some(table) => Some(table.preview(part, self.reading())),
            None => later.has_begun().then(|| later.preview(part, self.reading())),
        })
    }

    fn renew(&self) {
        if let Terms::LookedUp(looked_up) = &self.terms {
            looked_up.set(None);
        }
    }
}

/// The plan of a key for which a call may wait, looked up once for each time that it asks.
#[derive(Debug)]
pub(crate) struct LookedUp {
    key: Box<[u8]>,
    /// `None` until it is looked up.
    plan: Mutex<Option<Plan>>,
}

impl LookedUp {
    pub(super) fn new(key: &[u8]) -> Self {
        Self { key: key.into(), plan: Mutex::new(None) }
    }

    /// The plan under which the call asked last; looked up where it has not asked yet.
    pub(super) fn plan<C: Clock>(&self, all: &KeyedLimiter<C>) -> Plan {
        let known = self.plan.lock().unwrap_or_else(PoisonError::into_inner).clone();
        known.unwrap_or_else(|| {
            let plan = all.plan(&self.key);
            self.set(Some(plan.clone()));
            plan
        })
    }

    fn set(&self, plan: Option<Plan>) {
        *self.plan.lock().unwrap_or_else(PoisonError::into_inner) = plan;
    }
}
