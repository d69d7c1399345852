//! Whether a decision can really be taken: the health check of every listener.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tidegate::{Descriptor, Request};
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::spawn_blocking;
use tokio::time::timeout;

use crate::limiters::Limiters;
use crate::sample_request::SampleRequest;

/// What a look found; nothing while it is under way.
type Found = Option<bool>;

/// Looks at a limiter now and then, one look at a time, for all who ask meanwhile: looks that hang do not
/// pile up, and nobody stands in a line behind those who ask often.
pub(crate) struct Probe {
    limiters: Arc<Limiters>,
    sample: SampleRequest,
    /// How long a look is waited for.
    within: Duration,
    /// The last look, which may be under way.
    look: Mutex<watch::Receiver<Found>>,
}

impl Probe {
    /// Looks at these limiters.
    pub(crate) fn new(limiters: Arc<Limiters>, within: Duration) -> Self {
        let sample = SampleRequest::of(&limiters.policy());
        Self { limiters, sample, within, look: Mutex::new(watch::channel(Some(false)).1) }
    }

    /// Whether the limiters answer, and as they must: a cost of 0 is always allowed, but where usage is
    /// reported. Nothing where no answer came in time.
    ///
    /// The look goes through the locks of a real decision, on a thread that may wait for them, and
    /// leaves no trace: it begins no limiter and takes nothing.
    pub(crate) async fn is_answered(&self) -> Option<bool> {
        let mut found = self.under_way();
        let found = timeout(self.within, found.wait_for(Option::is_some)).await.ok()?;
        // The look ends without a word only by a panic.
        Some(found.is_ok_and(|found| *found == Some(true)))
    }

    /// The look that is under way, else one that begins now.
    fn under_way(&self) -> watch::Receiver<Found> {
        let mut last = self.look.lock().unwrap_or_else(PoisonError::into_inner);
        let goes_on = last.has_changed().is_ok() && last.borrow().is_none();
        if !goes_on {
            *last = begin(Arc::clone(&self.limiters), self.sample.clone());
        }
        last.clone()
    }

    /// Held for as long as no look is to end.
    #[cfg(test)]
    pub(crate) fn hang(&self) -> watch::Sender<Found> {
        let (hangs, look) = watch::channel(None);
        *self.look.lock().unwrap() = look;
        hangs
    }
}

/// Begins a look.
fn begin(limiters: Arc<Limiters>, sample: SampleRequest) -> watch::Receiver<Found> {
    let (tell, found) = watch::channel(None);
    let runtime = Handle::current();
    spawn_blocking(move || tell.send_replace(Some(runtime.block_on(look(&limiters, &sample)))));
    found
}

async fn look(limiters: &Limiters, sample: &SampleRequest) -> bool {
    let entries = sample.entries.iter();
    let entries: Vec<_> = entries.map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let descriptors = [Descriptor::new(&entries).cost(0)];
    let answer = limiters.peek(&Request::new(&sample.domain, &descriptors)).await;
    answer.is_allowed() || answer.enforced().any(|matched| matched.is_look())
}
