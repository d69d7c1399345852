//! Requests that are repeated under their id: see [`Request::with_id`].

use super::Gate;
use crate::clock::Clock;
use crate::dedupe::{self, IdempotencyKey};
use crate::request::Request;
use crate::step::{Ask, Done};
use crate::store::memory::{Generation, Moved};

impl<C: Clock> Gate<C> {
    /// The idempotency key of the request.
    #[inline]
    pub(super) fn once(
        &self,
        generation: &Generation,
        request: &Request<'_>,
        asks: &[Ask],
    ) -> Option<IdempotencyKey> {
        dedupe::of(&generation.policy, &self.seed, request.identity()?, asks)
    }

    /// The answer that needs no limiter: it is remembered, or comes from a ban.
    #[inline]
    pub(super) fn without_asking(
        &self,
        generation: &Generation,
        asks: &[Ask],
        once: Option<IdempotencyKey>,
        clock: &impl Clock,
    ) -> Result<Option<Done>, Moved> {
        match once.and_then(|once| self.answers.recall(once, asks, clock)) {
            Some(repeated) => Ok(Some(repeated)),
            None => self.banned(generation, asks, clock),
        }
    }
}
