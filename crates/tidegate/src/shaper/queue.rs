//! Shaping without a clock and without a runtime: items, their slots, and time as an argument.

use std::collections::VecDeque;

use tidegate_core::{Micros, Spec, Timestamp, Verdict};

use super::pace::{Pace, ShaperError};
use super::refused::{Refusal, Refused};

/// A bounded queue whose items leave at an even pace, W/N apart: the heart of a
/// [`Shaper`](super::Shaper), for a program that has a loop of its own.
///
/// An item of cost c pushed at t has its slot at `max(t, next_free)`, and `next_free` moves on by
/// c * W/N: to the microsecond what a `leaky_queue` limiter decides, which is the same code. A slot
/// is never moved once it was told, but by a change of the pace ([`ShapingQueue::amend`]), so who takes
/// items late finds several due at once, still in order; [`ShapingQueue::strict`] keeps them apart at
/// the price of that promise.
///
/// - An item of cost 0 takes no slot: it is due at once, ahead of those that wait for theirs.
/// - With a limit of 0 every cost of 1 or more is refused for ever.
/// - A clock that steps back by more than W takes all slots back with it; by less, they stay, and
///   nobody waits more than W longer.
///
/// ```
/// use tidegate::{AlgorithmKind, Departure, Micros, Next, ShapingQueue, Spec, Timestamp};
///
/// let mut mails = ShapingQueue::new(Spec::new(AlgorithmKind::LeakyQueue, 5, Micros::from_secs(1)))?;
/// let now = Timestamp::from_micros(1_000_000);
/// assert_eq!(mails.push(now, "first", 1).ok(), Some(Micros::ZERO));
/// assert_eq!(mails.push(now, "second", 1).ok(), Some(Micros::from_millis(200)));
///
/// let later = now.plus(Micros::from_millis(200));
/// assert_eq!(mails.poll(now), Next::Item(Departure { item: "first", slot: now }));
/// assert_eq!(mails.poll(now), Next::At(later));
/// assert_eq!(mails.poll(later), Next::Item(Departure { item: "second", slot: later }));
/// assert_eq!(mails.poll(later), Next::Empty);
/// # Ok::<(), tidegate::ShaperError>(())
/// ```
#[derive(Debug)]
pub struct ShapingQueue<T> {
    pace: Pace,
    /// By slot, then by arrival.
    line: VecDeque<Place<T>>,
    /// The weights of all that are in line.
    held: u64,
    /// When the last one left, and what it cost, where the spacing is strict.
    left: Option<(Timestamp, u64)>,
    strict: bool,
    closed: bool,
}

/// An item that leaves, and when it was to leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Departure<T> {
    /// What was pushed.
    pub item: T,
    /// The instant it was told to leave at: that of its push and the `delay` answered to it, unless the
    /// pace was changed since.
    pub slot: Timestamp,
}

/// What a look at a [`ShapingQueue`] finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next<T> {
    /// This one is due, and has left the queue.
    Item(Departure<T>),
    /// Nothing is due before this instant, unless an item of cost 0 comes.
    At(Timestamp),
    /// Nothing is in line.
    Empty,
    /// Nothing is in line, and nothing will be: the queue is closed.
    Ended,
}

#[derive(Debug)]
struct Place<T> {
    departure: Departure<T>,
    cost: u64,
}

impl<T> ShapingQueue<T> {
    /// An empty queue, its next slot free.
    ///
    /// # Errors
    /// When `spec` is no `leaky_queue`, is unlimited (nothing would bound the queue), or has words
    /// that are wrong in themselves.
    pub fn new(spec: Spec) -> Result<Self, ShaperError> {
        Ok(Self {
            pace: Pace::new(spec)?,
            line: VecDeque::new(),
            held: 0,
            left: None,
            strict: false,
            closed: false,
        })
    }

    /// The same, but no item leaves sooner than c * W/N after the one before it *did* leave, where c
    /// is what that one cost.
    ///
    /// For a receiver that must not see two closer together, whatever happens here. Lateness then
    /// adds up: one item taken late makes all behind it late until the line has run dry, and under
    /// steady load at the full rate the queue falls behind and refuses ([`Refusal::Behind`]).
    #[must_use]
    pub fn strict(mut self) -> Self {
        self.strict = true;
        self
    }

    /// Takes an item in, of `cost` units; answers how long it waits for its slot.
    ///
    /// # Errors
    /// Gives the item back when the line is full, by the decision of the `leaky_queue`; when the cost
    /// can not ever fit; when twice as many units as fit in line have not been taken although many of
    /// them are due; and when the queue is closed.
    pub fn push(&mut self, now: Timestamp, item: T, cost: u64) -> Result<Micros, Refused<T>> {
        let at = self.advance(now);
        match self.admit(at, at.since(now), cost) {
            Ok(delay) => {
                self.line_up(Departure { item, slot: at.plus(delay) }, cost);
                Ok(delay)
            }
            Err(refusal) => Err(Refused { item, refusal }),
        }
    }

    /// Takes the first item out if it is due at `now`; else tells when it will be.
    pub fn poll(&mut self, now: Timestamp) -> Next<T> {
        let at = self.advance(now);
        match self.due() {
            Some(due) if due <= at => self.leave(at),
            Some(due) => Next::At(due),
            None if self.closed => Next::Ended,
            None => Next::Empty,
        }
    }

