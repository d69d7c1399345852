//! The judge of a run: no bound is passed, each unit has one fate, and leases and shares cost few admissions.

mod below;
mod sums;

use std::collections::BTreeMap;

use testkit::admissions::{Admission, most_within};
use tidegate_core::Limit;

use super::history::{CallerAnswer, DecidedBy, LayersEvent, LayersEventKind, LayersHistory};
use super::plan::{LONG, LayersPlan, RequestKind};
use crate::layers::Share;
use crate::lease::sim::Sums;
use crate::rules::OnStoreError;
pub(super) use below::below;

/// The time for which a denial is repeated, and a little more for clocks that drift.
const REPEATED_US: u64 = 51_000;

/// Checks everything that happened.
pub(super) fn all(plan: &LayersPlan, history: &LayersHistory) -> Result<Sums, String> {
    each_request(plan, history)?;
    each_settlement(plan, history)?;
    leases(plan, history)?;
    for limiter in 0..plan.limiters.len() {
        let of = |error: String| format!("limiter {limiter}: {error}");
        let events: Vec<_> =
            history.events.iter().filter(|event| event.limiter == limiter).copied().collect();
        bounds(plan, limiter, &events).map_err(of)?;
        repeated_denials(&events).map_err(of)?;
        if limiter == LONG {
            conserved(plan, limiter, &events, history).map_err(of)?;
        }
    }
    Ok(sums::of(history))
}

/// The units of a request from one limiter: taken, come back or lost, and admitted for its caller.
#[derive(Clone, Copy, Debug, Default)]
struct RequestUnits {
    taken: u64,
    undone: u64,
    gone: u64,
    admitted: u64,
}

/// Units that a request took and does not need come back, and no others: the store has the units that its caller was told
/// of, unless it was admitted without the store, or they were lost for a known cause.
fn each_request(plan: &LayersPlan, history: &LayersHistory) -> Result<(), String> {
    let mut parts: BTreeMap<(u64, usize), RequestUnits> = BTreeMap::new();
    for event in &history.events {
        let (LayersEventKind::Taken { request, .. }
        | LayersEventKind::Undone { request, .. }
        | LayersEventKind::Gone { request, .. }
        | LayersEventKind::Admitted { request, by: DecidedBy::Store, .. }) = event.what
        else {
            continue;
        };
        let part = parts.entry((request, event.limiter)).or_default();
        match event.what {
            LayersEventKind::Taken { units, .. } => part.taken += units,
            LayersEventKind::Undone { units, .. } => part.undone += units,
            LayersEventKind::Gone { units, .. } => part.gone += units,
            LayersEventKind::Admitted { units, .. } => part.admitted += units,
            _ => {}
        }
    }
    for ((request, limiter), part) in parts {
        let asked = &plan.requests[request as usize];
        let answered = history.answers.get(&request);
        let RequestUnits { taken, undone, gone, admitted } = part;
        let stays = taken.checked_sub(undone + gone);
        let is_right = match answered {
            Some(CallerAnswer::Admitted { is_degraded: true }) => {
                stays == Some(0) || gone + undone == 0
            }
            Some(_) => stays == Some(admitted),
            // The process of a caller without an answer may have ended.
            None => stays == Some(0) || history.accounts[asked.node].crashed,
        };
        if !is_right {
            return Err(format!(
                "request {request} was answered {answered:?}, and of limiter {limiter} {part:?}: \
                 {asked:?}"
            ));
        }
    }
    Ok(())
}

/// A reservation is settled once, and in a calm run each is.
fn each_settlement(plan: &LayersPlan, history: &LayersHistory) -> Result<(), String> {
    let mut settled: BTreeMap<(u64, usize), (u64, u64)> = BTreeMap::new();
    for event in &history.events {
        match event.what {
            LayersEventKind::Admitted {
                request, by: DecidedBy::Store | DecidedBy::Lease, ..
            } => {
                settled.entry((request, event.limiter)).or_default().0 += 1;
            }
            LayersEventKind::Settled { request, .. } => {
                settled.entry((request, event.limiter)).or_default().1 += 1;
            }
            _ => {}
        }
    }
    for ((request, limiter), (admitted, settled)) in settled {
        let asked = &plan.requests[request as usize];
        let reserves = matches!(asked.kind, RequestKind::Reserve { .. });
        let is_due = reserves && plan.is_calm();
        if settled > admitted || is_due && settled < admitted {
            return Err(format!("{asked:?} was settled {settled} times with limiter {limiter}"));
        }
    }
    Ok(())
}

