//! A rule as it is written; nothing is checked until a policy is built from it.

use tidegate_core::{Limit, Micros, Spec};

use crate::request::Request;
use crate::rules::OnFull;

/// Most limiters of a rule unless it says otherwise.
pub(crate) const DEFAULT_MAX_KEYS: usize = 1_000_000;
/// The largest `max_keys`.
pub(crate) const MOST_MAX_KEYS: usize = 1_000_000_000;
/// What `max_keys` may be.
pub(crate) const MAX_KEYS_EXPECTED: &str = "a whole number from 1 to 1000000000";
/// The largest `max_waiters`.
pub(crate) const MOST_MAX_WAITERS: usize = 1_000_000;
/// What `max_waiters` may be.
pub(crate) const MAX_WAITERS_EXPECTED: &str = "a whole number from 1 to 1000000";
/// What the `wait` of `on_excess` may be.
pub(crate) const WAIT_EXPECTED: &str = "a length of time such as \"2s\", from 1us to 366d";
/// The shortest and the longest `dedupe`: a millisecond, and a day.
pub(crate) const DEDUPE_RANGE: std::ops::RangeInclusive<Micros> =
    Micros::from_millis(1)..=Micros::from_secs(86_400);
/// What `dedupe` may be.
pub(crate) const DEDUPE_EXPECTED: &str = "a length of time such as \"10s\", from 1ms to 1d";
/// Most bytes of a rule's states unless it says otherwise: 1 GiB.
const DEFAULT_MAX_MEMORY: u64 = 1 << 30;

/// What a rule's decision does to a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Mode {
    /// It refuses what does not fit.
    #[default]
    Enforce,
    /// It decides and counts, and never refuses: for trying a rule beside the live ones.
    Shadow,
    /// It is not looked at.
    Off,
}

/// What becomes of a request that is too much for a rule, where it is asked for by
/// [`Gate::acquire`](crate::Gate::acquire).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum OnExcess {
    /// It is refused.
    #[default]
    Reject,
    /// It waits: first come, first served, for each limiter of the rule.
    Wait {
        /// The longest, from its arrival: 1 us to 366 days. What can not be admitted by then is
        /// refused at once.
        wait: Micros,
        /// The most that wait for one limiter, from 1 to a million; who comes then is refused at once.
        max_waiters: usize,
    },
}

/// How a rule's limiters learn what a request uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Usage {
    /// A request says what it costs, and takes that if it is admitted.
    #[default]
    Requested,
    /// What was used is reported afterwards. A cost of 0 asks whether one unit would be admitted, and takes
    /// nothing. A cost of 1 or more is taken whatever the limiter holds, even into debt, and answered by how
    /// the limiter then stands: allowed where one unit more would be admitted, else denied until one is. A
    /// request that so reports to an enforced rule is refused by no other, and taken from all that it
    /// meets.
    Reported,
}

/// What a rule does while a shared store does not decide. In memory it means nothing.
///
/// A store is *unavailable* when it does not answer. It is *overloaded* when it answers, but cannot decide a
/// request in time: load must not open a limit, so only `Closed` differs then.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum OnStoreError {
    /// It admits while the store is unavailable, and is as `Local` while the store is overloaded.
    Open,
    /// It denies: whoever asks is told that no decision can be taken, not that it asked too often.
    Closed,
    /// It is decided in process, by this node's share of the limit.
    #[default]
    Local,
}

/// One rule: what it matches, what it keeps a limiter for, and how that limiter decides.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RuleSpec {
    /// `[a-z0-9._-]{1,64}`, unique in its domain. With the domain it is the identity of the state, so
    /// renaming a rule begins anew.
    pub name: String,
    /// The domain it belongs to.
    pub domain: String,
    /// Entries a descriptor must have; a value may end in `*`.
    pub when: Vec<(String, String)>,
    /// Entries whose values make up the key: one limiter for each combination; none, one for all.
    pub key: Vec<String>,
    /// Whether a descriptor must have no other entries, and these in the order `when`, then `key`.
    pub exact: bool,
    /// Enforce, shadow or off.
    pub mode: Mode,
    /// How its limiters decide.
    pub spec: Spec,
    /// Most limiters kept at once, from 1 to 10^9, a hard cap (default one million). Where states do
    /// not fit a word each, the rule's `max_memory` (default 1 GiB) is another.
    pub max_keys: Option<usize>,
    /// What becomes of a key for which there is no room: it shares, or is refused.
    pub on_full: OnFull,
    /// What becomes of a request that is too much for it: it is rejected, or waits.
    pub on_excess: OnExcess,
    /// Whether requests say what they cost before they run, or report it afterwards.
    pub usage: Usage,
    /// What it does while a shared store does not decide.
    pub on_store_error: OnStoreError,
    /// For how long, from 1 ms to a day, a request that was admitted under an id
    /// ([`Request::with_id`]) is answered the same again and takes nothing; `None` is not at all.
    pub dedupe: Option<Micros>,
    /// The entry, one of `key`, whose value alone chooses the slot of a cluster that its limiters live
    /// in. Rules that meet on one request are decided in one step where all are tagged by the same.
    pub hash_tag: Option<String>,
    /// Whether it may be taken before rules of another slot have decided, and given back when they refuse.
    /// In a cluster, rules that meet on one request in different slots are refused unless all say so;
    /// elsewhere it means nothing.
    pub across_slots: bool,
    /// Whether figures that a request brings along ([`OwnLimit`](crate::OwnLimit)) hold in place of the
    /// rule's own; else nobody looks at them. The rule's figures are then those of who brings none. All its
    /// keys share one overflow limiter, under its own figures, those of its overrides included.
    pub limit_from_request: bool,
    /// Other figures for some keys; the first that matches holds.
    pub overrides: Vec<OverrideSpec>,
}

