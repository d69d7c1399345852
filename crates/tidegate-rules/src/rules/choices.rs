//! The choices of a rule and of a policy: the treatment of a request above a limit, of a key for which there is no
//! room, of a store that is away and of a request that no rule matches, and the time at which usage is known.

use std::collections::BTreeMap;
use std::time::Duration;

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

/// The largest `max_waiters`.
pub const MOST_MAX_WAITERS: usize = 1_000_000;
/// The values of `max_waiters`, in messages.
pub const MAX_WAITERS_EXPECTED: &str = "a whole number from 1 to 1000000";
/// The values of `wait` in `on_excess`, in messages.
pub const WAIT_EXPECTED: &str = "a length of time such as \"2s\", from 1us to 366d";

/// The treatment of a request that exceeds a rule, if the request is asked with
/// `Gate::acquire`, or of a call of `Limiter::acquire`.
///
/// A [`Duration`] is a wait of that length among at most 1,024 waiters, also for
/// [`RuleSpec::on_excess`](super::RuleSpec::on_excess).
///
/// ```
/// use std::time::Duration;
/// use tidegate::{OnExcess, RuleSpec};
///
/// let patient = OnExcess::Wait { wait: Duration::from_secs(2), max_waiters: 100 };
/// let rule = RuleSpec::new("per-user", "10/s").key(["user"]).on_excess(patient);
/// let brief = RuleSpec::new("all", "10/s").on_excess(Duration::from_secs(2));
/// assert_eq!(brief.on_excess, OnExcess::Wait { wait: Duration::from_secs(2), max_waiters: 1_024 });
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum OnExcess {
    /// The request is refused.
    #[default]
    Reject,
    /// The request waits: first come, first served, for each limiter of the rule.
    Wait {
        /// The longest wait, from the request's arrival: 1 us to 366 days. A request that cannot be admitted by then
        /// is refused immediately.
        wait: Duration,
        /// The maximum number of waiters for one limiter, from 1 to a million; further requests are refused
        /// immediately.
        max_waiters: usize,
    },
}

impl From<Duration> for OnExcess {
    fn from(wait: Duration) -> Self {
        Self::Wait { wait, max_waiters: 1_024 }
    }
}

/// The treatment of a request that no rule matches.
///
/// Rules in shadow mode, rules that are switched off, and rules without a limit match like any other. A request of
/// several descriptors is matched if one of them is.
///
/// A rule without `key` and `when` matches every request of its domain, so that next to it this setting refuses none.
/// Such a rule should require an entry: `when("user", "*")` matches requests with a user alone.
///
/// ```
/// use tidegate::{Gate, OnNoRule, Policy, RuleSpec};
///
/// let rule = RuleSpec::new("per-channel", "100/s").in_domain("pay").key(["channel"]);
/// let policy = Policy::new(vec![rule])?.with_on_no_rule_in("pay", OnNoRule::Refuse);
/// let gate = Gate::new(policy);
/// assert!(gate.check(("pay", &[("channel", "alipay")])).is_allowed());
///
/// let misspelt = gate.check(("pay", &[("chanel", "alipay")]));
/// assert!(!misspelt.is_allowed() && misspelt.is_no_rule());
/// assert!(gate.check(("elsewhere", &[("chanel", "alipay")])).is_allowed());
///
/// // A limit for all users together, which a request without a user does not match.
/// let everyone = RuleSpec::new("everyone", "1000/s").when("user", "*");
/// let gate = Gate::new(Policy::new(vec![everyone])?.with_on_no_rule(OnNoRule::Refuse));
/// assert!(gate.check(("default", &[("user", "ada")])).is_allowed());
/// assert!(gate.check(("default", &[("ip", "192.0.2.1")])).is_no_rule());
/// # Ok::<(), tidegate::PolicyErrors>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum OnNoRule {
    /// The request is admitted.
    #[default]
    Admit,
    /// The request is refused.
    Refuse,
}

/// The treatment in each domain.
#[derive(Clone, Debug, Default)]
pub(super) struct OnNoRules {
    pub(super) elsewhere: OnNoRule,
    pub(super) by_domain: BTreeMap<String, OnNoRule>,
}

impl OnNoRules {
    pub(super) fn of(&self, domain: &str) -> OnNoRule {
        self.by_domain.get(domain).copied().unwrap_or(self.elsewhere)
    }

    /// Returns whether no request is refused.
    pub(super) fn admit_all(&self) -> bool {
        self.elsewhere == OnNoRule::Admit && self.by_domain.is_empty()
    }
}
