//! A request that outlives the call that brought it, in as few allocations as it can be: an open reservation keeps it
//! until it is settled.

use tidegate::{Descriptor, Request};

/// A request whose cost is reserved. A limit that comes with a request is not kept: no listener with reservations
/// takes one.
#[derive(Debug)]
pub(super) struct ReservedRequest {
    /// The domain, then the name and the value of each entry, without anything between them.
    text: Box<str>,
    /// Where each of these parts ends.
    ends: Box<[u32]>,
    descriptors: Box<[DescriptorCost]>,
}

/// A descriptor: its number of entries, and its cost.
#[derive(Clone, Copy, Debug)]
struct DescriptorCost {
    entries: u32,
    cost: u64,
}

impl ReservedRequest {
    /// A copy of a request; `None` if it is larger than any listener reads.
    pub(super) fn of(request: &Request<'_>) -> Option<Self> {
        let mut text = request.domain().to_owned();
        let mut ends = vec![u32::try_from(text.len()).ok()?];
        let mut descriptors = Vec::with_capacity(request.descriptors().len());
        for one in request.descriptors() {
            for part in one.entries().iter().flat_map(|(name, value)| [name, value]) {
                text.push_str(part);
                ends.push(u32::try_from(text.len()).ok()?);
            }
            let entries = u32::try_from(one.entries().len()).ok()?;
            descriptors.push(DescriptorCost { entries, cost: one.units() });
        }
        Some(Self { text: text.into(), ends: ends.into(), descriptors: descriptors.into() })
    }

    pub(super) fn domain(&self) -> &str {
        let end = self.ends.first().map_or(0, |end| *end as usize);
        self.text.get(..end).unwrap_or_default()
    }

    /// The cost of each descriptor.
    pub(super) fn costs(&self) -> impl ExactSizeIterator<Item = u64> {
        self.descriptors.iter().map(|one| one.cost)
    }

    /// The sizes of its allocations.
    pub(super) fn allocations(&self) -> [usize; 3] {
        [self.text.len(), size_of_val(&*self.ends), size_of_val(&*self.descriptors)]
    }

    /// Passes the request to `to`.
    pub(super) async fn ask<T>(&self, to: impl AsyncFnOnce(&Request<'_>) -> T) -> T {
        let mut begin = 0;
        let parts: Vec<&str> = self
            .ends
            .iter()
            .map(|end| {
                let part = self.text.get(begin..*end as usize).unwrap_or_default();
                begin = *end as usize;
                part
            })
            .collect();
        // After the domain names and values take turns.
        let mut pairs = parts.get(1..).unwrap_or_default().chunks_exact(2);
        let mut entries: Vec<Vec<(&str, &str)>> = Vec::with_capacity(self.descriptors.len());
        for one in &self.descriptors {
            let own = pairs.by_ref().take(one.entries as usize);
            entries.push(own.filter_map(|pair| Some((*pair.first()?, *pair.get(1)?))).collect());
        }
        let both = entries.iter().zip(self.costs());
        let descriptors: Vec<_> =
            both.map(|(entries, cost)| Descriptor::new(entries).cost(cost)).collect();
        to(&Request::new(self.domain(), &descriptors)).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures_util::FutureExt;

    #[test]
    fn a_request_is_passed_on_as_it_was_kept() {
        let entries = [&[("user", "ada"), ("", "")][..], &[], &[("päth", "/ü"), ("user", "")]];
        let descriptors: Vec<_> =
            (0..).zip(entries).map(|(cost, one)| Descriptor::new(one).cost(cost)).collect();
        for descriptors in [&descriptors[..], &descriptors[..1], &[]] {
            let request = Request::new("pay", descriptors);
            let asked = ReservedRequest::of(&request).unwrap();
            assert!(asked.costs().eq(request.descriptors().iter().map(Descriptor::units)));
            let is_same = asked.ask(async |same| *same == request).now_or_never();
            assert_eq!((is_same, asked.domain()), (Some(true), "pay"));
        }
    }
}
