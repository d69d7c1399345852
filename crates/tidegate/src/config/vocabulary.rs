//! Every word that a file may hold, in one place: what is accepted is what hints are made from.

use tidegate_core::Algorithm;

use super::accept::{Field, Level};
use super::document::Document;
use super::draft::{OverrideDraft, RuleDraft};
use super::excess::ExcessDraft;
use super::hints::{FIELD, Known, nearest};
use super::memory::MemoryDraft;
use super::store::StoreDraft;

/// The top-level sections of a file. Another section is one more line here and its reader.
pub(super) fn sections<'t>() -> Level<'t, Document<'t>> {
    Level {
        what: "section",
        quotes: |name| match name {
            "rule" => "`[[rule]]`".to_owned(),
            "revision" => "`revision`".to_owned(),
            name => format!("`[{name}]`"),
        },
        fields: vec![
            Field { known: ("rule", &["ruleset", "limit", "limits"]), read: Document::rule },
            Field { known: ("revision", &["version", "generation"]), read: Document::revision },
            Field { known: ("memory", &["cache"]), read: Document::memory },
            Field { known: ("store", &["redis", "valkey", "backend"]), read: Document::store },
        ],
        elsewhere: belongs_in_section,
    }
}

/// The fields of `[memory]`.
pub(super) fn memory_fields<'t>() -> Level<'t, MemoryDraft> {
    let known = ("max_keys", MAX_KEYS_ALSO);
    Level {
        what: "field",
        quotes: FIELD,
        fields: vec![Field { known, read: MemoryDraft::max_keys }],
        elsewhere: only_of_a_rule,
    }
}

/// The fields of `[store]`.
pub(super) fn store_fields<'t>() -> Level<'t, StoreDraft> {
    let field = |known, read| Field { known, read };
    Level {
        what: "field",
        quotes: FIELD,
        fields: vec![
            field(("url", &["uri", "address", "addr", "host", "endpoint"]), StoreDraft::url),
            field(("username", &["user", "login"]), StoreDraft::username),
            field(("password_env", &["password", "passwordvariable"]), StoreDraft::password_env),
            field(("password_file", &["passwordpath", "secretfile"]), StoreDraft::password_file),
            field(("tls_roots", &["ca", "cafile", "cacert", "tlsca"]), StoreDraft::tls_roots),
            field(("timeout", &["deadline", "requesttimeout"]), StoreDraft::timeout),
            field(("key_prefix", &["prefix", "namespace"]), StoreDraft::key_prefix),
            field(("max_in_flight", &["inflight", "poolsize", "pool"]), StoreDraft::max_in_flight),
            field(("nodes", &["replicas", "instances"]), StoreDraft::nodes),
        ],
        elsewhere: |_| None,
    }
}

/// What else `max_keys` is called.
const MAX_KEYS_ALSO: &[&str] = &["maxentries", "maxsize", "maxlimiters", "cachesize"];

