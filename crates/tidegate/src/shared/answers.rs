//! Answers of a store under one policy, which keep that policy.

use std::sync::Arc;

use tokio::time::Instant;

use super::KeyMet;
use super::store::{Asked, Store};
use crate::answer::{Answer, Rules, Standing};
use crate::frontend;
use crate::step::{Decided, Done};
use crate::store::memory::Kept;
use crate::store::redis::StoreError;
use crate::store::redis::script;

impl Store {
    /// What the store replied.
    pub(super) fn answer_of<'g>(&self, met: &[KeyMet], done: script::Decided) -> Answer<'g> {
        let decided =
            done.decisions.into_iter().zip(&done.seen).map(|(decision, seen)| seen.reply(decision));
        let decisions = decided.collect();
        let (allowed, at, repeated) = (done.allowed, done.now, done.repeated);
        self.exact(met, Done::<Decided> { allowed, at, repeated, decisions })
    }

    /// What the limiters themselves replied.
    pub(super) fn exact<'g, D: Into<Option<Decided>>>(
        &self,
        met: &[KeyMet],
        done: Done<D>,
    ) -> Answer<'g> {
        self.answer_as(met, done, Standing::Exact)
    }

    /// What was decided by whatever stands for the limiters.
    pub(super) fn answer_as<'g, D: Into<Option<Decided>>>(
        &self,
        met: &[KeyMet],
        done: Done<D>,
        standing: Standing,
    ) -> Answer<'g> {
        let rules = Rules::Kept(Kept::from(Arc::clone(&self.generation)));
        frontend::answer(rules, met, done, standing)
    }

    /// Looks, or settles, by a deadline: in several slots, each slot for itself.
    ///
    /// # Errors
    /// The store gave no answer.
    pub(super) async fn answer_until<'g>(
        &self,
        met: &[KeyMet],
        asked: Asked<'_>,
        deadline: Instant,
    ) -> Result<Answer<'g>, StoreError> {
        let parts = self.parts(met);
        if !parts.is_empty() {
            return Ok(self.exact(met, self.each_slot(met, &parts, asked, deadline).await?));
        }
        Ok(self.answer_of(met, self.step_until(met, asked, deadline).await?))
    }
}
