//! All queues under their lock: joining, leaving, sleeping and waking.
//!
//! An attempt of a waiter holds this while it looks at the limiters and joins or leaves, so that no other caller
//! comes between. Wakers, which may run or drop a task, are called only after the lock is released.

use std::task::Waker;

use tidegate_core::Timestamp;

use super::{All, QueueKey, Queues};
use crate::sync::MutexGuard;
use crate::sync::atomic::{Ordering::SeqCst, fence};
use crate::wait::places::Ticket;
use crate::wait::queue::Queue;

/// All queues under their lock. Dropping it releases the lock, and then wakes heads that do not
/// know yet that they are heads.
pub(crate) struct HeldQueues<'l, K: QueueKey> {
    queues: &'l Queues<K>,
    /// `None` only while this is dropped.
    all: Option<MutexGuard<'l, All<K>>>,
    /// Queues whose counts include an announced attempt.
    announced: Vec<K>,
    /// Queues whose head may have changed.
    touched: Vec<K>,
    /// Wakers to be called outside of the lock.
    woken: Vec<Waker>,
    /// Wakers to be dropped outside of the lock, because one may own a task that leaves a queue
    /// when it ends.
    spent: Vec<Waker>,
}

impl<'l, K: QueueKey> HeldQueues<'l, K> {
    pub(super) fn new(queues: &'l Queues<K>, all: MutexGuard<'l, All<K>>) -> Self {
        Self {
            queues,
            all: Some(all),
            announced: Vec::new(),
            touched: Vec::new(),
            woken: Vec::new(),
            spent: Vec::new(),
        }
    }

    /// The ticket of a new waiter.
    pub(crate) fn ticket(&mut self) -> Ticket {
        let Some(all) = &mut self.all else { return 0 };
        all.tickets += 1;
        all.tickets
    }

    /// Counts an attempt as waiting, before it uses a limiter.
    pub(crate) fn announce(&mut self, key: &K) {
        self.queues.add(key);
        self.announced.push(key.clone());
        // Pairs with the fences in `Queues::wake` and `Queues::wake_those`: either the refund sees this count, or this attempt sees
        // the refund.
        fence(SeqCst);
    }

    /// The queue of `key`, if any caller waits in it.
    pub(crate) fn queue(&self, key: &K) -> Option<&Queue> {
        self.all.as_ref()?.queues.get(key)
    }

    /// The number of waiters in a queue.
    pub(crate) fn len(&self, key: &K) -> usize {
        self.queue(key).map_or(0, Queue::len)
    }

    /// Returns whether a waiter of the queue came before `ticket`.
    pub(crate) fn has_before(&self, key: &K, ticket: Ticket) -> bool {
        self.queue(key).is_some_and(|queue| queue.has_before(ticket))
    }

    /// Joins a queue.
    pub(crate) fn join(&mut self, key: &K, ticket: Ticket, cost: u64, deadline: Timestamp) {
        self.queues.add(key);
        if let Some(all) = &mut self.all {
            all.queues.entry(key.clone()).or_default().join(ticket, cost, deadline);
        }
        self.touched.push(key.clone());
    }

    /// Leaves a queue.
    pub(crate) fn leave(&mut self, key: &K, ticket: Ticket) {
        // An evicted waiter was taken off the counts when it was evicted.
        if !self.queue(key).is_some_and(|queue| queue.holds(ticket)) {
            return;
        }
        let waker = self.queue_mut(key).and_then(|queue| queue.leave(ticket));
        self.spent.extend(waker);
        self.queues.remove(key, 1);
        self.touched.push(key.clone());
    }

    /// Notes that a waiter of the queue starts an attempt.
    #[cfg(feature = "redis")]
    pub(crate) fn asks(&mut self, key: &K, ticket: Ticket) {
        if let Some(queue) = self.queue_mut(key) {
            queue.asks(ticket);
        }
    }

    /// Lets a waiter that has joined sleep.
    pub(crate) fn park(&mut self, key: &K, ticket: Ticket, waker: Waker, deadline: Timestamp) {
        let before = self.queue_mut(key).and_then(|queue| queue.park(ticket, waker, deadline));
        self.spent.extend(before);
    }

    /// Evicts waiters whose deadline is long over.
    pub(crate) fn evict(&mut self, key: &K, now: Timestamp) {
        let before = self.len(key);
        let wakers = self.queue_mut(key).map(|queue| queue.evict(now)).unwrap_or_default();
        let gone = before - self.len(key);
        if gone > 0 {
            // Waiters that are still alive learn that they are too late.
            self.woken.extend(wakers);
            self.queues.remove(key, gone);
            self.touched.push(key.clone());
        }
    }

    /// Wakes the head of a queue, because units may be free.
    pub(crate) fn wake(&mut self, key: &K) {
        if let Some(queue) = self.queue_mut(key) {
            queue.wake();
        }
        self.touched.push(key.clone());
    }

    /// Wakes the heads of the queues that `are_meant` selects.
    pub(crate) fn wake_those(&mut self, are_meant: impl Fn(&K) -> bool) {
        let all = self.all.iter().flat_map(|all| all.queues.keys());
        let meant: Vec<K> = all.filter(|key| are_meant(key)).cloned().collect();
        for key in &meant {
            self.wake(key);
        }
    }

    fn queue_mut(&mut self, key: &K) -> Option<&mut Queue> {
        self.all.as_mut()?.queues.get_mut(key)
    }
}

impl<K: QueueKey> Drop for HeldQueues<'_, K> {
    fn drop(&mut self) {
        for key in std::mem::take(&mut self.touched) {
            let head = self.queue_mut(&key).and_then(Queue::head_to_wake);
            self.woken.extend(head);
            if self.len(&key) == 0
                && let Some(all) = &mut self.all
            {
                all.queues.remove(&key);
            }
        }
        // Last under the lock: an attempt counts as waiting until it has joined or left every queue.
        self.announced.iter().for_each(|key| self.queues.remove(key, 1));
        self.all = None;
        // A waker may run its task at once, and the task may lock the queues.
        // `spent` is dropped after this, as a field.
        self.woken.drain(..).for_each(Waker::wake);
    }
}
