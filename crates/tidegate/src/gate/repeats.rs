//! Requests that are repeated under their id: see [`Request::with_id`].

use super::Gate;
use crate::clock::Clock;
use crate::dedupe::{self, DedupeCache, IdempotencyKey};
use crate::request::Request;
use crate::step::{Ask, Done};
use crate::store::memory::{Generation, Moved};

impl<C: Clock> Gate<C> {
    /// Remembers at most `most` answers of requests that have an id (default one million, some 200 bytes each), for
    /// the `dedupe` time of their rules. Expired answers count until they are dropped. At the cap, each new answer
    /// replaces the answer under the same lock that expires first; a lock covers an arbitrary part of all answers. The
    /// request of the replaced answer is decided again if it is repeated.
    #[must_use]
    pub fn with_max_remembered_answers(mut self, most: usize) -> Self {
        self.answers = DedupeCache::new(most);
        self
    }

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
