//! Taking items one by one: as a task, as a thread, as a stream.
//!
//! `next`, `run`, the stream and the blocking forms are all one loop of a [`Receiver`]: take the first item if it
//! is due, or wait for its slot or for a change of the queue.

use std::future::poll_fn;
#[cfg(feature = "stream")]
use std::pin::Pin;
use std::task::{Context, Poll};
use std::thread;

use super::Shaper;
use super::queue::{Departure, Next};
use super::state::TakerTicket;
use crate::clock::{Park, Timer, unparks_this_thread};
use crate::wait::Alarm;

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

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<T>> {
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

/// One receiver of a queue. It holds nothing between two attempts, so dropping it at any time loses
/// no item.
struct Receiver<T, C> {
    shaper: Shaper<T, C>,
    ticket: TakerTicket,
    /// The slot it waits for, if any.
    alarm: Alarm,
}

impl<T, C> Receiver<T, C> {
    fn new(shaper: Shaper<T, C>) -> Self {
        Self { ticket: shaper.shared.ticket(), shaper, alarm: Alarm::default() }
    }
}

impl<T, C: Timer> Receiver<T, C> {
    /// The next item in its slot; `None` at the end.
    async fn departure(&mut self) -> Option<Departure<T>> {
        poll_fn(|context| self.poll(context)).await
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Option<Departure<T>>> {
        loop {
            match self.shaper.shared.take_or_wait(self.ticket, context.waker()) {
                Next::Item(departure) => return Poll::Ready(Some(departure)),
                Next::Ended => return Poll::Ready(None),
                // The waker is registered, and the next push calls it.
                Next::Empty => return Poll::Pending,
                // The slot has come in between, so the next attempt finds the item, unless another receiver took
                // it.
                Next::At(slot) if self.alarm.rings(self.shaper.shared.clock(), slot, context) => {}
                Next::At(_) => return Poll::Pending,
            }
        }
    }
}

impl<T, C: Park> Receiver<T, C> {
    /// The next item in its slot; `None` at the end. Blocks the thread until then.
    fn departure_blocking(&mut self) -> Option<Departure<T>> {
        let waker = unparks_this_thread();
        loop {
            match self.shaper.shared.take_or_wait(self.ticket, &waker) {
                Next::Item(departure) => return Some(departure),
                Next::Ended => return None,
                Next::Empty => thread::park(),
                Next::At(slot) => self.shaper.shared.clock().park_until(slot),
            }
        }
    }
}

impl<T, C> Drop for Receiver<T, C> {
    fn drop(&mut self) {
        self.shaper.shared.forget(self.ticket);
    }
}
