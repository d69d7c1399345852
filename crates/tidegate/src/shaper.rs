//! Work that leaves at an even pace: a bounded queue, its slots W/N apart.
//!
//! A [`Shaper`] is a handle of shared `state`: a [`ShapingQueue`] under a lock, and the wakers of its receivers.
//! The queue is a state machine without a clock; its `pace` is the algorithm `leaky_queue`, which says which items
//! are admitted and when they leave. `receive` takes items out, as a task, a thread or a stream.

mod pace;
mod queue;
mod receive;
mod refused;
mod state;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tidegate_core::Spec;

use crate::clock::{Clock, SystemClock};
use state::ShaperState;

pub use pace::ShaperError;
pub use queue::{Departure, Next, ShapingQueue};
#[cfg(feature = "stream")]
pub use receive::ShaperStream;
pub use refused::{Refusal, Refused};

/// A queue that takes items in bursts and hands them out evenly, W/N apart: the leaky bucket as a
/// queue.
///
/// A push returns immediately: with the wait of the item for its slot, or with a refusal and the
/// time after which the queue has space again. A `leaky_queue` limiter decides which items are
/// taken in and when they leave; [`ShapingQueue`] defines it exactly. Items come out of
/// [`next`](Shaper::next), of a stream (feature `stream`), or go to a handler
/// ([`run`](Shaper::run)), each never before its slot.
///
/// It is a handle: clones share one queue, and each can push and receive. Several receivers share
/// the items, and each item goes to one receiver. Each item wakes all receivers, so use a few, not thousands. A
/// receiver that is dropped while it waits loses no item.
///
/// ```
/// use std::time::Duration;
/// use tidegate::{AlgorithmKind, Shaper, Spec};
///
/// let mails = Shaper::new(Spec::new(AlgorithmKind::LeakyQueue, 1_000, Duration::from_secs(1)))?;
/// let worker = std::thread::spawn({
///     let mails = mails.clone();
///     move || {
///         let mut sent = Vec::new();
///         mails.run_blocking(|mail| sent.push(mail));
///         sent
///     }
/// });
/// mails.push("to ada")?;
/// mails.push("to bob")?; // leaves a millisecond later
/// mails.close(); // queued items still leave, then the worker ends
/// assert_eq!(worker.join().ok(), Some(vec!["to ada", "to bob"]));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Shaper<T, C = SystemClock> {
    shared: Arc<ShaperState<T, C>>,
}

impl<T> Shaper<T> {
    /// Creates an empty queue that uses the system's clock.
    ///
    /// # Errors
    /// Returns an error if `spec` is not a `leaky_queue`, is unlimited, or has invalid fields.
    pub fn new(spec: Spec) -> Result<Self, ShaperError> {
        Self::with_clock(spec, SystemClock::new())
    }
}

impl<T, C: Clock> Shaper<T, C> {
    /// An empty queue by `clock`.
    ///
    /// # Errors
    /// When `spec` is not a `leaky_queue`, is unlimited, or has invalid fields.
    pub fn with_clock(spec: Spec, clock: C) -> Result<Self, ShaperError> {
        Ok(Self::over(ShapingQueue::new(spec)?, clock))
    }

    /// A shaper over an existing queue, for example one that is [strict](ShapingQueue::strict) or
    /// has items in it.
    pub fn over(queue: ShapingQueue<T>, clock: C) -> Self {
        Self { shared: Arc::new(ShaperState::new(queue, clock)) }
    }

    /// Takes in an item of one unit; returns how long it waits for its slot.
    ///
    /// # Errors
    /// Returns the item when the queue is full, has too many due items that no receiver took, or is closed: see
    /// [`Refusal`].
    pub fn push(&self, item: T) -> Result<Duration, Refused<T>> {
        self.push_cost(item, 1)
    }

    /// Takes in an item of `cost` units: it leaves whole in the first of that many slots. One of
    /// cost 0 is due immediately.
    ///
    /// # Errors
    /// As [`Shaper::push`], and when the cost can never fit.
    pub fn push_cost(&self, item: T, cost: u64) -> Result<Duration, Refused<T>> {
        self.shared.change(|queue, now| queue.push(now, item, cost))
    }

    /// Changes the pace and the bound from now on: queued items keep their order, and leave in the
    /// slots of the new pace; time already waited does not count: see [`ShapingQueue::amend`]. Receivers are woken
    /// for an item that is now due sooner.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tidegate::{AlgorithmKind, ManualClock, Shaper, Spec};
    ///
    /// let per_second = |limit| Spec::new(AlgorithmKind::LeakyQueue, limit, Duration::from_secs(1));
    /// let clock = ManualClock::new();
    /// let mails = Shaper::with_clock(per_second(1), clock.clone())?;
    /// for mail in ["at once", "a second later"] {
    ///     mails.push(mail)?;
    /// }
    /// assert_eq!(mails.next_blocking(), Some("at once"));
    /// mails.amend(per_second(1_000))?;
    /// clock.advance(Duration::from_millis(1));
    /// assert_eq!(mails.next_blocking(), Some("a second later"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Shaper::new`]; the pace stays as it was.
    pub fn amend(&self, spec: Spec) -> Result<(), ShaperError> {
        self.shared.change(|queue, now| queue.amend(now, spec))
    }

    /// Takes the first item if it is due; never waits.
    #[must_use = "an item that is due has left the queue"]
    pub fn try_next(&self) -> Next<T> {
        self.shared.change(ShapingQueue::poll)
    }

    /// Refuses all items from now on. Queued items leave in their slots; then receivers see the
    /// end.
    pub fn close(&self) {
        self.shared.change(|queue, _| queue.close());
    }

    /// Refuses all items from now on, returns the queued items, in order, and ends all receivers.
    #[must_use = "these items will not leave any more"]
    pub fn close_now(&self) -> Vec<T> {
        self.shared.change(|queue, _| queue.close_now())
    }

    /// Returns whether the queue was closed.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.shared.look(ShapingQueue::is_closed)
    }

    /// Queued items, due or not.
    #[must_use]
    pub fn len(&self) -> usize {
        self.shared.look(ShapingQueue::len)
    }

    /// Returns whether the queue is empty.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<T, C> Clone for Shaper<T, C> {
    /// Another handle to the same queue.
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared) }
    }
}

/// Shows the number of queued items, without the items.
impl<T, C: Clock> fmt::Debug for Shaper<T, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Shaper");
        shown.field("len", &self.len()).field("closed", &self.is_closed()).finish_non_exhaustive()
    }
}

#[cfg(all(test, loom))]
mod models;
