//! Tidegate, a rate limiter: *given a key and a cost, decide now, exactly, and say when to come back.*
//!
//! A [`Policy`] is a list of rules; a [`Gate`] holds a policy, the limiters of every key, and a clock.
//! A [`Request`] is a domain and one or more descriptors; all rules that match it must admit it, else
//! none is charged, under any concurrency.
//!
//! ```
//! use std::time::Duration;
//! use tidegate::{AlgorithmKind, Descriptor, Gate, Policy, Request, RuleSpec, Spec};
//!
//! let per_channel = RuleSpec::new("pay-channel", Spec::new(AlgorithmKind::SlidingLog, 2, Duration::from_secs(1)))
//!     .in_domain("pay")
//!     .when("biz_type", "transfer")
//!     .key(["channel"]);
//! let gate = Gate::new(Policy::new(vec![per_channel])?);
//!
//! let entries = [("biz_type", "transfer"), ("channel", "alipay")];
//! let descriptors = [Descriptor::new(&entries)];
//! let request = Request::new("pay", &descriptors);
//!
//! assert!(gate.check(&request).is_allowed());
//! assert!(gate.check(&request).is_allowed());
//! let refused = gate.check(&request);
//! assert!(!refused.is_allowed());
//! assert!(refused.retry_after().is_some_and(|wait| wait <= Duration::from_secs(1)));
//! # Ok::<(), tidegate::PolicyErrors>(())
//! ```
//!
//! | task | API |
//! |---|---|
//! | decide by several rules together | [`Gate`], with a [`Policy`] of [`RuleSpec`]s |
//! | limit one thing, or every key alike | [`Limiter`], [`KeyedLimiter`] |
//! | give each key its own limit | [`KeyedLimiter::with_plans`], [`Under`], [`Setup::plans`], [`Descriptor::limit`] |
//! | let requests above a limit wait in order | `acquire` and `acquire_blocking` of each of these |
//! | pass work on at an even pace | [`Shaper`], [`ShapingQueue`] |
//! | limit the work in flight | [`Concurrency`], [`KeyedConcurrency`] |
//! | count passed and failed units, and times | [`Statistics`], [`Resources`]; for each rule, [`RuleStatistics`] |
//! | spread callers who come back | [`Jitter`] |
//! | share limits among processes | `SharedGate`, over Redis, Valkey or a `store` of your own (`docs/how-to/own-store.md`) |
//! | observe every decision | [`Observer`]; record them for a replay, `Recorder` |
//! | decide in tests, or at a past time | [`ManualClock`]; any [`Timestamp`] is a clock |
//!
//! A limit is written as a [`Spec`] and checked as a [`Rule`], which is also what a plan is. A [`RuleSpec`] adds whom
//! the limit is for, and becomes a [`PolicyRule`] when its policy is checked.
//!
//! # Features
//!
//! None is on by default.
//!
//! | feature | adds |
//! |---|---|
//! | `address` | `ClientAddress`, to find and write a caller's address; `tower` turns it on |
//! | `config` | `config`, rules from TOML |
//! | `headers` | `headers`, the header fields of a decision |
//! | `json` | `json`, decisions as JSON; `Recorder`, the last of them as a trace |
//! | `serde` | `OrderedEntries`, descriptors from JSON |
//! | `tokio` | `TokioClock`, and waiting as tasks (`acquire`) |
//! | `redis` | `SharedGate`, limits in Redis or Valkey that all nodes share; `store`, for a store of your own |
//! | `kit` | `kit`, checks of a store of your own |
//! | `stream` | `ShaperStream`, a shaper's items as a stream |
//! | `tower` | `tower`, a layer; turns on `headers` and `tokio` |
//! | `metrics`, `tracing` | `MetricsObserver` and `TracingObserver`, counts and events of decisions for these facades |
//! | `axum`, `tonic` | the layer finds the peer's address there; turn on `tower` |
//! | `reqwest` | the layer is a middleware of reqwest's clients; turns on `tower` |
#![cfg_attr(docsrs, feature(doc_cfg))]

