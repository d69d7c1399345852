//! When the store is asked, and when it is left alone.
//!
//! Up, it is asked. An error that others would meet as well, or a few doubtful ones in a row, opens the
//! breaker: nothing is sent, and every request is told so at once, until one that looks after the store
//! (there is only ever one) has made a new link and found it fit.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{PoisonError, RwLock};

use super::error::{StoreError, Symptom};

/// Doubtful answers in a row after which the store is left alone.
const STRIKES: u32 = 5;

/// A link to the store while it is up, and what is known of it.
#[derive(Debug)]
pub(super) struct Breaker<L> {
    link: RwLock<Linked<L>>,
    strikes: AtomicU32,
}

#[derive(Debug)]
struct Linked<L> {
    link: Option<L>,
    /// How many links there were: what is told of an older one says nothing of this one.
    number: u64,
}

impl<L: Clone> Breaker<L> {
    /// One that is open: the store has yet to be found fit.
    pub(super) const fn open() -> Self {
        let link = RwLock::new(Linked { link: None, number: 0 });
        Self { link, strikes: AtomicU32::new(0) }
    }

    /// The link, and its number.
    ///
    /// # Errors
    /// The store is to be left alone.
    pub(super) fn link(&self) -> Result<(L, u64), StoreError> {
        let linked = self.link.read().unwrap_or_else(PoisonError::into_inner);
        linked.link.clone().map(|link| (link, linked.number)).ok_or(StoreError::Away)
    }

    /// The store was found fit by `link`.
    pub(super) fn close(&self, link: L) {
        let mut linked = self.link.write().unwrap_or_else(PoisonError::into_inner);
        linked.link = Some(link);
        linked.number += 1;
        self.strikes.store(0, Relaxed);
    }

    /// Notes what link `number` brought; whether this opened the breaker, so that somebody must look
    /// after the store now.
    pub(super) fn note(&self, number: u64, symptom: Option<Symptom>) -> bool {
        let doubtful = match symptom {
            None => {
                if self.strikes.load(Relaxed) > 0 {
                    self.strikes.store(0, Relaxed);
                }
                false
            }
            Some(Symptom::None) => false,
            Some(Symptom::Doubtful) => self.strikes.fetch_add(1, Relaxed) + 1 >= STRIKES,
            Some(Symptom::Gone) => true,
        };
        doubtful && self.trip(number)
    }

    fn trip(&self, number: u64) -> bool {
        let mut linked = self.link.write().unwrap_or_else(PoisonError::into_inner);
        let first = linked.number == number && linked.link.is_some();
        if first {
            linked.link = None;
        }
        first
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn closed() -> Breaker<&'static str> {
        let breaker = Breaker::open();
        breaker.close("first");
        breaker
    }

    #[test]
    fn it_begins_open_and_is_closed_by_a_fit_link() {
        assert_eq!(Breaker::<()>::open().link(), Err(StoreError::Away));
        assert_eq!(closed().link(), Ok(("first", 1)));
    }

    #[test]
    fn a_store_that_is_gone_opens_it_once() {
        let breaker = closed();
        assert!(breaker.note(1, Some(Symptom::Gone)));
        assert!(!breaker.note(1, Some(Symptom::Gone)), "only one looks after it");
        assert_eq!(breaker.link(), Err(StoreError::Away));
    }

    #[test]
    fn doubtful_answers_open_it_only_in_a_row() {
        let breaker = closed();
        for _ in 0..3 {
            for _ in 1..STRIKES {
                assert!(!breaker.note(1, Some(Symptom::Doubtful)));
            }
            assert!(!breaker.note(1, None));
        }
        let opened: Vec<_> =
            (0..STRIKES).map(|_| breaker.note(1, Some(Symptom::Doubtful))).collect();
        assert_eq!(opened.iter().position(|opened| *opened), Some(STRIKES as usize - 1));
    }

    #[test]
    fn what_an_old_link_brings_late_does_not_open_it_again() {
        let breaker = closed();
        assert!(breaker.note(1, Some(Symptom::Gone)));
        breaker.close("second");
        assert!(!breaker.note(1, Some(Symptom::Gone)));
        assert_eq!(breaker.link(), Ok(("second", 2)));
    }

    #[test]
    fn what_one_request_did_wrong_says_nothing_of_the_store() {
        let breaker = closed();
        for _ in 0..100 {
            assert!(!breaker.note(1, Some(Symptom::None)));
        }
        assert!(breaker.link().is_ok());
    }
}
