//! The judge from below: a run with leases or shares admits nearly as much as the same run without.

use super::super::history::{DecidedBy, LayersEventKind, LayersHistory};
use super::super::plan::{LATE_BEAT_MS, LONG, LayersPlan, SHORT};
use crate::layers::sim::Sums;

/// The units of a limiter that callers were told of, as limiters of the store or leases admitted them.
fn admitted(history: &LayersHistory, limiter: usize) -> u64 {
    let of = history.events.iter().filter(|event| event.limiter == limiter);
    let units = of.map(|event| match event.what {
        LayersEventKind::Admitted { units, by: DecidedBy::Store | DecidedBy::Lease, .. } => units,
        _ => 0,
    });
    units.sum()
}

/// The units that nodes hold when the last request of a limiter was decided.
fn held(history: &LayersHistory, limiter: usize) -> u64 {
    let of = history.events.iter().rev().filter(|event| event.limiter == limiter);
    let mut stands = of.filter_map(|event| match event.what {
        LayersEventKind::Stands { held, .. } => Some(held),
        _ => None,
    });
    stands.next().unwrap_or_default()
}

/// Compares a run that loses no node and no data with the same run without leases and shares, limiter by limiter.
///
/// If the window of a limit outlasts the run, at least nine tenths of the limit are admitted, with any messages lost
/// and any outages. The definitions forbid that where another rule of a request has leases and a short window or a
/// bucket: units that are held when a window ends, or that drain on their way back, are lost to callers. Units that a
/// node admits without the store are not compared, because a node that holds units admits nothing on top of them. Units
/// of a share that a node holds when the run ends are there for its own callers: where nodes come or go, the shares fit
/// the callers of the nodes less well.
pub(in super::super) fn below(
    plan: &LayersPlan,
    history: &LayersHistory,
    exact: &LayersHistory,
    sums: &mut Sums,
) -> Result<(), String> {
    if !plan.keeps_all() {
        return Ok(());
    }
    for limiter in (0..plan.limiters.len()).filter(|limiter| plan.is_leased(*limiter)) {
        let (admitted, reference) = (admitted(history, limiter), admitted(exact, limiter));
        sums.add("admitted", admitted);
        sums.add("reference", reference);
        let is_alone = limiter == LONG && !plan.is_leased(SHORT);
        let is_split = plan.rules[plan.limiters[limiter]].split;
        let moves = plan.nodes.iter().any(|node| node.joins > 0 || node.end.is_some());
        // Held by a node whose callers did not come, so they count as admitted.
        let held = if is_split && moves { held(history, limiter) } else { 0 };
        // Until nodes know their number, the first of them may hold the shares of all.
        if is_alone && plan.beat < LATE_BEAT_MS && 10 * (admitted + held) < 9 * reference {
            return Err(format!(
                "{admitted} units are admitted, {held} are held, and {reference} without leases"
            ));
        }
    }
    Ok(())
}
