//! The words that a value may be, and what else people call each.

use tidegate_core::AlgorithmKind;

use super::hints::Known;

/// What else `max_keys` is called.
pub(super) const MAX_KEYS_ALSO: &[&str] = &["maxentries", "maxsize", "maxlimiters", "cachesize"];

/// What `mode` may be.
pub(super) const MODES: &[Known] = &[
    ("enforce", &["on", "enabled", "live", "true", "active"]),
    ("shadow", &["dryrun", "monitor", "observe", "log", "test"]),
    ("off", &["disabled", "none", "false"]),
];

/// What `on_full` may be.
pub(super) const ON_FULL: &[Known] = &[
    ("share", &["shared", "overflow", "one"]),
    ("refuse", &["deny", "reject", "block", "closed", "error"]),
];

/// What `usage` may be.
pub(super) const USAGES: &[Known] = &[
    ("requested", &["request", "asked", "before", "upfront", "cost", "default"]),
    ("reported", &["report", "after", "afterwards", "actual", "settled", "later"]),
];

/// What `on_store_error` may be.
pub(super) const ON_STORE_ERROR: &[Known] = &[
    ("open", &["allow", "admit", "failopen", "pass", "true"]),
    ("closed", &["deny", "close", "refuse", "reject", "failclosed", "block", "false"]),
    ("local", &["memory", "process", "share", "fallback", "inprocess"]),
];

/// What `on_excess` may be where it is a word.
pub(super) const ON_EXCESS: &[Known] =
    &[("reject", &["deny", "refuse", "block", "drop", "fail", "error", "none"])];

/// What the `match` of a rule may be.
pub(super) const MATCHES: &[Known] =
    &[("subset", &["contains", "partial", "any"]), ("exact", &["strict", "equal", "equals"])];

/// What `anchor` may be.
pub(super) const ANCHORS: &[Known] = &[
    ("epoch", &["aligned", "calendar", "utc", "clock", "unix"]),
    ("first_request", &["first", "request", "onrequest"]),
];

/// What `layout` may be.
pub(super) const LAYOUTS: &[Known] = &[
    ("string", &["ring", "packed", "bytes", "compact"]),
    ("sorted_set", &["zset", "sortedset", "set"]),
];

/// What `algorithm` may be.
pub(super) fn algorithms() -> Vec<Known> {
    let names = AlgorithmKind::ALL.iter().map(|algorithm| (algorithm.name(), algorithm.also()));
    // The one alias that is accepted, not only understood in hints.
    names.chain([("gcra", &["cellrate", "genericcellrate"][..])]).collect()
}

/// What people call a limit on work in flight, which is none of the algorithms of a rule.
pub(super) const IN_FLIGHT: &[Known] = &[(
    "concurrency",
    &["concurrent", "semaphore", "inflight", "maxinflight", "bulkhead", "permits"],
)];
