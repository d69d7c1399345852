//! The judge of a history. It knows the bound of each algorithm, and the allowed cost of leases.
//!
//! - No interval of length W admits more than the bound of the rule, plus one limit for each loss of data, or after a
//!   change the bounds of both rules. A step of the store's clock that moves what counts begins a new bound.
//! - The store never counts less than the spent units and the units that can still be spent, and never more than the
//!   spent units and the leased units that were neither spent nor returned. So no request is admitted without room in
//!   the algorithm, and no request is refused for more than the leased units.
//! - Each unit of a lease is spent or returned once at most, before the end of the lease, and under the rule that it was
//!   taken by. Units that the books call spent were spent.
//! - Units are conserved: each unit that the store took reached a caller, or came back, or was lost for one cause.

mod below;
mod clock;
mod even;
mod ledger;

use std::collections::{BTreeMap, BTreeSet};

use testkit::admissions::{Admission, most_within};
use tidegate_core::{Anchor, Limit, Rule, Timestamp};

use super::history::{
    BookCounts, LeasesEvent, LeasesEventKind, LeasesHistory, RequestId, TakenFor,
};
use super::plan::{LeasesPlan, PlannedLimiter, RunKind};
use super::sim_limiter::limiter;
use crate::lease::sim::Sums;
use clock::StoreClock;

/// Checks everything that happened. The history of the same run without leases shows what could be admitted.
pub(super) fn all(
    plan: &LeasesPlan,
    history: &LeasesHistory,
    exact: Option<&LeasesHistory>,
) -> Result<Sums, String> {
    let mut sums = Sums::default();
    for (number, key) in plan.keys.iter().enumerate() {
        let mut events: Vec<_> =
            history.events.iter().filter(|event| event.key == number).collect();
        events.sort_by_key(|event| event.time);
        let of_key = |error| format!("key {number}: {error}");
        within_bound(plan, key, &events).map_err(of_key)?;
        each_lease_once(&events).map_err(of_key)?;
        let clock = StoreClock::new(window(key), key.life.as_micros());
        ledger::adds_up(&events, &history.gone, clock, &mut sums).map_err(of_key)?;
        as_counted(plan, key, &events, history.ended, &mut sums).map_err(of_key)?;
    }
    for account in &history.accounts {
        is_true(account)?;
    }
    sums.add("again", history.again);
    sums.add("put back", history.put_back);
    sums.add("crashes", history.crashes);
    sums.add("late", history.late);
    sums.add("renewed", history.renewed);
    sums.add("excess", history.excess);
    if let Some(exact) = exact {
        below::as_exact(plan, history, exact, &mut sums)?;
    }
    if plan.kind == RunKind::Even {
        even::as_stated(plan, history, &mut sums)?;
    }
    Ok(sums)
}

fn window(key: &PlannedLimiter) -> u64 {
    key.rules[0].spec().window.map_or(0, |window| window.as_micros() as u64)
}

fn limit(rule: &Rule) -> u64 {
    let spec = rule.spec();
    match spec.limit {
        Limit::Units(limit) => spec.capacity.unwrap_or(limit).max(limit),
        Limit::Unlimited => 0,
    }
}

/// The bound of SPEC.md. Leases of windows that begin with their first unit can be spent at the end of one and the
/// beginning of the next, which makes one unit more.
fn bound(rule: &Rule, largest_cost: u64) -> u64 {
    let of_first = u64::from(rule.spec().anchor == Some(Anchor::FirstRequest));
    rule.bound(largest_cost).unwrap_or_default() + of_first
}

/// The requests whose callers had given up when they were admitted, and which were undone: they admitted no caller.
fn undone(events: &[&LeasesEvent]) -> BTreeSet<RequestId> {
    let undone = events.iter().filter_map(|event| match event.what {
        LeasesEventKind::Undone { by, .. } => Some(by),
        _ => None,
    });
    undone.collect()
}

