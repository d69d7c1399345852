//! `lease`: the part of a limit that a node may lease, and the time of a lease.
//!
//! `rule.rs` has it among the fields of a rule.

use super::accept::TableFields;
use super::kind::ValueKind::{self, Either, Names, Pattern, Table};
use super::value::{Given, put};
use tidegate_rules::rules::{LEASE_MAX_EXPECTED, LIFE_EXPECTED, LeaseSpec};

/// The values expected in a message.
const EXPECTED: &str = "\"auto\", or { max = \"10%\", life = \"200ms\" }";

/// Its kind.
pub(super) const KIND: ValueKind = Either(&[Names(|| vec![AUTO]), Table(|| fields().kinds())]);

/// The name of a lease with the usual values.
const AUTO: &str = "auto";

fn fields<'t>() -> TableFields<'t, LeaseSpec> {
    TableFields::of_fields([
        (
            ("max", &["most", "size", "percent", "part", "share"]),
            Pattern("^0*([1-9][0-9]?|100) *%$"),
            |lease, given| put(&mut lease.max_percent, percent(given)),
        ),
        (
            ("life", &["lifetime", "ttl", "for", "duration", "time"]),
            ValueKind::TIME,
            |lease, given| put(&mut lease.life, given.how_long(LIFE_EXPECTED)),
        ),
    ])
}

/// Reads it: a name or a table, in which a field that is left out has the value of `"auto"`.
pub(super) fn read(given: &mut Given<'_, '_, '_>) -> Option<LeaseSpec> {
    let mut lease = LeaseSpec::default();
    if given.value().as_str() == Some(AUTO) {
        return Some(lease);
    }
    let table = given.table(EXPECTED)?;
    fields().read(&table, &mut lease, given.report).is_empty().then_some(lease)
}

fn percent(given: &mut Given<'_, '_, '_>) -> Option<u8> {
    let written = given.value().as_str().and_then(|text| text.strip_suffix('%'));
    let percent = written.and_then(|number| number.trim_end().parse().ok());
    percent.or_else(|| given.wrong(LEASE_MAX_EXPECTED))
}
