//! Answers of a store under one policy. Each answer keeps that policy.

use std::sync::Arc;

use tokio::time::Instant;

use super::KeyAsk;
use super::no_space::is_opened;
use super::store::{StepArgs, Store};
use crate::answer::{Answer, Lack, Rules, Standing};
use crate::frontend;
use crate::inline_list::InlineList;
use crate::step::{Decided, Done};
use crate::store::memory::Kept;
use crate::store::redis::StoreError;
use crate::store::redis::script;

impl Store {
    /// Makes the answer from the store's reply.
    pub(super) fn answer_of<'g>(&self, asks: &[KeyAsk], done: script::Decided) -> Answer<'g> {
        let decided =
            done.decisions.into_iter().zip(&done.seen).map(|(decision, seen)| seen.reply(decision));
        let decisions = decided.collect();
        let (allowed, at, repeated) = (done.allowed, done.now, done.repeated);
        self.exact(asks, Done::<Decided> { allowed, at, repeated, decisions })
    }

    /// Makes the answer from the replies of the limiters themselves, and of keys that have no limiter because the
    /// store has no memory: it is degraded if a rule is open to such a key.
    pub(super) fn exact<'g, D: Into<Option<Decided>>>(
        &self,
        asks: &[KeyAsk],
        done: Done<D>,
    ) -> Answer<'g> {
        let Done { allowed, at, repeated, decisions } = done;
        let decisions: InlineList<Option<Decided>> =
            decisions.into_iter().map(Into::into).collect();
        let standing = match decisions.iter().flatten().any(is_opened) {
            true => Standing::Degraded(Lack::Unavailable),
            false => Standing::Exact,
        };
        let mut answer =
            self.answer_with(asks, Done { allowed, at, repeated, decisions }, standing);
        // A limiter with leases knows of no open reservation, so none is closed there when its rule has leases no more.
        let is_leased =
            |rule, variant| !self.is_looked_up(rule) && self.leases.terms(rule, variant).is_some();
        for reply in &mut answer.replies {
            reply.reserves &= !is_leased(reply.number, reply.variant);
        }
        answer
    }

    /// Makes the answer from decisions taken in place of the limiters.
    pub(super) fn answer_with<'g, D: Into<Option<Decided>>>(
        &self,
        asks: &[KeyAsk],
        done: Done<D>,
        standing: Standing,
    ) -> Answer<'g> {
        let rules = Rules::Kept(Kept::from(Arc::clone(&self.generation)));
        frontend::answer(rules, asks, done, standing)
    }

    /// Looks or settles by a deadline; over several slots, in a step of its own for each.
    ///
    /// # Errors
    /// The store did not reply.
    pub(super) async fn answer_until<'g>(
        &self,
        asks: &[KeyAsk],
        args: StepArgs<'_>,
        deadline: Instant,
    ) -> Result<Answer<'g>, StoreError> {
        let parts = self.parts(asks);
        if !parts.is_empty() {
            return Ok(self.exact(asks, self.each_slot(asks, &parts, args, deadline).await?));
        }
        Ok(self.answer_of(asks, self.step_until(asks, args, deadline).await?))
    }
}
