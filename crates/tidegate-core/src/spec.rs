//! A rule as written, before it is checked.

use alloc::vec::Vec;

use crate::algorithms::AlgorithmKind;
use crate::error::{RuleError, out_of_range};
use crate::time::Micros;
use crate::word::Word;

/// The largest limit, capacity or initial level: 10^9 units.
pub const MAX_LIMIT: u64 = 1_000_000_000;
/// The largest cost that can be admitted; larger ones are answered
/// [`Never`](crate::Verdict::Never).
pub const MAX_COST: u64 = MAX_LIMIT;
/// The shortest window: one millisecond.
pub const MIN_WINDOW: Micros = Micros::from_millis(1);
/// The longest window: 366 days.
pub const MAX_WINDOW: Micros = Micros::from_secs(366 * 86_400);
/// The most buckets a sliding window may be cut into.
pub(crate) const MAX_BUCKETS: u64 = 1_000;
/// Most bytes that one key of a log takes by default: 64 MiB.
pub(crate) const DEFAULT_MAX_MEMORY: u64 = 64 << 20;
pub(crate) const MAX_MAX_MEMORY: u64 = 1 << 40;

/// How many units a rule allows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Limit {
    /// Everything is admitted and nothing is counted; written -1.
    Unlimited,
    /// This many units per window; 0 denies every cost of one or more as long as it stands.
    Units(u64),
}

/// Where a fixed window begins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Anchor {
    /// At multiples of the window since the Unix epoch.
    #[default]
    Epoch,
    /// At the first unit admitted after the last window ended.
    FirstRequest,
}

/// How a store that runs scripts keeps a log. It has no effect in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Layout {
    /// A ring of times in one string: ten bytes an entry.
    #[default]
    String,
    /// A sorted set with one member for each request, which other tools can read.
    SortedSet,
}

/// A rule as written: an algorithm, a limit, a window, and other fields that the algorithm
/// understands.
///
/// Fields left at `None` take the algorithm's default. Nothing is checked until
/// [`Rule::new`](crate::Rule::new).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Spec {
    /// Which algorithm decides.
    pub algorithm: AlgorithmKind,
    /// N, units per window.
    pub limit: Limit,
    /// W. May be left out only where the limit is unlimited or 0.
    pub window: Option<Micros>,
    /// `sliding_window`: into how many buckets the window is cut (default 10).
    pub buckets: Option<u64>,
    /// `sliding_window`: also count the bucket that has left only in part (default false).
    pub strict: Option<bool>,
    /// `fixed_window`: where a window begins (default the Unix epoch).
    pub anchor: Option<Anchor>,
    /// Buckets and queue: most units held at once (default the limit).
    pub capacity: Option<u64>,
    /// `token_bucket`: tokens at the start (default the capacity).
    pub initial: Option<u64>,
    /// `sliding_log`: how coarsely times are kept (default one microsecond).
    pub resolution: Option<Micros>,
    /// `sliding_log`: how a store that runs scripts keeps it (default one string).
    pub layout: Option<Layout>,
    /// `sliding_log`, `sliding_window`: most bytes that the states of all keys may take together,
    /// and so of any one of them. By default a store has its own value, and one key of a log may
    /// take up to 64 MiB.
    pub max_memory: Option<u64>,
}

impl Spec {
    /// `limit` units per `window`, every other field at its default.
    #[must_use]
    pub const fn new(algorithm: AlgorithmKind, limit: u64, window: Micros) -> Self {
        Self::bare(algorithm, Limit::Units(limit), Some(window))
    }

    /// `limit` units per `window`, other fields set so that all algorithms can be compared: fewer
    /// buckets where ten do not divide the window, a coarser log where the limit is large.
    #[must_use]
    pub fn fitting(algorithm: AlgorithmKind, limit: u64, window: Micros) -> Self {
        let mut spec = Self::new(algorithm, limit, window);
        algorithm.fit(&mut spec, limit, window);
        spec
    }

    /// A rule that admits everything and counts nothing. Its algorithm is the one it uses once it
    /// is given a limit; as a plan, any is valid.
    #[must_use]
    pub const fn unlimited(algorithm: AlgorithmKind) -> Self {
        Self::bare(algorithm, Limit::Unlimited, None)
    }

    const fn bare(algorithm: AlgorithmKind, limit: Limit, window: Option<Micros>) -> Self {
        Self {
            algorithm,
            limit,
            window,
            buckets: None,
            strict: None,
            anchor: None,
            capacity: None,
            initial: None,
            resolution: None,
            layout: None,
            max_memory: None,
        }
    }

    /// The optional fields that were given.
    fn given(&self) -> impl Iterator<Item = Word> {
        [
            self.buckets.map(|_| Word::Buckets),
            self.strict.map(|_| Word::Strict),
            self.anchor.map(|_| Word::Anchor),
            self.capacity.map(|_| Word::Capacity),
            self.initial.map(|_| Word::Initial),
            self.resolution.map(|_| Word::Resolution),
            self.layout.map(|_| Word::Layout),
            self.max_memory.map(|_| Word::MaxMemory),
        ]
        .into_iter()
        .flatten()
    }

    /// The errors of single fields, whatever the algorithm.
    pub(crate) fn mistakes(&self) -> Vec<RuleError> {
        let mut found = Vec::new();
        let mut check = |word: Word, given: Option<u64>, least: u64, most: u64| {
            if let Some(given) = given.filter(|given| !(least..=most).contains(given)) {
                found.push(out_of_range(word, given));
            }
        };
        if let Limit::Units(limit) = self.limit {
            check(Word::Limit, Some(limit), 0, MAX_LIMIT);
        }
        check(Word::Buckets, self.buckets, 1, MAX_BUCKETS);
        check(Word::Capacity, self.capacity, self.algorithm.least_capacity(), MAX_LIMIT);
        check(Word::Initial, self.initial, 0, MAX_LIMIT);
        check(Word::MaxMemory, self.max_memory, 1024, MAX_MAX_MEMORY);
        match self.window {
            Some(window) if !(MIN_WINDOW..=MAX_WINDOW).contains(&window) => {
                found.push(out_of_range(Word::Window, window));
            }
            None if !matches!(self.limit, Limit::Unlimited | Limit::Units(0)) => {
                found.push(RuleError::Missing { word: Word::Window });
            }
            _ => {}
        }
        let finest = Micros::from_micros(1);
        let coarsest = self.window.unwrap_or(MAX_WINDOW);
        if let Some(resolution) = self.resolution.filter(|r| !(finest..=coarsest).contains(r)) {
            found.push(out_of_range(Word::Resolution, resolution));
        }
        let known = self.algorithm.words();
        found.extend(
            self.given()
                .filter(|word| !known.contains(word))
                .map(|word| RuleError::Meaningless { word, algorithm: self.algorithm }),
        );
        found
    }
}
