//! A rule as written, before it is checked.
//!
//! Programs, configurations and plans write it, and `Rule::new` checks it.

use alloc::vec::Vec;
use core::str::FromStr;
use core::time::Duration;

use crate::algorithms::AlgorithmKind;
use crate::error::{RuleError, RuleErrors, out_of_range};
use crate::field::Field;
use crate::text::parse_rate;
use crate::time::{Micros, Shown, is_whole};

/// The largest limit, capacity or initial level: 10^9 units.
pub const MAX_LIMIT: u64 = 1_000_000_000;
/// The largest cost that can be admitted; the verdict on larger ones is
/// [`Never`](crate::Verdict::Never).
pub const MAX_COST: u64 = MAX_LIMIT;
/// The shortest window: one millisecond.
pub const MIN_WINDOW: Duration = Duration::from_millis(1);
/// The longest window: 366 days.
pub const MAX_WINDOW: Duration = Duration::from_secs(366 * 86_400);
/// The largest number of buckets of a sliding window.
pub(crate) const MAX_BUCKETS: u64 = 1_000;
/// The default memory limit of one key of a log: 64 MiB.
pub(crate) const DEFAULT_MAX_MEMORY: u64 = 64 << 20;
pub(crate) const MAX_MAX_MEMORY: u64 = 1 << 40;

/// The number of units that a rule allows.
///
/// ```
/// # use tidegate_core as tidegate;
/// use tidegate::{AlgorithmKind, Limit, Spec};
///
/// assert_eq!(Spec::per_second(50).limit, Limit::Units(50));
/// assert_eq!(Spec::unlimited(AlgorithmKind::TokenBucket).limit, Limit::Unlimited);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Limit {
    /// Everything is admitted and nothing is counted; written -1.
    Unlimited,
    /// This many units per window; 0 denies every cost of one or more while it is in force.
    Units(u64),
}

/// Where a fixed window begins.
///
/// ```
/// use std::time::Duration;
/// # use tidegate_core as tidegate;
/// use tidegate::{AlgorithmKind, Anchor, Spec};
///
/// // A day of each caller's own, which begins with its first request.
/// let mut spec = Spec::new(AlgorithmKind::FixedWindow, 1_000, Duration::from_secs(86_400));
/// spec.anchor = Some(Anchor::FirstRequest);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Anchor {
    /// At multiples of the window since the Unix epoch.
    #[default]
    Epoch,
    /// At the first unit admitted after the last window ended.
    FirstRequest,
}

/// The form in which a store that runs scripts keeps a log. It has no effect in memory.
///
/// ```
/// # use tidegate_core as tidegate;
/// use tidegate::{AlgorithmKind, Layout, Spec};
///
/// let mut spec = Spec::per_minute(5).algorithm(AlgorithmKind::SlidingLog);
/// spec.layout = Some(Layout::SortedSet); // ZRANGE shows it
/// ```
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
///
/// ```
/// use std::time::Duration;
/// # use tidegate_core as tidegate;
/// use tidegate::{AlgorithmKind, Anchor, Rule, Spec};
///
/// // A thousand a day, from the first unit of a key on.
/// let day = Duration::from_secs(86_400);
/// let mut spec = Spec::per(1_000, day).algorithm(AlgorithmKind::FixedWindow);
/// spec.anchor = Some(Anchor::FirstRequest);
/// Rule::new(spec)?;
///
/// // Only buckets and queues have a capacity.
/// let wrong = Rule::new(spec.burst(10)).unwrap_err();
/// assert!(wrong.to_string().contains("capacity"));
/// # Ok::<(), tidegate_core::RuleErrors>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Spec {
    /// The algorithm that decides.
    pub algorithm: AlgorithmKind,
    /// N, units per window.
    pub limit: Limit,
    /// W, in whole microseconds, from [`MIN_WINDOW`] to [`MAX_WINDOW`]. It is optional only if the limit is unlimited
    /// or 0.
    pub window: Option<Duration>,
    /// `sliding_window`: number of buckets of the window (default 10).
    pub buckets: Option<u64>,
    /// `sliding_window`: also count the bucket that has left only in part (default false).
    pub strict: Option<bool>,
    /// `fixed_window`: where a window begins (default the Unix epoch).
    pub anchor: Option<Anchor>,
    /// Buckets and queue: the largest level (default the limit).
    pub capacity: Option<u64>,
    /// `token_bucket`: tokens at the start (default the capacity).
    pub initial: Option<u64>,
    /// `sliding_log`: the resolution of its times (default one microsecond).
    pub resolution: Option<Duration>,
    /// `sliding_log`: the layout in a store that runs scripts (default one string).
    pub layout: Option<Layout>,
    /// `sliding_log`, `sliding_window`: the largest memory in bytes of the states of all keys
    /// together, and so of any one. By default a store has its own value, and one key of a log may
    /// take up to 64 MiB.
    pub max_memory: Option<u64>,
    /// All but `concurrency`: the units beyond the limit, or the capacity, that a settlement may leave in use (default
    /// as many as the limit or the capacity). Units above it are cut off. A report is cut off only if this is given.
    pub max_debt: Option<u64>,
}

/// Reads a rate such as `"50/s"` or `"200/60s"`, as the `rate` of a configuration is written, for a token bucket.
///
/// ```
/// # use tidegate_core as tidegate;
/// use tidegate::Spec;
///
/// assert_eq!("50/s".parse(), Ok(Spec::per_second(50)));
/// let wrong = "50 per second".parse::<Spec>().unwrap_err();
/// assert!(wrong.to_string().ends_with("did you mean \"50/s\"?"));
/// ```
impl FromStr for Spec {
    type Err = RuleErrors;

