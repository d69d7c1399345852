//! Whether a decision can really be taken: what every door asks before it says that all is well.

use std::sync::Arc;

use tidegate::{Descriptor, Request};
use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;

use crate::limiters::Limiters;
use crate::sample::Sample;

/// Looks at a limiter now and then, one look at a time: looks that hang do not pile up.
pub(crate) struct Probe {
    sample: Sample,
    turn: Arc<Semaphore>,
}

impl Probe {
    /// Looks at what `sample` meets.
    pub(crate) fn new(sample: Sample) -> Self {
        Self { sample, turn: Arc::new(Semaphore::new(1)) }
    }

    /// Whether the limiters answer, and as they must: a cost of 0 is always allowed.
    ///
    /// The look goes through the locks of a real decision, on a thread that may wait for them, and
    /// leaves no trace: it begins no limiter and takes nothing.
    pub(crate) async fn is_answered(&self, limiters: Arc<Limiters>) -> bool {
        let Ok(turn) = Arc::clone(&self.turn).acquire_owned().await else {
            return false;
        };
        let sample = self.sample.clone();
        let runtime = Handle::current();
        let looked = spawn_blocking(move || {
            let allowed = runtime.block_on(look(&limiters, &sample));
            drop(turn);
            allowed
        });
        looked.await.unwrap_or(false)
    }

    /// Held for as long as no look is to end.
    #[cfg(test)]
    pub(crate) async fn hang(&self) -> tokio::sync::OwnedSemaphorePermit {
        Arc::clone(&self.turn).acquire_owned().await.unwrap()
    }
}

async fn look(limiters: &Limiters, sample: &Sample) -> bool {
    let entries = sample.entries.iter();
    let entries: Vec<_> = entries.map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let descriptors = [Descriptor::new(&entries).cost(0)];
    limiters.peek(&Request::new(&sample.domain, &descriptors)).await.is_allowed()
}
