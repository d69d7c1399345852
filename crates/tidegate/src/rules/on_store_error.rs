//! The answer of a rule while a shared store does not decide.

/// The behavior of a rule while a shared store does not decide. In memory it has no effect.
///
/// A store is *unavailable* if it does not answer. It is *overloaded* if it answers, but cannot decide a request in
/// time: load must not open a limit, so `Open` then acts as `Local`.
///
/// ```
/// use tidegate::{OnStoreError, RuleSpec};
///
/// let payments = RuleSpec::new("payments", "10/s").key(["user"]).on_store_error(OnStoreError::Closed);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum OnStoreError {
    /// Admits while the store is unavailable, and acts as `Local` while the store is overloaded.
    Open,
    /// Denies; the answer says that no decision can be made, not that the caller asked too often.
    Closed,
    /// Decides in process, by this node's share of the limit.
    #[default]
    Local,
}
