//! The verbs of every algorithm.

use alloc::vec::Vec;
use core::fmt;

use crate::decision::Verdict;
use crate::error::RuleErrors;
use crate::script::Script;
use crate::spec::Spec;
use crate::time::{Micros, Timestamp};
use crate::word::Word;

/// How small the states of an algorithm can be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packing {
    /// One word of 63 bits.
    One,
    /// Two words, the first of 63 bits.
    Two,
    /// They can not be packed.
    Whole,
}

/// How long a store of packed states may run: 2^48 microseconds, nearly nine years.
pub const HORIZON: Micros = Micros::from_micros(1 << 48);

/// The bits of a packed state's first word; the one above them is the store's.
pub(crate) const WORD_BITS: u32 = 63;

/// The verbs and the values of one algorithm, with the checked figures of one rule.
///
/// `at` is always the instant that [`Decide::advance`] answered for the state, never a raw clock
/// reading. Costs are at least 1; a cost of 0 never reaches an algorithm.
pub trait Decide: Clone + fmt::Debug + PartialEq + Send + Sync + Sized + 'static {
    /// What the limiter of one key remembers.
    type State: Clone + fmt::Debug + PartialEq + Send + 'static;

    /// The optional words this algorithm understands.
    const WORDS: &'static [Word];

    /// Whether what it admits has to be held for its [`delay`](Decide::delay), and leaves in order.
    const IS_QUEUE: bool = false;

    /// Sets other words of a spec so that a limit and a window which the algorithm cannot hold by default can be
    /// compared with others.
    fn fit(_spec: &mut Spec, _limit: u64, _window: Micros) {}

    /// Checks what only this algorithm can check; `limit` may be 0, every figure is in range.
    ///
    /// What is sound with some limit is sound with a limit of 0: setting it closes the gate and
    /// needs no other word changed. Every cost is then [`Verdict::Never`], and units in use leave as
    /// the algorithm says.
    ///
    /// # Errors
    /// The combinations of words that are impossible.
    fn build(spec: &Spec, limit: u64, window: Micros) -> Result<Self, RuleErrors>;

    /// The state of a limiter that begins at `now`.
    fn fresh(&self, now: Timestamp) -> Self::State;

    /// Whether `cost` would be admitted at `at`.
    fn decide(&self, state: &Self::State, at: Timestamp, cost: u64) -> Verdict;

    /// Takes `cost` units at `at`, also beyond the limit (debt); counters stop at their largest value.
    fn take(&self, state: &mut Self::State, at: Timestamp, cost: u64);

    /// Takes `cost` units like [`Decide::take`], in the memory that the state has. A state that would have
    /// to grow keeps its times more coarsely instead, and admits no sooner for it.
    fn take_in_place(&self, state: &mut Self::State, at: Timestamp, cost: u64) {
        self.take(state, at, cost);
    }

    /// Whether the state has the memory for what one [`Decide::take`] adds to it.
    fn has_place(&self, _state: &Self::State) -> bool {
        true
    }

    /// Gives `units` back, to no fewer than none used. Which of several units come back first is the
    /// algorithm's own: the oldest where each has a time of its own, those that weigh most in a
    /// weighted count. Units that count no more are not given back.
    fn give_back(&self, state: &mut Self::State, at: Timestamp, units: u64);

    /// The window W: how far the clock may step back before the state moves with it.
    fn window(&self) -> Micros;

    /// How long it takes until as many units as the limit, taken at one instant, have all left; `None` where
    /// units leave one after another at the rate, debts too.
    fn lap(&self) -> Option<Micros> {
        Some(self.window())
    }

    /// When the last unit was taken: the epoch before the first, the beginning for a limiter that
    /// began with units in use.
    fn last(&self, state: &Self::State) -> Timestamp;

    /// Moves the state's times back so that they end at `to`, which is before [`Decide::last`].
    fn rewind(&self, state: &mut Self::State, to: Timestamp);

    /// The figure `limit` of a decision.
    fn limit(&self) -> u64;

    /// Unit-cost requests that would be admitted at `at`.
    fn remaining(&self, state: &Self::State, at: Timestamp) -> u64;

    /// Least wait until a denied `cost` fits.
    fn retry_after(&self, state: &Self::State, at: Timestamp, cost: u64) -> Micros;

    /// Least wait until the limiter is idle, and zero just when nothing is used. The wait
    /// for units that never leave is that until [`Timestamp::MAX`].
    fn reset_after(&self, state: &Self::State, at: Timestamp) -> Micros;

    /// How long an admitted request must be held; `taken` units of its own are in the state already.
    fn delay(&self, _state: &Self::State, _at: Timestamp, _taken: u64) -> Micros {
        Micros::ZERO
    }

    /// Units in use at `at`, rounded up; what a changed rule carries over.
    fn used(&self, state: &Self::State, at: Timestamp) -> u64;

    /// Whether forgetting the state would change no later decision.
    fn is_idle(&self, state: &Self::State, at: Timestamp) -> bool {
        self.reset_after(state, at).is_zero()
    }

    /// The most units that any interval of length W can admit (for a queue: can see leave), however
    /// the requests come, when none costs more than `largest_cost`.
    fn bound(&self, largest_cost: u64) -> u64;

    /// Bytes that a state holds on the heap at this moment, beside `size_of::<State>()`.
    fn heap_bytes(&self, _state: &Self::State) -> u64 {
        0
    }

    /// Most bytes the state of one key can hold on the heap, beside `size_of::<State>()`.
    fn most_heap_bytes(&self) -> u64 {
        0
    }

    /// Advances, decides, and takes what is admitted: the verdict of one limiter alone, no figures.
    #[inline]
    fn ask(&self, state: &mut Self::State, now: Timestamp, cost: u64) -> Verdict {
        let at = self.advance(state, now);
        if cost == 0 {
            return Verdict::Allow;
        }
        let verdict = self.decide(state, at, cost);
        if verdict.is_allowed() {
            self.take(state, at, cost);
        }
        verdict
    }

    /// Time passes: answers the instant that counts for a clock that reads `now`.
    ///
    /// The one place that clamps a clock gone backward. A reading before the last unit counts as the
    /// time of that unit; one earlier by more than the window first moves the state's times so that
    /// they end at the reading. So nobody waits longer because of a step, and no step grants more
    /// than one fill.
    #[inline]
    fn advance(&self, state: &mut Self::State, now: Timestamp) -> Timestamp {
        let last = self.last(state);
        if now >= last {
            now
        } else if last.since(now) <= self.window() {
            last
        } else {
            self.rewind(state, now);
            now
        }
    }
}

