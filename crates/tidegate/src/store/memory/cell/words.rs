//! A state in one word or two: the verbs run on a copy, which then replaces it.

use std::fmt;
use std::sync::PoisonError;

use tidegate_core::{Algorithm, Timestamp};

use super::limited::KeepsState;
use crate::clock::{Clock, Reading};
use crate::store::memory::parameters::stays_whole;
use crate::store::memory::spin::Spin;
use crate::store::memory::sync::{
    AtomicU32, AtomicU64, Mutex,
    Ordering::{AcqRel, Acquire, Relaxed, Release},
};

/// The bit that packed states leave free.
const FREE: u64 = 1 << 63;

/// The words of a packed state.
pub(super) trait Words<const WORDS: usize>: Default + fmt::Debug + Send + Sync {
    /// The words of a state that is spilled; no packed state has them.
    const SPILLED: [u64; WORDS];

    /// The words of a closed cell; no packed state has them.
    const CLOSED: [u64; WORDS];

    /// Returns the words, until [`Words::replace`] or [`Words::leave`].
    fn read(&self) -> [u64; WORDS];

    /// Returns whether these words hold a state.
    fn hold(words: [u64; WORDS]) -> bool;

    /// Returns words that hold no state as they are now.
    fn now(&self, words: [u64; WORDS]) -> [u64; WORDS];

    /// Replaces the words that were read; false if others are there by then.
    fn replace(&self, words: [u64; WORDS], next: [u64; WORDS]) -> bool;

    /// Leaves the words as they were read.
    fn leave(&self, words: [u64; WORDS]);

    /// Closes the words for good, and returns the words until then.
    fn close(&self) -> [u64; WORDS];
}

/// One word, which is replaced by compare-and-swap.
#[derive(Debug, Default)]
pub(super) struct OneWord(AtomicU64);

impl Words<1> for OneWord {
    const SPILLED: [u64; 1] = [FREE | 1];
    const CLOSED: [u64; 1] = [FREE];

    #[inline]
    fn read(&self) -> [u64; 1] {
        [self.0.load(Acquire)]
    }

    #[inline]
    fn hold([word]: [u64; 1]) -> bool {
        word & FREE == 0
    }

    fn now(&self, _words: [u64; 1]) -> [u64; 1] {
        [self.0.load(Acquire)]
    }

    #[inline]
    fn replace(&self, [word]: [u64; 1], [next]: [u64; 1]) -> bool {
        self.0.compare_exchange_weak(word, next, AcqRel, Acquire).is_ok()
    }

    #[inline]
    fn leave(&self, _words: [u64; 1]) {}

    fn close(&self) -> [u64; 1] {
        [self.0.swap(FREE, AcqRel)]
    }
}

/// Two words; the free bit of the first is the lock over both. Closed words stay locked for ever.
#[derive(Debug, Default)]
pub(super) struct TwoWords {
    first: AtomicU64,
    second: AtomicU64,
    /// 1 if closed.
    closed: AtomicU32,
}

impl Words<2> for TwoWords {
    const SPILLED: [u64; 2] = [!FREE, u64::MAX];
    const CLOSED: [u64; 2] = [FREE, 0];

    #[inline]
    fn read(&self) -> [u64; 2] {
        let mut spin = Spin::default();
        loop {
            let first = self.first.load(Relaxed) & !FREE;
            if self.first.compare_exchange_weak(first, first | FREE, Acquire, Relaxed).is_ok() {
                return [first, self.second.load(Relaxed)];
            }
            if self.closed.load(Acquire) != 0 {
                return Self::CLOSED;
            }
            spin.wait();
        }
    }

    #[inline]
    fn hold(words: [u64; 2]) -> bool {
        words != Self::SPILLED && words != Self::CLOSED
    }

    fn now(&self, words: [u64; 2]) -> [u64; 2] {
        words
    }

    #[inline]
    fn replace(&self, _words: [u64; 2], [first, second]: [u64; 2]) -> bool {
        self.second.store(second, Relaxed);
        self.first.store(first, Release);
        true
    }

    #[inline]
    fn leave(&self, [first, _]: [u64; 2]) {
        self.first.store(first, Release);
    }

    fn close(&self) -> [u64; 2] {
        let words = self.read();
        self.closed.store(1, Release);
        words
    }
}

/// A packed state; next to it a state that does not fit, as long as the words say so.
#[derive(Debug)]
pub(super) struct InWords<R: Algorithm, W, const WORDS: usize> {
    /// The base of packed times.
    base: Timestamp,
    words: W,
    spilled: Mutex<Option<R::State>>,
}

impl<R: Algorithm, W: Words<WORDS>, const WORDS: usize> InWords<R, W, WORDS> {
    pub(super) fn new(base: Timestamp) -> Self {
        Self { base, words: W::default(), spilled: Mutex::new(None) }
    }

    fn pack(&self, algorithm: &R, state: Option<R::State>) -> [u64; WORDS] {
        state.map_or([0; WORDS], |state| algorithm.pack(self.base, &state))
    }

