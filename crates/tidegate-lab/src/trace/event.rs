//! One request of a trace, in its public form and as the parsers return it.
//!
//! A parser returns a `LineEvent`, which borrows from its line. A reader of the trace gets an `Event`.

use std::borrow::Cow;
use std::iter::once;
use std::sync::Arc;
use std::time::Duration;

use tidegate::{Descriptor, Limit, Matched, Policy, Request, RequestLimit};

/// The domain of an event without one.
pub const DEFAULT_DOMAIN: &str = "default";

/// The latest time of an event, in microseconds since the Unix epoch (the year 2255): the largest
/// integer that every JSON reader and every store keeps exactly.
pub const AT_US_MAX: u64 = (1 << 53) - 1;

/// The largest cost of one event, in units.
pub const COST_MAX: u64 = 1_000_000_000;

/// One request: its time, its descriptors, and the units it asks for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Event<'a> {
    /// Microseconds since the Unix epoch (or since any other zero the trace has), at most
    /// [`AT_US_MAX`].
    pub at_us: u64,
    /// The domain whose rules apply; [`DEFAULT_DOMAIN`] by default.
    pub domain: &'a str,
    /// Names and values in the order of the trace; a name may occur more than once.
    pub descriptor: Vec<(&'a str, &'a str)>,
    /// Units asked for, 0 to [`COST_MAX`]; 1 by default.
    pub cost: u64,
    /// The limit that the request supplied for this descriptor.
    pub limit: Option<SuppliedLimit>,
    /// The descriptors after the first.
    pub more: Vec<FurtherDescriptor<'a>>,
    /// The id of the request, if the trace has one; for
    /// [`Request::with_id`](tidegate::Request::with_id).
    pub request_id: Option<&'a str>,
    /// Whether the request was admitted when it was recorded, if the trace says so.
    pub allowed: Option<bool>,
}

/// A descriptor of a request after its first.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct FurtherDescriptor<'a> {
    /// Names and values, as [`Event::descriptor`].
    pub entries: Vec<(&'a str, &'a str)>,
    /// Units asked for.
    pub cost: u64,
    /// The limit that the request supplied for it.
    pub limit: Option<SuppliedLimit>,
}

/// A limit that a request supplied for one of its descriptors, for the rules that let requests do so
/// ([`Policy::own_limit`]).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SuppliedLimit {
    /// Units per window.
    pub limit: Limit,
    /// The window.
    pub window: Duration,
}

impl<'a> Event<'a> {
    /// A request for one unit with one descriptor, and nothing else.
    #[must_use]
    pub const fn of_one(at_us: u64, domain: &'a str, descriptor: Vec<(&'a str, &'a str)>) -> Self {
        Self {
            at_us,
            domain,
            descriptor,
            cost: 1,
            limit: None,
            more: Vec::new(),
            request_id: None,
            allowed: None,
        }
    }

    /// The entries, the cost and the limit of each descriptor.
    fn asked(&self) -> impl Iterator<Item = (&[(&'a str, &'a str)], u64, Option<SuppliedLimit>)> {
        let more = self.more.iter().map(|one| (&*one.entries, one.cost, one.limit));
        once((&*self.descriptor, self.cost, self.limit)).chain(more)
    }

