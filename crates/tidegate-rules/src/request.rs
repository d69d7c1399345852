//! Requests: a domain and descriptors, each an ordered list of entries with a cost.
//!
//! Every protocol makes a request of its own bytes, and a gate finds its limiters.

mod id;
mod limit;
#[cfg(feature = "serde")]
mod ordered;

use std::slice;
use std::time::Duration;

use tidegate_core::Micros;

pub use id::{MAX_REQUEST_ID_BYTES, RequestIdError};
pub use limit::RequestLimit;
pub(crate) use limit::{limit_of_rules, values_for};
#[cfg(feature = "serde")]
pub use ordered::OrderedEntries;

/// The subject of a request: entries such as `("channel", "alipay")`, in order, and a cost.
///
/// Several entries may have one name. Names and values are bytes, written as text by [`key_text`](crate::key::key_text):
/// text in UTF-8 stands for itself, so only bytes that are no text need it.
///
/// ```
/// use tidegate::{Descriptor, Gate, Policy, Request, RuleSpec};
///
/// let gate = Gate::new(Policy::new(vec![RuleSpec::new("per-user", "10/h").key(["user"])])?);
/// let entries = [("user", "ada"), ("path", "/export")];
/// let descriptors = [Descriptor::new(&entries).cost(4)];
/// let answer = gate.check(&Request::new("default", &descriptors));
/// assert_eq!(answer.remaining(), Some(6));
/// # Ok::<(), tidegate::PolicyErrors>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Descriptor<'a> {
    entries: &'a [(&'a str, &'a str)],
    cost: u64,
    limit: Option<&'a RequestLimit>,
}

impl<'a> Descriptor<'a> {
    /// A descriptor that costs one unit.
    #[must_use]
    pub const fn new(entries: &'a [(&'a str, &'a str)]) -> Self {
        Self { entries, cost: 1, limit: None }
    }

    /// Sets the cost: 0 takes nothing, is always allowed, and only reports.
    #[must_use]
    pub const fn cost(mut self, cost: u64) -> Self {
        self.cost = cost;
        self
    }

    /// Adds a limit of its own, for the rules that use it: see [`RequestLimit`].
    #[must_use]
    pub const fn limit(mut self, own: &'a RequestLimit) -> Self {
        self.limit = Some(own);
        self
    }

    /// Its own limit, if it has one.
    #[must_use]
    #[inline]
    pub const fn own_limit(&self) -> Option<&'a RequestLimit> {
        self.limit
    }

    /// The entries, in order.
    #[must_use]
    #[inline]
    pub const fn entries(&self) -> &'a [(&'a str, &'a str)] {
        self.entries
    }

    /// Units that the request takes from each limiter of this descriptor.
    #[must_use]
    #[inline]
    pub const fn units(&self) -> u64 {
        self.cost
    }

    /// The value of the first entry of that name. Of several entries of one name `user#2` is the second, if none is
    /// named `user#2` itself.
    ///
    /// ```
    /// use tidegate::Descriptor;
    ///
    /// let entries = [("generic_key", "edge"), ("generic_key", "checkout")];
    /// let descriptor = Descriptor::new(&entries);
    /// assert_eq!(descriptor.value("generic_key"), Some("edge"));
    /// assert_eq!(descriptor.value("generic_key#2"), Some("checkout"));
    /// assert_eq!(descriptor.value("generic_key#3"), None);
    /// ```
    #[must_use]
    #[inline]
    pub fn value(&self, name: &str) -> Option<&'a str> {
        // The whole name goes first, because an entry may be named `user#2` itself.
        let first = self.entries.iter().find(|(entry, _)| same(entry, name));
        first.map_or_else(|| self.value_in_place(name), |(_, value)| Some(*value))
    }

    /// The value of the entry that a name with a place names.
    pub(crate) fn value_in_place(&self, name: &str) -> Option<&'a str> {
        let (name, place) = place_of(name)?;
        let mut named = self.entries.iter().filter(|(entry, _)| same(entry, name));
        // A place is at least 1, because its number does not begin with 0.
        named.nth(place - 1).map(|(_, value)| *value)
    }
}

/// Splits a name such as `user#2` into the name of entries and the place among entries of that name, counted from 1.
pub fn place_of(name: &str) -> Option<(&str, usize)> {
    let (name, place) = name.rsplit_once('#').filter(|(name, _)| !name.is_empty())?;
    // Each place has one spelling: `user#02` is the whole name of an entry.
    let is_number = !place.starts_with('0') && place.bytes().all(|byte| byte.is_ascii_digit());
    let place = place.parse().ok().filter(|_| is_number)?;
    Some((name, place))
}

