//! Requests that are asked again under their id: see [`Request::with_id`].

use super::{Gate, Met};
use crate::clock::Clock;
use crate::once::{self, Answers, Once};
use crate::request::Request;
use crate::store::memory::Done;

impl<C: Clock> Gate<C> {
    /// Remembers at most `most` answers of requests that have an id (default one million, some 200
    /// bytes each), for the `dedupe` of their rules. Beyond that the one that would be forgotten first
    /// is forgotten at once: its request, asked again, is decided anew.
    #[must_use]
    pub fn with_max_remembered(mut self, most: usize) -> Self {
        self.answers = Answers::new(most);
        self
    }

    /// Answers remembered now, those that are about to be forgotten included.
    #[must_use]
    pub fn remembered(&self) -> usize {
        self.answers.len()
    }

    /// Answers forgotten so far before their time, for want of room.
    #[must_use]
    pub fn forgotten(&self) -> u64 {
        self.answers.forgotten()
    }

    /// How the request is known if it is asked again.
    #[inline]
    pub(crate) fn once(&self, request: &Request<'_>, met: &[Met]) -> Option<Once> {
        once::of(&self.policy, &self.seed, request.id()?, met)
    }

    /// What needs no limiter: the answer that the request got before, or a ban.
    #[inline]
    pub(crate) fn without_asking(
        &self,
        met: &[Met],
        once: Option<Once>,
        clock: &impl Clock,
    ) -> Option<Done> {
        let repeated = once.and_then(|once| self.answers.recall(once, clock));
        repeated.or_else(|| self.banned(met, clock))
    }
}
