//! The judge of the store's count: at each step it is compared with a limiter that takes each unit when it is spent.
//!
//! It plays the history of one limiter in the order in which units were spent, and looks at each count that the
//! store reported.

use std::collections::BTreeMap;

use tidegate_core::{Anchor, Limit, Micros};

use super::super::history::{DecidedBy, LayersEvent, LayersEventKind};
use super::super::plan::LayersPlan;
use super::super::world::FIRST;
use crate::step::Step;
use crate::store::fake::limiter;

/// A lease, or a request that does not need all of its units.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum TakenFor {
    /// Units that a node carried to a store that had not lost them: they came back elsewhere since it knew of them.
    Carried(u64),
    Lease(usize, u64),
    Request(u64),
}

/// Units that were taken and neither spent nor are known to be back. Units that are given back leave a window with the
/// oldest units, and units that have drained from a level do not come back.
struct Idle {
    units: u64,
    end: u64,
}

/// The store never counts less than the spent units and the units that can still be spent, and never more than the spent
/// units and the units that were neither spent nor returned. So no request is admitted without room in the algorithm,
/// and no request is refused for more than the leased units. That holds until data is lost, the clock steps, or the rule
/// changes or is reset.
pub(super) fn at_each_step(
    plan: &LayersPlan,
    limiter_number: usize,
    events: &[LayersEvent],
) -> Result<(), String> {
    let rule = plan.rule(limiter_number);
    let spec = rule.spec();
    // A window that begins with its first unit begins earlier in the store than where units are spent.
    if spec.anchor == Some(Anchor::FirstRequest) {
        return Ok(());
    }
    let is_level = plan.is_level(limiter_number);
    let window_us = spec.window.unwrap_or_default().as_micros() as u64;
    let Some(mut exact) = limiter(&rule) else { return Ok(()) };
    // Two passes, because a settlement says later how many of its units a request needs.
    let mut surplus: BTreeMap<u64, u64> = BTreeMap::new();
    let mut longest = 0;
    let mut ordered: Vec<(u64, &LayersEvent)> = Vec::new();
    for event in events.iter().filter(|event| !event.is_former) {
        match event.what {
            LayersEventKind::Undone { request, units, .. } => {
                *surplus.entry(request).or_default() += units;
            }
            LayersEventKind::Settled { request, back, late, .. } => {
                *surplus.entry(request).or_default() += back + late;
            }
            LayersEventKind::Granted { ends, .. } => longest = longest.max(ends - event.at),
            _ => {}
        }
        let at = match event.what {
            // Leased units are spent when the request asks; its caller hears of it later.
            LayersEventKind::Admitted { by: DecidedBy::Lease, asked, .. } => asked,
            _ => event.at,
        };
        ordered.push((at, event));
    }
    ordered.sort_by_key(|(at, _)| *at);
    // A level may be higher in the store by the units that drain in the longest lease, rounded up.
    let raised = match spec.limit {
        Limit::Units(limit) if is_level => (limit * longest).div_ceil(window_us) + 1,
        _ => 0,
    };
    let mut idle: BTreeMap<TakenFor, Idle> = BTreeMap::new();
    for (at, event) in ordered {
        let now = FIRST.plus(Micros::from_micros(at));
        let mut take = |units: u64| {
            // Even into debt, because these units were admitted already.
            let settle = Step::Settle { actual: units, token: None, since: None };
            exact.run(settle, 0, now);
        };
        match event.what {
            LayersEventKind::Taken { request, units } => {
                // Units that come back later are never spent, so they are idle from the beginning.
                let unneeded = surplus.get(&request).copied().unwrap_or_default().min(units);
                idle.insert(TakenFor::Request(request), Idle { units: unneeded, end: at });
                take(units - unneeded);
            }
            LayersEventKind::Admitted { request, units, by: DecidedBy::Lease, node, .. } => {
                let unneeded = surplus.get(&request).copied().unwrap_or_default().min(units);
                idle.insert(TakenFor::Request(request), Idle { units: unneeded, end: at });
                take(units - unneeded);
                let mut spent = units;
                for (of, lease) in &mut idle {
                    let TakenFor::Lease(holder, _) = of else { continue };
                    if *holder == node && lease.end > at {
                        let units = lease.units.min(spent);
                        lease.units -= units;
                        spent -= units;
                    }
                }
            }
            LayersEventKind::Settled { request, back, more, drained, .. } => {
                take(more);
                let idle = idle.get_mut(&TakenFor::Request(request));
                came_back(idle, is_level, back, drained);
            }
            LayersEventKind::Undone { request, units, drained } => {
                let idle = idle.get_mut(&TakenFor::Request(request));
                came_back(idle, is_level, units, drained);
            }
            LayersEventKind::Granted { node, ticket, units, ends, .. } => {
                idle.insert(TakenFor::Lease(node, ticket), Idle { units, end: ends });
            }
            LayersEventKind::Returned { node, ticket, units, is_late: false, drained } => {
                let idle = idle.get_mut(&TakenFor::Lease(node, ticket));
                came_back(idle, is_level, units, drained);
            }
            LayersEventKind::Carried { units, .. } => {
                idle.insert(TakenFor::Carried(at), Idle { units, end: at });
            }
            LayersEventKind::Reset
            | LayersEventKind::Lost { .. }
            | LayersEventKind::Stepped { .. }
            | LayersEventKind::Changed => return Ok(()),
            LayersEventKind::Stands { used, held } => {
                let spent = exact.used(now);
                // After two windows no unit of a window counts any more.
                let counts = |idle: &&Idle| is_level || idle.end + 2 * window_us > at;
                let unspent: u64 = idle.values().filter(counts).map(|idle| idle.units).sum();
                if used < spent + held || used > spent + unspent + raised {
                    return Err(format!(
                        "{used} units are used at {at}: {spent} are spent, {held} can be spent, \
                         {unspent} were taken and not spent"
                    ));
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// Units of a level are back, less the units that have drained: in thousandths.
fn came_back(idle: Option<&mut Idle>, is_level: bool, units: u64, drained: u64) {
    if let Some(idle) = idle.filter(|_| is_level) {
        // Rounded down by less than two units, because the store rounds as well.
        let back = units.saturating_sub(drained.div_ceil(1_000) + 1);
        idle.units = idle.units.saturating_sub(back);
    }
}
