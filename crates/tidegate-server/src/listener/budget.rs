//! Memory that clients make a listener keep: bounded for each connection, and for all of them together.
//!
//! A connection has an [`Account`] in the listener's [`ByteBudget`]. A request claims bytes there as
//! [`KeptBytes`], until its last byte has reached the client. The first [`FREE`] bytes of a connection
//! are its own; bytes beyond them count for all connections. So a client that reads its answers is
//! never limited by another.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use hyper::body::Bytes;

use super::Bounds;
use super::bounds::FREE;

/// The text for a client whose request, or the answer to it, does not fit.
pub(crate) const TOO_MUCH: &str = "the requests and unread answers of this connection, or of all connections \
    together, fill the memory that clients may take: read the answers, or ask less at a time, then ask again";

/// The number of checks after which an answer that is still unread has stalled.
const CHECKS: usize = 3;

/// The bytes that all connections of a listener keep, and their bound.
#[derive(Debug)]
pub(crate) struct ByteBudget {
    each: usize,
    all: usize,
    /// Bytes beyond the free ones of each connection.
    taken: AtomicUsize,
}

impl Default for ByteBudget {
    fn default() -> Self {
        let Bounds { kept_bytes, kept_bytes_of_all, .. } = Bounds::default();
        Self::of(kept_bytes, kept_bytes_of_all)
    }
}

impl ByteBudget {
    pub(crate) const fn of(each: usize, all: usize) -> Self {
        Self { each, all, taken: AtomicUsize::new(0) }
    }

    /// The account of one more connection.
    pub(crate) fn open(self: &Arc<Self>) -> Arc<Account> {
        Arc::new(Account { budget: Arc::clone(self), ..Account::default() })
    }
}

/// The bytes that a connection keeps.
#[derive(Debug, Default)]
pub(crate) struct Account {
    budget: Arc<ByteBudget>,
    kept: AtomicUsize,
    /// The number of times that it was checked.
    checks: AtomicUsize,
    /// Pieces of answers on their way, by the check before which they were sent.
    on_their_way: [AtomicUsize; CHECKS + 1],
}

impl Account {
    /// Claims bytes; `None` if the connection, or all connections, keep too many already.
    pub(crate) fn take(self: &Arc<Self>, bytes: usize) -> Option<KeptBytes> {
        let mut kept = self.none();
        kept.resize(bytes).then_some(kept)
    }

    /// A part of the account that holds no bytes yet.
    pub(crate) fn none(self: &Arc<Self>) -> KeptBytes {
        KeptBytes { account: Arc::clone(self), bytes: 0 }
    }

    /// Checks whether a piece of an answer has been on its way for [`CHECKS`] checks or longer.
    pub(crate) fn has_stalled(&self) -> bool {
        // The slots form a ring. The slot of the next check is the oldest: its pieces were sent CHECKS checks ago.
        let next = self.checks.fetch_add(1, Relaxed) + 1;
        self.slot(next).load(Relaxed) > 0
    }

    fn slot(&self, check: usize) -> &AtomicUsize {
        let [first, ..] = &self.on_their_way;
        self.on_their_way.get(check % (CHECKS + 1)).unwrap_or(first)
    }

    /// Counts more bytes; returns whether both bounds still hold. [`KeptBytes::resize`] takes them back if not.
    fn grow(&self, bytes: usize) -> bool {
        let (now, all) = self.grown(bytes);
        now <= self.budget.each && all <= self.budget.all
    }

    /// Counts more bytes. Returns the bytes of this connection, and the common bytes of all connections if this
    /// connection needs some of them.
    fn grown(&self, bytes: usize) -> (usize, usize) {
        let before = self.kept.fetch_add(bytes, Relaxed);
        let now = before.saturating_add(bytes);
        // `fetch_add` puts concurrent claims in some order, so their parts beyond the free bytes add up exactly.
        let more = beyond(now) - beyond(before);
        let all = if more == 0 { 0 } else { self.budget.taken.fetch_add(more, Relaxed) + more };
        (now, all)
    }

