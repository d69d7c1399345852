//! What a caller asks about: a domain and descriptors, each an ordered list of entries with a cost.

mod id;
mod limit;
mod origin;

use tidegate_core::Micros;

pub use id::{MAX_REQUEST_ID_BYTES, RequestIdError};
pub use limit::OwnLimit;
#[cfg(feature = "redis")]
pub(crate) use origin::Origin;

/// One thing a request is about: entries such as `("channel", "alipay")`, in order, and a cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Descriptor<'a> {
    entries: &'a [(&'a str, &'a str)],
    cost: u64,
    limit: Option<&'a OwnLimit>,
}

impl<'a> Descriptor<'a> {
    /// A descriptor that costs one unit.
    #[must_use]
    pub const fn new(entries: &'a [(&'a str, &'a str)]) -> Self {
        Self { entries, cost: 1, limit: None }
    }

    /// The same at another cost: 0 takes nothing, is always allowed, and only reports.
    #[must_use]
    pub const fn cost(mut self, cost: u64) -> Self {
        self.cost = cost;
        self
    }

    /// The same with figures of its own, for the rules that look at them: see [`OwnLimit`].
    #[must_use]
    pub const fn limit(mut self, own: &'a OwnLimit) -> Self {
        self.limit = Some(own);
        self
    }

    /// The figures that it brings along, if any.
    #[must_use]
    pub const fn own_limit(&self) -> Option<&'a OwnLimit> {
        self.limit
    }

    /// Its entries, in order.
    #[must_use]
    pub const fn entries(&self) -> &'a [(&'a str, &'a str)] {
        self.entries
    }

    /// Units the request takes from each limiter this descriptor meets.
    #[must_use]
    pub const fn units(&self) -> u64 {
        self.cost
    }

    /// The value of the first entry of that name.
    #[must_use]
    pub fn value(&self, name: &str) -> Option<&'a str> {
        self.entries.iter().find(|(entry, _)| *entry == name).map(|(_, value)| *value)
    }
}

/// One question to the gate: every rule that matches any of the descriptors must admit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request<'a> {
    domain: &'a str,
    descriptors: &'a [Descriptor<'a>],
    max_wait: Micros,
    id: Option<&'a str>,
    source: u64,
}

impl<'a> Request<'a> {
    /// The domain of rules that say none.
    pub const DEFAULT_DOMAIN: &'static str = "default";

    /// A request in `domain` about all of `descriptors`.
    #[must_use]
    pub const fn new(domain: &'a str, descriptors: &'a [Descriptor<'a>]) -> Self {
        Self { domain, descriptors, max_wait: Micros::MAX, id: None, source: 0 }
    }

    /// The same, but not to wait for longer than this: zero is not at all.
    ///
    /// It only ever shortens what rules allow ([`OnExcess`](crate::OnExcess)): where they reject,
    /// nothing waits. A wait that can not end in time is refused at once. What is admitted with a
    /// `delay`, by a `leaky_queue`, is admitted: the delay is no wait for a decision.
    #[must_use]
    pub const fn max_wait(mut self, wait: Micros) -> Self {
        self.max_wait = wait;
        self
    }

    /// The longest it may wait, if rules let it.
    #[must_use]
    pub const fn longest_wait(&self) -> Micros {
        self.max_wait
    }

    /// The domain whose rules decide.
    #[must_use]
    pub const fn domain(&self) -> &'a str {
        self.domain
    }

    /// What it is about.
    #[must_use]
    pub const fn descriptors(&self) -> &'a [Descriptor<'a>] {
        self.descriptors
    }
}

/// The entries of a descriptor, read from an object such as `{"channel": "alipay"}` in its own order.
///
/// A name given twice is an error, as is a value that is not text.
///
/// ```
/// let read: Result<tidegate::OrderedEntries, _> = serde_json::from_str(r#"{"b": "1", "a": "2"}"#);
/// assert_eq!(read.unwrap().as_pairs(), [("b", "1"), ("a", "2")]);
/// ```
#[cfg(feature = "serde")]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OrderedEntries(Vec<(String, String)>);

#[cfg(feature = "serde")]
mod ordered {
    use super::OrderedEntries;
    use core::fmt;
    use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};

    impl OrderedEntries {
        /// The entries as a [`Descriptor`](super::Descriptor) wants them.
        #[must_use]
        pub fn as_pairs(&self) -> Vec<(&str, &str)> {
            self.0.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect()
        }

        /// The owned entries.
        #[must_use]
        pub fn into_inner(self) -> Vec<(String, String)> {
            self.0
        }
    }

    struct Entries;

    impl<'de> Visitor<'de> for Entries {
        type Value = OrderedEntries;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("an object of text values, such as {\"channel\": \"alipay\"}")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<OrderedEntries, A::Error> {
            let mut entries: Vec<(String, String)> = Vec::new();
            while let Some((name, value)) = map.next_entry::<String, String>()? {
                if entries.iter().any(|(earlier, _)| *earlier == name) {
                    return Err(A::Error::custom(format_args!("entry `{name}` is given twice")));
                }
                entries.push((name, value));
            }
            Ok(OrderedEntries(entries))
        }
    }

    impl<'de> Deserialize<'de> for OrderedEntries {
        fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
            from.deserialize_map(Entries)
        }
    }
}