    /// Puts another pace and another bound in force at `now`. What is in line keeps its order and is lost
    /// in no case, also where it is more than fits in line by now; its slots are those of the new pace.
    ///
    /// What was used stays used, as for a `leaky_queue` limiter: the units in line go on leaving at the new
    /// rate from this instant on, with what is left of the unit that is leaving just now; where the window
    /// changes, that one counts as a whole one again. So a faster pace has items leave sooner, a slower one
    /// later, and going there and back gives nothing. What is due already stays due. At a limit of 0
    /// nothing leaves but what is due, until another change: the first slot is then the last instant there
    /// is. Under [strict](Self::strict) spacing, what left before keeps the next item off for as long as
    /// the new pace says.
    ///
    /// ```
    /// use tidegate::{AlgorithmKind, Micros, Next, ShapingQueue, Spec, Timestamp};
    ///
    /// let per_second = |limit| Spec::new(AlgorithmKind::LeakyQueue, limit, Micros::from_secs(1));
    /// let mut mails = ShapingQueue::new(per_second(5))?;
    /// let now = Timestamp::from_micros(1_000_000);
    /// for mail in ["at once", "after 200 ms"] {
    ///     assert!(mails.push(now, mail, 1).is_ok());
    /// }
    /// assert!(matches!(mails.poll(now), Next::Item(_)));
    /// // Half of the slot has passed; the other half takes half as long.
    /// mails.amend(now.plus(Micros::from_millis(100)), per_second(10))?;
    /// assert_eq!(mails.poll(now), Next::At(now.plus(Micros::from_millis(150))));
    /// # Ok::<(), tidegate::ShaperError>(())
    /// ```
    ///
    /// # Errors
    /// As [`ShapingQueue::new`]; the pace stays as it was.
    pub fn amend(&mut self, now: Timestamp, spec: Spec) -> Result<(), ShaperError> {
        let pace = Pace::new(spec)?;
        let at = self.advance(now);
        self.pace.amend(pace, at);
        let mut behind = 0_u64;
        for Place { departure, cost } in self.line.iter_mut().rev() {
            // The first that is due: so are all before it.
            if departure.slot <= at {
                break;
            }
            behind = behind.saturating_add(*cost);
            let slot = at.plus(self.pace.wait_before(at, behind));
            departure.slot = slot.min(Timestamp::MAX);
        }
        Ok(())
    }

    /// Refuses all items from now on. What is in line leaves in its slots; then the queue has ended.
    pub fn close(&mut self) {
        self.closed = true;
    }

    /// Refuses all items from now on, and gives back what is in line, in order.
    pub fn close_now(&mut self) -> Vec<T> {
        self.close();
        self.held = 0;
        self.line.drain(..).map(|place| place.departure.item).collect()
    }

    /// Whether it was closed.
    #[must_use]
    pub const fn is_closed(&self) -> bool {
        self.closed
    }

    /// Items in line, due or not.
    #[must_use]
    pub fn len(&self) -> usize {
        self.line.len()
    }

    /// Whether no item is in line.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.line.is_empty()
    }

    /// When the first item may leave.
    pub(super) fn due(&self) -> Option<Timestamp> {
        self.line.front().map(|first| first.departure.slot.max(self.not_before()))
    }

    /// Nothing leaves before.
    fn not_before(&self) -> Timestamp {
        self.left.map_or(Timestamp::EPOCH, |(at, cost)| at.plus(self.pace.spacing(cost)))
    }

    /// A wait is counted on the clock that was read: where that is `behind` the instant that counts, what
    /// it lacks is waited for as well.
    fn admit(&mut self, at: Timestamp, behind: Micros, cost: u64) -> Result<Micros, Refusal> {
        if self.closed {
            return Err(Refusal::Closed);
        }
        match self.pace.decide(at, cost) {
            Verdict::Never => Err(Refusal::Never),
            Verdict::Deny => {
                let wait_us = self.pace.retry_after(at, cost).as_micros();
                let wait_us = wait_us.saturating_add(behind.as_micros());
                Err(Refusal::Full { retry_after: Micros::from_micros(wait_us) })
            }
            Verdict::Allow if weight(cost) > self.pace.most_held().saturating_sub(self.held) => {
                Err(Refusal::Behind)
            }
            Verdict::Allow => Ok(self.pace.take(at, cost)),
        }
    }

    /// At the end, but for an item of cost 0: that one goes ahead of those that are not due yet.
    fn line_up(&mut self, departure: Departure<T>, cost: u64) {
        let place = self.line.partition_point(|preview| preview.departure.slot <= departure.slot);
        self.held += weight(cost);
        self.line.insert(place, Place { departure, cost });
    }

    fn leave(&mut self, at: Timestamp) -> Next<T> {
        let Some(Place { departure, cost }) = self.line.pop_front() else { return Next::Empty };
        self.held -= weight(cost);
        self.left = self.strict.then_some((at, cost));
        Next::Item(departure)
    }

    /// Time passes, as in the room: what a step back does to its next slot it does to all in line.
    fn advance(&mut self, now: Timestamp) -> Timestamp {
        let (at, back) = self.pace.advance(now);
        if !back.is_zero() {
            self.left = self.left.map(|(at, cost)| (at.minus(back), cost));
            for place in &mut self.line {
                place.departure.slot = place.departure.slot.minus(back);
            }
        }
        at
    }
}

/// What an item counts for in memory: one of cost 0 is held as well.
fn weight(cost: u64) -> u64 {
    cost.max(1)
}