    /// Claims bytes for a refusal. An eighth of each bound is there for refusals alone, because a proxy may let a
    /// request through whose refusal does not reach it.
    pub(crate) fn take_to_refuse(self: &Arc<Self>, bytes: usize) -> Option<KeptBytes> {
        let ByteBudget { each, all, .. } = *self.budget;
        let (mine, of_all) = self.grown(bytes);
        // Made before the bounds are compared, because dropping it gives a refused claim back.
        let kept = KeptBytes { account: Arc::clone(self), bytes };
        (mine <= each + each / 8 && of_all <= all + all / 8).then_some(kept)
    }

    fn shrink(&self, bytes: usize) {
        let before = self.kept.fetch_sub(bytes, Relaxed);
        let less = beyond(before) - beyond(before.saturating_sub(bytes));
        if less > 0 {
            self.budget.taken.fetch_sub(less, Relaxed);
        }
    }
}

const fn beyond(bytes: usize) -> usize {
    bytes.saturating_sub(FREE)
}

/// Bytes that a request claims of its connection's account, until this is dropped.
#[derive(Debug)]
pub(crate) struct KeptBytes {
    account: Arc<Account>,
    bytes: usize,
}

impl KeptBytes {
    /// Claims `bytes` in place of those before; returns false, and changes nothing, if that is too
    /// much.
    pub(crate) fn resize(&mut self, bytes: usize) -> bool {
        if bytes <= self.bytes {
            self.account.shrink(self.bytes - bytes);
        } else if !self.account.grow(bytes - self.bytes) {
            // Counted first and taken back: so two requests at once never pass the bound together.
            self.account.shrink(bytes - self.bytes);
            return false;
        }
        self.bytes = bytes;
        true
    }

    pub(crate) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Counts `bytes` in place of those before, even beyond the bound: the answers exist already.
    pub(crate) fn set(&mut self, bytes: usize) {
        if bytes < self.bytes {
            self.account.shrink(self.bytes - bytes);
        } else if bytes > self.bytes {
            self.account.grow(bytes - self.bytes);
        }
        self.bytes = bytes;
    }

    /// The most bytes that this may count if its connection keeps no others: the free ones while
    /// the other connections fill the budget.
    pub(crate) fn most(&self) -> usize {
        let ByteBudget { each, all, ref taken } = *self.account.budget;
        // The own part is subtracted: a connection must not be bounded by its own bytes of a moment ago.
        let others = taken.load(Relaxed).saturating_sub(beyond(self.bytes));
        if others >= all { FREE.min(each) } else { each }
    }

    /// Claims `bytes` for a refusal in place of those before; `None` if there is no room even for that.
    pub(crate) fn into_refusal(mut self, bytes: usize) -> Option<Self> {
        if bytes <= self.bytes {
            self.resize(bytes);
            return Some(self);
        }
        // The bytes before are given up first: the refusal takes their place.
        let account = Arc::clone(&self.account);
        drop(self);
        account.take_to_refuse(bytes)
    }

    /// Claims more bytes; returns false, and changes nothing, if that is too much.
    pub(crate) fn add(&mut self, bytes: usize) -> bool {
        self.resize(self.bytes.saturating_add(bytes))
    }

    /// A piece of an answer that holds its part of this claim, or the rest of it if that is less,
    /// until it has been sent.
    pub(crate) fn sent(&mut self, piece: Bytes) -> Bytes {
        let bytes = piece.len().min(self.bytes);
        // Moved and not released: the piece gives its bytes back when it is dropped.
        self.bytes -= bytes;
        Self { account: Arc::clone(&self.account), bytes }.all_sent(piece)
    }

