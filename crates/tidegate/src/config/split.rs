//! `split`: how a limit is split among nodes.

use toml::de::DeValue;

use super::accept::Level;
use super::source::Report;
use super::table::Entry;
use super::value::{whole, wrong};
use crate::rules::{SPLIT_NODES_EXPECTED, Split};

/// The values expected in a message.
const EXPECTED: &str = "true for a limit that the nodes of a store share, or { nodes = 20 } for a fixed number of them";

/// The table of a rule that is split among a fixed number of nodes.
#[derive(Default)]
struct SplitDraft {
    nodes: Option<u64>,
}

fn fields<'t>() -> Level<'t, SplitDraft> {
    let nodes = ("nodes", &["among", "replicas", "instances", "number", "of"][..]);
    Level::of_fields([(nodes, SplitDraft::nodes)], |_| None)
}

/// Reads it: true, false or a table.
pub(super) fn read(entry: &Entry<'_>, report: &mut Report<'_>) -> Option<Option<Split>> {
    match entry.value() {
        DeValue::Boolean(split) => Some(split.then_some(Split::Live)),
        DeValue::Table(_) => {
            let mut draft = SplitDraft::default();
            let failed = fields().read(&entry.as_table()?, &mut draft, report);
            match draft.nodes.filter(|_| failed.is_empty()) {
                Some(nodes) => Some(Some(Split::Among(nodes))),
                None if failed.is_empty() => wrong(entry, EXPECTED, report),
                None => None,
            }
        }
        _ => wrong(entry, EXPECTED, report),
    }
}

impl SplitDraft {
    fn nodes(&mut self, entry: &Entry<'_>, report: &mut Report<'_>) -> Option<()> {
        let number = u64::try_from(whole(entry, SPLIT_NODES_EXPECTED, report)?).ok();
        self.nodes = Some(number.or_else(|| wrong(entry, SPLIT_NODES_EXPECTED, report))?);
        Some(())
    }
}
