//! Looks at limiters in a store. A look takes nothing.

use super::{InForce, SharedGate};
use crate::answer::Answer;
use crate::request::{Origin, Request};
use crate::store::{KeyAsk, StepArgs, Store, Verb};

impl<S: Store> SharedGate<S> {
    /// Returns the answer of [`SharedGate::check`] as if no request waited, and takes nothing.
    #[must_use]
    pub async fn peek<'r>(&self, request: impl Into<Request<'r>>) -> Answer<'_> {
        self.peek_request(&request.into()).await
    }

    /// Looks; compiled once, for any form of a request.
    async fn peek_request(&self, request: &Request<'_>) -> Answer<'_> {
        let in_force = self.newest();
        let (asks, origin) = (self.asks(&in_force, request), request.origin());
        let answer = match self.banned(&in_force, &asks, origin).await {
            Some(answer) => answer,
            None => self.look_at(&in_force, &asks, origin).await,
        };
        answer.refused_without_rule(request)
    }

    /// Looks at limiters whose keys may be banned.
    pub(super) async fn look_at(
        &self,
        in_force: &InForce<S>,
        asks: &[KeyAsk],
        origin: Origin<'_>,
    ) -> Answer<'_> {
        let args = StepArgs::new(Verb::Peek, origin, in_force.tower.host().deadline());
        self.answer(in_force, asks, in_force.tower.step(asks, args).await)
    }

    /// Returns how many requests of one unit would be admitted now, one after another: the `remaining` of the
    /// tightest limit of the request, regardless of its id, or `u64::MAX` if no limit matches. While the store is
    /// unavailable it follows [`SharedGate::peek`]: a rule that is open limits nothing.
    ///
    /// ```no_run
    /// use tidegate::{Descriptor, Request, SharedGate};
    ///
    /// async fn left(gate: &SharedGate, user: &str) -> u64 {
    ///     let entries = [("user", user)];
    ///     gate.available(&Request::new("default", &[Descriptor::new(&entries)])).await
    /// }
    /// ```
    pub async fn available<'r>(&self, request: impl Into<Request<'r>>) -> u64 {
        let request = &request.into();
        self.peek(&request.without_id()).await.least(|decision| decision.remaining)
    }
}
