//! The descriptors of a request: the names of entries, and the extractors of their values.
//!
//! A request that is read by them is a `LayerQuestion`, which a `Decider` answers.

use std::borrow::Cow;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use http::request::Parts;
use smallvec::SmallVec;

use super::client_ip::ClientIp;
use super::extract::{self, Extract, Lent};
use crate::headers::FieldSet;
use crate::inline_list::InlineList;
use crate::key::{Encoding, Key};
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
    /// Whose address is the key, in place of the first entry's value.
    caller: Option<ClientIp>,
    /// True if requests without a value for any entry share one key, the key of an empty value.
    shares: bool,
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

    /// The names of the entries.
    pub(super) fn names(&self) -> Vec<&str> {
        self.entries.iter().map(|(name, _)| &**name).collect()
    }

    /// The entries of an access log, so that the same rules serve and replay.
    pub(super) fn of_a_server() -> Self {
        let entries = Self::new().entry("ip", ClientIp::peer());
        let method = Lent(|parts| parts.method.as_str());
        entries.entry("method", method).entry("path", Lent(|parts| parts.uri.path()))
    }

    /// No entries; the key is the caller's address.
    pub(super) fn by_address(caller: ClientIp) -> Self {
        Self { caller: Some(caller), ..Self::default() }
    }

    /// One entry, whose value is the key; requests without one have a key together.
    pub(super) fn by_key(key: impl Extract + 'static) -> Self {
        Self { shares: true, ..Self::new().entry("key", key) }
    }

    /// No entries; all requests have one key.
    pub(super) fn of_all() -> Self {
        Self { shares: true, ..Self::default() }
    }

    /// The entries that distinguish a client's requests.
    pub(super) fn of_a_client() -> Self {
        Self::new().entry("host", extract::host)
    }
}

impl fmt::Debug for Entries {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.entries.iter().map(|(name, _)| name)).finish()
    }
}

/// The descriptors of a request, ready for the gate. It borrows text from the request until it is made owned.
#[derive(Clone, Debug)]
pub(super) struct LayerQuestion<'a> {
    domain: Cow<'a, str>,
    /// The entries of all descriptors, one after the other.
    entries: Few<(Cow<'a, str>, Cow<'a, str>)>,
    descriptors: InlineList<QuestionDescriptor>,
    caller: Caller,
    /// The names of entries that are left out because the caller's address is not known.
    without_address: Vec<Cow<'a, str>>,
    /// The header fields about the limits that the response gets.
    pub(super) shown: FieldSet,
    /// True if units that it took may be given back.
    pub(super) may_settle: bool,
}

/// The caller, if a limiter without rules decides.
#[derive(Clone, Copy, Debug)]
enum Caller {
    /// The caller is named by the first entry.
    Entry,
    /// The caller is named by the first entry, and has the key of an empty value without one.
    EntryOrEmpty,
    Address(IpAddr),
    Unknown,
}

/// The key of a caller, as limiters without rules know it.
#[derive(Clone, Copy, Debug)]
pub(super) enum CallerKey<'a> {
    Address(IpAddr),
    Value(&'a str),
}

impl Key for CallerKey<'_> {
    fn encode<T>(&self, with: impl FnOnce(Encoding<'_>) -> T) -> T {
        match self {
            Self::Address(address) => address.encode(with),
            Self::Value(value) => value.encode(with),
        }
    }
}

/// Entries, as many as most requests have without an allocation.
type Few<T> = SmallVec<[T; 4]>;

/// One descriptor of a question.
#[derive(Clone, Copy, Debug)]
struct QuestionDescriptor {
    /// The number of the entry after its last entry.
    end: usize,
    cost: u64,
}

impl<'a> LayerQuestion<'a> {
    /// An empty question, into which the request's entries are then [read](Self::read): lists that are moved are copied with
    /// all their room.
    #[inline(always)]
    pub(super) fn new(domain: &'a str, shown: FieldSet, may_settle: bool) -> Self {
        Self {
            domain: Cow::Borrowed(domain),
            entries: Few::new(),
            descriptors: InlineList::new(),
            caller: Caller::Entry,
            without_address: Vec::new(),
            shown,
            may_settle,
        }
    }