impl RuleSpec {
    /// A rule of the default domain that matches every descriptor and keeps one limiter for all.
    #[must_use]
    pub fn new(name: impl Into<String>, spec: Spec) -> Self {
        Self {
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
            hash_tag: None,
            across_slots: false,
            limit_from_request: false,
            overrides: Vec::new(),
        }
    }

    /// Puts it into another domain.
    #[must_use]
    pub fn in_domain(mut self, domain: impl Into<String>) -> Self {
        self.domain = domain.into();
        self
    }

    /// Requires an entry; `"api/*"` matches every value that begins with `api/`.
    #[must_use]
    pub fn when(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.when.push((name.into(), value.into()));
        self
    }

    /// Keeps one limiter for each combination of these entries' values.
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

    /// Keeps at most that many limiters; what is asked for beyond them is told by `on_full`.
    #[must_use]
    pub const fn max_keys(mut self, max_keys: usize, on_full: OnFull) -> Self {
        self.max_keys = Some(max_keys);
        self.on_full = on_full;
        self
    }

    /// Most limiters there may be, from 1 to 10^9.
    pub(crate) fn most_keys(&self) -> usize {
        self.max_keys.unwrap_or(DEFAULT_MAX_KEYS).clamp(1, MOST_MAX_KEYS)
    }

    /// Most bytes that states larger than a word may take before no new limiter is let in.
    pub(crate) fn most_bytes(&self) -> usize {
        let most = self.spec.max_memory.unwrap_or(DEFAULT_MAX_MEMORY);
        usize::try_from(most).unwrap_or(usize::MAX)
    }

    /// Sets what becomes of a request that is too much for it.
    #[must_use]
    pub const fn on_excess(mut self, on_excess: OnExcess) -> Self {
        self.on_excess = on_excess;
        self
    }

    /// Sets how its limiters learn what a request uses.
    ///
    /// ```
    /// use tidegate::{AlgorithmKind, Descriptor, Gate, Micros, Policy, Request, RuleSpec, Spec, Usage};
    ///
    /// let spec = Spec::new(AlgorithmKind::SlidingLog, 1_000, Micros::from_secs(3_600));
    /// let tokens = RuleSpec::new("tokens", spec).usage(Usage::Reported);
    /// let gate = Gate::new(Policy::new(vec![tokens])?);
    /// let admits = |cost| {
    ///     let descriptors = [Descriptor::new(&[]).cost(cost)];
    ///     gate.check(&Request::new("default", &descriptors)).is_allowed()
    /// };
    /// assert!(admits(0)); // before the work
    /// assert!(admits(990)); // after it: what it did use
    /// assert!(admits(0));
    /// assert!(!admits(990)); // taken all the same: the limiter holds 1,980 of 1,000
    /// assert!(!admits(0));
    /// # Ok::<(), tidegate::PolicyErrors>(())
    /// ```
    #[must_use]
    pub const fn usage(mut self, usage: Usage) -> Self {
        self.usage = usage;
        self
    }

    /// Sets what it does while a shared store is away.
    #[must_use]
    pub const fn on_store_error(mut self, on_store_error: OnStoreError) -> Self {
        self.on_store_error = on_store_error;
        self
    }

    /// Sets for how long a request that was admitted is answered the same again under its id.
    #[must_use]
    pub const fn dedupe(mut self, time: Micros) -> Self {
        self.dedupe = Some(time);
        self
    }

    /// Names the entry of its key that chooses the slot of a cluster.
    #[must_use]
    pub fn hash_tag(mut self, name: impl Into<String>) -> Self {
        self.hash_tag = Some(name.into());
        self
    }

    /// Lets it be taken before rules of another slot have decided, and given back when they refuse.
    #[must_use]
    pub const fn across_slots(mut self) -> Self {
        self.across_slots = true;
        self
    }

    /// Lets requests bring figures that hold in place of its own.
    #[must_use]
    pub const fn limit_from_request(mut self) -> Self {
        self.limit_from_request = true;
        self
    }

    /// Adds an override behind those it has.
    #[must_use]
    pub fn with_override(mut self, other: OverrideSpec) -> Self {
        self.overrides.push(other);
        self
    }
}

/// Other figures for the keys that have these values.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct OverrideSpec {
    /// Entries, all of them in the rule's key, whose values must be equal.
    pub entries: Vec<(String, String)>,
    /// Another limit.
    pub limit: Option<Limit>,
    /// Another window.
    pub window: Option<Micros>,
    /// Another capacity.
    pub capacity: Option<u64>,
}

impl OverrideSpec {
    /// An override for keys whose entry `name` is `value`.
    #[must_use]
    pub fn new(name: impl Into<String>, value: impl Into<String>) -> Self {
        Self { entries: vec![(name.into(), value.into())], ..Self::default() }
    }

    /// The words of `base`, with those that this override changes.
    pub(crate) fn applied_to(&self, base: &Spec) -> Spec {
        let mut spec = *base;
        spec.limit = self.limit.unwrap_or(base.limit);
        spec.window = self.window.or(base.window);
        spec.capacity = self.capacity.or(base.capacity);
        spec
    }
}
