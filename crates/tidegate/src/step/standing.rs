//! The standing of a decision: made by the limiters, or by the rules without the store.

/// The origin of the decisions of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(feature = "redis"), expect(dead_code, reason = "only a shared store can be away"))]
pub(crate) enum Standing {
    /// The limiters decided.
    Exact,
    /// The rules decided, without the store.
    Degraded(Lack),
    /// The rules decided, and only the missing store can refuse the request.
    Unavailable(Lack),
}

/// Why the store did not decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(not(feature = "redis"), expect(dead_code, reason = "only a shared store can be away"))]
pub(crate) enum Lack {
    /// The store does not answer.
    Unavailable,
    /// The store answers, but cannot decide this request in time.
    Overloaded,
}

#[cfg(feature = "redis")]
impl Standing {
    /// Why the store did not decide, if it did not.
    pub(crate) const fn lack(self) -> Option<Lack> {
        match self {
            Self::Exact => None,
            Self::Degraded(lack) | Self::Unavailable(lack) => Some(lack),
        }
    }
}
