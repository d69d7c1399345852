//! A rule as it is written; nothing is checked until a policy is built from it.

use std::time::Duration;
use tidegate_core::{RuleErrors, Spec};

use crate::request::Request;
use crate::rules::{LeaseSpec, Near, OnExcess, OnFull, OnStoreError, OverrideSpec, Usage};

/// The default `max_keys`.
pub(crate) const DEFAULT_MAX_KEYS: usize = 1_000_000;
/// The largest `max_keys`.
pub const MOST_MAX_KEYS: usize = 1_000_000_000;
/// The values of `max_keys`, in messages.
pub const MAX_KEYS_EXPECTED: &str = "a whole number from 1 to 1000000000";
/// The shortest and the longest `dedupe` and `max_life`: a millisecond, and a day.
pub(crate) const UP_TO_A_DAY: std::ops::RangeInclusive<Duration> =
    Duration::from_millis(1)..=Duration::from_secs(86_400);
/// The values of `dedupe` and `max_life`, in messages.
pub const UP_TO_A_DAY_EXPECTED: &str = "a length of time such as \"10s\", from 1ms to 1d";
/// The default of `max_memory`, the largest number of bytes of a rule's states: 1 GiB.
const DEFAULT_MAX_MEMORY: u64 = 1 << 30;

/// The effect of a rule's decision on a request.
///
/// ```
/// use tidegate::{Gate, Mode, Policy, RuleSpec};
///
/// let tried = RuleSpec::new("tried", "1/h").mode(Mode::Shadow);
/// let gate = Gate::new(Policy::new(vec![tried])?);
/// assert!(gate.admits(&[("user", "ada")]));
/// let second = gate.check(&[("user", "ada")]);
/// assert!(second.is_allowed());
/// assert!(second.shadow().all(|matched| !matched.decision().is_allowed()));
/// # Ok::<(), tidegate::PolicyErrors>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Mode {
    /// The rule refuses requests that do not fit.
    #[default]
    Enforce,
    /// The rule decides and counts, but never refuses: for trying a rule next to live rules.
    Shadow,
    /// The rule is ignored.
    Off,
}

/// A rule: the requests that it matches, the keys that it keeps a limiter for, and the values of the limiter.
///
/// ```
/// use tidegate::{AlgorithmKind, Mode, Policy, RuleSpec, Spec};
///
/// let per_user = Spec::per_minute(100).algorithm(AlgorithmKind::SlidingWindow);
/// let transfers = RuleSpec::new("transfers", per_user)
///     .in_domain("pay")
///     .when("biz_type", "transfer")
///     .key(["user"]);
/// let tried = RuleSpec::new("everyone", "1000/s").in_domain("pay").mode(Mode::Shadow);
/// let policy = Policy::new(vec![transfers, tried])?;
/// assert_eq!(policy.rules().len(), 2);
/// # Ok::<(), tidegate::PolicyErrors>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RuleSpec {
    /// `[a-z0-9._-]{1,64}`, unique in its domain. With the domain it is the identity of the state, so a renamed rule
    /// starts fresh.
    pub name: String,
    /// The domain it belongs to.
    pub domain: String,
    /// Entries a descriptor must have; a value may end in `*`.
    pub when: Vec<(String, String)>,
    /// Entries whose values make up the key: one limiter for each combination; without entries, one for all.
    pub key: Vec<String>,
    /// True if a descriptor must have no other entries, and these in the order `when`, then `key`.
    pub exact: bool,
    /// Enforce, shadow or off.
    pub mode: Mode,
    /// The algorithm of its limiters, with its values.
    pub spec: Spec,
    /// The error of a text in place of `spec`.
    pub(crate) unread: Option<Box<RuleErrors>>,
    /// The maximum number of limiters kept, from 1 to 10^9: a hard cap (default one million). If states do not fit a
    /// word each, the rule's `max_memory` (default 1 GiB) is another cap.
    pub max_keys: Option<usize>,
    /// The treatment of a key for which there is no room: it shares, or is refused.
    pub on_full: OnFull,
    /// The treatment of a request that exceeds the rule: it is rejected, or waits.
    pub on_excess: OnExcess,
    /// The time at which requests know their cost: before they run, or afterwards, by a report.
    pub usage: Usage,
    /// Its behavior while a shared store does not decide.
    pub on_store_error: OnStoreError,
    /// The time, from 1 ms to a day, for which the answer to an admitted request with an id ([`Request::with_id`]) is
    /// remembered. A repeated request gets that answer and takes nothing. `None` remembers nothing.
    pub dedupe: Option<Duration>,
    /// The longest life of a reservation over the network that takes units of this rule, from 1 ms to a day; by default
    /// [`RuleSpec::USUAL_MAX_LIFE`]. A gate in process has no reservations with a life.
    pub max_life: Option<Duration>,
    /// The entry, one of `key`, whose value alone chooses the cluster slot of the limiters. Rules that match one
    /// request are decided in one step if all have the same tag.
    pub hash_tag: Option<String>,
    /// True if the rule may take units before rules of another slot have decided, and give them back if those refuse.
    /// In a cluster, rules that match one request in different slots are invalid unless all of them say so. Without a
    /// cluster it has no effect.
    pub across_slots: bool,
    /// The leases that a node takes from a shared store, if any.
    pub lease: Option<LeaseSpec>,
    /// True if the limit is split among the nodes of a shared store; in place of `lease`. Each node takes its share of
    /// the units left and renews it every second or two, so that all nodes together never admit more than the limit. A
    /// gate in memory is the only node, and has the whole limit.
    pub split: bool,
    /// True if values that a request supplies ([`RequestLimit`](crate::request::RequestLimit)) apply in place of the rule's own; by
    /// default they are ignored. The rule's own values then apply to requests without any. All keys share one
    /// overflow limiter under the rule's own values, even keys with an override.
    pub limit_from_request: bool,
    /// The fraction of the limit in use from which an admitted answer is marked (`Answer::is_near`) as near its
    /// end; by default none is.
    pub near: Option<Near>,
    /// True if reports for operators show fingerprints of its keys in place of the keys, because these are personal
    /// data. Decisions are the same, and so are answers, which have no keys. Logs at the level `trace` show all entries.
    pub hide_keys: bool,
    /// Other values for some keys; the first override that matches applies.
    pub overrides: Vec<OverrideSpec>,
}

