//! `lease`: the part of a limit that a node may lease, and the time of a lease.

use std::time::Duration;
use toml::de::DeValue;

use super::accept::TableFields;
use super::source::ConfigReport;
use super::table::TomlEntry;
use super::value::{how_long, wrong};
use crate::rules::{LEASE_MAX_EXPECTED, LIFE_EXPECTED, LeaseSpec};

/// The values expected in a message.
const EXPECTED: &str = "\"auto\", or { max = \"10%\", life = \"200ms\" }";

/// The table of a rule with leases. A field that is left out has the value of `"auto"`.
#[derive(Default)]
struct LeaseDraft {
    max_percent: Option<u8>,
    life: Option<Duration>,
}

fn fields<'t>() -> TableFields<'t, LeaseDraft> {
    TableFields::of_fields(
        [
            (("max", &["most", "size", "percent", "part", "share"]), LeaseDraft::max),
            (("life", &["lifetime", "ttl", "for", "duration", "time"]), LeaseDraft::life),
        ],
        |_| None,
    )
}

/// Reads it: a name or a table.
pub(super) fn read(entry: &TomlEntry<'_>, report: &mut ConfigReport<'_>) -> Option<LeaseSpec> {
    let auto = LeaseSpec::default();
    match entry.value() {
        DeValue::String(text) if text == "auto" => Some(auto),
        DeValue::Table(_) => {
            let mut draft = LeaseDraft::default();
            let failed = fields().read(&entry.as_table()?, &mut draft, report);
            let LeaseDraft { max_percent, life } = draft;
            failed.is_empty().then_some(LeaseSpec {
                max_percent: max_percent.unwrap_or(auto.max_percent),
                life: life.unwrap_or(auto.life),
            })
        }
        _ => wrong(entry, EXPECTED, report),
    }
}

impl LeaseDraft {
    fn max(&mut self, entry: &TomlEntry<'_>, report: &mut ConfigReport<'_>) -> Option<()> {
        let written = entry.value().as_str().and_then(|text| text.strip_suffix('%'));
        let percent = written.and_then(|number| number.trim_end().parse().ok());
        let percent = percent.or_else(|| wrong(entry, LEASE_MAX_EXPECTED, report));
        self.max_percent = Some(percent?);
        Some(())
    }

    fn life(&mut self, entry: &TomlEntry<'_>, report: &mut ConfigReport<'_>) -> Option<()> {
        self.life = Some(how_long(entry, LIFE_EXPECTED, report)?);
        Some(())
    }
}
