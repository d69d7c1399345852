//! Replay: the decisions that a policy would have made over a trace, by the engine that makes them
//! live.

use std::sync::Arc;

use tidegate::{Answer, Descriptor, Gate, Policy, Request, Timestamp};

use crate::trace::Event;

/// A policy, and limiters that start fresh and use the time of the trace.
#[derive(Debug)]
pub struct Replay {
    gate: Gate<Timestamp>,
}

impl Replay {
    /// Creates a replay without any limiter yet.
    #[must_use]
    pub fn new(policy: Policy) -> Self {
        Self { gate: Gate::with_clock(policy, Timestamp::EPOCH) }
    }

    /// The policy that decides.
    #[must_use]
    pub fn policy(&self) -> Arc<Policy> {
        self.gate.policy()
    }

    /// Decides one request at its recorded time.
    pub fn decide(&self, event: &Event) -> Answer<'_> {
        let entries: Vec<_> =
            event.descriptor.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let descriptors = [Descriptor::new(&entries).cost(event.cost)];
        let request = event.under_id(Request::new(&event.domain, &descriptors));
        self.gate.check_at(&request, Timestamp::from_micros(event.at_us))
    }
}
