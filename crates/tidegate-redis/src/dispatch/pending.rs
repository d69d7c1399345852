//! One call on the store's thread, from its arrival to its reply.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::Instant;

use super::fair_queue::KeyHashes;
use crate::inbox::{NoReply, Question, WaitingCaller};
use crate::route::Delivered;
use crate::script::Call;
use crate::store::StoreError;

/// The maximum that lateness of the store's thread, and other requests for the same key, may lengthen a wait.
const MOST_LATENESS: Duration = Duration::from_millis(10);

/// A call on the store's thread, until it is answered.
#[derive(Debug)]
pub(super) struct Pending {
    pub(super) asked: Arc<Call>,
    pub(super) source: u64,
    pub(super) keys: KeyHashes,
    /// It is sent by then or not at all, because the rest of its time is for the store. By the
    /// thread's clock, like the deadline.
    pub(super) send_by: Instant,
    pub(super) deadline: Instant,
    /// The end of its wait by the real clock.
    pub(super) latest: Instant,
    /// True if it waits until `latest`, because it is decided together with others.
    pub(super) waits_on: Cell<bool>,
    /// The number of times that it was sent to another shard because its slot had moved.
    pub(super) moves: Cell<u8>,
    /// True if it must not be merged, because some of its keys have moved.
    pub(super) alone: Cell<bool>,
    /// True if it goes to a node that its slot is moving to.
    pub(super) asking: Cell<bool>,
    /// The number of the shard that it waits at.
    pub(super) home: Cell<usize>,
    state: Cell<CallState>,
    waits: RefCell<Waits>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CallState {
    Queued,
    Sent,
    Done,
}

/// The channel to the caller that waits for the reply.
#[derive(Debug)]
enum Waits {
    InTime(WaitingCaller),
    Late(oneshot::Sender<Result<Delivered, StoreError>>),
    Nobody,
}

impl Pending {
    /// A question as it is handed over, after the thread has stood still for `stalled` in all.
    pub(super) fn new(
        question: Question,
        keys: KeyHashes,
        stalled: Duration,
        now: Instant,
    ) -> Self {
        let Question { asked, source, deadline, caller } = question;
        let latest = deadline + MOST_LATENESS;
        // From the real clock to the thread's clock, which lacks the time that the thread has stood still.
        let deadline = deadline - stalled;
        let left = deadline.saturating_duration_since(now);
        Self {
            asked,
            source,
            keys,
            send_by: now + left * 3 / 4,
            deadline,
            latest,
            waits_on: Cell::new(false),
            moves: Cell::new(0),
            alone: Cell::new(false),
            asking: Cell::new(false),
            home: Cell::new(usize::MAX),
            state: Cell::new(CallState::Queued),
            waits: RefCell::new(Waits::InTime(caller)),
        }
    }

    pub(super) fn is_done(&self) -> bool {
        self.state.get() == CallState::Done
    }

    pub(super) fn is_queued(&self) -> bool {
        self.state.get() == CallState::Queued
    }

    /// Returns whether no receiver is left for a reply, in time or late.
    pub(super) fn is_abandoned(&self) -> bool {
        match &*self.waits.borrow() {
            Waits::InTime(caller) => caller.is_gone(),
            Waits::Late(answer) => answer.is_closed(),
            Waits::Nobody => true,
        }
    }

    /// Returns whether a caller still waits for it in time.
    pub(super) fn is_in_time(&self) -> bool {
        matches!(&*self.waits.borrow(), Waits::InTime(_))
    }

    /// The reason why it gets no answer from a shard with this error: a request that was not sent took nothing.
    pub(super) fn unanswered(&self, error: &StoreError) -> StoreError {
        if self.is_queued() { StoreError::Away } else { error.clone() }
    }

    pub(super) fn sent(&self) {
        self.state.set(CallState::Sent);
    }

    /// Notes that it was not run, and is to be sent again.
    pub(super) fn unsent(&self) {
        self.state.set(CallState::Queued);
    }

    /// Hands over the store's reply, or its error; returns whether it came too late for a caller.
    pub(super) fn reply(&self, reply: Result<Delivered, StoreError>) -> bool {
        self.state.set(CallState::Done);
        match self.waits.replace(Waits::Nobody) {
            Waits::InTime(caller) => {
                caller.answer(reply.map_err(|error| NoReply { error, late: None }));
                false
            }
            Waits::Late(answer) => {
                drop(answer.send(reply));
                !self.asked.is_background()
            }
            Waits::Nobody => !self.asked.is_background(),
        }
    }

    /// Ends the wait for a reply in time. If the store was asked, a late reply can still be received.
    pub(super) fn give_up(&self, error: StoreError) {
        // It was not sent, so no reply can come late.
        if self.state.get() != CallState::Sent {
            self.reply(Err(error));
            return;
        }
        match self.waits.replace(Waits::Nobody) {
            Waits::InTime(caller) => {
                let (late, hears) = oneshot::channel();
                self.waits.replace(Waits::Late(late));
                caller.answer(Err(NoReply { error, late: Some(hears) }));
            }
            // It was given up before: a late receiver stays.
            waits => drop(self.waits.replace(waits)),
        }
    }
}
