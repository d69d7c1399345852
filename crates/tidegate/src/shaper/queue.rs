//! Shaping without a clock and without a runtime, with time as an argument.
//!
//! A [`Shaper`](super::Shaper) calls it under its lock. Each verb first moves time forward
//! ([`ShapingQueue::advance`]), then asks the pace, and keeps the items in the order of their slots.

use std::collections::VecDeque;
use std::time::Duration;

use tidegate_core::{Micros, Spec, Timestamp, Verdict};

use super::pace::{Pace, ShaperError};
use super::refused::{Refusal, Refused};

/// A bounded queue whose items leave at an even pace, W/N apart: the core of a
/// [`Shaper`](super::Shaper), for programs with a loop of their own.
///
/// An item of cost c pushed at t has its slot at `max(t, next_free)`, and `next_free` moves on by
/// c * W/N: a `leaky_queue` limiter decides the same to the microsecond, with the same code. Once
/// promised, a slot is moved only by a change of the pace ([`ShapingQueue::amend`]), so a receiver
/// that is late finds several items due together, still in order; [`ShapingQueue::strict`] keeps
/// them apart at the price of that promise.
///
/// - An item of cost 0 takes no slot: it is due immediately, before those that wait for their
///   slots.
/// - With a limit of 0 every cost of 1 or more is refused for ever.
/// - A clock that steps back by more than W moves all slots back with it; for a smaller step they
///   stay, and no item waits more than W longer.
///
/// ```
/// use std::time::Duration;
/// use tidegate::{AlgorithmKind, Departure, Next, ShapingQueue, Spec, Timestamp};
///
/// let mut mails = ShapingQueue::new(Spec::new(AlgorithmKind::LeakyQueue, 5, Duration::from_secs(1)))?;
/// let now = Timestamp::from_micros(1_000_000);
/// assert_eq!(mails.push(now, "first", 1).ok(), Some(Duration::ZERO));
/// assert_eq!(mails.push(now, "second", 1).ok(), Some(Duration::from_millis(200)));
///
/// let later = now.plus(Duration::from_millis(200));
/// assert_eq!(mails.poll(now), Next::Item(Departure { item: "first", slot: now }));
/// assert_eq!(mails.poll(now), Next::At(later));
/// assert_eq!(mails.poll(later), Next::Item(Departure { item: "second", slot: later }));
/// assert_eq!(mails.poll(later), Next::Empty);
/// # Ok::<(), tidegate::ShaperError>(())
/// ```
#[derive(Debug)]
pub struct ShapingQueue<T> {
    pace: Pace,
    /// Items by slot, then by arrival.
    items: VecDeque<Queued<T>>,
    /// The weights of all queued items.
    held: u64,
    /// When the last item left, and its cost, if the spacing is strict.
    left: Option<(Timestamp, u64)>,
    strict: bool,
    closed: bool,
}

/// An item that leaves, and its slot.
///
/// ```
/// use tidegate::{AlgorithmKind, Next, ShapingQueue, Spec, Timestamp};
///
/// let mut mails = ShapingQueue::new(Spec::per_second(5).algorithm(AlgorithmKind::LeakyQueue))?;
/// let now = Timestamp::from_micros(1_000_000);
/// let _ = mails.push(now, "welcome", 1);
/// if let Next::Item(departure) = mails.poll(now) {
///     assert_eq!((departure.item, departure.slot), ("welcome", now));
/// }
/// # Ok::<(), tidegate::ShaperError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Departure<T> {
    /// The item that was pushed.
    pub item: T,
    /// The slot of the item: the instant of the push plus the `delay` that it returned, unless the
    /// pace was changed since.
    pub slot: Timestamp,
}

