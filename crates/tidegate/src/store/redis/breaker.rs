//! When the store is asked, and when it is left alone.
//!
//! Up, it is asked. An error that others would meet as well, or a few doubtful ones in a row, opens the
//! breaker: nothing is sent, and every request is told so at once, until one that looks after the store
//! (there is only ever one) has made a new link and found it fit.
//!
//! A cluster has nodes that answer while one does not. It is left alone only once nobody was answered for
//! as long as its patience lasts; until then the requests that a dead node would decide fail by themselves.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use std::sync::{PoisonError, RwLock};

use super::error::{StoreError, Symptom};

/// Doubtful answers in a row after which the store is left alone.
const STRIKES: u32 = 5;

/// A link to the store while it is up, and what is known of it.
#[derive(Debug)]
pub(super) struct Breaker<L> {
    link: RwLock<Linked<L>>,
    strikes: AtomicU32,
    /// How long doubtful answers are borne while others are answered, in microseconds; 0 not at all.
    patience_us: u64,
    /// When somebody was answered last.
    answered_us: AtomicU64,
}

#[derive(Debug)]
struct Linked<L> {
    link: Option<L>,
    /// How many links there were: what is told of an older one says nothing of this one.
    number: u64,
}

impl<L: Clone> Breaker<L> {
    /// One that is open: the store has yet to be found fit.
    pub(super) const fn open(patience_us: u64) -> Self {
        let link = RwLock::new(Linked { link: None, number: 0 });
        Self { link, strikes: AtomicU32::new(0), patience_us, answered_us: AtomicU64::new(0) }
    }

    /// The link, and its number.
    ///
    /// # Errors
    /// The store is to be left alone.
    pub(super) fn link(&self) -> Result<(L, u64), StoreError> {
        let linked = self.link.read().unwrap_or_else(PoisonError::into_inner);
        linked.link.clone().map(|link| (link, linked.number)).ok_or(StoreError::Away)
    }

    /// The store was found fit by `link`, which is an answer as well.
    pub(super) fn close(&self, link: L, at_us: u64) {
        let mut linked = self.link.write().unwrap_or_else(PoisonError::into_inner);
        linked.link = Some(link);
        linked.number += 1;
        self.strikes.store(0, Relaxed);
        self.answered_us.fetch_max(at_us, Relaxed);
    }

    /// Notes what link `number` brought at an instant of any clock that only goes on; whether this opened
    /// the breaker, so that somebody must look after the store now.
    pub(super) fn note(&self, number: u64, symptom: Option<Symptom>, at_us: u64) -> bool {
        let doubtful = match symptom {
            None => {
                if self.strikes.load(Relaxed) > 0 {
                    self.strikes.store(0, Relaxed);
                }
                if self.patience_us > 0 {
                    self.answered_us.fetch_max(at_us, Relaxed);
                }
                false
            }
            Some(Symptom::None) => false,
            Some(Symptom::Doubtful) => {
                let silent_us = at_us.saturating_sub(self.answered_us.load(Relaxed));
                self.strikes.fetch_add(1, Relaxed) + 1 >= STRIKES && silent_us >= self.patience_us
            }
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
        closed_with(0)
    }

    fn closed_with(patience_us: u64) -> Breaker<&'static str> {
        let breaker = Breaker::open(patience_us);
        breaker.close("first", 0);
        breaker
    }

    #[test]
    fn it_begins_open_and_is_closed_by_a_fit_link() {
        assert_eq!(Breaker::<()>::open(0).link(), Err(StoreError::Away));
        assert_eq!(closed().link(), Ok(("first", 1)));
    }

    #[test]
    fn a_store_that_is_gone_opens_it_once() {
        let breaker = closed();
        assert!(breaker.note(1, Some(Symptom::Gone), 0));
        assert!(!breaker.note(1, Some(Symptom::Gone), 0), "only one looks after it");
        assert_eq!(breaker.link(), Err(StoreError::Away));
    }

    #[test]
    fn doubtful_answers_open_it_only_in_a_row() {
        let breaker = closed();
        for _ in 0..3 {
            for _ in 1..STRIKES {
                assert!(!breaker.note(1, Some(Symptom::Doubtful), 0));
            }
            assert!(!breaker.note(1, None, 0));
        }
        let opened: Vec<_> =
            (0..STRIKES).map(|_| breaker.note(1, Some(Symptom::Doubtful), 0)).collect();
        assert_eq!(opened.iter().position(|opened| *opened), Some(STRIKES as usize - 1));
    }

    #[test]
    fn one_dead_node_of_a_cluster_does_not_open_it_while_another_answers() {
        let breaker = closed_with(100);
        for at_us in 0..1_000 {
            let symptom = (at_us % 50 != 0).then_some(Symptom::Doubtful);
            assert!(!breaker.note(1, symptom, at_us));
        }
        let opened = (1_000..).find(|at_us| breaker.note(1, Some(Symptom::Doubtful), *at_us));
        assert_eq!(opened, Some(1_050), "as long after the last answer as its patience lasts");
    }

    #[test]
    fn what_an_old_link_brings_late_does_not_open_it_again() {
        let breaker = closed();
        assert!(breaker.note(1, Some(Symptom::Gone), 0));
        breaker.close("second", 0);
        assert!(!breaker.note(1, Some(Symptom::Gone), 0));
        assert_eq!(breaker.link(), Ok(("second", 2)));
    }

    #[test]
    fn what_one_request_did_wrong_says_nothing_of_the_store() {
        let breaker = closed();
        for _ in 0..100 {
            assert!(!breaker.note(1, Some(Symptom::None), 0));
        }
        assert!(breaker.link().is_ok());
    }
}
