//! Bans at a gate: a key that a rule has refused too often is denied before any limiter is asked.

use tidegate_core::{Micros, Timestamp};

use super::Gate;
use crate::clock::Clock;
use crate::frontend::deny;
use crate::step::{Ask, Done, Step};
use crate::store::memory::{Generation, Moved};

impl<C: Clock> Gate<C> {
    /// Returns the denial of a request with a banned key; nothing is taken.
    #[inline]
    pub(super) fn banned(
        &self,
        generation: &Generation,
        asks: &[Ask],
        clock: &impl Clock,
    ) -> Result<Option<Done>, Moved> {
        if self.front.bans.is_empty() {
            return Ok(None);
        }
        let now = clock.now();
        let left = self.front.bans.left(asks, |ask| ask.fingerprint, now);
        left.map(|left| self.banned_for(generation, asks, left, now)).transpose()
    }

    fn banned_for(
        &self,
        generation: &Generation,
        asks: &[Ask],
        left: Vec<Option<Micros>>,
        now: Timestamp,
    ) -> Result<Done, Moved> {
        let mut done = self.memory.step(generation, asks, &now, Step::Peek)?;
        for (decided, left) in done.decisions.iter_mut().zip(left) {
            left.into_iter().for_each(|left| deny(&mut decided.decision, left));
        }
        done.allowed = false;
        Ok(done)
    }

    /// Counts the refusals by rules that ban.
    #[inline]
    pub(super) fn count_refusals(&self, asks: &[Ask], done: &Done) {
        if self.front.bans.is_empty() || done.allowed {
            return;
        }
        for (ask, decided) in asks.iter().zip(&done.decisions) {
            // A key without a limiter of its own was refused because of other keys.
            if !decided.decision.is_allowed() && !decided.elsewhere {
                self.front.bans.count(ask, |ask| ask.fingerprint, done.at);
            }
        }
    }
}
