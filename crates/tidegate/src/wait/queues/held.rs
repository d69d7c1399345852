//! All queues in hand: who joins, leaves, sleeps, and is told.

use std::task::Waker;

use tidegate_core::Timestamp;

use super::{All, QueueKey, Queues};
use crate::wait::places::Ticket;
use crate::wait::queue::Queue;
use crate::wait::sync::{MutexGuard, Ordering::SeqCst, fence};

/// All queues in hand. When it is let go of, heads that do not know it yet are told, outside of the lock.
pub(crate) struct HeldQueues<'l, K: QueueKey> {
    queues: &'l Queues<K>,
    /// Always there, but for the moment when it is let go of.
    all: Option<MutexGuard<'l, All<K>>>,
    /// Queues whose counts hold one more than wait.
    announced: Vec<K>,
    /// Queues whose head may be another now.
    touched: Vec<K>,
    /// Who is to be told something, outside of the lock.
    woken: Vec<Waker>,
    /// Wakers to be dropped outside of the lock: one may own a task that leaves a queue when it ends.
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

    /// A number for one who arrives.
    pub(crate) fn ticket(&mut self) -> Ticket {
        let Some(all) = &mut self.all else { return 0 };
        all.tickets += 1;
        all.tickets
    }

    /// Lets others know, before a limiter is asked, that somebody may wait for it from now on.
    pub(crate) fn announce(&mut self, key: &K) {
        self.queues.add(key);
        self.announced.push(key.clone());
        // With the one in `wake`: who gives back sees this, or what was given back is seen here.
        fence(SeqCst);
    }

    /// The queue, if anybody waits in it.
    pub(crate) fn queue(&self, key: &K) -> Option<&Queue> {
        self.all.as_ref()?.queues.get(key)
    }

    /// How many wait in a queue.
    pub(crate) fn len(&self, key: &K) -> usize {
        self.queue(key).map_or(0, Queue::len)
    }

    /// Whether anybody waits in a queue who came before `ticket`.
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
        if !self.queue(key).is_some_and(|queue| queue.holds(ticket)) {
            return;
        }
        let waker = self.queue_mut(key).and_then(|queue| queue.leave(ticket));
        self.spent.extend(waker);
        self.queues.remove(key, 1);
        self.touched.push(key.clone());
    }

    /// Notes that somebody asks who stands in a queue.
    #[cfg(feature = "redis")]
    pub(crate) fn asks(&mut self, key: &K, ticket: Ticket) {
        if let Some(queue) = self.queue_mut(key) {
            queue.asks(ticket);
        }
    }

    /// Sleeps in a queue that was joined.
    pub(crate) fn park(&mut self, key: &K, ticket: Ticket, waker: Waker, deadline: Timestamp) {
        let before = self.queue_mut(key).and_then(|queue| queue.park(ticket, waker, deadline));
        self.spent.extend(before);
    }

    /// Puts out of a queue who should have left long ago.
    pub(crate) fn put_out(&mut self, key: &K, now: Timestamp) {
        let before = self.len(key);
        let wakers = self.queue_mut(key).map(|queue| queue.put_out(now)).unwrap_or_default();
        let gone = before - self.len(key);
        if gone > 0 {
            // Should they live, they are told that they are too late.
            self.woken.extend(wakers);
            self.queues.remove(key, gone);
            self.touched.push(key.clone());
        }
    }

    /// Lets the head of a queue be told that there may be units for it.
    pub(crate) fn wake(&mut self, key: &K) {
        if let Some(queue) = self.queue_mut(key) {
            queue.wake();
        }
        self.touched.push(key.clone());
    }

    /// The same for the queues that `are_meant`.
    pub(crate) fn wake_those(&mut self, are_meant: impl Fn(&K) -> bool) {
        let meant = |all: &MutexGuard<'l, All<K>>| -> Vec<K> {
            all.queues.keys().filter(|key| are_meant(key)).cloned().collect()
        };
        let keys = self.all.as_ref().map(meant);
        keys.unwrap_or_default().iter().for_each(|key| self.wake(key));
    }

    fn queue_mut(&mut self, key: &K) -> Option<&mut Queue> {
        self.all.as_mut()?.queues.get_mut(key)
    }
}

impl<K: QueueKey> Drop for HeldQueues<'_, K> {
    fn drop(&mut self) {
        for key in std::mem::take(&mut self.touched) {
            let head = self.queue_mut(&key).and_then(Queue::tell_head);
            self.woken.extend(head);
            if self.len(&key) == 0
                && let Some(all) = &mut self.all
            {
                all.queues.remove(&key);
            }
        }
        self.announced.iter().for_each(|key| self.queues.remove(key, 1));
        self.all = None;
        self.woken.drain(..).for_each(Waker::wake);
    }
}