/// Each unit of a lease is spent, or given back once, or it is lost: with its node, or for a cause that the node counts.
fn leases(plan: &LayersPlan, history: &LayersHistory) -> Result<(), String> {
    let is_reset = |limiter: usize| {
        let resets =
            |event: &LayersEvent| event.limiter == limiter && event.what == LayersEventKind::Reset;
        history.events.iter().any(resets)
    };
    let mut left: BTreeMap<(usize, usize), i64> = BTreeMap::new();
    let mut admitted = vec![0; history.accounts.len()];
    let mut late = vec![0; history.accounts.len()];
    let mut back = vec![0; history.accounts.len()];
    // The tickets up to which leases ended with a reset through the node, and when that was known.
    let mut voids: BTreeMap<(usize, usize), (u64, u64)> = BTreeMap::new();
    let mut newest: BTreeMap<(usize, usize), u64> = BTreeMap::new();
    // When the last lease of a node ends.
    let mut ends: BTreeMap<(usize, usize), u64> = BTreeMap::new();
    for event in &history.events {
        let void = |node| voids.get(&(node, event.limiter)).copied();
        let (node, units) = match event.what {
            LayersEventKind::Granted { node, ticket, units, ends: at } => {
                newest.insert((node, event.limiter), ticket);
                let last = ends.entry((node, event.limiter)).or_default();
                *last = at.max(*last);
                (node, units.cast_signed())
            }
            LayersEventKind::Returned { node, ticket, units, is_late, .. } => {
                let came = if is_late { &mut late } else { &mut back };
                came[node] += units;
                let is_void = void(node).is_some_and(|(last, _)| ticket <= last);
                (node, if is_void { 0 } else { -units.cast_signed() })
            }
            LayersEventKind::Admitted { node, units, by: DecidedBy::Lease, asked, .. } => {
                admitted[node] += units;
                if ends.get(&(node, event.limiter)).is_none_or(|ends| asked >= *ends) {
                    return Err(format!("a lease is spent after its end: {event:?}"));
                }
                let is_void = void(node).is_some_and(|(_, at)| asked <= at);
                (node, if is_void { 0 } else { -units.cast_signed() })
            }
            LayersEventKind::Back { node, is_reset: true } => {
                let of = (node, event.limiter);
                let last = newest.get(&of).copied().unwrap_or_default();
                voids.insert(of, (last, event.at));
                left.insert(of, 0);
                continue;
            }
            _ => continue,
        };
        let left = left.entry((node, event.limiter)).or_default();
        *left += units;
        if *left < 0 {
            return Err(format!("more was spent than leased: {event:?}"));
        }
    }
    for (node, account) in history.accounts.iter().enumerate().filter(|(_, one)| !one.crashed) {
        // A reset forgets leases, even if some are spent.
        let own = left.iter().filter(|((of, limiter), _)| *of == node && !is_reset(*limiter));
        let lost = own.map(|(_, units)| units.cast_unsigned()).sum::<u64>();
        // A node that lives to the end has the time to give back all units that still count then.
        let of_long = left.get(&(node, LONG)).copied().unwrap_or_default();
        let gives_all = plan.nodes[node].end.is_none() && !is_reset(LONG);
        if lost > account.no_reply || gives_all && of_long > 0 {
            return Err(format!("node {node} lost {lost} leased units: {account:?}, {left:?}"));
        }
        if account.taken != account.spent + account.unspent || account.spent != admitted[node] {
            return Err(format!(
                "node {node} admitted {} leased units: {account:?}",
                admitted[node]
            ));
        }
        // Units that came too late are back as well, if the reply was lost and the node asked again.
        let known = account.too_late + account.returned;
        if account.too_late > late[node] || known > late[node] + back[node] {
            return Err(format!("node {node} counts units that did not come back: {account:?}"));
        }
    }
    Ok(())
}

/// A denial is repeated for a while after the request that the store denied, for its cost and more, and not when units
/// came back through the node since then.
fn repeated_denials(events: &[LayersEvent]) -> Result<(), String> {
    let mut denied: BTreeMap<usize, Vec<(u64, u64)>> = BTreeMap::new();
    for event in events {
        match event.what {
            LayersEventKind::Back { node, .. } => drop(denied.remove(&node)),
            LayersEventKind::Denied { node, cost, asked, is_repeated: false } => {
                denied.entry(node).or_default().push((asked, cost));
            }
            LayersEventKind::Denied { node, cost, asked, is_repeated: true } => {
                let denies = |(at, of): &(u64, u64)| *of <= cost && asked < at + REPEATED_US;
                if !denied.get(&node).is_some_and(|all| all.iter().any(denies)) {
                    return Err(format!("a denial is repeated that ended: {event:?}"));
                }
            }
            _ => {}
        }
    }
    Ok(())
}

