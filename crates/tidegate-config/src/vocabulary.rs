//! The names that a value may have, and other names for each.
//!
//! The first name of each is accepted. The other names only lead to a hint.

use tidegate_core::{AlgorithmKind, Anchor, Layout};

use super::hints::KnownName;
use super::kind::ValueKind;
use tidegate_rules::rules::{
    MOST_MAX_KEYS, Mode, OnExcess, OnFull, OnNoRule, OnStoreError, ResetField, Usage,
};

pub(super) const MAX_KEYS: ValueKind = ValueKind::Whole(1, MOST_MAX_KEYS as u64);
pub(super) const MAX_KEYS_ALSO: &[&str] = &["maxentries", "maxsize", "maxlimiters", "cachesize"];

pub(super) const MODES: &[(Mode, KnownName)] = &[
    (Mode::Enforce, ("enforce", &["on", "enabled", "live", "true", "active"])),
    (Mode::Shadow, ("shadow", &["dryrun", "monitor", "observe", "log", "test"])),
    (Mode::Off, ("off", &["disabled", "none", "false"])),
];

pub(super) const ON_FULL: &[(OnFull, KnownName)] = &[
    (OnFull::Share, ("share", &["shared", "overflow", "one"])),
    (OnFull::Refuse, ("refuse", &["deny", "reject", "block", "closed", "error"])),
];

pub(super) const ON_NO_RULE: &[(OnNoRule, KnownName)] = &[
    (OnNoRule::Admit, ("admit", &["allow", "pass", "open", "accept", "true"])),
    (OnNoRule::Refuse, ("refuse", &["deny", "reject", "block", "closed", "false"])),
];

pub(super) const USAGES: &[(Usage, KnownName)] = &[
    (
        Usage::Requested,
        ("requested", &["request", "asked", "before", "upfront", "cost", "default"]),
    ),
    (
        Usage::Reported,
        ("reported", &["report", "after", "afterwards", "actual", "settled", "later"]),
    ),
];

pub(super) const ON_STORE_ERROR: &[(OnStoreError, KnownName)] = &[
    (OnStoreError::Open, ("open", &["allow", "admit", "failopen", "pass", "true"])),
    (
        OnStoreError::Closed,
        ("closed", &["deny", "close", "refuse", "reject", "failclosed", "block", "false"]),
    ),
    (OnStoreError::Local, ("local", &["memory", "process", "share", "fallback", "inprocess"])),
];

/// The values of `on_excess` that are names.
pub(super) const ON_EXCESS: &[(OnExcess, KnownName)] = &[(
    OnExcess::Reject,
    ("reject", &["deny", "refuse", "block", "drop", "fail", "error", "none"]),
)];

/// The values of `reset`.
pub(super) const RESETS: &[(ResetField, KnownName)] = &[
    (ResetField::Seconds, ("seconds", &["delta", "relative", "after", "second", "s"])),
    (ResetField::Unix, ("unix", &["epoch", "timestamp", "time", "absolute"])),
];

/// The values of `match` of a rule, and whether each is exact.
pub(super) const MATCHES: &[(bool, KnownName)] = &[
    (false, ("subset", &["contains", "partial", "any"])),
    (true, ("exact", &["strict", "equal", "equals"])),
];

pub(super) const ANCHORS: &[(Anchor, KnownName)] = &[
    (Anchor::Epoch, ("epoch", &["aligned", "calendar", "utc", "clock", "unix"])),
    (Anchor::FirstRequest, ("first_request", &["first", "request", "onrequest"])),
];

pub(super) const LAYOUTS: &[(Layout, KnownName)] = &[
    (Layout::String, ("string", &["ring", "packed", "bytes", "compact"])),
    (Layout::SortedSet, ("sorted_set", &["zset", "sortedset", "set"])),
];

pub(super) fn algorithms() -> Vec<(AlgorithmKind, KnownName)> {
    let names = AlgorithmKind::ALL.iter().map(|kind| (*kind, (kind.name(), kind.other_names())));
    // The only alias that is accepted, and not only understood in hints.
    let alias = ("gcra", &["cellrate", "genericcellrate"][..]);
    names.chain([(AlgorithmKind::TokenBucket, alias)]).collect()
}