    /// The last piece, which holds all of this claim until it has been sent.
    pub(crate) fn all_sent(self, piece: Bytes) -> Bytes {
        // The slot is remembered, because more checks may come before the piece is dropped.
        let check = self.account.checks.load(Relaxed);
        self.account.slot(check).fetch_add(1, Relaxed);
        Bytes::from_owner(OnItsWay { piece, kept: self, check })
    }
}

impl Drop for KeptBytes {
    fn drop(&mut self) {
        self.account.shrink(self.bytes);
    }
}

/// A piece of an answer that hyper or the connection has, and the client does not.
struct OnItsWay {
    piece: Bytes,
    kept: KeptBytes,
    check: usize,
}

impl AsRef<[u8]> for OnItsWay {
    fn as_ref(&self) -> &[u8] {
        &self.piece
    }
}

impl Drop for OnItsWay {
    fn drop(&mut self) {
        self.kept.account.slot(self.check).fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
impl ByteBudget {
    /// Bytes beyond the free ones.
    pub(crate) fn taken(&self) -> usize {
        self.taken.load(Relaxed)
    }
}

#[cfg(test)]
impl Account {
    pub(crate) fn kept(&self) -> usize {
        self.kept.load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_keeps_no_more_than_its_bound_and_all_together_no_more_than_theirs() {
        let budget = Arc::new(ByteBudget::of(4 * FREE, 5 * FREE));
        let (one, other) = (budget.open(), budget.open());
        let mut all = one.take(3 * FREE).unwrap();
        assert!(one.take(FREE + 1).is_none(), "each has its bound");
        assert!(all.add(FREE) && !all.add(1));
        assert_eq!((one.kept(), budget.taken()), (4 * FREE, 3 * FREE));
        let others = other.take(3 * FREE).unwrap();
        assert!(other.take(1).is_none(), "all have theirs");
        let third = budget.open();
        let free = third.take(FREE).unwrap();
        assert!(third.take(1).is_none());
        drop((all, others, free));
        assert_eq!((one.kept(), other.kept(), third.kept(), budget.taken()), (0, 0, 0, 0));
    }

    #[test]
    fn a_connection_that_fills_its_bound_has_space_for_refusals_up_to_an_eighth() {
        let budget = Arc::new(ByteBudget::of(8 * FREE, 8 * FREE));
        let account = budget.open();
        let all = account.take(8 * FREE).unwrap();
        assert!(account.take(1).is_none());
        let refusal = account.take_to_refuse(FREE).unwrap();
        assert!(account.take_to_refuse(1).is_none());
        drop(all);
        let larger = refusal.into_refusal(2 * FREE).unwrap();
        assert_eq!(account.kept(), 2 * FREE);
        drop(larger.into_refusal(7).unwrap());
        assert_eq!((account.kept(), budget.taken()), (0, 0));
    }

    #[test]
    fn what_is_on_its_way_is_kept_until_it_has_left() {
        let budget = Arc::new(ByteBudget::default());
        let account = budget.open();
        let mut kept = account.take(3 * FREE).unwrap();
        let piece = kept.sent(Bytes::from(vec![7; 2 * FREE]));
        let part = piece.slice(FREE..);
        drop((kept, piece));
        assert_eq!((account.kept(), budget.taken()), (2 * FREE, FREE), "a part is all of it");
        assert_eq!(part, vec![7; FREE]);
        drop(part);
        assert_eq!((account.kept(), budget.taken()), (0, 0));
    }

    #[test]
    fn a_piece_that_is_not_read_has_stalled_after_some_looks() {
        let account = Arc::new(ByteBudget::default()).open();
        let mut kept = account.take(10).unwrap();
        let piece = kept.sent(Bytes::from_static(b"piece"));
        assert_eq!([(); CHECKS + 1].map(|()| account.has_stalled()), [false, false, false, true]);
        drop(piece);
        assert!(!account.has_stalled());
        for _ in 0..3 * CHECKS {
            let piece = kept.sent(Bytes::new());
            assert!(!account.has_stalled(), "each is read soon");
            drop(piece);
        }
    }
}