impl RuleSpec {
    /// The longest life of a reservation by default: ten minutes.
    pub const USUAL_MAX_LIFE: Duration = Duration::from_secs(600);

    /// Creates a rule of the default domain that matches every descriptor and keeps one limiter for all, of a [`Spec`] or
    /// of a rate such as `"50/s"`. [`Policy::new`](super::Policy::new) returns the error of another text.
    ///
    /// ```
    /// use tidegate::{Policy, RuleSpec};
    ///
    /// assert!(Policy::new(vec![RuleSpec::new("per-user", "10/s").key(["user"])]).is_ok());
    /// let wrong = Policy::new(vec![RuleSpec::new("per-user", "10 a second")]).unwrap_err();
    /// assert!(wrong.to_string().contains("is not a rate"), "{wrong}");
    /// ```
    #[must_use]
    pub fn new(name: impl Into<String>, spec: impl TryInto<Spec, Error: Into<RuleErrors>>) -> Self {
        let (spec, unread) = match spec.try_into() {
            Ok(spec) => (spec, None),
            // These values never decide: no policy is made of a rule that was not read.
            Err(error) => (Spec::per_second(0), Some(Box::new(error.into()))),
        };
        Self {
            unread,
            name: name.into(),
            domain: Request::DEFAULT_DOMAIN.to_owned(),
            when: Vec::new(),
            key: Vec::new(),
            exact: false,
            mode: Mode::Enforce,
            spec,
            max_keys: None,
            on_full: OnFull::default(),
            on_excess: OnExcess::Reject,
            usage: Usage::Requested,
            on_store_error: OnStoreError::default(),
            dedupe: None,
            max_life: None,
            hash_tag: None,
            across_slots: false,
            lease: None,
            split: false,
            limit_from_request: false,
            near: None,
            hide_keys: false,
            overrides: Vec::new(),
        }
    }

    /// Puts it into another domain.
    #[must_use]
    pub fn in_domain(mut self, domain: impl Into<String>) -> Self {
        self.domain = domain.into();
        self
    }

    /// Requires an entry; `"api/*"` matches every value with the prefix `api/`, and `"*"` any value of an entry that the
    /// request has.
    #[must_use]
    pub fn when(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.when.push((name.into(), value.into()));
        self
    }

    /// Keeps one limiter for each combination of these entries' values. The names are a list, also a single name:
    /// `.key(["ip"])`.
    #[must_use]
    pub fn key<N: Into<String>>(mut self, names: impl IntoIterator<Item = N>) -> Self {
        self.key = names.into_iter().map(Into::into).collect();
        self
    }

    /// Matches only descriptors that have no other entries, in the order `when`, then `key`.
    #[must_use]
    pub const fn exact(mut self) -> Self {
        self.exact = true;
        self
    }

