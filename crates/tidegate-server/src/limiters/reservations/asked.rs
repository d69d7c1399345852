//! A request that outlives the call that brought it.

use tidegate::{Descriptor, Request};

type Text = Box<str>;

/// A request whose cost is reserved, with its id if it has one. A limit that comes with a request is not kept: no
/// listener with reservations takes one.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Asked {
    domain: Text,
    descriptors: Box<[Units]>,
    id: Option<Text>,
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Units {
    entries: Box<[(Text, Text)]>,
    cost: u64,
}

impl Asked {
    pub(super) fn of(request: &Request<'_>) -> Self {
        let descriptor = |one: &Descriptor<'_>| {
            let entries = one.entries().iter();
            let entries = entries.map(|(name, value)| ((*name).into(), (*value).into())).collect();
            Units { entries, cost: one.units() }
        };
        Self {
            domain: request.domain().into(),
            descriptors: request.descriptors().iter().map(descriptor).collect(),
            id: request.id().map(Text::from),
        }
    }

    pub(super) const fn has_id(&self) -> bool {
        self.id.is_some()
    }

    pub(super) const fn descriptors(&self) -> usize {
        self.descriptors.len()
    }

    /// About how many bytes it takes, with what a limiter adds to each descriptor.
    pub(super) fn bytes(&self) -> usize {
        /// The bytes of an allocation beside its text, twice for a name and a value.
        const OF_AN_ENTRY: usize = 2 * size_of::<Text>() + 2 * 16;
        const OF_A_DESCRIPTOR: usize = size_of::<Units>() + 64;
        let entry = |(name, value): &(Text, Text)| OF_AN_ENTRY + name.len() + value.len();
        let descriptor =
            |one: &Units| OF_A_DESCRIPTOR + one.entries.iter().map(entry).sum::<usize>();
        let id = self.id.as_ref().map_or(0, |id| id.len());
        self.domain.len() + id + self.descriptors.iter().map(descriptor).sum::<usize>()
    }

    /// Passes the request to `to`.
    pub(super) async fn ask<T>(&self, to: impl AsyncFnOnce(&Request<'_>) -> T) -> T {
        let entries: Vec<_> = self.descriptors.iter().map(Units::pairs).collect();
        let both = entries.iter().zip(&self.descriptors);
        let descriptors: Vec<_> =
            both.map(|(entries, one)| Descriptor::new(entries).cost(one.cost)).collect();
        to(&Request::new(&self.domain, &descriptors)).await
    }
}

impl Units {
    fn pairs(&self) -> Vec<(&str, &str)> {
        self.entries.iter().map(|(name, value)| (&**name, &**value)).collect()
    }
}
