//! Looks at limiters in a store. A look takes nothing.

use super::{InForce, SharedGate};
use crate::answer::Answer;
use crate::request::{Origin, Request};
use crate::store::{KeyAsk, StepArgs, Store, Verb};

impl<S: Store> SharedGate<S> {
    /// Returns the answer of [`SharedGate::check`] as if nobody waited, and takes nothing. While the store is
    /// unavailable a rule that is open limits nothing.
    ///
    /// ```no_run
    /// use tidegate::SharedGate;
    ///
    /// /// How many requests of one unit would be admitted now; `None` if no rule limits them.
    /// async fn left(gate: &SharedGate, user: &str) -> Option<u64> {
    ///     gate.peek(&[("user", user)]).await.remaining()
    /// }
    /// ```
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
}