/// The result of a look at a [`ShapingQueue`].
///
/// ```
/// use std::time::Duration;
/// use tidegate::{AlgorithmKind, Next, ShapingQueue, Spec, Timestamp};
///
/// let mut mails = ShapingQueue::new(Spec::per_second(5).algorithm(AlgorithmKind::LeakyQueue))?;
/// let mut now = Timestamp::from_micros(1_000_000);
/// for mail in ["one", "two"] {
///     let _ = mails.push(now, mail, 1);
/// }
/// mails.close();
/// let mut sent = Vec::new();
/// loop {
///     match mails.poll(now) {
///         Next::Item(departure) => sent.push(departure.item),
///         Next::At(later) => now = later, // a program sleeps until then
///         Next::Empty | Next::Ended => break,
///     }
/// }
/// assert_eq!((sent, now), (vec!["one", "two"], Timestamp::from_micros(1_200_000)));
/// # Ok::<(), tidegate::ShaperError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next<T> {
    /// This item is due, and has left the queue.
    Item(Departure<T>),
    /// Nothing is due before this instant, unless an item of cost 0 comes.
    At(Timestamp),
    /// The queue is empty.
    Empty,
    /// The queue is closed and empty.
    Ended,
}

#[derive(Debug)]
struct Queued<T> {
    departure: Departure<T>,
    cost: u64,
}

impl<T> ShapingQueue<T> {
    /// Creates an empty queue whose next slot is free.
    ///
    /// # Errors
    /// Returns an error if `spec` is not a `leaky_queue`, is unlimited (so nothing would bound the
    /// queue), or has invalid fields.
    pub fn new(spec: Spec) -> Result<Self, ShaperError> {
        Ok(Self {
            pace: Pace::new(spec)?,
            items: VecDeque::new(),
            held: 0,
            left: None,
            strict: false,
            closed: false,
        })
    }

    /// Makes the spacing strict: no item leaves sooner than c * W/N after the previous one *did*
    /// leave, where c is the cost of that item.
    ///
    /// Use this for a receiver that must never see two items closer together. Delays then add up:
    /// one item taken late delays all later ones until the queue is empty, and under steady load at
    /// the full rate the queue runs late and refuses ([`Refusal::Behind`]).
    #[must_use]
    pub fn strict(mut self) -> Self {
        self.strict = true;
        self
    }

    /// Takes in an item of `cost` units; returns how long it waits for its slot.
    ///
    /// # Errors
    /// Returns the item if the queue is full, as the `leaky_queue` decides; if the cost can never
    /// fit; if too many due items were not taken (twice as many units as fit into the queue); and
    /// if the queue is closed.
    pub fn push(&mut self, now: Timestamp, item: T, cost: u64) -> Result<Duration, Refused<T>> {
        let at = self.advance(now);
        match self.admit(at, at.since(now), cost) {
            Ok(delay) => {
                self.enqueue(Departure { item, slot: at.plus(delay) }, cost);
                Ok(delay.into())
            }
            Err(refusal) => Err(Refused { item, refusal }),
        }
    }

    /// Takes the first item if it is due at `now`; else returns when it will be.
    pub fn poll(&mut self, now: Timestamp) -> Next<T> {
        let at = self.advance(now);
        match self.due() {
            Some(due) if due <= at => self.leave(at),
            Some(due) => Next::At(due),
            None if self.closed => Next::Ended,
            None => Next::Empty,
        }
    }

    /// Changes the pace and the bound at `now`. Queued items keep their order and get the slots of
    /// the new pace. None is lost, even if they are more than the new bound.
    ///
    /// Used units stay used, as for a `leaky_queue` limiter: the queued units leave at the new rate
    /// from this instant on, with the rest of the unit that is leaving now; if the window changes,
    /// that item counts as a whole unit again. So a faster pace makes items leave sooner, a
    /// slower one later, and a change there and back gives no credit. Items that are due stay due.
    /// At a limit of 0 only those leave, until another change: the first slot is then the last
    /// instant. Under [strict](Self::strict) spacing, the last item that left delays the next item by the spacing of
    /// the new pace.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tidegate::{AlgorithmKind, Next, ShapingQueue, Spec, Timestamp};
    ///
    /// let per_second = |limit| Spec::new(AlgorithmKind::LeakyQueue, limit, Duration::from_secs(1));
    /// let mut mails = ShapingQueue::new(per_second(5))?;
    /// let now = Timestamp::from_micros(1_000_000);
    /// for mail in ["at once", "after 200 ms"] {
    ///     assert!(mails.push(now, mail, 1).is_ok());
    /// }
    /// assert!(matches!(mails.poll(now), Next::Item(_)));
    /// // Half of the slot has passed; the other half takes half as long.
    /// mails.amend(now.plus(Duration::from_millis(100)), per_second(10))?;
    /// assert_eq!(mails.poll(now), Next::At(now.plus(Duration::from_millis(150))));
    /// # Ok::<(), tidegate::ShaperError>(())
    /// ```
    ///
    /// # Errors
    /// Returns an error as [`ShapingQueue::new`] does; the pace stays as it was.
    pub fn amend(&mut self, now: Timestamp, spec: Spec) -> Result<(), ShaperError> {
        let pace = Pace::new(spec)?;
        let at = self.advance(now);
        self.pace.amend(pace, at);
        let mut behind = 0_u64;
        for Queued { departure, cost } in self.items.iter_mut().rev() {
            // This is the first due item; all before it are due as well.
            if departure.slot <= at {
                break;
            }
            // From the end: the slot of an item comes when all units but its own and later ones have left.
            behind = behind.saturating_add(*cost);
            let slot = at.plus(self.pace.wait_before(at, behind));
            departure.slot = slot.min(Timestamp::MAX);
        }
        Ok(())
    }

