//! The inbox of the store's thread, where other threads put questions, and the replies to them.

use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;

use super::route::Delivered;
use super::script::Call;
use crate::store::StoreError;

/// The reason why there is no reply in time, and a channel for one that comes late.
#[derive(Debug)]
pub(crate) struct NoReply {
    pub(crate) error: StoreError,
    /// The late reply, if the store was asked.
    pub(crate) late: Option<LateReply>,
}

/// A reply that comes after its caller stopped waiting.
pub(crate) type LateReply = oneshot::Receiver<Result<Delivered, StoreError>>;

/// A reply in time, or the reason for none.
pub(crate) type Replied = Result<Delivered, NoReply>;

/// A call as it is handed to the store's thread.
#[derive(Debug)]
pub(super) struct Question {
    pub(super) asked: Arc<Call>,
    pub(super) source: u64,
    pub(super) deadline: Instant,
    pub(super) answer: oneshot::Sender<Replied>,
}

/// A list that many threads add to and the store's thread takes as a whole: however many questions
/// arrive while that thread is busy, it wakes once.
#[derive(Debug)]
pub(super) struct Inbox<T> {
    state: Mutex<InboxState<T>>,
    filled: Notify,
}

#[derive(Debug)]
struct InboxState<T> {
    items: Vec<T>,
    closed: bool,
}

impl<T> Default for Inbox<T> {
    fn default() -> Self {
        let state = Mutex::new(InboxState { items: Vec::new(), closed: false });
        Self { state, filled: Notify::new() }
    }
}

impl<T> Inbox<T> {
    /// Adds an item; drops it if items are no longer taken.
    pub(super) fn push(&self, item: T) {
        let mut state = self.lock();
        if state.closed {
            return;
        }
        state.items.push(item);
        // The thread takes all items at once, so only the first item has to wake it.
        let is_first = state.items.len() == 1;
        drop(state);
        if is_first {
            self.filled.notify_one();
        }
    }

    /// Refuses further items.
    pub(super) fn close(&self) {
        self.lock().closed = true;
        self.filled.notify_one();
    }

    /// Ends taking: drops the items that are there, and any that are added.
    pub(super) fn abandon(&self) {
        let mut state = self.lock();
        state.closed = true;
        let dropped = mem::take(&mut state.items);
        // Dropping items wakes their callers, who must not wait for the lock.
        drop(state);
        drop(dropped);
    }

    /// Waits for items and moves all of them to `taken`; returns false once the inbox is closed and
    /// empty.
    pub(super) async fn take(&self, taken: &mut Vec<T>) -> bool {
        loop {
            {
                let mut state = self.lock();
                if !state.items.is_empty() {
                    mem::swap(&mut state.items, taken);
                    return true;
                }
                if state.closed {
                    return false;
                }
            }
            // A notification that comes between the unlocking and this wait is kept for it.
            self.filled.notified().await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, InboxState<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn all_that_was_pushed_is_taken_in_order_also_after_it_was_closed() {
        let inbox = Inbox::default();
        (0..3).for_each(|item| inbox.push(item));
        inbox.close();
        inbox.push(3);
        let mut taken = Vec::new();
        assert!(inbox.take(&mut taken).await);
        assert_eq!(taken, [0, 1, 2]);
        taken.clear();
        assert!(
            !inbox.take(&mut taken).await,
            "the end is reported, and nothing was added after it"
        );
    }

    #[tokio::test]
    async fn who_waits_is_woken_by_the_first_item() {
        let inbox = Inbox::default();
        let mut taken = Vec::new();
        let (open, ()) = tokio::join!(biased; inbox.take(&mut taken), async { inbox.push('a') });
        assert!(open);
        assert_eq!(taken, ['a']);
    }
}
