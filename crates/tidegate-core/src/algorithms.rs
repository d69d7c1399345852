//! The list of algorithms. Code that handles all of them (configuration, stores, replay, plots,
//! benchmarks, guides) iterates this list; a new algorithm is its folder, a `mod`, a `pub use` and an entry
//! of this list.

use core::fmt;

use crate::algorithm::{CarryUnits, Decide, Scripted};
use crate::error::RuleErrors;
use crate::field::Field;
use crate::rule::Visitor;
use crate::script::Script;
use crate::spec::Spec;
use crate::time::Micros;

mod closed;
mod concurrency;
mod fixed_window;
mod leaky_queue;
mod sliding_counter;
mod sliding_log;
mod sliding_window;
mod token_bucket;

pub use closed::Closed;
pub use concurrency::Concurrency;
pub use fixed_window::FixedWindow;
pub use leaky_queue::LeakyQueue;
pub use sliding_counter::SlidingCounter;
pub use sliding_log::SlidingLog;
pub use sliding_window::SlidingWindow;
pub use token_bucket::TokenBucket;

/// Includes a text kept in an algorithm's folder, under the algorithm's name.
macro_rules! beside {
    ($folder:ident, $name:ident, $suffix:literal) => {
        concat!("algorithms/", stringify!($folder), "/", stringify!($name), $suffix)
    };
}

macro_rules! algorithms {
    ($($variant:ident = $name:ident $(or $alias:literal)? in $folder:ident::$algorithm:ident, $summary:literal, also $also:expr;)+) => {
        /// The algorithms, by their names in a configuration.
        ///
        /// ```
        /// use tidegate_core::AlgorithmKind;
        ///
        /// assert_eq!(AlgorithmKind::SlidingLog.name(), "sliding_log");
        /// assert_eq!(AlgorithmKind::from_name("gcra"), Some(AlgorithmKind::TokenBucket));
        /// ```
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum AlgorithmKind {
            $(#[doc = $summary] $variant,)+
        }

        impl AlgorithmKind {
            /// Every algorithm, in the order of the list.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The name as it is written in a configuration.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => stringify!($name),)+ }
            }

            /// Other names for it; hints understand them, and a configuration does not accept them.
            #[must_use]
            pub const fn other_names(self) -> &'static [&'static str] {
                match self { $(Self::$variant => &$also,)+ }
            }

            /// Returns whether admitted requests are held for their delay and leave in order.
            #[must_use]
            pub const fn is_queue(self) -> bool {
                match self { $(Self::$variant => $folder::$algorithm::IS_QUEUE,)+ }
            }

            /// Returns whether units are out until their permit is returned, or its life ends.
            ///
            /// ```
            /// use tidegate_core::AlgorithmKind;
            ///
            /// assert!(AlgorithmKind::Concurrency.holds_permits());
            /// ```
            #[must_use]
            pub const fn holds_permits(self) -> bool {
                match self { $(Self::$variant => $folder::$algorithm::HOLDS_PERMITS,)+ }
            }

            /// The scripts that decide by it in a store that runs scripts.
            #[must_use]
            pub const fn scripts(self) -> &'static [Script] {
                match self { $(Self::$variant => $folder::$algorithm::SCRIPTS,)+ }
            }

            /// Returns whether a script returns the whole state of a limiter.
            #[must_use]
            pub const fn reply_is_whole(self) -> bool {
                match self { $(Self::$variant => $folder::$algorithm::REPLY_IS_WHOLE,)+ }
            }

            /// Returns whether each unit in use counts until a time of its own, as in a window that slides. Else, of two
            /// states of a limiter, the state with more in use admits less at every later time as well.
            ///
            /// ```
            /// use tidegate_core::AlgorithmKind;
            ///
            /// assert!(AlgorithmKind::SlidingLog.units_have_times());
            /// assert!(!AlgorithmKind::TokenBucket.units_have_times());
            /// ```
            #[must_use]
            pub const fn units_have_times(self) -> bool {
                match self { $(Self::$variant => $folder::$algorithm::UNITS_HAVE_TIMES,)+ }
            }

            /// Sets other fields of a spec so that its limit and window can be compared with
            /// others.
            pub(crate) fn fit(self, spec: &mut Spec, limit: u64, window: Micros) {
                match self { $(Self::$variant => $folder::$algorithm::fit(spec, limit, window),)+ }
            }

            /// The algorithm of a name or an alias; `None` for any other text.
            #[must_use]
            pub fn from_name(name: &str) -> Option<Self> {
                $(if name == stringify!($name) $(|| name == $alias)? { return Some(Self::$variant); })+
                None
            }

            /// Its table of worked examples, as text; every store must pass them.
            #[must_use]
            pub const fn cases(self) -> &'static str {
                match self { $(Self::$variant => include_str!(beside!($folder, $name, ".txt")),)+ }
            }

            /// Its guide, in Markdown: when to choose it, its state, its bound, its memory, its cost.
            #[must_use]
            pub const fn guide(self) -> &'static str {
                match self { $(Self::$variant => include_str!(beside!($folder, $name, ".md")),)+ }
            }

            /// Writes the fields of a rule whose states carry these parameters.
            pub(crate) fn restore_fields(self, kind: u8, parameters: [u64; 4], spec: &mut Spec) {
                match self { $(Self::$variant => $folder::$algorithm::restore_fields(kind, parameters, spec),)+ }
            }

            /// The optional fields it understands.
            #[must_use]
            pub const fn fields(self) -> &'static [Field] {
                match self { $(Self::$variant => $folder::$algorithm::FIELDS,)+ }
            }

            /// Returns whether a rule of this algorithm may have an optional field.
            pub(crate) fn takes(self, field: Field) -> bool {
                // Debts are of units: permits cannot be owed.
                let is_of_all = field == Field::MaxDebt && !self.holds_permits();
                is_of_all || self.fields().contains(&field)
            }
        }

        /// The algorithm of a rule, or of a limit of 0 without a window.
        #[derive(Clone, Debug, PartialEq)]
        pub(crate) enum AnyAlgorithm {
            Closed(Closed),
            $($variant($folder::$algorithm),)+
        }

        impl AnyAlgorithm {
            pub(crate) fn build(spec: &Spec, limit: u64, window: Micros) -> Result<Self, RuleErrors> {
                Ok(match spec.algorithm {
                    $(AlgorithmKind::$variant => Self::$variant($folder::$algorithm::build(spec, limit, window)?),)+
                })
            }

            pub(crate) fn visit<V: Visitor>(&self, visitor: V) -> V::Out {
                match self {
                    Self::Closed(algorithm) => visitor.visit(algorithm),
                    $(Self::$variant(algorithm) => visitor.visit(algorithm),)+
                }
            }
        }

        /// The guide of each algorithm: when to choose it, its state, its bound, memory and cost.
        pub mod guides {
            $(#[doc = include_str!(beside!($folder, $name, ".md"))] pub mod $name {})+
        }
    };
}