    /// Passes the request to `ask`. The limits that it supplied are for the rules of `policy`; a limit that one of these
    /// rules cannot have is left out.
    pub fn request<T>(
        &self,
        policy: impl FnOnce() -> Arc<Policy>,
        ask: impl FnOnce(&Request<'_>) -> T,
    ) -> T {
        // Only limits need the policy, and nearly all requests have none.
        if self.more.is_empty() && self.limit.is_none() {
            let descriptors = [Descriptor::new(&self.descriptor).cost(self.cost)];
            return ask(&self.under_id(Request::new(self.domain, &descriptors)));
        }
        let policy = policy();
        // All limits are made first, because descriptors borrow them.
        let limits: Vec<_> = self
            .asked()
            .map(|(entries, _, limit)| self.limit_for(&policy, &Descriptor::new(entries), limit?))
            .collect();
        let mut descriptors = Vec::with_capacity(limits.len());
        for ((entries, cost, _), limit) in self.asked().zip(&limits) {
            let descriptor = Descriptor::new(entries).cost(cost);
            descriptors.push(limit.as_ref().map_or(descriptor, |limit| descriptor.limit(limit)));
        }
        ask(&self.under_id(Request::new(self.domain, &descriptors)))
    }

    fn limit_for(
        &self,
        policy: &Policy,
        descriptor: &Descriptor<'_>,
        SuppliedLimit { limit, window }: SuppliedLimit,
    ) -> Option<RequestLimit> {
        policy.own_limit(self.domain, descriptor, limit, window).ok()
    }

    /// `request` with the id of this event, if it has one.
    fn under_id<'r>(&'r self, request: Request<'r>) -> Request<'r> {
        self.request_id.and_then(|id| request.with_id(id).ok()).unwrap_or(request)
    }

    /// The entries of the first descriptor that has this limiter.
    pub(crate) fn entries_of(&self, matched: &Matched<'_>) -> &[(&'a str, &'a str)] {
        let mut asked = self.asked().enumerate();
        let found = asked.find(|(number, _)| matched.is_matched_by(*number));
        found.map_or(&self.descriptor, |(_, (entries, ..))| entries)
    }
}

/// A name and its value, borrowed from the line if they have no escapes.
pub(super) type NameAndValue<'a> = (Cow<'a, str>, Cow<'a, str>);

/// The names of the entries that logs give, in their order.
pub(super) const LOGGED: [&str; 5] = ["ip", "method", "path", "status", "user_agent"];

/// The entries of a line in its order.
#[derive(Debug)]
pub(super) enum LineEntries<'a> {
    Listed(Vec<NameAndValue<'a>>),
    /// The values of [`LOGGED`] that the log has, which need no allocation.
    Logged([Option<Cow<'a, str>>; LOGGED.len()]),
}

impl LineEntries<'_> {
    /// Names and values.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        let (listed, logged): (&[_], &[_]) = match self {
            Self::Listed(entries) => (entries, &[]),
            Self::Logged(values) => (&[], values),
        };
        let logged = LOGGED.into_iter().zip(logged);
        let logged = logged.filter_map(|(name, value)| Some((name, value.as_deref()?)));
        listed.iter().map(|(name, value)| (&**name, &**value)).chain(logged)
    }
}

/// An event that borrows from its line, so that reading allocates little.
#[derive(Debug)]
pub(super) struct LineEvent<'a> {
    pub(super) at_us: u64,
    pub(super) domain: Cow<'a, str>,
    pub(super) descriptor: LineEntries<'a>,
    pub(super) cost: u64,
    pub(super) limit: Option<SuppliedLimit>,
    pub(super) more: Vec<LineDescriptor<'a>>,
    pub(super) request_id: Option<Cow<'a, str>>,
    pub(super) allowed: Option<bool>,
    /// The client is a trusted proxy, because its line names no other caller.
    pub(super) of_proxy: bool,
}

/// A descriptor of a line after its first.
#[derive(Debug)]
pub(super) struct LineDescriptor<'a> {
    pub(super) entries: Vec<NameAndValue<'a>>,
    pub(super) cost: u64,
    pub(super) limit: Option<SuppliedLimit>,
}

impl<'a> LineEvent<'a> {
    /// A request with one descriptor, as logs and most lines of NDJSON have it.
    pub(super) fn of_one(
        at_us: u64,
        domain: Cow<'a, str>,
        descriptor: LineEntries<'a>,
        cost: u64,
    ) -> Self {
        Self {
            at_us,
            domain,
            descriptor,
            cost,
            limit: None,
            more: Vec::new(),
            request_id: None,
            allowed: None,
            of_proxy: false,
        }
    }
}
