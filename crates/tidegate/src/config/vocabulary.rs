//! The names that a value may have, and other names for each.

use tidegate_core::AlgorithmKind;

use super::hints::KnownName;

pub(super) const MAX_KEYS_ALSO: &[&str] = &["maxentries", "maxsize", "maxlimiters", "cachesize"];

pub(super) const MODES: &[KnownName] = &[
    ("enforce", &["on", "enabled", "live", "true", "active"]),
    ("shadow", &["dryrun", "monitor", "observe", "log", "test"]),
    ("off", &["disabled", "none", "false"]),
];

pub(super) const ON_FULL: &[KnownName] = &[
    ("share", &["shared", "overflow", "one"]),
    ("refuse", &["deny", "reject", "block", "closed", "error"]),
];

pub(super) const ON_NO_RULE: &[KnownName] = &[
    ("admit", &["allow", "pass", "open", "accept", "true"]),
    ("refuse", &["deny", "reject", "block", "closed", "false"]),
];

pub(super) const USAGES: &[KnownName] = &[
    ("requested", &["request", "asked", "before", "upfront", "cost", "default"]),
    ("reported", &["report", "after", "afterwards", "actual", "settled", "later"]),
];

pub(super) const ON_STORE_ERROR: &[KnownName] = &[
    ("open", &["allow", "admit", "failopen", "pass", "true"]),
    ("closed", &["deny", "close", "refuse", "reject", "failclosed", "block", "false"]),
    ("local", &["memory", "process", "share", "fallback", "inprocess"]),
];

/// The values of `on_excess` that are names.
pub(super) const ON_EXCESS: &[KnownName] =
    &[("reject", &["deny", "refuse", "block", "drop", "fail", "error", "none"])];

/// The values of `reset`.
pub(super) const RESETS: &[KnownName] = &[
    ("seconds", &["delta", "relative", "after", "second", "s"]),
    ("unix", &["epoch", "timestamp", "time", "absolute"]),
];

/// The values of `match` of a rule.
pub(super) const MATCHES: &[KnownName] =
    &[("subset", &["contains", "partial", "any"]), ("exact", &["strict", "equal", "equals"])];

pub(super) const ANCHORS: &[KnownName] = &[
    ("epoch", &["aligned", "calendar", "utc", "clock", "unix"]),
    ("first_request", &["first", "request", "onrequest"]),
];

pub(super) const LAYOUTS: &[KnownName] = &[
    ("string", &["ring", "packed", "bytes", "compact"]),
    ("sorted_set", &["zset", "sortedset", "set"]),
];

pub(super) fn algorithms() -> Vec<KnownName> {
    let names =
        AlgorithmKind::ALL.iter().map(|algorithm| (algorithm.name(), algorithm.other_names()));
    // The only alias that is accepted, and not only understood in hints.
    names.chain([("gcra", &["cellrate", "genericcellrate"][..])]).collect()
}
