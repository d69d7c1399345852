//! The events of a trace, each with texts of its own.

use tidegate_lab::trace::{Event, Sorted, TraceError};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Owned {
    pub(crate) at_us: u64,
    pub(crate) domain: String,
    pub(crate) descriptor: Vec<(String, String)>,
    pub(crate) cost: u64,
    pub(crate) request_id: Option<String>,
}

impl From<Event<'_>> for Owned {
    fn from(event: Event<'_>) -> Self {
        let owned = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
        Self {
            at_us: event.at_us,
            domain: event.domain.to_owned(),
            descriptor: event.descriptor.into_iter().map(owned).collect(),
            cost: event.cost,
            request_id: event.request_id.map(str::to_owned),
        }
    }
}

pub(crate) fn all(mut sorted: Sorted) -> Result<Vec<Owned>, TraceError> {
    let mut events = Vec::new();
    while let Some(batch) = sorted.next_batch()? {
        assert!((1..=1_024).contains(&batch.len()));
        for event in batch.events() {
            events.push(event?.into());
        }
    }
    Ok(events)
}