fn within_bound(
    plan: &LeasesPlan,
    key: &PlannedLimiter,
    events: &[&LeasesEvent],
) -> Result<(), String> {
    let count =
        |what: &LeasesEventKind| events.iter().filter(|event| event.what == *what).count() as u64;
    let rules = if count(&LeasesEventKind::Changed) > 0 { &key.rules[..] } else { &key.rules[..1] };
    let most_limit = rules.iter().map(limit).max().unwrap_or_default();
    let window = window(key);
    // Units that are taken while the clock runs late are taken at the last instant that counted.
    let moves = |by: i64| by > 0 || by.unsigned_abs() > window;
    let steps = events
        .iter()
        .filter(|event| matches!(event.what, LeasesEventKind::Stepped { by } if moves(by)));
    let most = rules.iter().map(|rule| bound(rule, plan.largest_cost)).sum::<u64>()
        * (1 + steps.count() as u64)
        + count(&LeasesEventKind::Lost) * most_limit;
    let undone = undone(events);
    let admitted = events.iter().filter_map(|event| match event.what {
        LeasesEventKind::Taken { by: Some(by), .. } if undone.contains(&by) => None,
        LeasesEventKind::Taken { units, .. } | LeasesEventKind::Spent { units, .. } => {
            Some(Admission::at(event.time, units))
        }
        _ => None,
    });
    let (sum, begins) = most_within(&admitted.collect::<Vec<_>>(), window);
    if sum > most {
        return Err(format!("{sum} units in the window that begins at {begins}, of {most}"));
    }
    Ok(())
}

/// A lease, and how many units of it are spent or returned.
struct JudgedLease {
    units: u64,
    taken: u64,
    end: u64,
    revision: usize,
    gone: u64,
    returned: u64,
}

fn each_lease_once(events: &[&LeasesEvent]) -> Result<(), String> {
    let (mut ledger, mut dropped) = (BTreeMap::<_, JudgedLease>::new(), BTreeMap::new());
    for event in events {
        let time = event.time;
        let (id, units, rule) = match event.what {
            LeasesEventKind::Granted { id, units, end, revision } => {
                ledger.insert(
                    id,
                    JudgedLease { units, taken: time, end, revision, gone: 0, returned: 0 },
                );
                continue;
            }
            LeasesEventKind::Dropped { node } => {
                dropped.insert(node, time);
                continue;
            }
            LeasesEventKind::Lost => {
                // The store lost the record of the return, so the returned units may be taken back once more.
                ledger.values_mut().for_each(|lease| lease.gone -= lease.returned);
                ledger.values_mut().for_each(|lease| lease.returned = 0);
                continue;
            }
            LeasesEventKind::Spent { id, units, revision } => (id, units, Some(revision)),
            LeasesEventKind::Returned { id, units, .. } => (id, units, None),
            _ => continue,
        };
        let Some(lease) = ledger.get_mut(&id) else {
            return Err(format!("{id:?} is spent at {time} and was never taken"));
        };
        lease.gone += units;
        lease.returned += if rule.is_none() { units } else { 0 };
        if lease.gone > lease.units {
            let JudgedLease { gone, units, .. } = lease;
            return Err(format!("{gone} units of {id:?} are spent or returned, of {units}"));
        }
        if rule.is_none() {
            continue;
        }
        if time >= lease.end {
            return Err(format!("{id:?} ends at {} and is spent at {time}", lease.end));
        }
        if rule.is_some_and(|rule| rule != lease.revision) {
            return Err(format!("{id:?} is spent at {time} under another rule"));
        }
        if dropped.get(&id.0).is_some_and(|at| lease.taken < *at && *at < time) {
            return Err(format!("{id:?} is spent at {time} and was dropped"));
        }
    }
    Ok(())
}

/// The units of a lease that were neither spent nor are known to be back. Units that are given back leave a window with
/// the oldest units, and units that have drained from a level do not come back.
struct Idle {
    units: u64,
    end: u64,
}