/// The fields of a `[[rule]]`.
pub(super) fn rule_fields<'t>() -> Level<'t, RuleDraft<'t>> {
    let field = |known, read| Field { known, read };
    Level {
        what: "field",
        quotes: FIELD,
        fields: vec![
            field(("name", &["id"]), RuleDraft::name),
            field(("domain", &["namespace"]), RuleDraft::domain),
            field(
                ("when", &["where", "if", "condition", "conditions", "descriptor"]),
                RuleDraft::when,
            ),
            field(("key", &["by", "groupby", "variables"]), RuleDraft::key),
            field(("algorithm", &["algo", "type", "kind", "strategy"]), RuleDraft::algorithm),
            field(
                ("limit", &["max", "maxvalue", "quota", "requests", "count", "n"]),
                RuleDraft::limit,
            ),
            field(
                ("window", &["period", "per", "interval", "duration", "seconds", "unit"]),
                RuleDraft::window,
            ),
            field(("rate", &["requestsperunit", "speed"]), RuleDraft::rate),
            field(("buckets", &["segments", "slots", "precision"]), RuleDraft::buckets),
            field(("strict", &[]), RuleDraft::strict),
            field(("anchor", &["align", "alignment", "aligned", "start"]), RuleDraft::anchor),
            field(("capacity", &["burst", "maxburst", "size"]), RuleDraft::capacity),
            field(("initial", &["initialtokens"]), RuleDraft::initial),
            field(("resolution", &["granularity", "tick"]), RuleDraft::resolution),
            field(("layout", &["storage", "format", "structure"]), RuleDraft::layout),
            field(("max_memory", &["memory", "maxbytes"]), RuleDraft::max_memory),
            field(("max_keys", MAX_KEYS_ALSO), RuleDraft::max_keys),
            field(("on_full", &["onoverflow", "overflow", "whenfull"]), RuleDraft::on_full),
            field(
                ("on_excess", &["excess", "onlimit", "onexceed", "queue", "wait", "maxwait"]),
                RuleDraft::on_excess,
            ),
            field(
                ("on_store_error", &["failuremode", "failopen", "onerror", "failmode"]),
                RuleDraft::on_store_error,
            ),
            field(
                ("usage", &["charge", "chargeafter", "settle", "accounting", "billing"]),
                RuleDraft::usage,
            ),
            field(
                ("dedupe", &["dedup", "deduplicate", "deduplication", "idempotency", "remember"]),
                RuleDraft::dedupe,
            ),
            field(("hash_tag", &["tag", "slot", "hashtag"]), RuleDraft::hash_tag),
            field(("across_slots", &["crossslot", "crossslots"]), RuleDraft::across_slots),
            field(
                ("limit_from_request", &["requestlimit", "limitoverride", "ownlimit", "dynamic"]),
                RuleDraft::limit_from_request,
            ),
            field(("mode", &["shadowmode", "dryrun", "enabled", "enforce"]), RuleDraft::mode),
            field(("match", &["matching"]), RuleDraft::matching),
            field(("override", &["overrides", "exception", "exceptions"]), RuleDraft::overrides),
        ],
        elsewhere: only_of_the_store,
    }
}

/// The fields of a `[[rule.override]]`.
pub(super) fn override_fields<'t>() -> Level<'t, OverrideDraft<'t>> {
    let field = |known, read| Field { known, read };
    Level {
        what: "field",
        quotes: FIELD,
        fields: vec![
            field(("match", &["when", "where", "if", "key"]), OverrideDraft::matching),
            field(("limit", &["max", "maxvalue", "quota", "requests"]), OverrideDraft::limit),
            field(("window", &["period", "interval", "duration"]), OverrideDraft::window),
            field(("capacity", &["burst", "maxburst", "size"]), OverrideDraft::capacity),
            field(("rate", &["requestsperunit", "speed"]), OverrideDraft::rate),
        ],
        elsewhere: not_for_overrides,
    }
}

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

/// The fields of `on_excess` where it is a table.
pub(super) fn excess_fields<'t>() -> Level<'t, ExcessDraft> {
    let field = |known, read| Field { known, read };
    Level {
        what: "field",
        quotes: FIELD,
        fields: vec![
            field(("wait", &["maxwait", "timeout", "deadline", "for"]), ExcessDraft::wait),
            field(
                ("max_waiters", &["waiters", "maxqueue", "queue", "queuesize", "max"]),
                ExcessDraft::max_waiters,
            ),
        ],
        elsewhere: |_| None,
    }
}

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
    let names = Algorithm::ALL.iter().map(|algorithm| (algorithm.name(), also(*algorithm)));
    // The one alias that is accepted, not only understood in hints.
    names.chain([("gcra", &["cellrate", "genericcellrate"][..])]).collect()
}