/// The descriptors of a request: a list of the caller, or a list that the request keeps itself.
#[derive(Clone, Copy, Debug)]
enum Descriptors<'a> {
    Listed(&'a [Descriptor<'a>]),
    One(Descriptor<'a>),
}

/// A request to the gate: every rule that matches any of the descriptors must admit it.
///
/// A domain and pairs are a request of one descriptor that costs one unit, and a domain and a [`Descriptor`] are a
/// request of its cost; without a domain it is the default domain. The verbs of a gate take all of these.
///
/// ```
/// use tidegate::{Descriptor, Gate, Policy, Request, RuleSpec};
///
/// let gate = Gate::new(Policy::new(vec![
///     RuleSpec::new("per-user", "5/h").key(["user"]),
///     RuleSpec::new("per-channel", "100/s").in_domain("pay").key(["channel"]),
/// ])?);
/// assert!(gate.check(("pay", &[("channel", "alipay"), ("user", "ada")])).is_allowed());
/// assert!(gate.check(&[("user", "ada")]).is_allowed());
/// assert!(gate.check(Descriptor::new(&[("user", "ada")]).cost(3)).is_allowed());
/// assert_eq!(gate.peek(&Request::from(&[("user", "ada")])).remaining(), Some(1));
/// # Ok::<(), tidegate::PolicyErrors>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request<'a> {
    domain: &'a str,
    descriptors: Descriptors<'a>,
    max_wait: Micros,
    id: Option<&'a str>,
    /// True if its cost is settled later.
    reserves: bool,
    /// The name and the life of its reservation.
    reservation: Option<(&'a [u8; 16], Micros)>,
    /// True if its caller holds the work for its delay.
    returns_delay: bool,
    source: u64,
}

impl<'a> Request<'a> {
    /// The domain of rules without one.
    pub const DEFAULT_DOMAIN: &'static str = "default";

    /// A request in `domain` with all of `descriptors`.
    #[must_use]
    pub const fn new(domain: &'a str, descriptors: &'a [Descriptor<'a>]) -> Self {
        let descriptors = Descriptors::Listed(descriptors);
        Self {
            domain,
            descriptors,
            max_wait: Micros::MAX,
            id: None,
            reserves: false,
            reservation: None,
            returns_delay: false,
            source: 0,
        }
    }

    /// Sets the longest wait, rounded down to whole microseconds; zero means not to wait.
    ///
    /// It only shortens the wait that rules allow ([`OnExcess`](crate::rules::OnExcess)): if they reject,
    /// nothing waits. A request whose wait cannot end in time is refused immediately. The `delay`
    /// of a request that a `leaky_queue` admits is not such a wait.
    #[must_use]
    pub const fn max_wait(mut self, wait: Duration) -> Self {
        self.max_wait = Micros::from_duration(wait);
        self
    }

    /// Makes `Gate::acquire` resolve as soon as the request is admitted: the answer contains the
    /// delay, for which the caller has to hold the work. For servers that decide on behalf of clients, and pass the
    /// answer on.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tidegate::{AlgorithmKind, Gate, ManualClock, Policy, Request, RuleSpec, Spec};
    ///
    /// let paced = Spec::per_second(1).algorithm(AlgorithmKind::LeakyQueue);
    /// let policy = Policy::new(vec![RuleSpec::new("paced", paced)])?;
    /// let gate = Gate::with_clock(policy, ManualClock::new());
    /// let request = Request::from(&[("user", "ada")]).returning_delay();
    /// assert_eq!(gate.acquire_blocking(request).delay(), Duration::ZERO);
    /// assert_eq!(gate.acquire_blocking(request).delay(), Duration::from_secs(1));
    /// # Ok::<(), tidegate::PolicyErrors>(())
    /// ```
    #[must_use]
    pub const fn returning_delay(mut self) -> Self {
        self.returns_delay = true;
        self
    }

    /// The longest time it may wait, if rules let it.
    #[must_use]
    #[inline]
    pub const fn longest_wait(&self) -> Duration {
        self.max_wait.as_duration()
    }

    /// The domain whose rules decide.
    #[must_use]
    #[inline]
    pub const fn domain(&self) -> &'a str {
        self.domain
    }

    /// The descriptors.
    #[must_use]
    #[inline]
    pub const fn descriptors(&self) -> &[Descriptor<'a>] {
        self.descriptors.as_slice()
    }
}

/// The facts of a request that a gate reads, for the crates of Tidegate alone.
pub trait RequestInternals<'a> {
    /// Returns whether its caller holds the work for its delay.
    fn returns_delay(&self) -> bool;

    /// Returns whether its cost is reserved.
    fn reserves(&self) -> bool;

    /// Its id and its verb, if it has an id.
    fn identity(&self) -> Option<RequestIdentity<'a>>;

    /// The identity and the source.
    fn origin(&self) -> Origin<'a>;
}