/// States that are packed into a word or two, for a store that has many. By default states are not packed.
pub trait Pack: Decide {
    /// Whether states can be packed into one word or two, for a store whose clock never steps back (a
    /// packed state does not keep the time of its last unit). Asked once, when a store is built.
    ///
    /// Every state that the limit can lead to fits. A debt may not: [`Pack::pack`] stops it at the largest
    /// value there is place for, and what is cut off would come back as a credit. Only taking beyond the
    /// limit makes such debts, as a settled reservation does, or carrying over a state of another rule. So
    /// whoever does that guards against it: the store unpacks what was packed, and keeps a state whole
    /// that is not the same again.
    fn packing(&self) -> Packing {
        Packing::Whole
    }

    /// The state in words; all zero for one that is idle. `base` is an instant that lies
    /// before every state, and not more than [`HORIZON`] before any. A debt beyond what the words have
    /// place for is cut off: see [`Pack::packing`].
    fn pack(&self, _base: Timestamp, _state: &Self::State) -> [u64; 2] {
        [0; 2]
    }

    /// The state that was packed with the same `base`; all zero is a limiter as good as new.
    fn unpack(&self, base: Timestamp, _words: [u64; 2]) -> Self::State {
        self.fresh(base)
    }
}

/// What an algorithm and its script say to each other, where a store runs scripts.
pub trait Scripted: Decide {
    /// The script that decides in this algorithm's place where a store runs scripts.
    const SCRIPT: Script;

    /// The figures that a script keeps in front of a state, from which it knows whether the rule is
    /// still the same, and how the state was meant: limit, window, and two of the algorithm's own.
    fn figures(&self) -> [u64; 4];

    /// Writes the words that a rule had whose states say these figures, limit and window aside; `kind` is
    /// that of its script.
    fn words_of(_kind: u8, _figures: [u64; 4], _spec: &mut Spec) {}

    /// The script for this rule: the algorithm's own, unless a rule may choose among several.
    fn script(&self) -> Script {
        Self::SCRIPT
    }

    /// Most bytes of one value that a store holds for one key, as far as that can be too much for it;
    /// debts aside.
    fn most_stored_bytes(&self) -> u64 {
        0
    }

    /// What the script is told about `cost`, in the order in which its first paragraph reads it.
    fn told(&self, cost: u64) -> Vec<i64>;

    /// The state that a script tells; `None` for words that are none.
    fn recalled(&self, words: &[u64]) -> Option<Self::State>;
}

/// A rule that changes: what becomes of its states.
pub trait Amend: Decide {
    /// Whether the states of `old` mean the same under this rule, but for how much is allowed. Where they do not, what
    /// was used is taken anew.
    fn same_shape(&self, _old: &Self) -> bool {
        false
    }

    /// Makes a state of `old`, which has the same shape, a state of this rule; what was used stays used.
    fn refit(&self, _old: &Self, _state: &mut Self::State, _at: Timestamp) {}
}

/// One algorithm with the checked figures of one rule: all that a store may ask of it.
pub trait Algorithm: Decide + Pack + Scripted + Amend {}

impl<A: Decide + Pack + Scripted + Amend> Algorithm for A {}
