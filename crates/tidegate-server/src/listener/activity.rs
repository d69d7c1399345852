//! The requests of a connection: whether one is under way, has come, or has begun to come.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::Waker;

use super::Seen;

/// The requests of one connection.
#[derive(Debug, Default)]
pub(crate) struct Activity {
    /// A request was let in since the last look.
    came: AtomicBool,
    /// Requests whose answers are not there yet: a rule may let them wait.
    under_way: AtomicUsize,
    /// Requests that have begun.
    begun: AtomicU64,
    /// A number of the head that has come in part; 0 between two of them.
    head: AtomicU64,
    /// HTTP/2 is spoken, by its first bytes.
    speaks_http_2: AtomicBool,
    /// The request under way over HTTP/1.1 is the last: nothing has come behind it, and nothing more is read.
    is_last: AtomicBool,
    /// Woken when no request is under way any more.
    waiting: Mutex<Option<Waker>>,
}

impl Activity {
    /// The connection at one look: whether a request was let in since the last one or is under way, and which head has
    /// come in part.
    pub(super) fn seen(&self) -> Seen {
        let is_used = self.came.swap(false, Ordering::Relaxed) || self.any_under_way();
        Seen { is_used, unended: self.in_head(), unread: None }
    }

    /// Whether a request is under way.
    pub(crate) fn any_under_way(&self) -> bool {
        self.under_way.load(Ordering::Acquire) > 0
    }

    /// Notes that a request was let in: only then is the connection of use.
    pub(crate) fn note(&self) {
        self.came.store(true, Ordering::Relaxed);
    }

    /// Notes bytes over HTTP/1.1: they are a part of a head, unless a request is under way.
    pub(super) fn note_head(&self) {
        if !self.any_under_way() {
            self.head.store(self.begun.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        }
    }

    /// Notes that HTTP/2 is spoken, and a number of the head that has come in part.
    pub(super) fn note_head_of_http_2(&self, number: Option<u64>) {
        self.speaks_http_2.store(true, Ordering::Relaxed);
        self.head.store(number.unwrap_or(0), Ordering::Relaxed);
    }

    /// A number of the head that has come in part; nothing between two of them.
    pub(super) fn in_head(&self) -> Option<u64> {
        Some(self.head.load(Ordering::Relaxed)).filter(|number| *number > 0)
    }

    /// Whether HTTP/2 is spoken, as far as it is known.
    pub(crate) fn speaks_http_2(&self) -> bool {
        self.speaks_http_2.load(Ordering::Relaxed)
    }

    /// Notes that the request under way is the last.
    pub(crate) fn note_last(&self) {
        self.is_last.store(true, Ordering::Relaxed);
    }

    /// Whether the request under way is the last.
    pub(crate) fn is_last(&self) -> bool {
        self.is_last.load(Ordering::Relaxed)
    }

    /// Wakes `waker` when no request is under way any more.
    pub(crate) fn wake_when_none(&self, waker: &Waker) {
        *self.waiting.lock().unwrap_or_else(PoisonError::into_inner) = Some(waker.clone());
    }

    /// Counts a request until the answer is dropped.
    pub(crate) fn begin(self: &Arc<Self>) -> UnderWay {
        self.under_way.fetch_add(1, Ordering::AcqRel);
        self.begun.fetch_add(1, Ordering::Relaxed);
        if !self.speaks_http_2() {
            self.head.store(0, Ordering::Relaxed);
        }
        UnderWay(Arc::clone(self))
    }
}

/// A request that is under way until this is dropped.
#[derive(Debug)]
pub(crate) struct UnderWay(Arc<Activity>);

impl Drop for UnderWay {
    fn drop(&mut self) {
        if self.0.under_way.fetch_sub(1, Ordering::AcqRel) == 1 {
            let waiting = self.0.waiting.lock().unwrap_or_else(PoisonError::into_inner).take();
            waiting.iter().for_each(Waker::wake_by_ref);
        }
    }
}
