//! Requests that are asked again under their id: see [`Request::with_id`].

use super::Gate;
use crate::clock::Clock;
use crate::dedupe::{self, DedupeCache, IdempotencyKey};
use crate::request::Request;
use crate::step::{Done, Met};
use crate::store::memory::{Generation, Moved};

impl<C: Clock> Gate<C> {
    /// Remembers at most `most` answers of requests that have an id (default one million, some 200
    /// bytes each), for the `dedupe` of their rules. None is forgotten before its time while there are no
    /// more than that, those whose time is over and that were not let go of yet included. Beyond it one
    /// is forgotten for each that comes: of those that share its lock, an arbitrary part of all, the one
    /// whose time ends first. Its request, asked again, is decided anew.
    #[must_use]
    pub fn with_max_remembered_answers(mut self, most: usize) -> Self {
        self.answers = DedupeCache::new(most);
        self
    }

    /// Answers remembered now, those that are about to be forgotten included.
    #[must_use]
    pub fn remembered_answers(&self) -> usize {
        self.answers.len()
    }

    /// Answers forgotten so far before their time, for want of room.
    #[must_use]
    pub fn forgotten_answers(&self) -> u64 {
        self.answers.forgotten()
    }

    /// How the request is known if it is asked again.
    #[inline]
    pub(super) fn once(
        &self,
        generation: &Generation,
        request: &Request<'_>,
        met: &[Met],
    ) -> Option<IdempotencyKey> {
        dedupe::of(&generation.policy, &self.seed, request.id()?, met)
    }

    /// What needs no limiter: the answer that the request got before, or a ban.
    #[inline]
    pub(super) fn without_asking(
        &self,
        generation: &Generation,
        met: &[Met],
        once: Option<IdempotencyKey>,
        clock: &impl Clock,
    ) -> Result<Option<Done>, Moved> {
        match once.and_then(|once| self.answers.recall(once, met, clock)) {
            Some(repeated) => Ok(Some(repeated)),
            None => self.banned(generation, met, clock),
        }
    }
}