/// The examples of the pages, as tests: a page with code is an entry here (`cargo xtask test --only house`).
#[cfg(all(
    doctest,
    feature = "axum",
    feature = "config",
    feature = "kit",
    feature = "redis",
    feature = "reqwest",
    feature = "tonic"
))]
mod pages {
    macro_rules! pages {
        ($($name:ident $path:literal)*) => {
            $(#[doc = include_str!(concat!("../../../", $path))] mod $name {})*
        };
    }

    pages! {
        readme "README.md"
        crate_readme "crates/tidegate/README.md"
        addresses "docs/how-to/addresses.md"
        axum "docs/tutorials/axum.md"
        change_limits "docs/how-to/change-limits.md"
        five_lines "docs/five-lines.md"
        governor "docs/migrate/governor.md"
        library "docs/library.md"
        own_store "docs/how-to/own-store.md"
        payments "docs/how-to/payments.md"
        redis "docs/tutorials/redis.md"
        testing "docs/how-to/testing.md"
        tonic "docs/tutorials/tonic.md"
        tower_governor "docs/migrate/tower-governor.md"
        waiting "docs/waiting.md"
    }
}

#[cfg(feature = "address")]
mod address;
mod answer;
#[cfg(feature = "config")]
pub mod config;
mod dedupe;
mod frontend;
mod gate;
#[cfg(feature = "headers")]
pub mod headers;
mod jitter;
#[cfg(feature = "json")]
pub mod json;
#[cfg(feature = "redis")]
#[cfg(any(test, feature = "kit"))]
pub mod kit;
#[cfg(feature = "redis")]
mod layers;
#[cfg(feature = "redis")]
mod lease;
mod limiter;
mod observe;
/// Reading JSON that has bytes of strangers, for the other crates of the workspace.
#[doc(hidden)]
pub mod readable;
mod shaper;
#[cfg(feature = "redis")]
mod shared;
mod snapshot;
mod stats;
#[cfg(not(feature = "redis"))]
#[allow(unreachable_pub, reason = "a store of your own needs the feature `redis`")]
mod store;
#[cfg(feature = "redis")]
pub mod store;
mod sync;
#[cfg(feature = "tower")]
pub mod tower;
mod wait;

/// Printing text of strangers, for the other crates of the workspace.
#[doc(hidden)]
pub use tidegate_rules::printable;
#[cfg(feature = "redis")]
use tidegate_rules::settings;
use tidegate_rules::{clock, inline_list, key, request, rules};
use tidegate_store::step;

#[cfg(feature = "address")]
pub use address::{ClientAddress, NetworkError};
pub use answer::{Answer, Matched, Unreached};
#[cfg(feature = "redis")]
pub use frontend::RecordedReservation;
pub use frontend::{Charge, Setup, Taken};
pub use gate::{Gate, GateCounts};
pub use jitter::Jitter;
pub use limiter::{Ban, ByKey, KeyedLimiter, Limiter, Reservation, Under};
#[cfg(feature = "metrics")]
pub use observe::MetricsObserver;
#[cfg(feature = "tracing")]
pub use observe::TracingObserver;
pub use observe::{Observer, OutcomeCounts, RuleOutcome, RuleStatistics, StatisticsOfRule};
#[cfg(feature = "json")]
pub use observe::{Recorder, RecorderCounts};
#[cfg(feature = "stream")]
pub use shaper::ShaperStream;
pub use shaper::{Departure, Next, Refusal, Refused, Shaper, ShaperError, ShapingQueue};
#[cfg(feature = "redis")]
pub use shared::{FoundReservation, ReservationRecord, SharedGate, SharedReplay};
pub use snapshot::{SnapshotError, SnapshotLoaded, SnapshotWritten};
pub use stats::{Entry, Resources, Snapshot, Statistics, TooManyResources};
pub use store::memory::KeptOfRule;
#[cfg(feature = "redis")]
#[doc(inline)]
pub use store::{Finding, StoreCounts, StoreEvent};
pub use tidegate_core::{
    AlgorithmKind, Anchor, Decision, Field, KnownUnits, Layout, Limit, MAX_COST, MAX_LIMIT,
    MAX_WINDOW, MIN_WINDOW, Rejected, Rule, RuleError, RuleErrors, Settled, Spec, Timestamp, Token,
    UsedUnits, Verdict, guides,
};
/// The engine's own types, for the other crates of the workspace.
#[doc(hidden)]
pub use tidegate_core::{Micros, Outcome, debug_as_display};
#[cfg(feature = "redis")]
#[doc(inline)]
pub use tidegate_redis::script;
/// The slot of a key in a cluster of Redis, for the server.
#[cfg(feature = "redis")]
#[doc(hidden)]
pub use tidegate_redis::slot_of;
#[cfg(feature = "tokio")]
#[doc(inline)]
pub use tidegate_rules::clock::TokioClock;
#[doc(inline)]
pub use tidegate_rules::clock::{Clock, ManualClock, Park, Sleep, SystemClock, Timer};
#[doc(inline)]
pub use tidegate_rules::key::{Encoding, Key, canonical_text, key_bytes, key_text};
#[cfg(feature = "serde")]
#[doc(inline)]
pub use tidegate_rules::request::OrderedEntries;
#[doc(inline)]
pub use tidegate_rules::request::{
    Descriptor, MAX_REQUEST_ID_BYTES, Request, RequestIdError, RequestLimit,
};
#[doc(inline)]
pub use tidegate_rules::rules::{
    AmendError, Amendment, LeaseSpec, Mode, Near, NoSuchRule, OnExcess, OnFull, OnNoRule,
    OnStoreError, OverrideSpec, Place, Policy, PolicyError, PolicyErrors, PolicyRule, Problem,
    ResetField, RuleSpec, Usage,
};
#[doc(inline)]
pub use tidegate_rules::secret_file::read_secret_file;
#[doc(inline)]
pub use tidegate_rules::settings::{Secret, SettingsError, StoreSettings, StoreUrl, StoreUrlError};
#[cfg(feature = "redis")]
#[doc(inline)]
pub use tidegate_rules::shared::{SharedGateError, StoreError};
/// The server's counters, by the same code.
#[doc(hidden)]
pub use tidegate_store::counters::{Histogram, Striped};
#[doc(inline)]
pub use tidegate_store::{counters::Durations, step::FirstReservation};
pub use wait::{Concurrency, KeyedConcurrency, Permit};
