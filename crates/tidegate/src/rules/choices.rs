//! The choices of a rule: the treatment of a key for which there is no room and of a store that is away, and the time at
//! which usage is known.

/// The treatment of a key for which there is no room.
///
/// There is no room if the limiters have reached their cap, or states larger than a word have reached theirs in
/// bytes, and no idle limiter was found. The search is bounded: each request looks at a few dozen limiters, and
/// starts where the previous search ended. So a key may find no room for a moment although a limiter is idle, until the
/// searches have looked at every limiter. If states grow (`sliding_log`), no new limiter may use the last eighth of the
/// bytes. An existing limiter without memory for one more unit keeps its memory and uses coarser times: units taken
/// then count for as long as the last of them. It may admit later than otherwise, but never earlier, and such answers
/// report `overflow` as well.
///
/// A peek, or a cost of 0, reports the decision that a request for such a key would get. A refund gives nothing back to
/// the overflow limiter: the key may have taken nothing there, or long ago, and the refund would give the other keys
/// more than the limit. A reservation records where it was taken, so settling it does give back there.
///
/// ```
/// use tidegate::{OnFull, RuleSpec};
///
/// let per_user = RuleSpec::new("per-user", "10/s").key(["user"]).max_keys(1_000_000, OnFull::Refuse);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum OnFull {
    /// The key shares one limiter of the rule with all others without room.
    #[default]
    Share,
    /// The key is refused.
    Refuse,
}

/// The way in which a rule's limiters learn the usage of a request.
///
/// ```
/// use tidegate::{Descriptor, Gate, Policy, RuleSpec, Usage};
///
/// let tokens = RuleSpec::new("tokens", "1000/h").key(["user"]).usage(Usage::Reported);
/// let gate = Gate::new(Policy::new(vec![tokens])?);
/// let ada = Descriptor::new(&[("user", "ada")]);
/// assert!(gate.admits(ada.cost(0)), "a question before the work");
/// let _ = gate.check(ada.cost(1300)); // what it did cost
/// assert!(!gate.admits(ada.cost(0)));
/// # Ok::<(), tidegate::PolicyErrors>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Usage {
    /// A request has a cost, and takes it if it is admitted.
    #[default]
    Requested,
    /// Usage is reported afterwards. A cost of 0 asks whether one unit would be admitted, and takes nothing. A cost
    /// of 1 or more is taken regardless of the limit, even into debt; the answer reports the limiter after that:
    /// allowed if one unit more would be admitted, else denied until it would. No other rule refuses a request that
    /// reports usage to an enforced rule, and the request takes from all of its limiters.
    Reported,
}

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
