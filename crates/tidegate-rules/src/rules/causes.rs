//! The fields that cause a mistake in a rule, by the names that a configuration gives them.
//!
//! The list stands next to the mistakes, so that no new mistake is forgotten; the reader of a configuration finds the
//! places in its file.

use tidegate_core::RuleError;

use super::error::Problem;

/// The fields that decide whether two rules match the same request, and in which slots.
const MEETING: &[&str] =
    &["domain", "when", "key", "match", "algorithm", "hash_tag", "across_slots", "mode"];
/// The fields on which the size of a lease depends.
const LEASED: &[&str] = &["algorithm", "limit", "window", "rate", "capacity", "resolution"];
/// The position of an error in the table of its rule or override.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorPosition<'e> {
    /// The first of these fields that the table has.
    Field(&'static [&'static str]),
    /// A field of a table within it.
    Inside(&'static str, &'static str),
    /// The second of two entries of `key` or `when` with this name.
    Duplicate(&'e str),
    /// An entry of `when` with this value.
    Value(&'e str),
    /// An entry of the override with this name.
    Entry(&'e str),
    /// The value of a limiter that is wrong.
    Limit(&'e RuleError),
}

/// The fields that the check of a problem reads, and the position of its error. A check of one value reads no field: a value
/// that could not be read is in no range.
pub fn causes(problem: &Problem) -> (&'static [&'static str], ErrorPosition<'_>) {
    use ErrorPosition::{Duplicate, Entry, Field, Inside, Limit, Value};
    match problem {
        Problem::Name(_) => (&["name"], Field(&["name"])),
        Problem::EmptyDomain => (&["domain"], Field(&["domain"])),
        Problem::SameName(_) => (&["name", "domain"], Field(&["name"])),
        Problem::EntryTwice(name) => (&["key"], Duplicate(name)),
        Problem::StarInside(value) => (&[], Value(value)),
        Problem::NotInKey(name) => (&["key"], Entry(name)),
        Problem::MatchesNothing | Problem::Unreachable(_) => (&["match"], Field(&["match"])),
        Problem::InitialWithKey => (&[], Field(&["initial"])),
        Problem::MaxKeys(_) => (&[], Field(&["max_keys"])),
        Problem::Wait(_) | Problem::ReportedWait | Problem::WaitAcrossSlots => {
            (&[], Inside("on_excess", "wait"))
        }
        Problem::MaxWaiters(_) => (&[], Inside("on_excess", "max_waiters")),
        Problem::Dedupe(_) | Problem::DedupeAcrossSlots => (&[], Field(&["dedupe"])),
        Problem::MaxLife(_) => (&[], Field(&["max_life"])),
        Problem::ReportedQueue | Problem::ReportedPermits => {
            (&["algorithm"], Field(&["usage", "algorithm"]))
        }
        Problem::TagNotInKey(_) => (&["key"], Field(&["hash_tag"])),
        Problem::AcrossSlots { .. } => (MEETING, Field(&["across_slots", "hash_tag", "name"])),
        Problem::QueuesAcrossSlots { .. } => (MEETING, Field(&["hash_tag", "algorithm", "name"])),
        Problem::LeaseMax(_) => (&[], Inside("lease", "max")),
        Problem::LeaseLife(_) => (&[], Inside("lease", "life")),
        Problem::NoLease => (LEASED, Field(&["lease"])),
        Problem::LeaseBeside(_) => (&[], Field(&["lease"])),
        Problem::NoSplit => (LEASED, Field(&["split"])),
        Problem::SplitBeside(_) => (&[], Field(&["split"])),
        Problem::TooLargeForStore { .. } => (
            &["limit", "window", "rate", "resolution", "layout"],
            Field(&["resolution", "limit", "rate", "window"]),
        ),
        Problem::Values(rule_error) => (&[], Limit(rule_error)),
    }
}
