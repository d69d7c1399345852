//! The worker of a leaky bucket: a handler that is called for each item in its slot.

use super::Shaper;
use super::turn::Turn;
use crate::clock::{Park, Timer};

impl<T, C: Timer> Shaper<T, C> {
    /// Calls `handler` for each item, not before its slot, and awaits what it makes before it takes
    /// the next; ends once the line is closed and empty.
    ///
    /// Spawn it on any runtime that the clock's timer works in, from a clone of the handle. A handler
    /// that takes longer than items are apart makes later ones late, and in the end has the line
    /// refuse ([`Refusal::Behind`](super::Refusal::Behind)): let it spawn what is long, or run
    /// several workers. A plain function is called as `|item| async move { handle(item) }`.
    ///
    /// If the future is dropped, the item its handler was busy with goes with it; all others stay in
    /// line, and may be run again.
    ///
    /// # Panics
    /// If `handler` does: that item is gone, all others stay in line, other handles and workers are
    /// not disturbed. Also as [`Shaper::next`].
    ///
    /// ```
    /// use tidegate::{AlgorithmKind, ManualClock, Micros, Shaper, Spec};
    ///
    /// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
    /// let spec = Spec::new(AlgorithmKind::LeakyQueue, 10, Micros::from_secs(1));
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
        let mut turn = Turn::new(self);
        while let Some(departure) = turn.departure().await {
            handler(departure.item).await;
        }
    }
}

impl<T, C: Park> Shaper<T, C> {
    /// The same for a thread of its own, which it blocks: calls `handler` for each item, not before
    /// its slot, until the line is closed and empty.
    ///
    /// # Panics
    /// If `handler` does: that item is gone, all others stay in line, other handles and workers are
    /// not disturbed.
    pub fn run_blocking(self, mut handler: impl FnMut(T)) {
        let mut turn = Turn::new(self);
        while let Some(departure) = turn.departure_blocking() {
            handler(departure.item);
        }
    }
}
