//! Taking items one by one: as a task, as a thread, as a stream.

use super::Shaper;
use super::queue::Departure;
use super::receiver::Receiver;
use crate::clock::{Park, Timer};

impl<T, C: Timer> Shaper<T, C> {
    /// The next item, not before its slot; `None` when the queue is closed and empty.
    ///
    /// Dropping the future at any time loses no item and delays no other receiver.
    ///
    /// # Panics
    /// Panics if the clock's timer does: tokio's timers panic outside of its runtime.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tidegate::{AlgorithmKind, ManualClock, Shaper, Spec};
    ///
    /// # tokio::runtime::Builder::new_current_thread().build()?.block_on(async {
    /// let clock = ManualClock::new();
    /// let spec = Spec::new(AlgorithmKind::LeakyQueue, 10, Duration::from_secs(1));
    /// let shaper = Shaper::with_clock(spec, clock.clone())?;
    /// shaper.push("at once")?;
    /// shaper.push("a tenth of a second later")?;
    /// assert_eq!(shaper.next().await, Some("at once"));
    /// clock.advance(Duration::from_millis(100));
    /// assert_eq!(shaper.next().await, Some("a tenth of a second later"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub async fn next(&self) -> Option<T> {
        self.next_departure().await.map(|departure| departure.item)
    }

    /// Like [`Shaper::next`], but also returns the item's slot.
    ///
    /// # Panics
    /// Panics as [`Shaper::next`] does.
    pub async fn next_departure(&self) -> Option<Departure<T>> {
        Receiver::new(self.clone()).departure().await
    }

    /// The items as a stream, which ends when the queue is closed and empty. There can be several
    /// streams and other receivers; each item goes to one of them.
    ///
    /// # Panics
    /// A poll of the stream panics as [`Shaper::next`] does.
    #[cfg(feature = "stream")]
    #[must_use = "a stream does nothing unless it is polled"]
    pub fn stream(&self) -> ShaperStream<T, C> {
        ShaperStream { receiver: Receiver::new(self.clone()) }
    }
}

impl<T, C: Park> Shaper<T, C> {
    /// The next item, not before its slot; `None` when the queue is closed and empty. Blocks the
    /// thread until then.
    pub fn next_blocking(&self) -> Option<T> {
        self.next_departure_blocking().map(|departure| departure.item)
    }

    /// Like [`Shaper::next_blocking`], but also returns the item's slot.
    pub fn next_departure_blocking(&self) -> Option<Departure<T>> {
        Receiver::new(self.clone()).departure_blocking()
    }
}

/// The items of a [`Shaper`], each not before its slot (feature `stream`). Dropping it loses no item.
///
/// ```
/// use std::pin::Pin;
/// use std::time::Duration;
///
/// use futures_core::Stream;
/// use tidegate::{AlgorithmKind, Shaper, ShaperError, Spec};
///
/// /// Five mails a second, for whatever takes a stream.
/// fn mails() -> Result<Pin<Box<dyn Stream<Item = String>>>, ShaperError> {
///     let mails = Shaper::new(Spec::new(AlgorithmKind::LeakyQueue, 5, Duration::from_secs(1)))?;
///     Ok(Box::pin(mails.stream()))
/// }
/// ```
#[cfg(feature = "stream")]
pub struct ShaperStream<T, C> {
    receiver: Receiver<T, C>,
}

#[cfg(feature = "stream")]
impl<T, C: Timer> futures_core::Stream for ShaperStream<T, C> {
    type Item = T;

    fn poll_next(
        self: std::pin::Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<T>> {
        let next = self.get_mut().receiver.poll(context);
        next.map(|departure| departure.map(|departure| departure.item))
    }
}

#[cfg(feature = "stream")]
impl<T, C> std::fmt::Debug for ShaperStream<T, C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ShaperStream")
    }
}