    /// Refuses all items from now on. Queued items leave in their slots; then the queue has ended.
    pub fn close(&mut self) {
        self.closed = true;
    }

    /// Refuses all items from now on, and returns the queued items, in order.
    pub fn close_now(&mut self) -> Vec<T> {
        self.close();
        self.held = 0;
        self.items.drain(..).map(|queued| queued.departure.item).collect()
    }

    /// Returns whether the queue was closed.
    #[must_use]
    pub const fn is_closed(&self) -> bool {
        self.closed
    }

    /// Queued items, due or not.
    #[must_use]
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Returns whether no item is queued.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// When the first item can leave.
    pub(super) fn due(&self) -> Option<Timestamp> {
        self.items.front().map(|first| first.departure.slot.max(self.not_before()))
    }

    /// The instant before which strict spacing lets nothing leave.
    fn not_before(&self) -> Timestamp {
        self.left.map_or(Timestamp::EPOCH, |(at, cost)| at.plus(self.pace.spacing(cost)))
    }

    /// Admits an item. A caller measures its wait on the clock that was read; if that is `behind`
    /// the instant that counts, the difference is added.
    fn admit(&mut self, at: Timestamp, behind: Micros, cost: u64) -> Result<Micros, Refusal> {
        if self.closed {
            return Err(Refusal::Closed);
        }
        match self.pace.decide(at, cost) {
            Verdict::Never => Err(Refusal::Never),
            Verdict::Deny => {
                let wait_us = self.pace.retry_after(at, cost).as_micros();
                let wait_us = wait_us.saturating_add(behind.as_micros());
                Err(Refusal::Full { retry_after: Duration::from_micros(wait_us) })
            }
            // The pace counts only items before their slots; due items that no receiver takes pile up beyond it.
            Verdict::Allow if weight(cost) > self.pace.most_held().saturating_sub(self.held) => {
                Err(Refusal::Behind)
            }
            Verdict::Allow => Ok(self.pace.take(at, cost)),
        }
    }

    /// Inserts at the end; an item of cost 0 goes before those that are not yet due.
    fn enqueue(&mut self, departure: Departure<T>, cost: u64) {
        // After items with the same slot, so that they leave in the order of arrival.
        let index = self.items.partition_point(|queued| queued.departure.slot <= departure.slot);
        self.held += weight(cost);
        self.items.insert(index, Queued { departure, cost });
    }

    fn leave(&mut self, at: Timestamp) -> Next<T> {
        let Some(Queued { departure, cost }) = self.items.pop_front() else { return Next::Empty };
        self.held -= weight(cost);
        // Counted from now and not from its slot: strict spacing is about the times when items leave.
        self.left = self.strict.then_some((at, cost));
        Next::Item(departure)
    }

    /// Moves time forward; if the clock stepped back, all slots move with the slot of the next item.
    fn advance(&mut self, now: Timestamp) -> Timestamp {
        let (at, back) = self.pace.advance(now);
        if !back.is_zero() {
            // The last item that left moves with them, or strict spacing would wait for the old time to come again.
            self.left = self.left.map(|(at, cost)| (at.minus(back), cost));
            for queued in &mut self.items {
                queued.departure.slot = queued.departure.slot.minus(back);
            }
        }
        at
    }
}

/// The weight of an item in memory; an item of cost 0 takes memory as well.
fn weight(cost: u64) -> u64 {
    cost.max(1)
}
