//! One request of a trace, in its public form and as the parsers return it.

use std::borrow::Cow;

use tidegate::Request;

/// The domain of an event without one.
pub const DEFAULT_DOMAIN: &str = "default";

/// The latest time of an event, in microseconds since the Unix epoch (the year 2255): the largest
/// integer that every JSON reader and every store keeps exactly.
pub const AT_US_MAX: u64 = (1 << 53) - 1;

/// The largest cost of one event, in units.
pub const COST_MAX: u64 = 1_000_000_000;

/// One request: its time, its descriptor, and the units it asks for.
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
    /// The id of the request, if the trace has one; for
    /// [`Request::with_id`](tidegate::Request::with_id).
    pub request_id: Option<&'a str>,
}

impl<'a> Event<'a> {
    /// `request` with the id of this event, if it has one.
    #[must_use]
    pub fn under_id(&self, request: Request<'a>) -> Request<'a> {
        self.request_id.and_then(|id| request.with_id(id).ok()).unwrap_or(request)
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
    pub(super) request_id: Option<Cow<'a, str>>,
    /// The client is a trusted proxy, because its line names no other caller.
    pub(super) of_proxy: bool,
}
