//! The judge from below: compares a run with leases or shares with the same run without.

use tidegate_core::{Field, Limit, Rule};

use super::super::history::{LeasesEventKind, LeasesHistory, TakenFor};
use super::super::plan::{LeasesPlan, RunKind};
use crate::lease::sim::Sums;

/// The units of one limiter, or of all.
#[derive(Clone, Copy, Debug, Default)]
struct Units {
    /// The units that callers were told of while the run lasted.
    answered: u64,
    /// Those that the last client could take.
    rest: u64,
    /// Those that were lost, with a cause.
    lost: u64,
    /// Those that drained before they were given back, at most: a level gives them no credit.
    drained: u64,
}

impl Units {
    fn of(plan: &LeasesPlan, history: &LeasesHistory, key: Option<usize>) -> Self {
        let mut sum = Self::default();
        for event in history.events.iter().filter(|event| key.is_none_or(|key| event.key == key)) {
            match event.what {
                LeasesEventKind::Answered { units, .. } | LeasesEventKind::Spent { units, .. } => {
                    sum.answered += units
                }
                LeasesEventKind::Taken { units, by: None } => sum.rest += units,
                LeasesEventKind::Missed { units, .. } => sum.lost += units,
                LeasesEventKind::Returned { units, since, .. }
                | LeasesEventKind::Undone { units, since, .. } => {
                    let drained = drained(&plan.keys[event.key].rules[0], event.time - since);
                    sum.drained += units.min(drained);
                }
                _ => {}
            }
        }
        sum.lost += ended(history, key);
        sum
    }
}

/// Returns the units that nodes held that left before the store had them back.
fn ended(history: &LeasesHistory, key: Option<usize>) -> u64 {
    let mut sum = 0;
    for event in history.events.iter().filter(|event| key.is_none_or(|key| event.key == key)) {
        let (id, units) = match event.what {
            LeasesEventKind::Granted { id, units, .. } => (id, units.cast_signed()),
            LeasesEventKind::Spent { id, units, .. }
            | LeasesEventKind::Returned { id, units, .. } => (id, -units.cast_signed()),
            LeasesEventKind::Missed { of: TakenFor::Lease(id), units, .. } => {
                (id, -units.cast_signed())
            }
            _ => continue,
        };
        if history.gone.contains(&(id.0, id.1)) {
            sum += units;
        }
    }
    sum.cast_unsigned()
}

/// Returns the units of a level that drain in a time, rounded up; of a window none do.
fn drained(rule: &Rule, time: u64) -> u64 {
    let spec = rule.spec();
    match spec.limit {
        Limit::Units(limit) if spec.algorithm.fields().contains(&Field::Capacity) => {
            (limit * time).div_ceil(spec.window.unwrap_or_default().as_micros() as u64)
        }
        _ => 0,
    }
}

/// Compares a run that loses no node, no data and no rule with the same run without leases.
///
/// - If the window of a limit lasts longer than the run, at least 99 in 100 units can be had that can be had without
///   leases, with any faults and refusals; units lost with a message are lost in both runs.
/// - At least nine tenths of the units that reach callers without leases reach them with leases, while messages are
///   quick and none is lost. Otherwise they may come later: units are held elsewhere, or are on their way back.
pub(super) fn as_exact(
    plan: &LeasesPlan,
    history: &LeasesHistory,
    exact: &LeasesHistory,
    sums: &mut Sums,
) -> Result<(), String> {
    if !plan.keeps_all() {
        return Ok(());
    }
    let key = (plan.kind == RunKind::Lasting).then_some(0);
    let (own, exact) = (Units::of(plan, history, key), Units::of(plan, exact, key));
    sums.add("admitted", own.answered);
    sums.add("reference", exact.answered);
    if plan.kind != RunKind::Lasting {
        return Ok(());
    }
    let raised = drained(&plan.keys[0].rules[0], plan.keys[0].life.as_micros());
    let had = own.answered + own.rest + own.lost + own.drained + raised;
    if 100 * had < 99 * (exact.answered + exact.rest) {
        return Err(format!("{own:?} can be had, and {exact:?} without leases"));
    }
    let is_quick = plan.network.is_quick(plan.keys[0].life) && !plan.has_outage();
    if is_quick && 10 * own.answered < 9 * exact.answered {
        return Err(format!("callers were told of {own:?}, and of {exact:?} without leases"));
    }
    Ok(())
}
