//! The worker of a leaky bucket: a handler that is called for each item in its slot.

use super::Shaper;
use super::receiver::Receiver;
use crate::clock::{Park, Timer};

impl<T, C: Timer> Shaper<T, C> {
    /// Calls `handler` for each item, not before its slot, and awaits its future before taking the
    /// next; ends once the queue is closed and empty.
    ///
    /// Spawn it on any runtime that the clock's timer works in, from a clone of the handle. A
    /// handler that takes longer than the spacing of items delays later ones, and in the end makes
    /// the queue refuse ([`Refusal::Behind`](super::Refusal::Behind)): it should spawn long work,
    /// or several workers should run. A plain function is called as `|item| async move {
    /// handle(item) }`.
    ///
    /// If the future is dropped, the item of the running handler is lost; all others stay queued,
    /// and `run` can be called again.
    ///
    /// # Panics
    /// Panics if `handler` does: that item is lost, all others stay queued, and other handles and
    /// workers are not disturbed. Also panics as [`Shaper::next`] does.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tidegate::{AlgorithmKind, ManualClock, Shaper, Spec};
    ///
    /// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
    /// let spec = Spec::new(AlgorithmKind::LeakyQueue, 10, Duration::from_secs(1));
    /// let shaper = Shaper::with_clock(spec, ManualClock::new())?;
    /// let worker = tokio::spawn(shaper.clone().run(|mail| async move { println!("sent {mail}") }));
    /// shaper.push("to ada")?;
    /// shaper.close();
    /// worker.await?;
    /// assert!(shaper.is_empty());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub async fn run<F, Fut>(self, mut handler: F)
    where
        F: FnMut(T) -> Fut,
        Fut: Future<Output = ()>,
    {
        let mut receiver = Receiver::new(self);
        while let Some(departure) = receiver.departure().await {
            handler(departure.item).await;
        }
    }
}

impl<T, C: Park> Shaper<T, C> {
    /// Calls `handler` for each item, not before its slot, and blocks the thread, until the queue
    /// is closed and empty.
    ///
    /// # Panics
    /// Panics if `handler` does: that item is lost, all others stay queued, and other handles and
    /// workers are not disturbed.
    pub fn run_blocking(self, mut handler: impl FnMut(T)) {
        let mut receiver = Receiver::new(self);
        while let Some(departure) = receiver.departure_blocking() {
            handler(departure.item);
        }
    }
}
