//! One limiter that no table of the rule as it was loaded has: its rule was unlimited and was changed, or its
//! figures come with each request.

use super::ahead::Ahead;
use super::{MemoryStore, done_by};
use crate::clock::{Clock, Reading};
use crate::few::Few;
use crate::step::{Done, Met, Step};

impl MemoryStore {
    /// A step with such a limiter.
    #[cold]
    pub(super) fn step_apart(&self, met: &Met, clock: &impl Clock, step: Step) -> Done {
        if let Some(figured) = self.figured(met.rule) {
            let one = figured.one(met, step, clock);
            self.tidy_if(one.overflow, one.at);
            return done_by(met, one, step);
        }
        let Some(later) = self.later(met) else {
            return Done { allowed: true, at: clock.now(), repeated: false, decisions: Few::new() };
        };
        let (cost, part) = met.part(step);
        let one = later.one(met.print, cost, part, Reading::of(clock));
        self.tidy_if(one.overflow, one.at);
        done_by(met, one, step)
    }

    /// A look ahead on such a limiter; `None` where there is none.
    #[cold]
    pub(super) fn ahead_apart(&self, met: &Met, clock: &impl Clock) -> Option<Box<dyn Ahead>> {
        match self.figured(met.rule) {
            Some(figured) => figured.ahead(met, clock.now()),
            None => self.later(met).map(|later| later.ahead(met.print, Reading::of(clock))),
        }
    }
}