/// What else an algorithm is called.
fn also(algorithm: Algorithm) -> &'static [&'static str] {
    match algorithm {
        Algorithm::FixedWindow => &["fixed", "window", "counter", "fixedwindowcounter"],
        Algorithm::SlidingWindow => &["sliding", "rolling", "rollingwindow", "slidingbuckets"],
        Algorithm::SlidingCounter => &["slidingwindowcounter", "approximate", "weighted"],
        Algorithm::SlidingLog => &["log", "exact", "slidingwindowlog", "timestamps"],
        Algorithm::TokenBucket => &["token", "tokens", "bucket"],
        Algorithm::LeakyBucket => &["leaky", "leakybucketmeter"],
        Algorithm::LeakyQueue => &["queue", "shaper", "shaping", "leakybucketqueue", "pacing"],
        _ => &[],
    }
}

/// What people call a limit on work in flight, which is none of the algorithms of a rule.
pub(super) const IN_FLIGHT: &[Known] = &[(
    "concurrency",
    &["concurrent", "semaphore", "inflight", "maxinflight", "bulkhead", "permits"],
)];

/// A field that stands before any section, or a section of a rule that stands alone.
fn belongs_in_section(name: &str) -> Option<String> {
    let fields = rule_fields().fields;
    let belongs = |field: &Field<'_, _>| field.known.0 == name;
    let place = match name {
        "override" => "expected `[[rule.override]]`, below the `[[rule]]` it is for",
        "max_keys" => "expected it below the header of a rule, `[[rule]]`, or of all, `[memory]`",
        "limit" | "rate" => "expected it below the header of a rule, `[[rule]]`",
        _ if fields.iter().any(belongs) => "expected it below the header of a rule, `[[rule]]`",
        _ if nearest(name, &[("override", &["overrides"])]).is_some() => {
            "did you mean `[[rule.override]]`?"
        }
        _ => return None,
    };
    Some(format!("`{name}` stands outside any rule: {place}"))
}

/// A field of a rule that stands in `[memory]`.
fn only_of_a_rule(name: &str) -> Option<String> {
    let of_rule = rule_fields().fields.iter().any(|field| field.known.0 == name);
    of_rule
        .then(|| format!("`{name}` is not for all rules together: expected it below a `[[rule]]`"))
}

/// A field of `[store]`, which is not for one rule.
fn only_of_the_store(name: &str) -> Option<String> {
    let of_store = store_fields().fields.iter().any(|field| field.known.0 == name);
    of_store.then(|| format!("`{name}` is not for one rule: expected it below `[store]`"))
}

/// A field that only a rule has.
fn not_for_overrides(name: &str) -> Option<String> {
    let changeable: Vec<_> = override_fields().fields.iter().map(|field| field.known).collect();
    let of_rule = rule_fields().fields.iter().any(|field| field.known.0 == name);
    (of_rule && !changeable.iter().any(|(word, also)| *word == name || also.contains(&name))).then(
        || {
            format!(
                "`{name}` can not be changed by an override: expected only `limit`, `window`, \
             `capacity` or `rate`"
            )
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The page that lists all fields, by its sections.
    const PAGE: &str = include_str!("../../../../docs/configuration.md");

    #[test]
    fn the_page_of_all_fields_lists_all_fields() {
        let of_rule: Vec<_> = rule_fields().fields.iter().map(|field| field.known.0).collect();
        let of_override: Vec<_> =
            override_fields().fields.iter().map(|field| field.known.0).collect();
        let of_memory: Vec<_> = memory_fields().fields.iter().map(|field| field.known.0).collect();
        let of_store: Vec<_> = store_fields().fields.iter().map(|field| field.known.0).collect();
        for (header, fields) in [
            ("[[rule]]", of_rule),
            ("[[rule.override]]", of_override),
            ("[memory]", of_memory),
            ("[store]", of_store),
        ] {
            let section =
                PAGE.split("\n## ").find(|section| section.starts_with(&format!("`{header}`")));
            let rows = section.unwrap_or_default().lines().filter(|line| line.starts_with("| `"));
            let named: Vec<_> = rows.filter_map(|row| row.split('|').nth(1)).collect();
            for field in fields {
                assert!(
                    named.iter().any(|row| row.contains(&format!("`{field}`"))),
                    "{header} {field}"
                );
            }
        }
    }
}
