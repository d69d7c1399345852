//! The descriptors of a request: the names of entries, and the extractors of their values.

use std::fmt;
use std::sync::Arc;

use http::request::Parts;

use super::client_ip::ClientIp;
use super::extract::{self, Extract};
use crate::request::{Descriptor, Request};

type CostOf = dyn Fn(&Parts) -> u64 + Send + Sync;

/// One descriptor under construction: an ordered list of entries, each with an extractor, and a
/// cost.
///
/// ```
/// use tidegate::tower::{ClientIp, Entries, header, method};
///
/// let entries = Entries::new()
///     .entry("method", method)
///     .entry("channel", header("x-channel")?)
///     .entry("ip", ClientIp::x_forwarded_for(["10.0.0.0/8"])?)
///     .cost(|parts| if parts.method == "POST" { 5 } else { 1 });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Default)]
pub struct Entries {
    entries: Vec<(Arc<str>, Arc<dyn Extract>)>,
    cost: Option<Arc<CostOf>>,
}

impl Entries {
    /// No entries, and a cost of one unit.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an entry after the others; it is left out of a request that has no value for it.
    #[must_use]
    pub fn entry(mut self, name: &str, value: impl Extract + 'static) -> Self {
        self.entries.push((name.into(), Arc::new(value)));
        self
    }

    /// Takes as many units as `cost` returns for a request; 0 takes nothing and only reports the
    /// limits.
    #[must_use]
    pub fn cost(mut self, cost: impl Fn(&Parts) -> u64 + Send + Sync + 'static) -> Self {
        self.cost = Some(Arc::new(cost));
        self
    }

    /// The entries of an access log, so that the same rules serve and replay.
    pub(super) fn of_a_server() -> Self {
        let entries = Self::new().entry("ip", ClientIp::peer());
        entries.entry("method", extract::method).entry("path", extract::path)
    }

    /// The entries that distinguish a client's requests.
    pub(super) fn of_a_client() -> Self {
        Self::new().entry("host", extract::host)
    }

    fn of(&self, parts: &Parts) -> Filled {
        let entries = self.entries.iter();
        let found = entries.filter_map(|(name, from)| Some((name.clone(), from.extract(parts)?)));
        let cost = self.cost.as_ref().map_or(1, |cost| cost(parts));
        Filled { entries: found.collect(), cost }
    }
}

impl fmt::Debug for Entries {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.entries.iter().map(|(name, _)| name)).finish()
    }
}

/// The values of one descriptor of a request.
#[derive(Clone, Debug)]
struct Filled {
    entries: Vec<(Arc<str>, String)>,
    cost: u64,
}

impl Filled {
    fn pairs(&self) -> Vec<(&str, &str)> {
        self.entries.iter().map(|(name, value)| (&**name, value.as_str())).collect()
    }
}

/// The descriptors of a request, ready for the gate; it owns the values that it read from the request.
#[derive(Clone, Debug)]
pub(super) struct Question {
    domain: Arc<str>,
    descriptors: Vec<Filled>,
}

impl Question {
    pub(super) fn read(domain: &Arc<str>, from: &[Entries], parts: &Parts) -> Self {
        let descriptors = from.iter().map(|entries| entries.of(parts)).collect();
        Self { domain: domain.clone(), descriptors }
    }

    /// The entries as pairs, which [`Question::descriptors`] borrows from.
    pub(super) fn pairs(&self) -> Vec<Vec<(&str, &str)>> {
        self.descriptors.iter().map(Filled::pairs).collect()
    }

    /// The descriptors over `pairs`.
    pub(super) fn descriptors<'a>(
        &self,
        pairs: &'a [Vec<(&'a str, &'a str)>],
    ) -> Vec<Descriptor<'a>> {
        let both = pairs.iter().zip(&self.descriptors);
        both.map(|(pairs, filled)| Descriptor::new(pairs).cost(filled.cost)).collect()
    }

    pub(super) fn domain(&self) -> &str {
        &self.domain
    }

    /// Passes the question to `ask` in the form that the gate takes.
    pub(super) fn ask<R>(&self, ask: impl FnOnce(&Request<'_>) -> R) -> R {
        let pairs = self.pairs();
        let descriptors = self.descriptors(&pairs);
        ask(&Request::new(self.domain(), &descriptors))
    }
}
