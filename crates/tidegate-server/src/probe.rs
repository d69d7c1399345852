//! The health check of every listener: makes a test decision. `GET /healthz`, `/livez`, `/readyz` and gRPC's health
//! service ask it.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tidegate::{Descriptor, Request};
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use crate::limiters::Limiters;
use crate::sample_request::SampleRequest;

/// The result of a check; `None` while it is under way.
type ProbeResult = Option<bool>;

/// Checks the limiters now and then. A check serves all probes that arrive while it runs, so checks that hang do not
/// pile up, and probes do not wait for each other.
pub(crate) struct Probe {
    limiters: Arc<Limiters>,
    /// The time for which a check is waited for.
    within: Duration,
    /// The last check, which may be under way.
    look: Mutex<watch::Receiver<ProbeResult>>,
}

impl Probe {
    /// Checks these limiters.
    pub(crate) fn new(limiters: Arc<Limiters>, within: Duration) -> Self {
        Self { limiters, within, look: Mutex::new(watch::channel(Some(false)).1) }
    }

    /// Returns whether the limiters decide correctly: a cost of 0 is always allowed, unless usage is
    /// reported. `None` if no decision came in time.
    ///
    /// The check takes the locks of a real decision, on a thread that may wait for them, and leaves
    /// no trace: it creates no limiter and takes nothing.
    pub(crate) async fn is_answered(&self) -> Option<bool> {
        let mut found = self.under_way();
        let found = timeout(self.within, found.wait_for(Option::is_some)).await.ok()?;
        // A check ends without a result only if it panics.
        Some(found.is_ok_and(|found| *found == Some(true)))
    }

    /// The check that is under way, or a new check.
    fn under_way(&self) -> watch::Receiver<ProbeResult> {
        let mut last = self.look.lock().unwrap_or_else(PoisonError::into_inner);
        // A check that lost its sender without a result has panicked, and never ends.
        let goes_on = last.has_changed().is_ok() && last.borrow().is_none();
        if !goes_on {
            *last = begin(Arc::clone(&self.limiters));
        }
        last.clone()
    }
}

/// Starts a check.
fn begin(limiters: Arc<Limiters>) -> watch::Receiver<ProbeResult> {
    let (finish, found) = watch::channel(None);
    let runtime = Handle::current();
    spawn_blocking(move || finish.send_replace(Some(runtime.block_on(look(&limiters)))));
    found
}

/// Peeks at a limiter of a rule in force.
async fn look(limiters: &Limiters) -> bool {
    let sample = SampleRequest::of(&limiters.policy());
    let entries = sample.entries.iter();
    let entries: Vec<_> = entries.map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let descriptors = [Descriptor::new(&entries).cost(0)];
    let answer = limiters.peek(&Request::new(&sample.domain, &descriptors)).await;
    // A look at reported usage asks for one unit, which may well be denied.
    answer.is_allowed() || answer.enforced().any(|matched| matched.is_look())
}

#[cfg(test)]
impl Probe {
    /// While the result is held, no check ends.
    pub(crate) fn hang(&self) -> watch::Sender<ProbeResult> {
        let (hangs, look) = watch::channel(None);
        *self.look.lock().unwrap() = look;
        hangs
    }
}
