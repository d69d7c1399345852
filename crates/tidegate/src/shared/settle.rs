//! Giving back, settling and resetting over a store.

use std::slice;

use super::SharedGate;
use super::plans::ToSettle;
use super::store::Asked;
use crate::answer::Answer;
use crate::request::Request;
use crate::store::redis::StoreError;
use crate::store::redis::script::Call;

impl SharedGate {
    /// Gives the request's cost back to every limiter it meets, to no fewer than none used; the answer
    /// tells how they stand then. In a cluster each slot is a step of its own.
    ///
    /// # Errors
    /// The store gave no answer. Whether anything was given back is known only where nothing was sent.
    pub async fn refund(&self, request: &Request<'_>) -> Result<Answer<'_>, StoreError> {
        self.settle_all(ToSettle::of(self.met_to_settle(request, 0)), false).await
    }

    /// Ends a request that was admitted with its costs reserved: each of its descriptors turned out to
    /// cost `actual`, as [`Gate::settle`](crate::Gate::settle) does it.
    ///
    /// # Errors
    /// The store gave no answer. Whether anything was settled is known only where nothing was sent.
    pub async fn settle(
        &self,
        request: &Request<'_>,
        actual: u64,
    ) -> Result<Answer<'_>, StoreError> {
        self.settle_all(ToSettle::of(self.met_to_settle(request, actual)), true).await
    }

    /// Settles; what was `reserved` goes back to limiters that are unlimited by now as well.
    pub(super) async fn settle_all(
        &self,
        all: ToSettle,
        reserved: bool,
    ) -> Result<Answer<'_>, StoreError> {
        let deadline = self.store.client.deadline();
        let answer = self.step_until(&all.met, Asked::settle(&all.actual), deadline).await?;
        self.fallback.forget_denials(&all.met);
        self.wake(&all.met);
        if reserved && !all.unlimited.is_empty() {
            let given_back = self.store.give_back(&all.unlimited, deadline).await;
            given_back.map_err(|error| if all.met.is_empty() { error } else { error.in_part() })?;
            all.unlimited.iter().for_each(|(_, met)| self.wake(slice::from_ref(met)));
        }
        Ok(answer)
    }

    /// Makes every limiter the request meets as good as new, in one atomic step, or in a cluster one for
    /// each slot; answers how many it meets. Bans of their keys in this process are lifted before. Answers that are
    /// remembered stay so: see [`Request::with_id`].
    ///
    /// # Errors
    /// The store gave no answer. Whether they were reset is known only where nothing was sent.
    pub async fn reset(&self, request: &Request<'_>) -> Result<usize, StoreError> {
        let met = self.met_at_all(request);
        self.lift_bans(&met);
        self.fallback.forget(&met);
        let parts = self.store.parts(&met);
        let mut slots: Vec<Vec<_>> = parts.iter().map(|part| part.keys(&met)).collect();
        if slots.is_empty() && !met.is_empty() {
            slots.push(met.iter().map(|met| met.fingerprint.clone()).collect());
        }
        let deadline = self.store.client.deadline();
        for keys in slots {
            let (script, keys) = Call::reset(keys);
            self.store.client.run(&script, &keys, &[], deadline).await?;
        }
        self.wake(&met);
        Ok(met.len())
    }
}
