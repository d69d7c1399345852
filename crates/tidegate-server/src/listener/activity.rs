//! The activity of a connection of hyper: requests under way, admitted requests, and heads that have begun to arrive.
//! The protocol notes events here, [`Heads`](super::Heads) notes heads, and [`Shell`](super::Shell) reads all at each
//! check, because hyper tells neither whether a connection is idle nor whether a request is under way.
//!
//! Each head has a number: two checks that find the same number have found the same head, still unfinished.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Waker;

use super::ConnectionCheck;

/// Shared by the connection, its requests and its checks.
#[derive(Debug, Default)]
pub(crate) struct Activity {
    /// True if a request was admitted since the last check.
    came: AtomicBool,
    /// Requests without an answer yet: a rule may let them wait.
    under_way: AtomicUsize,
    /// Requests that have begun.
    begun: AtomicU64,
    /// The number of the head that has arrived in part; 0 between two heads.
    head: AtomicU64,
    /// True if the client speaks HTTP/2, by its first bytes.
    speaks_http_2: AtomicBool,
    /// True if the request under way over HTTP/1.1 is the last: no bytes follow it, and no more are
    /// read.
    is_last: AtomicBool,
    /// Woken when no request is under way.
    waiting: Mutex<Option<Waker>>,
}

impl Activity {
    /// The state of the connection for a check: it is used if a request was admitted since the last check or is under
    /// way. A head that has arrived only in part is unended.
    pub(super) fn seen(&self) -> ConnectionCheck {
        // Swapped, so that an admitted request counts for one check.
        let is_used = self.came.swap(false, Ordering::Relaxed) || self.any_under_way();
        ConnectionCheck { is_used, unended: self.in_head(), unread: None }
    }

    /// Returns whether a request is under way.
    pub(crate) fn any_under_way(&self) -> bool {
        self.under_way.load(Ordering::Acquire) > 0
    }

    /// Notes that a request was admitted; nothing else counts as use.
    pub(crate) fn note(&self) {
        self.came.store(true, Ordering::Relaxed);
    }

    /// Notes bytes over HTTP/1.1: they belong to a head, unless a request is under way.
    pub(super) fn note_head(&self) {
        if !self.any_under_way() {
            // The number stays while the head arrives, however often it grows, and differs from the number before.
            self.head.store(self.begun.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        }
    }

    /// Notes that the client speaks HTTP/2, and the number of the head that has arrived in part.
    pub(super) fn note_head_of_http_2(&self, number: Option<u64>) {
        self.speaks_http_2.store(true, Ordering::Relaxed);
        self.head.store(number.unwrap_or(0), Ordering::Relaxed);
    }

    /// The number of the head that has arrived in part; `None` between two heads.
    pub(super) fn in_head(&self) -> Option<u64> {
        Some(self.head.load(Ordering::Relaxed)).filter(|number| *number > 0)
    }

    /// Returns whether the client is known to speak HTTP/2.
    pub(crate) fn speaks_http_2(&self) -> bool {
        self.speaks_http_2.load(Ordering::Relaxed)
    }

    /// Notes that the request under way is the last.
    pub(crate) fn note_last(&self) {
        self.is_last.store(true, Ordering::Relaxed);
    }

    /// Returns whether the request under way is the last.
    pub(crate) fn is_last(&self) -> bool {
        self.is_last.load(Ordering::Relaxed)
    }

    /// Wakes `waker` when no request is under way.
    pub(crate) fn wake_when_none(&self, waker: &Waker) {
        *self.waiting.lock().unwrap_or_else(PoisonError::into_inner) = Some(waker.clone());
    }

    /// Counts a request until the answer is dropped.
    pub(crate) fn begin(self: &Arc<Self>) -> RequestUnderWay {
        self.under_way.fetch_add(1, Ordering::AcqRel);
        self.begun.fetch_add(1, Ordering::Relaxed);
        // Over HTTP/2 other heads may be arriving, and `Heads` sees where each ends.
        if !self.speaks_http_2() {
            self.head.store(0, Ordering::Relaxed);
        }
        RequestUnderWay(Arc::clone(self))
    }
}

/// A request that is under way until the guard is dropped.
#[derive(Debug)]
pub(crate) struct RequestUnderWay(Arc<Activity>);

impl Drop for RequestUnderWay {
    fn drop(&mut self) {
        if self.0.under_way.fetch_sub(1, Ordering::AcqRel) == 1 {
            // Taken out of the lock before it is woken, because a waker may run other code at once.
            let waiting = self.0.waiting.lock().unwrap_or_else(PoisonError::into_inner).take();
            if let Some(waker) = waiting {
                waker.wake();
            }
        }
    }
}