/// No interval of length W admits more than the bound, and no node more than its share in place of the store.
fn bounds(plan: &LayersPlan, limiter: usize, events: &[LayersEvent]) -> Result<(), String> {
    let rule = plan.rule(limiter);
    let spec = &plan.rules[plan.limiters[limiter]];
    let window_us = rule.spec().window.unwrap_or_default().as_micros() as u64;
    let mut taken_at = BTreeMap::new();
    let mut surplus = BTreeMap::new();
    let mut resets = 0;
    for event in events {
        match event.what {
            LayersEventKind::Taken { request, .. } => {
                taken_at.insert(request, event.at);
            }
            LayersEventKind::Settled { request, back, late, .. } => {
                surplus.insert(request, back + late);
            }
            LayersEventKind::Reset => resets += 1,
            _ => {}
        }
    }
    let (mut admitted, mut here) = (Vec::new(), BTreeMap::<usize, Vec<Admission>>::new());
    for event in events {
        let LayersEventKind::Admitted { request, node, units, by, asked } = event.what else {
            continue;
        };
        let net = units - surplus.get(&request).copied().unwrap_or_default().min(units);
        match by {
            DecidedBy::Store => {
                let at = taken_at
                    .get(&request)
                    .ok_or("the node admitted units that were never taken")?;
                admitted.push(Admission::at(*at, net));
            }
            DecidedBy::Lease => admitted.push(Admission { asked, answered: event.at, units: net }),
            DecidedBy::Here { lasts_us: 1.. } => {
                return Err(format!("a node admits on top of what it holds: {event:?}"));
            }
            DecidedBy::Here { .. } if spec.on_store_error != OnStoreError::Closed => {
                let units = match plan.requests[request as usize].kind {
                    RequestKind::Reserve { percent, .. } => units.min(units * percent / 100),
                    _ => units,
                };
                here.entry(node).or_default().push(Admission::at(event.at, units));
            }
            DecidedBy::Open if spec.on_store_error == OnStoreError::Open => {}
            DecidedBy::Here { .. } | DecidedBy::Open => {
                return Err(format!("a closed rule admits without the store: {event:?}"));
            }
        }
    }
    let most = rule.bound(plan.largest_cost).unwrap_or_default() * (1 + resets);
    let (sum, begins) = most_within(&admitted, window_us);
    if sum > most {
        return Err(format!("{sum} units in the window that begins at {begins}, of {most}"));
    }
    let share = Share::of(Some(plan.most_nodes)).rule(&rule);
    let most = share.bound(plan.largest_cost).unwrap_or_default() * (1 + resets);
    for (node, admitted) in here {
        let (sum, begins) = most_within(&admitted, window_us);
        if sum > most {
            return Err(format!(
                "node {node} admits {sum} units without the store from {begins} on, of {most}"
            ));
        }
    }
    Ok(())
}

/// At the end of a run that is shorter than a window, the store counts the units that it took, less the units that came
/// back.
fn conserved(
    plan: &LayersPlan,
    limiter: usize,
    events: &[LayersEvent],
    history: &LayersHistory,
) -> Result<(), String> {
    let last_reset = events.iter().rposition(|event| event.what == LayersEventKind::Reset);
    let since = last_reset.map_or(0, |place| place + 1);
    let (mut counted, mut drained) = (0_i64, 0);
    for event in &events[since..] {
        let (units, no_credit) = match event.what {
            LayersEventKind::Taken { units, .. } | LayersEventKind::Granted { units, .. } => {
                (units.cast_signed(), 0)
            }
            LayersEventKind::Undone { units, drained, .. }
            | LayersEventKind::Returned { units, is_late: false, drained, .. } => {
                (-units.cast_signed(), drained)
            }
            LayersEventKind::Settled { back, more, drained, .. } => {
                (more.cast_signed() - back.cast_signed(), drained)
            }
            _ => continue,
        };
        (counted, drained) = (counted + units, drained + no_credit);
    }
    let (used, drains) =
        (history.used[limiter].cast_signed(), drains(plan, limiter, history.ended));
    let most = counted + (drained / 1_000).cast_signed() + drains;
    if used < counted - drains || used > most {
        return Err(format!("the store counts {used} units, and {counted} of {most} are known"));
    }
    Ok(())
}

/// Returns the units of a limiter that drain in a time, rounded up; none of a window.
fn drains(plan: &LayersPlan, limiter: usize, us: u64) -> i64 {
    let rule = plan.rule(limiter);
    let (true, Limit::Units(limit)) = (plan.is_level(limiter), rule.spec().limit) else { return 0 };
    let window_us = rule.spec().window.unwrap_or_default().as_micros() as u64;
    (limit * us / window_us + 2).cast_signed()
}
