//! The rule of a model.
//!
//! It is written again here and not taken from the library, because a model shares no code with the stores that it
//! judges.

/// The algorithms that have a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AlgorithmKind {
    /// `fixed_window`
    FixedWindow,
    /// `sliding_window`
    SlidingWindow,
    /// `sliding_counter`
    SlidingCounter,
    /// `sliding_log`
    SlidingLog,
    /// `token_bucket`
    TokenBucket,
    /// `leaky_bucket`
    LeakyBucket,
    /// `leaky_queue`
    LeakyQueue,
    /// `concurrency`
    Concurrency,
}

impl AlgorithmKind {
    /// Every algorithm, in the order of the definitions.
    pub const ALL: [Self; 8] = [
        Self::FixedWindow,
        Self::SlidingWindow,
        Self::SlidingCounter,
        Self::SlidingLog,
        Self::TokenBucket,
        Self::LeakyBucket,
        Self::LeakyQueue,
        Self::Concurrency,
    ];

    /// The name in a configuration.
    pub fn name(self) -> &'static str {
        match self {
            Self::FixedWindow => "fixed_window",
            Self::SlidingWindow => "sliding_window",
            Self::SlidingCounter => "sliding_counter",
            Self::SlidingLog => "sliding_log",
            Self::TokenBucket => "token_bucket",
            Self::LeakyBucket => "leaky_bucket",
            Self::LeakyQueue => "leaky_queue",
            Self::Concurrency => "concurrency",
        }
    }

    /// The algorithm of that name, if there is one.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|algorithm| algorithm.name() == name)
    }

    /// Returns whether its rules have a capacity.
    pub fn has_capacity(self) -> bool {
        matches!(self, Self::TokenBucket | Self::LeakyBucket | Self::LeakyQueue)
    }
}

/// A rule: `limit` units per `window_us`. Fields that the algorithm does not have are ignored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// The algorithm.
    pub algorithm: AlgorithmKind,
    /// N, units per window; 0 denies everything.
    pub limit: u64,
    /// W in microseconds, at least 1; 0 if there is none, which only a limit of 0 allows.
    pub window_us: u64,
    /// B of a sliding window; divides the window.
    pub buckets: u64,
    /// True if a sliding window also counts a bucket that has left only in part.
    pub strict: bool,
    /// True if a fixed window begins at the first unit taken, instead of being aligned to the
    /// epoch.
    pub anchor_first_request: bool,
    /// The capacity of a bucket or queue; by default the limit.
    pub capacity: Option<u64>,
    /// The tokens that a token bucket starts with; by default it is full.
    pub initial: Option<u64>,
    /// The tick of a sliding log, at least 1.
    pub resolution_us: u64,
    /// The units beyond the limit that a settlement may leave in use; by default as many as the limit. A report is not
    /// bounded by default.
    pub max_debt: Option<u64>,
}

impl Policy {
    /// A rule with the default of every other field: 10 buckets, not strict, aligned, the limit as
    /// capacity, starting full, resolution 1 us.
    pub fn new(algorithm: AlgorithmKind, limit: u64, window_us: u64) -> Self {
        Self {
            algorithm,
            limit,
            window_us,
            buckets: 10,
            strict: false,
            anchor_first_request: false,
            capacity: None,
            initial: None,
            resolution_us: 1,
            max_debt: None,
        }
    }

    /// The capacity in force.
    pub fn capacity(&self) -> u64 {
        self.capacity.unwrap_or(self.limit)
    }

    /// Returns whether units are out until their permits come back. Without a window they are only a number.
    pub fn holds_permits(&self) -> bool {
        self.algorithm == AlgorithmKind::Concurrency && self.window_us > 0
    }

    /// The longest step back of the clock that leaves the state's times unchanged: W, or the longest possible window if
    /// there is none.
    pub(super) fn clock_window(&self) -> i128 {
        const LONGEST_US: u64 = 366 * 86_400_000_000;
        i128::from(if self.window_us == 0 { LONGEST_US } else { self.window_us })
    }

    /// The `limit` of a decision, which is also the highest cost ever admitted.
    pub fn decision_limit(&self) -> u64 {
        match self.algorithm {
            _ if self.limit == 0 => 0,
            AlgorithmKind::TokenBucket | AlgorithmKind::LeakyBucket => self.capacity(),
            AlgorithmKind::LeakyQueue => self.capacity().saturating_add(1),
            _ => self.limit,
        }
    }
}
