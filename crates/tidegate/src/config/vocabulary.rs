//! The names that a value may have, and other names for each.

use tidegate_core::AlgorithmKind;

use super::hints::Known;

pub(super) const MAX_KEYS_ALSO: &[&str] = &["maxentries", "maxsize", "maxlimiters", "cachesize"];

pub(super) const MODES: &[Known] = &[
    ("enforce", &["on", "enabled", "live", "true", "active"]),
    ("shadow", &["dryrun", "monitor", "observe", "log", "test"]),
    ("off", &["disabled", "none", "false"]),
];

pub(super) const ON_FULL: &[Known] = &[
    ("share", &["shared", "overflow", "one"]),
    ("refuse", &["deny", "reject", "block", "closed", "error"]),
];

pub(super) const ON_NO_RULE: &[Known] = &[
    ("admit", &["allow", "pass", "open", "accept", "true"]),
    ("refuse", &["deny", "reject", "block", "closed", "false"]),
];

pub(super) const USAGES: &[Known] = &[
    ("requested", &["request", "asked", "before", "upfront", "cost", "default"]),
    ("reported", &["report", "after", "afterwards", "actual", "settled", "later"]),
];

pub(super) const ON_STORE_ERROR: &[Known] = &[
    ("open", &["allow", "admit", "failopen", "pass", "true"]),
    ("closed", &["deny", "close", "refuse", "reject", "failclosed", "block", "false"]),
    ("local", &["memory", "process", "share", "fallback", "inprocess"]),
];

/// The values of `on_excess` that are names.
pub(super) const ON_EXCESS: &[Known] =
    &[("reject", &["deny", "refuse", "block", "drop", "fail", "error", "none"])];

/// The values of `reset`.
pub(super) const RESETS: &[Known] = &[
    ("seconds", &["delta", "relative", "after", "second", "s"]),
    ("unix", &["epoch", "timestamp", "time", "absolute"]),
];

/// The values of `match` of a rule.
pub(super) const MATCHES: &[Known] =
    &[("subset", &["contains", "partial", "any"]), ("exact", &["strict", "equal", "equals"])];

pub(super) const ANCHORS: &[Known] = &[
    ("epoch", &["aligned", "calendar", "utc", "clock", "unix"]),
    ("first_request", &["first", "request", "onrequest"]),
];

pub(super) const LAYOUTS: &[Known] = &[
    ("string", &["ring", "packed", "bytes", "compact"]),
    ("sorted_set", &["zset", "sortedset", "set"]),
];

pub(super) fn algorithms() -> Vec<Known> {
    let names =
        AlgorithmKind::ALL.iter().map(|algorithm| (algorithm.name(), algorithm.other_names()));
    // The only alias that is accepted, and not only understood in hints.
    names.chain([("gcra", &["cellrate", "genericcellrate"][..])]).collect()
}
