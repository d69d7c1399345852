//! The judge of runs in which nothing fails and all nodes are asked alike: checks the minimum that they admit.

use tidegate_core::{Micros, Timestamp};

use super::super::history::{LayersEventKind, LayersHistory};
use super::super::plan::{LayersPlan, SHORT};
use super::super::world::FIRST;
use super::Sums;
use crate::step::Step;
use crate::store::fake::limiter;

/// The last units of a small limit belong to the store, and chance decides which node gets them.
const BY_CHANCE: u64 = 5;

/// While all nodes live and are asked alike, they admit at least three fifths of the units that a single limiter admits
/// for all requests, and each node at least three fifths of an equal part of all that they admit, less the units had by chance.
///
/// No much tighter bound holds for all algorithms: the minimum over 20,000 such runs was 64 % of all, and 61 % of a
/// part including the units had by chance, in a `sliding_window` and a `sliding_log`.
pub(super) fn as_stated(
    plan: &LayersPlan,
    history: &LayersHistory,
    sums: &mut Sums,
) -> Result<(), String> {
    let Some(mut exact) = limiter(&plan.rule(SHORT)) else { return Ok(()) };
    let mut possible = 0;
    // A run of this kind asks only this rule, for one unit each time.
    for request in &plan.requests {
        let now: Timestamp = FIRST.plus(Micros::from_millis(request.at));
        possible += u64::from(exact.run(Step::Ask, 1, now).verdict.is_allowed());
    }
    let mut by_node = vec![0_u64; plan.nodes.len()];
    for event in &history.events {
        if let LayersEventKind::Admitted { node, units, .. } = event.what {
            by_node[node] += units;
        }
    }
    let (admitted, nodes) = (by_node.iter().sum::<u64>(), by_node.len() as u64);
    let least = by_node.iter().min().copied().unwrap_or_default();
    if 5 * admitted < 3 * possible || 5 * nodes * (least + BY_CHANCE) < 3 * admitted {
        return Err(format!("{by_node:?} are admitted of {possible}, by nodes that ask alike"));
    }
    sums.add("possible", possible);
    sums.add("even", admitted);
    Ok(())
}
