//! Answers to requests that no rule matches: see [`OnNoRule`](crate::OnNoRule).

use super::{Answer, Standing};
use crate::request::Request;

impl Answer<'_> {
    /// Refuses the request if it has no limiter because no rule matches it, and the policy refuses such requests.
    #[cfg(feature = "redis")]
    pub(crate) fn refused_without_rule(mut self, request: &Request<'_>) -> Self {
        let policy = self.rules.policy().filter(|_| self.replies.is_empty());
        if policy.is_some_and(|policy| policy.refuses_without_rule(request)) {
            self.allowed = false;
            self.standing = Standing::Exact;
        }
        self
    }

    /// True if the request is refused because no rule matches it ([`OnNoRule`](crate::OnNoRule)).
    #[must_use]
    pub fn is_no_rule(&self) -> bool {
        !self.allowed && self.replies.is_empty() && self.standing == Standing::Exact
    }

    /// Returns whether no rule of the policy that decided matches the request, which was admitted or
    /// [refused](Answer::is_no_rule) for that.
    #[must_use]
    pub fn matches_nothing(&self, request: &Request<'_>) -> bool {
        self.replies.is_empty()
            && self.rules.policy().is_some_and(|policy| !policy.matches(request))
    }
}