/// Compares the store's count with a limiter that takes each unit when it is spent, until data is lost or the rule
/// changes.
fn as_counted(
    plan: &LeasesPlan,
    key: &PlannedLimiter,
    events: &[&LeasesEvent],
    ended: u64,
    sums: &mut Sums,
) -> Result<(), String> {
    let spec = key.rules[0].spec();
    let is_level = spec.algorithm.fields().contains(&tidegate_core::Field::Capacity);
    // A window that begins with its first unit begins earlier in the store than where units are spent.
    let mut comparable = spec.anchor != Some(Anchor::FirstRequest);
    let window = window(key);
    let Some(mut exact) = limiter(&key.rules[0]) else { return Ok(()) };
    let mut ledger: BTreeMap<TakenFor, Idle> = BTreeMap::new();
    let undone = undone(events);
    let raised = match spec.limit {
        Limit::Units(limit) if is_level => (limit * key.life.as_micros()).div_ceil(window) + 1,
        _ => 0,
    };
    for event in events {
        let now = Timestamp::from_micros(plan.origin + event.time);
        match event.what {
            LeasesEventKind::Taken { units, by: Some(by) } if undone.contains(&by) => {
                ledger.insert(TakenFor::Request(by), Idle { units, end: event.time });
            }
            LeasesEventKind::Taken { units, .. } => {
                sums.add("exact", if event.time < ended { units } else { 0 });
                exact.take(now, units);
            }
            LeasesEventKind::Spent { id, units, .. } => {
                sums.add("leased", units);
                exact.take(now, units);
                ledger
                    .entry(TakenFor::Lease(id))
                    .and_modify(|lease| lease.units = lease.units.saturating_sub(units));
            }
            LeasesEventKind::Granted { id, units, end, .. } => {
                ledger.insert(TakenFor::Lease(id), Idle { units, end });
            }
            LeasesEventKind::Returned { units, since, .. }
            | LeasesEventKind::Undone { units, since, .. } => {
                sums.add("returned", units);
                let of = match event.what {
                    LeasesEventKind::Returned { id, .. } => TakenFor::Lease(id),
                    LeasesEventKind::Undone { by, .. } => TakenFor::Request(by),
                    _ => continue,
                };
                if let Some(lease) = ledger.get_mut(&of).filter(|_| is_level) {
                    let drained =
                        (limit(&key.rules[0]) * (event.time - since)).div_ceil(window) + 1;
                    lease.units = lease.units.saturating_sub(units.saturating_sub(drained));
                }
            }
            LeasesEventKind::Stepped { .. } => {
                sums.add("steps", 1);
                comparable = false;
            }
            LeasesEventKind::Dropped { .. }
            | LeasesEventKind::Answered { .. }
            | LeasesEventKind::Missed { .. } => {}
            LeasesEventKind::Local { held } => {
                sums.add("local", 1);
                if held > 0 {
                    return Err(format!("a node admits at {} on top of {held} units", event.time));
                }
            }
            LeasesEventKind::Lost => {
                sums.add("losses", 1);
                comparable = false;
            }
            LeasesEventKind::Changed => {
                sums.add("changes", 1);
                comparable = false;
            }
            LeasesEventKind::Stands { used, held, refused } => {
                sums.add("refused", u64::from(refused));
                let spent = exact.used(now);
                let counts = |end: u64| is_level || end + 2 * window > event.time;
                let leases = ledger.values().filter(|lease| counts(lease.end));
                let unspent: u64 = leases.map(|lease| lease.units).sum();
                let most = spent + unspent + raised;
                if comparable && (used < spent + held || used > most) {
                    return Err(format!(
                        "{used} units are used at {}: {spent} are spent, {held} can be spent, {unspent} were leased",
                        event.time
                    ));
                }
            }
        }
    }
    Ok(())
}

/// Compares the counts of a node's books with its history.
fn is_true(account: &BookCounts) -> Result<(), String> {
    let BookCounts { taken, spent, unspent, held, truly_spent } = *account;
    if spent == truly_spent && taken == spent + unspent + held {
        Ok(())
    } else {
        Err(format!("the book of a node does not add up: {account:?}"))
    }
}
