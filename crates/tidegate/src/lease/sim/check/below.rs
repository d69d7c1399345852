//! The judge from below: what a run with leases or shares admits, beside the same run without.

use super::super::history::{History, What};
use super::super::plan::{Kind, Plan};
use super::Summary;

/// Units that callers of one limiter, or of all, were told while a run lasted.
fn told(history: &History, key: Option<usize>) -> u64 {
    let events = history.events.iter().filter(|event| key.is_none_or(|key| event.key == key));
    let units = events.map(|event| match event.what {
        What::Told { units, .. } | What::Spent { units, .. } => units,
        _ => 0,
    });
    units.sum()
}

/// Sums what runs admit that lose no node, no data and no rule, and what the same runs admit without leases.
pub(super) fn as_exact(plan: &Plan, history: &History, exact: &History, summary: &mut Summary) {
    if plan.keeps_all() {
        let key = (plan.kind == Kind::Lasting).then_some(0);
        summary.admitted += told(history, key);
        summary.reference += told(exact, key);
    }
}