    /// Reads the caller, and the entries of each descriptor.
    pub(super) fn read(&mut self, from: &'a [Entries], parts: &'a Parts) {
        self.caller = match from.first().and_then(|first| first.caller.as_ref()) {
            None if from.first().is_some_and(|first| first.shares) => Caller::EntryOrEmpty,
            None => Caller::Entry,
            Some(caller) => caller.caller(parts).map_or(Caller::Unknown, Caller::Address),
        };
        for one in from {
            for (name, value) in &one.entries {
                match value.read(parts) {
                    Some(value) => self.entries.push((Cow::Borrowed(name), value)),
                    // Without an address the server is at fault; any other entry may be missing.
                    None if value.is_address() => self.without_address.push(Cow::Borrowed(name)),
                    None => {}
                }
            }
            let cost = one.cost.as_ref().map_or(1, |cost| cost(parts));
            self.descriptors.push(QuestionDescriptor { end: self.entries.len(), cost });
        }
    }

    /// The question with a copy of everything that it borrowed.
    pub(super) fn to_owned(&self) -> LayerQuestion<'static> {
        let owned = |text: &str| Cow::Owned(text.to_owned());
        LayerQuestion {
            domain: owned(&self.domain),
            entries: self.entries.iter().map(|(name, value)| (owned(name), owned(value))).collect(),
            descriptors: self.descriptors.clone(),
            caller: self.caller,
            without_address: self.without_address.iter().map(|name| owned(name)).collect(),
            shown: self.shown,
            may_settle: self.may_settle,
        }
    }

    /// The entries as pairs, which [`LayerQuestion::descriptors`] borrows from.
    fn pairs(&self) -> Few<(&str, &str)> {
        self.entries.iter().map(|(name, value)| (&**name, &**value)).collect()
    }

    /// The descriptors over `pairs`.
    fn descriptors<'p>(&self, pairs: &'p [(&'p str, &'p str)]) -> InlineList<Descriptor<'p>> {
        let mut rest = pairs;
        let mut begun = 0;
        let descriptors = self.descriptors.iter().map(|one| {
            // The ends count from the first entry of all descriptors.
            let (entries, after) = rest.split_at(one.end.saturating_sub(begun).min(rest.len()));
            (rest, begun) = (after, one.end);
            Descriptor::new(entries).cost(one.cost)
        });
        descriptors.collect()
    }

    /// Returns whether nothing else than an address would be the key of the caller, and it is not known.
    pub(super) fn lacks_address(&self) -> bool {
        let is_wanted = matches!(self.caller, Caller::Unknown) || !self.without_address.is_empty();
        is_wanted && self.caller().is_none()
    }

    /// Returns whether `looks_at` holds for an entry that is left out because the caller's address is not known.
    pub(super) fn lacks_address_for(&self, looks_at: impl Fn(&str) -> bool) -> bool {
        self.without_address.iter().any(|name| looks_at(name))
    }

    /// The key of the caller and the cost: the address, else the value of the first entry, else an empty one where
    /// requests without a value share a limiter. `None` without any of these.
    pub(super) fn caller(&self) -> Option<(CallerKey<'_>, u64)> {
        let first = self.descriptors.first()?;
        let key = match self.caller {
            Caller::Address(address) => CallerKey::Address(address),
            Caller::Entry | Caller::EntryOrEmpty if first.end > 0 => {
                // The first descriptor has an entry here: otherwise the first in the list would be
                // of a later descriptor.
                CallerKey::Value(&self.entries.first()?.1)
            }
            // An address that is not known is a mistake of the program, and no key.
            Caller::EntryOrEmpty if self.without_address.is_empty() => CallerKey::Value(""),
            Caller::Entry | Caller::EntryOrEmpty | Caller::Unknown => return None,
        };
        Some((key, first.cost))
    }

    pub(super) fn domain(&self) -> &str {
        &self.domain
    }

    /// Passes the question to `ask` in the form that a gate takes.
    pub(super) fn ask<R>(&self, ask: impl FnOnce(&Request<'_>) -> R) -> R {
        let pairs = self.pairs();
        ask(&self.request(&self.descriptors(&pairs)))
    }

    /// Passes the question to `ask` as [`LayerQuestion::ask`] does.
    pub(super) async fn ask_later<R>(&self, ask: impl AsyncFnOnce(&Request<'_>) -> R) -> R {
        let pairs = self.pairs();
        ask(&self.request(&self.descriptors(&pairs))).await
    }

    fn request<'p>(&'p self, descriptors: &'p [Descriptor<'p>]) -> Request<'p> {
        let request = Request::new(self.domain(), descriptors);
        if self.may_settle { request.reserving() } else { request }
    }
}
