//! Holds: the times until which nothing is sent to hosts that asked for a pause.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tidegate_core::{Micros, Timestamp};

/// The instants until which keys (hosts, by default) are held.
#[derive(Debug)]
pub(super) struct Holds {
    most_keys: usize,
    most: Micros,
    book: Mutex<HoldsByHost>,
}

#[derive(Debug, Default)]
struct HoldsByHost {
    until: HashMap<String, Timestamp>,
    /// A hold of all keys, for holds that have no room of their own, so that no host is asked too
    /// early.
    everyone: Timestamp,
}

impl Holds {
    /// Keeps at most `most_keys` holds, none longer than `most`.
    pub(super) fn new(most_keys: usize, most: Micros) -> Self {
        Self { most_keys, most, book: Mutex::default() }
    }

    /// Notes that `key` asked for a pause of `wait` at `now`. A hold never becomes shorter.
    pub(super) fn note(&self, key: &str, wait: Micros, now: Timestamp) {
        let until = now.plus(wait.min(self.most));
        let mut book = self.book();
        if let Some(known) = book.until.get_mut(key) {
            *known = until.max(*known);
            return;
        }
        // Holds that are over are dropped only when their places are needed.
        if book.until.len() >= self.most_keys {
            book.until.retain(|_, until| *until > now);
        }
        if book.until.len() < self.most_keys {
            book.until.insert(key.to_owned(), until);
        } else {
            book.everyone = until.max(book.everyone);
        }
    }

    /// The remaining hold of `key`; zero if a request may be sent.
    pub(super) fn left(&self, key: &str, now: Timestamp) -> Micros {
        let book = self.book();
        let until = book.until.get(key).copied().unwrap_or_default().max(book.everyone);
        until.since(now)
    }

    /// Code that may panic never runs under this lock.
    fn book(&self) -> MutexGuard<'_, HoldsByHost> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(s: u64) -> Timestamp {
        Timestamp::from_micros(s * 1_000_000)
    }

    const fn secs(s: u64) -> Micros {
        Micros::from_secs(s)
    }

    #[test]
    fn a_hold_ends_and_never_becomes_shorter() {
        let holds = Holds::new(10, secs(60));
        assert_eq!(holds.left("a", at(0)), Micros::ZERO);
        holds.note("a", secs(10), at(100));
        holds.note("a", secs(2), at(101));
        assert_eq!(holds.left("a", at(103)), secs(7));
        assert_eq!(holds.left("a", at(110)), Micros::ZERO);
        assert_eq!(holds.left("b", at(103)), Micros::ZERO);
    }

    #[test]
    fn a_hold_is_bounded() {
        let holds = Holds::new(10, secs(60));
        holds.note("a", Micros::MAX, at(100));
        assert_eq!(holds.left("a", at(100)), secs(60));
    }

    #[test]
    fn holds_that_have_no_space_hold_all_and_old_ones_make_space() {
        let holds = Holds::new(2, secs(60));
        holds.note("a", secs(5), at(0));
        holds.note("b", secs(50), at(0));
        holds.note("c", secs(3), at(1));
        assert_eq!(holds.left("c", at(1)), secs(3));
        assert_eq!(holds.left("d", at(1)), secs(3));
        holds.note("e", secs(9), at(6));
        assert_eq!(holds.left("e", at(6)), secs(9));
        assert_eq!(holds.left("d", at(6)), Micros::ZERO);
    }
}