    fn fits(&self, algorithm: &R, state: &R::State, now: Timestamp) -> bool {
        stays_whole::<_, WORDS>(algorithm, self.base, state, now)
    }

    /// Spills a state in place of `words`; false if others are there by then.
    #[cold]
    fn spill(&self, words: [u64; WORDS], state: R::State) -> bool {
        let mut spilled = self.spilled.lock().unwrap_or_else(PoisonError::into_inner);
        let replaced = self.words.replace(words, W::SPILLED);
        if replaced {
            *spilled = Some(state);
        }
        replaced
    }

    /// [`KeepsState::with`] where the words that were read hold no state; the outer option is `None` if they do by now.
    #[cold]
    fn elsewhere<O>(
        &self,
        words: [u64; WORDS],
        algorithm: &R,
        early: Timestamp,
        run: impl Fn(&mut Option<R::State>, Timestamp) -> (O, bool),
    ) -> Option<Option<O>> {
        let mut spilled = self.spilled.lock().unwrap_or_else(PoisonError::into_inner);
        let words = self.words.now(words);
        if words != W::SPILLED {
            return (words == W::CLOSED).then_some(None);
        }
        let before = spilled.clone();
        let now = algorithm.overtaken(before.as_ref(), early);
        let (out, changed) = run(&mut spilled, now);
        if !changed {
            *spilled = before;
        }
        if !spilled.as_ref().is_none_or(|state| self.fits(algorithm, state, now)) {
            self.words.leave(W::SPILLED);
            return Some(Some(out));
        }
        let state = spilled.take();
        if !self.words.replace(W::SPILLED, self.pack(algorithm, state.clone())) {
            // The cell was closed, and whoever did that waits for the state.
            *spilled = state;
        }
        Some(Some(out))
    }

    /// [`KeepsState::admits`] where the words that were read hold no state, as [`InWords::elsewhere`]. It stays out of
    /// line: the usual case then needs fewer registers.
    #[cold]
    #[inline(never)]
    fn admits_elsewhere(
        &self,
        words: [u64; WORDS],
        algorithm: &R,
        cost: u64,
        early: Timestamp,
    ) -> Option<Option<bool>> {
        self.elsewhere(words, algorithm, early, |slot, now| {
            let state = slot.get_or_insert_with(|| algorithm.fresh(now));
            let allowed = algorithm.ask(state, now, cost).is_allowed();
            (allowed, allowed)
        })
    }
}

impl<R: Algorithm, W: Words<WORDS>, const WORDS: usize> KeepsState<R> for InWords<R, W, WORDS> {
    const READS_EARLY: bool = true;

    #[inline]
    fn admits(
        &self,
        algorithm: &R,
        cost: u64,
        early: Timestamp,
        _clock: &dyn Clock,
    ) -> Option<bool> {
        loop {
            let words = self.words.read();
            if !W::hold(words) {
                match self.admits_elsewhere(words, algorithm, cost, early) {
                    Some(allowed) => return allowed,
                    None => continue,
                }
            }
            let mut next = words;
            let verdict = if WORDS == 1 {
                // One word has no time of a last unit that could overtake the reading.
                let mut state = algorithm.unpack(self.base, words);
                let verdict = algorithm.ask(&mut state, early, cost);
                if verdict.is_allowed() {
                    next = algorithm.pack(self.base, &state);
                }
                verdict
            } else {
                algorithm.ask_packed(self.base, &mut next, early, cost)
            };
            if !verdict.is_allowed() {
                self.words.leave(words);
                return Some(false);
            }
            if self.words.replace(words, next) {
                return Some(true);
            }
        }
    }

    fn with<O>(
        &self,
        algorithm: &R,
        reading: Reading<'_>,
        may_not_fit: bool,
        run: impl Fn(&mut Option<R::State>, Timestamp) -> (O, bool),
    ) -> Option<O> {
        let early = reading.early();
        loop {
            let words = self.words.read();
            if !W::hold(words) {
                match self.elsewhere(words, algorithm, early, &run) {
                    Some(out) => return out,
                    None => continue,
                }
            }
            let state = algorithm.unpack(self.base, words);
            let now = algorithm.overtaken(Some(&state), early);
            let mut slot = Some(state);
            let (out, changed) = run(&mut slot, now);
            if !changed {
                self.words.leave(words);
                return Some(out);
            }
            let is_cut = |state: &R::State| may_not_fit && !self.fits(algorithm, state, now);
            let is_stored = match slot {
                Some(state) if is_cut(&state) => self.spill(words, state),
                state => self.words.replace(words, self.pack(algorithm, state)),
            };
            if is_stored {
                return Some(out);
            }
        }
    }

    fn close(&self, algorithm: &R) -> Option<R::State> {
        match self.words.close() {
            words if words == [0; WORDS] || words == W::CLOSED => None,
            words if words == W::SPILLED => {
                self.spilled.lock().unwrap_or_else(PoisonError::into_inner).take()
            }
            words => Some(algorithm.unpack(self.base, words)),
        }
    }
}