    fn from_str(text: &str) -> Result<Self, RuleErrors> {
        let (limit, window) = parse_rate(text).map_err(RuleError::Text)?;
        Ok(Self::per(limit, window))
    }
}

impl TryFrom<&str> for Spec {
    type Error = RuleErrors;

    fn try_from(text: &str) -> Result<Self, RuleErrors> {
        text.parse()
    }
}

impl Spec {
    /// `limit` units per `window`, with every other field at its default.
    #[must_use]
    pub const fn new(algorithm: AlgorithmKind, limit: u64, window: Duration) -> Self {
        Self::bare(algorithm, Limit::Units(limit), Some(window))
    }

    /// `limit` units per second, by a token bucket.
    ///
    /// ```
    /// # use tidegate_core as tidegate;
    /// use tidegate::{AlgorithmKind, Rule, Spec};
    ///
    /// let spec = Spec::per_second(50).burst(10);
    /// assert_eq!(spec, Spec::try_from("50/s")?.burst(10));
    /// Rule::new(Spec::per_minute(50).algorithm(AlgorithmKind::SlidingLog))?;
    /// # Ok::<(), tidegate_core::RuleErrors>(())
    /// ```
    #[must_use]
    pub const fn per_second(limit: u64) -> Self {
        Self::per(limit, Duration::from_secs(1))
    }

    /// `limit` units per minute, by a token bucket.
    #[must_use]
    pub const fn per_minute(limit: u64) -> Self {
        Self::per(limit, Duration::from_secs(60))
    }

    /// `limit` units per hour, by a token bucket.
    #[must_use]
    pub const fn per_hour(limit: u64) -> Self {
        Self::per(limit, Duration::from_secs(3_600))
    }

    /// `limit` units per `window`, by a token bucket.
    #[must_use]
    pub const fn per(limit: u64, window: Duration) -> Self {
        Self::new(AlgorithmKind::TokenBucket, limit, window)
    }

    /// Sets the capacity of a bucket or queue: the maximum units that it admits at once. The default is the limit.
    #[must_use]
    pub const fn burst(mut self, capacity: u64) -> Self {
        self.capacity = Some(capacity);
        self
    }

    /// Sets the algorithm.
    #[must_use]
    pub const fn algorithm(mut self, algorithm: AlgorithmKind) -> Self {
        self.algorithm = algorithm;
        self
    }

    /// `limit` units per `window`, with other fields set so that all algorithms can be compared:
    /// fewer buckets if ten do not divide the window, a coarser log if the limit is large.
    #[must_use]
    pub fn fitting(algorithm: AlgorithmKind, limit: u64, window: Duration) -> Self {
        let mut spec = Self::new(algorithm, limit, window);
        algorithm.fit(&mut spec, limit, Micros::from(window));
        spec
    }

    /// A rule that admits everything and counts nothing. It uses its algorithm when it is later given a limit; as a
    /// plan, any algorithm is valid.
    #[must_use]
    pub const fn unlimited(algorithm: AlgorithmKind) -> Self {
        Self::bare(algorithm, Limit::Unlimited, None)
    }

    const fn bare(algorithm: AlgorithmKind, limit: Limit, window: Option<Duration>) -> Self {
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
            max_debt: None,
        }
    }

    /// The optional fields that were given.
    fn given(&self) -> impl Iterator<Item = Field> {
        [
            self.buckets.map(|_| Field::Buckets),
            self.strict.map(|_| Field::Strict),
            self.anchor.map(|_| Field::Anchor),
            self.capacity.map(|_| Field::Capacity),
            self.initial.map(|_| Field::Initial),
            self.resolution.map(|_| Field::Resolution),
            self.layout.map(|_| Field::Layout),
            self.max_memory.map(|_| Field::MaxMemory),
            self.max_debt.map(|_| Field::MaxDebt),
        ]
        .into_iter()
        .flatten()
    }

    /// The errors of single fields, for any algorithm.
    pub(crate) fn mistakes(&self) -> Vec<RuleError> {
        let mut found = Vec::new();
        let limit = match self.limit {
            Limit::Units(limit) => Some(limit),
            Limit::Unlimited => None,
        };
        let least_capacity = self.algorithm.least_capacity();
        for (field, given, range) in [
            (Field::Limit, limit, 0..=MAX_LIMIT),
            (Field::Buckets, self.buckets, 1..=MAX_BUCKETS),
            (Field::Capacity, self.capacity, least_capacity..=MAX_LIMIT),
            (Field::Initial, self.initial, 0..=MAX_LIMIT),
            (Field::MaxMemory, self.max_memory, 1024..=MAX_MAX_MEMORY),
        ] {
            if let Some(given) = given.filter(|given| !range.contains(given)) {
                found.push(out_of_range(field, given));
            }
        }
        match self.window {
            Some(window) if !(MIN_WINDOW..=MAX_WINDOW).contains(&window) || !is_whole(window) => {
                found.push(out_of_range(Field::Window, Shown(window)));
            }
            // Only a limit of 0 and no limit at all need no window.
            None if !matches!(self.limit, Limit::Unlimited | Limit::Units(0)) => {
                found.push(RuleError::Missing { field: Field::Window });
            }
            _ => {}
        }
        if let Some(resolution) = self.resolution {
            let finest = Duration::from_micros(1);
            let coarsest = self.window.unwrap_or(MAX_WINDOW);
            if !(finest..=coarsest).contains(&resolution) || !is_whole(resolution) {
                found.push(out_of_range(Field::Resolution, Shown(resolution)));
            }
        }
        found.extend(
            self.given()
                .filter(|field| !self.algorithm.takes(*field))
                .map(|field| RuleError::Meaningless { field, algorithm: self.algorithm }),
        );
        found
    }
}
