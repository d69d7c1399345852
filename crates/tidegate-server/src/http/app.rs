//! The state that every answer over HTTP uses: one for the public listener, the admin listener and the probes.

use std::sync::Arc;

use tokio::sync::Semaphore;

use super::events::Streams;
use super::latest::Latest;
use crate::decide::RequestDecider;
use crate::limiters::Limiters;
use crate::listener::Bounds;
use crate::probe::Probe;

/// The state that every answer uses.
pub(super) struct App {
    pub(super) limiters: Arc<Limiters>,
    pub(super) decider: RequestDecider,
    pub(super) probe: Probe,
    pub(super) bounds: Bounds,
    pub(super) streams: Streams,
    pub(super) latest: Arc<Latest>,
    /// One permit, of the client that reads what was recorded.
    pub(super) recording: Arc<Semaphore>,
}

impl App {
    /// Creates the state of a service of some limiters; `connections` is the number for operators.
    pub(super) fn new(limiters: Arc<Limiters>, bounds: Bounds, connections: u32) -> Self {
        Self {
            probe: Probe::new(Arc::clone(&limiters), bounds.probe),
            decider: RequestDecider::new(Arc::clone(&limiters), |counts| &counts.http),
            limiters,
            bounds,
            streams: Streams::within(connections),
            latest: Arc::default(),
            recording: Arc::new(Semaphore::new(1)),
        }
    }
}
