//! The limiter of one key, under the rule that holds for the key now.

use super::KeyedLimiter;
use super::plans::CallRule;
use crate::clock::{Clock, Reading};
use crate::key::Fingerprint;
use crate::step::{One, Step};
use crate::store::memory::{Part, Preview};
use crate::wait::LimiterSource;

/// The limiter of one key.
#[derive(Debug)]
pub(crate) struct OfKey<'a, C> {
    pub(super) all: &'a KeyedLimiter<C>,
    pub(super) fingerprint: Fingerprint,
    pub(super) terms: CallRule<'a>,
}

impl<'a, C: Clock> OfKey<'a, C> {
    /// Passes `with` its part in a step, under the rule that holds now.
    #[inline]
    fn part<T>(&self, cost: u64, step: Step, with: impl FnOnce(&Part<'_>) -> T) -> T {
        let part = Part::alone(self.fingerprint, cost, step);
        match &self.terms {
            CallRule::Table => with(&part),
            CallRule::Own(rule) => with(&part.under(rule, false)),
            CallRule::Supplied(rule) => with(&part.under(rule, true)),
            CallRule::LookedUp(looked_up) => {
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

impl<C: Clock> LimiterSource for OfKey<'_, C> {
    #[inline]
    fn one(&self, cost: u64, step: Step) -> One {
        // The usual call is compiled by itself.
        if let CallRule::Table = self.terms {
            return self
                .all
                .limiters
                .one(&Part::alone(self.fingerprint, cost, step), self.reading());
        }
        let mut one = self.part(cost, step, |part| self.all.limiters.one(part, self.reading()));
        if let CallRule::LookedUp(looked_up) = &self.terms {
            one.values = looked_up.plan(self.all);
        }
        one
    }

    fn preview(&self) -> Option<Box<dyn Preview>> {
        Some(self.part(1, Step::Peek, |part| self.all.limiters.preview(part, self.reading())))
    }

    fn renew(&self) {
        if let CallRule::LookedUp(looked_up) = &self.terms {
            looked_up.renew();
        }
    }
}