algorithms! {
    FixedWindow = fixed_window in fixed_window::FixedWindow,
        "Counts units in windows that follow one another.",
        also ["fixed", "window", "counter", "fixedwindowcounter"];
    SlidingWindow = sliding_window in sliding_window::SlidingWindow,
        "Counts units in the last buckets of a window cut into equal ones.",
        also ["sliding", "rolling", "rollingwindow", "slidingbuckets"];
    SlidingCounter = sliding_counter in sliding_counter::SlidingCounter,
        "Counts this window and the share of the previous one that is still inside.",
        also ["slidingwindowcounter", "approximate", "weighted"];
    SlidingLog = sliding_log in sliding_log::SlidingLog,
        "Remembers when each unit was admitted: never more than N in any window.",
        also ["log", "exact", "slidingwindowlog", "timestamps"];
    TokenBucket = token_bucket or "gcra" in token_bucket::TokenBucket,
        "Spends tokens that flow in at N per window, up to a capacity.",
        also ["token", "tokens", "bucket"];
    LeakyBucket = leaky_bucket in token_bucket::TokenBucket,
        "Fills a bucket that leaks N per window, up to a capacity.",
        also ["leaky", "leakybucketmeter"];
    LeakyQueue = leaky_queue in leaky_queue::LeakyQueue,
        "Admits work into a queue that leaves at an even pace, W/N apart.",
        also ["queue", "shaper", "shaping", "leakybucketqueue", "pacing"];
    Concurrency = concurrency in concurrency::Concurrency,
        "Lets N units be out at a time, until their permits are returned or end.",
        also ["concurrent", "semaphore", "inflight", "maxinflight", "bulkhead", "permits", "parallel"];
}

impl AlgorithmKind {
    /// The smallest capacity: a queue of capacity 0 serves a request that finds it idle; a bucket of capacity 0 could
    /// hold nothing.
    #[must_use]
    pub const fn least_capacity(self) -> u64 {
        if self.is_queue() { 0 } else { 1 }
    }
}

impl AnyAlgorithm {
    /// The algorithm of a limit of 0 without a window.
    pub(crate) fn closed(spec: &Spec) -> Result<Self, RuleErrors> {
        Closed::build(spec, 0, Micros::ZERO).map(Self::Closed)
    }
}

impl fmt::Display for AlgorithmKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