    /// Sets the mode.
    #[must_use]
    pub const fn mode(mut self, mode: Mode) -> Self {
        self.mode = mode;
        self
    }

    /// Keeps at most that many limiters; `on_full` decides what happens to further keys.
    #[must_use]
    pub const fn max_keys(mut self, max_keys: usize, on_full: OnFull) -> Self {
        self.max_keys = Some(max_keys);
        self.on_full = on_full;
        self
    }

    /// Sets what happens to a request that exceeds the rule: an [`OnExcess`], or the length of a wait.
    #[must_use]
    pub fn on_excess(mut self, on_excess: impl Into<OnExcess>) -> Self {
        self.on_excess = on_excess.into();
        self
    }

    /// Sets how its limiters learn the usage of a request.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tidegate::{AlgorithmKind, Descriptor, Gate, Policy, Request, RuleSpec, Spec, Usage};
    ///
    /// let spec = Spec::new(AlgorithmKind::SlidingLog, 1_000, Duration::from_secs(3_600));
    /// let tokens = RuleSpec::new("tokens", spec).usage(Usage::Reported);
    /// let gate = Gate::new(Policy::new(vec![tokens])?);
    /// let admits = |cost| {
    ///     let descriptors = [Descriptor::new(&[]).cost(cost)];
    ///     gate.check(&Request::new("default", &descriptors)).is_allowed()
    /// };
    /// assert!(admits(0)); // before the work
    /// assert!(admits(990)); // after it: the usage
    /// assert!(admits(0));
    /// assert!(!admits(990)); // taken nevertheless: the limiter holds 1,980 of 1,000
    /// assert!(!admits(0));
    /// # Ok::<(), tidegate::PolicyErrors>(())
    /// ```
    #[must_use]
    pub const fn usage(mut self, usage: Usage) -> Self {
        self.usage = usage;
        self
    }

    /// Sets what it does while a shared store does not decide.
    #[must_use]
    pub const fn on_store_error(mut self, on_store_error: OnStoreError) -> Self {
        self.on_store_error = on_store_error;
        self
    }

    /// Sets how long the answer to an admitted request is remembered under its id.
    #[must_use]
    pub const fn dedupe(mut self, time: Duration) -> Self {
        self.dedupe = Some(time);
        self
    }

    /// Sets the longest life of a reservation that takes units of this rule.
    #[must_use]
    pub const fn max_life(mut self, life: Duration) -> Self {
        self.max_life = Some(life);
        self
    }

    /// Names the entry of its key that chooses the slot of a cluster.
    #[must_use]
    pub fn hash_tag(mut self, name: impl Into<String>) -> Self {
        self.hash_tag = Some(name.into());
        self
    }

    /// Lets the rule take units before rules of another slot have decided, and give them back if those refuse.
    #[must_use]
    pub const fn across_slots(mut self) -> Self {
        self.across_slots = true;
        self
    }

    /// Lets each node lease units from a shared store.
    #[must_use]
    pub const fn lease(mut self, lease: LeaseSpec) -> Self {
        self.lease = Some(lease);
        self
    }

    /// Splits the limit among the nodes of a shared store ([`RuleSpec::split`](field@RuleSpec::split)).
    #[must_use]
    pub const fn split(mut self) -> Self {
        self.split = true;
        self
    }

    /// Lets requests supply values that apply in place of its own.
    #[must_use]
    pub const fn limit_from_request(mut self) -> Self {
        self.limit_from_request = true;
        self
    }

    /// Marks an admitted answer from this fraction of the limit on.
    #[must_use]
    pub const fn near(mut self, near: Near) -> Self {
        self.near = Some(near);
        self
    }

    /// Hides its keys from reports for operators.
    #[must_use]
    pub const fn hide_keys(mut self) -> Self {
        self.hide_keys = true;
        self
    }

    /// Adds an override after the existing ones.
    #[must_use]
    pub fn with_override(mut self, other: OverrideSpec) -> Self {
        self.overrides.push(other);
        self
    }
}

/// The maximum number of limiters of a rule, from 1 to 10^9.
pub fn most_keys(rule: &RuleSpec) -> usize {
    rule.max_keys.unwrap_or(DEFAULT_MAX_KEYS).clamp(1, MOST_MAX_KEYS)
}

/// The maximum number of bytes of states larger than a word before new limiters of a rule are refused.
pub fn most_bytes(rule: &RuleSpec) -> usize {
    let most = rule.spec.max_memory.unwrap_or(DEFAULT_MAX_MEMORY);
    usize::try_from(most).unwrap_or(usize::MAX)
}