impl<'a> RequestInternals<'a> for Request<'a> {
    #[inline]
    fn returns_delay(&self) -> bool {
        self.returns_delay
    }

    #[inline]
    fn reserves(&self) -> bool {
        self.reserves
    }

    #[inline]
    fn identity(&self) -> Option<RequestIdentity<'a>> {
        let Self { reserves, reservation, .. } = *self;
        self.id.map(|id| RequestIdentity { id, reserves, reservation })
    }

    #[inline]
    fn origin(&self) -> Origin<'a> {
        Origin { id: self.identity(), source: self.source }
    }
}

/// The identity of a request that is repeated, in addition to its limiters, costs and values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestIdentity<'a> {
    /// The id.
    pub id: &'a str,
    /// True if its cost is settled later.
    pub reserves: bool,
    /// The name and the life of its reservation, which do not make it another request.
    pub reservation: Option<(&'a [u8; 16], Micros)>,
}

/// The identity of a request with an id, and its source.
#[derive(Clone, Copy, Debug, Default)]
pub struct Origin<'a> {
    /// The identity, if it has an id.
    pub id: Option<RequestIdentity<'a>>,
    /// The source.
    pub source: u64,
}

impl<'a> Descriptors<'a> {
    #[inline]
    const fn as_slice(&self) -> &[Descriptor<'a>] {
        match self {
            Self::Listed(listed) => listed,
            Self::One(one) => slice::from_ref(one),
        }
    }
}

impl PartialEq for Descriptors<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.as_slice() == other.as_slice()
    }
}

impl Eq for Descriptors<'_> {}

impl<'a, const N: usize> From<(&'a str, &'a [(&'a str, &'a str); N])> for Request<'a> {
    fn from((domain, entries): (&'a str, &'a [(&'a str, &'a str); N])) -> Self {
        Self::from((domain, entries.as_slice()))
    }
}

impl<'a> From<(&'a str, &'a [(&'a str, &'a str)])> for Request<'a> {
    #[inline]
    fn from((domain, entries): (&'a str, &'a [(&'a str, &'a str)])) -> Self {
        Self::from((domain, Descriptor::new(entries)))
    }
}

impl<'a> From<(&'a str, Descriptor<'a>)> for Request<'a> {
    #[inline]
    fn from((domain, descriptor): (&'a str, Descriptor<'a>)) -> Self {
        Self { descriptors: Descriptors::One(descriptor), ..Self::new(domain, &[]) }
    }
}

impl<'a> From<Descriptor<'a>> for Request<'a> {
    #[inline]
    fn from(descriptor: Descriptor<'a>) -> Self {
        Self::from((Self::DEFAULT_DOMAIN, descriptor))
    }
}

impl<'a, const N: usize> From<&'a [(&'a str, &'a str); N]> for Request<'a> {
    fn from(entries: &'a [(&'a str, &'a str); N]) -> Self {
        Self::from((Self::DEFAULT_DOMAIN, entries.as_slice()))
    }
}

impl<'a> From<&'a [(&'a str, &'a str)]> for Request<'a> {
    #[inline]
    fn from(entries: &'a [(&'a str, &'a str)]) -> Self {
        Self::from((Self::DEFAULT_DOMAIN, entries))
    }
}

impl<'a> From<&Request<'a>> for Request<'a> {
    #[inline]
    fn from(request: &Request<'a>) -> Self {
        *request
    }
}

/// Returns whether two texts are equal. Up to 16 bytes are compared as two words that may overlap.
#[inline]
pub fn same(one: &str, other: &str) -> bool {
    let one = one.as_bytes();
    let other = other.as_bytes();
    if one.len() != other.len() {
        return false;
    }
    match one.len() {
        4..=8 => ends::<4>(one) == ends::<4>(other),
        9..=16 => ends::<8>(one) == ends::<8>(other),
        0..=3 => one.iter().eq(other),
        _ => one == other,
    }
}

/// The first and the last `LEN` bytes.
#[inline]
fn ends<const LEN: usize>(text: &[u8]) -> Option<(&[u8; LEN], &[u8; LEN])> {
    text.first_chunk().zip(text.last_chunk())
}

#[cfg(test)]
mod tests {
    use super::same;

    #[test]
    fn texts_of_every_length_are_equal_only_if_each_byte_is() {
        for length in 0..40 {
            let text = "abcdefghij".repeat(4)[..length].to_owned();
            assert!(same(&text, &text.clone()), "{text}");
            assert!(!same(&text, &format!("{text}x")) && !same(&format!("{text}x"), &text));
            for place in 0..length {
                let mut other = text.clone();
                other.replace_range(place..=place, "-");
                assert!(!same(&text, &other), "{text} and {other}");
            }
        }
    }
}
