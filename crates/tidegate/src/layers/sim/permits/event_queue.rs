//! The events of a run in the order of their time; events of the same time stay in the order in which they were added.

use std::collections::BTreeMap;

#[derive(Debug)]
pub(super) struct EventQueue<T> {
    events: BTreeMap<(u64, u64), T>,
    added: u64,
}

impl<T> EventQueue<T> {
    pub(super) const fn new() -> Self {
        Self { events: BTreeMap::new(), added: 0 }
    }

    pub(super) fn add(&mut self, time: u64, event: T) {
        self.added += 1;
        self.events.insert((time, self.added), event);
    }

    /// Takes out the next event, with its time.
    pub(super) fn pop(&mut self) -> Option<(u64, T)> {
        self.events.pop_first().map(|((time, _), event)| (time, event))
    }
}
