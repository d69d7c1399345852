//! The judge of a run: no bound is passed, each unit has one fate, and leases and shares cost few admissions.
//!
//! Each judge reads the history and returns the first event that breaks its promise. Here are the judges of
//! requests, of denials and of bounds; `counted` compares each count of the store, `leases` follows leased units,
//! `clock` steps of the store's clock, and `even` and `below` check the minimum that is admitted.

mod below;
mod clock;
mod counted;
mod even;
mod leases;
mod sums;

use std::collections::BTreeMap;

use testkit::admissions::{Admission, most_within};
use tidegate_core::{Anchor, Limit, Rule};
use tidegate_rules::shared::Share;

use super::history::{CallerAnswer, DecidedBy, LayersEvent, LayersEventKind, LayersHistory};
use super::plan::{LONG, LayersPlan, RequestKind};
use crate::layers::sim::Sums;
use crate::rules::OnStoreError;
pub(super) use below::below;

/// The time for which a denial is repeated, and a little more for clocks that drift.
const REPEATED_US: u64 = 51_000;

/// Checks everything that happened.
pub(super) fn all(plan: &LayersPlan, history: &LayersHistory) -> Result<Sums, String> {
    each_request(plan, history)?;
    each_settlement(plan, history)?;
    leases::each_once(plan, history)?;
    for limiter in 0..plan.limiters.len() {
        let of = |error: String| format!("limiter {limiter}: {error}");
        let events: Vec<_> =
            history.events.iter().filter(|event| event.limiter == limiter).copied().collect();
        bounds(plan, limiter, &events).map_err(of)?;
        repeated_denials(&events).map_err(of)?;
        clock::come_back(plan, limiter, &events).map_err(of)?;
        counted::at_each_step(plan, limiter, &events).map_err(of)?;
        // No window of this limiter ends in a run, so its units can be added up at the end.
        if limiter == LONG && is_comparable(&events) {
            conserved(plan, limiter, &events, history).map_err(of)?;
        }
    }
    let mut sums = sums::of(history);
    if plan.is_even {
        even::as_stated(plan, history, &mut sums)?;
    }
    Ok(sums)
}

/// Returns whether the store counts as it did at the beginning: it lost no data, its clock was not set, and the rule is
/// the same.
fn is_comparable(events: &[LayersEvent]) -> bool {
    let moves = |event: &LayersEvent| {
        matches!(
            event.what,
            LayersEventKind::Lost { .. }
                | LayersEventKind::Stepped { .. }
                | LayersEventKind::Changed
        )
    };
    !events.iter().any(moves)
}

/// The units of a request from one limiter: taken, come back or lost, and admitted for its caller.
#[derive(Clone, Copy, Debug, Default)]
struct RequestUnits {
    taken: u64,
    undone: u64,
    gone: u64,
    admitted: u64,
    /// They were taken by a store that a replica had taken the place of.
    by_former: bool,
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
            LayersEventKind::Taken { units, .. } => {
                part.taken += units;
                part.by_former = event.is_former;
            }
            LayersEventKind::Undone { .. } if part.by_former && !event.is_former => {
                return Err(format!("a store gives back what it never took: {event:?}"));
            }
            LayersEventKind::Undone { units, .. } => part.undone += units,
            LayersEventKind::Gone { units, .. } => part.gone += units,
            LayersEventKind::Admitted { units, .. } => part.admitted += units,
            _ => {}
        }
    }
    for ((request, limiter), part) in parts {
        let asked = &plan.requests[request as usize];
        let answered = history.answers.get(&request);
        let RequestUnits { taken, undone, gone, admitted, .. } = part;
        let stays = taken.checked_sub(undone + gone);
        let is_right = match answered {
            Some(CallerAnswer::Admitted { is_degraded: true }) => {
                // The node that decided keeps the units of a late reply, or gives all of them back.
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
        // In any other run the message of a settlement may be lost.
        let is_due = reserves && plan.is_calm();
        if settled > admitted || is_due && settled < admitted {
            return Err(format!("{asked:?} was settled {settled} times with limiter {limiter}"));
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

/// Returns the maximum number of units that a loss of data hides for good: units that a node did not hear of before it,
/// and units that are taken until the node asks again, because a state takes the place of another and is not added to
/// it. The node that hides the fewest counts. A node that is alone hides nothing.
fn hidden_by_loss(plan: &LayersPlan, limiter: usize, events: &[LayersEvent], place: usize) -> u64 {
    if plan.nodes.len() == 1 {
        return 0;
    }
    let have_times = plan.rule(limiter).spec().algorithm.units_have_times();
    let keeps_newer = plan.is_leased(limiter) || have_times;
    if keeps_newer || events.iter().any(makes_forget) {
        return u64::MAX;
    }
    let (before, after) = events.split_at(place);
    let lost_at = events[place].at;
    let hidden = (0..plan.nodes.len()).filter_map(|node| {
        let known_at = before.iter().filter_map(|event| heard(event, node)).max()?;
        let asks_again = after.iter().filter(|event| heard(event, node) >= Some(lost_at));
        let until = asks_again.map(|event| event.at).min()?;
        let units = events.iter().map(|event| match event.what {
            LayersEventKind::Taken { units, .. } if (known_at..=until).contains(&event.at) => units,
            _ => 0,
        });
        Some(units.sum())
    });
    hidden.min().unwrap_or(u64::MAX)
}

/// Returns whether a node forgets the limiter at this event.
fn makes_forget(event: &LayersEvent) -> bool {
    matches!(
        event.what,
        LayersEventKind::Back { is_reset: true, .. }
            | LayersEventKind::Reset
            | LayersEventKind::Changed
    )
}

/// Returns when the node asked, if it heard the reply of the store at this event.
fn heard(event: &LayersEvent, of: usize) -> Option<u64> {
    match event.what {
        LayersEventKind::Admitted { node, by: DecidedBy::Store, asked, .. } if node == of => {
            Some(asked)
        }
        _ => None,
    }
}

/// No interval of length W admits more than the bound, and no node more than its share in place of the store.
fn bounds(plan: &LayersPlan, limiter: usize, events: &[LayersEvent]) -> Result<(), String> {
    let rule = plan.rule(limiter);
    let spec = &plan.rules[plan.limiters[limiter]];
    let window_us = rule.spec().window.unwrap_or_default().as_micros() as u64;
    // Two passes, because a settlement comes after the admission that it makes smaller.
    let mut taken_at = BTreeMap::new();
    let mut surplus = BTreeMap::new();
    let mut steps = 0;
    let mut resets = 0;
    let mut losses = Vec::new();
    let mut resets_of = BTreeMap::<usize, u64>::new();
    for (place, event) in events.iter().enumerate() {
        match event.what {
            LayersEventKind::Taken { request, .. } => {
                taken_at.insert(request, (event.at, event.is_former));
            }
            LayersEventKind::Settled { request, back, late, .. } => {
                surplus.insert(request, back + late);
            }
            // Units that are taken while the clock runs late are taken at the last instant that counted.
            LayersEventKind::Stepped { by } if by > 0 || by.unsigned_abs() > window_us => {
                steps += 1
            }
            LayersEventKind::Reset => resets += 1,
            LayersEventKind::Back { node, is_reset: true } => {
                *resets_of.entry(node).or_default() += 1;
            }
            LayersEventKind::Lost { .. } => losses.push(place),
            _ => {}
        }
    }
    // By the store in place at the end, and by the store before it, which may go on by itself.
    let mut admitted = [Vec::new(), Vec::new()];
    let mut here = BTreeMap::<usize, Vec<Admission>>::new();
    for event in events {
        let LayersEventKind::Admitted { request, node, units, by, asked, .. } = event.what else {
            continue;
        };
        // Units that were settled back free the limit again.
        let net = units - surplus.get(&request).copied().unwrap_or_default().min(units);
        match by {
            DecidedBy::Store => {
                let (at, is_former) = *taken_at
                    .get(&request)
                    .ok_or("the node admitted units that were never taken")?;
                // A node that slept may hear in time of units that only the former store counts.
                admitted[usize::from(is_former)].push(Admission::at(at, net));
            }
            DecidedBy::Lease => {
                admitted[0].push(Admission { asked, answered: event.at, units: net });
            }
            DecidedBy::Here { held: 1.. } => {
                return Err(format!("a node admits on top of what it holds: {event:?}"));
            }
            DecidedBy::Here { .. } if spec.on_store_error != OnStoreError::Closed => {
                // A reservation that the node decided is settled there, and comes back to its own limiter.
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
    let second = plan.second_rule(limiter);
    let rules = || [Some(&rule), second.as_ref()].into_iter().flatten();
    let bound_of = |rule: &Rule| bound(rule, plan.largest_cost);
    let full = rules().map(limit).max().unwrap_or_default();
    // Each reset allows the bound once more, and each loss of data the units that no node carries.
    let hidden = losses.iter().map(|place| hidden_by_loss(plan, limiter, events, *place).min(full));
    let most = rules().map(bound_of).sum::<u64>() * (1 + steps + resets) + hidden.sum::<u64>();
    for admitted in admitted {
        let (sum, begins) = most_within(&admitted, window_us);
        if sum > most {
            return Err(format!("{sum} units in the window that begins at {begins}, of {most}"));
        }
    }
    let share = |rule: &Rule| bound_of(&Share::of(Some(plan.most_nodes)).rule(rule));
    for (node, admitted) in here {
        // A reset that does not reach the store still resets the node that was asked for it.
        let resets = resets_of.get(&node).copied().unwrap_or_default();
        let most = rules().map(share).sum::<u64>() * (1 + steps + resets);
        let (sum, begins) = most_within(&admitted, window_us);
        if sum > most {
            return Err(format!(
                "node {node} admits {sum} units without the store from {begins} on, of {most}"
            ));
        }
    }
    Ok(())
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

/// At the end of a run that is shorter than a window, the store counts the units that it took, less the units that came
/// back.
fn conserved(
    plan: &LayersPlan,
    limiter: usize,
    events: &[LayersEvent],
    history: &LayersHistory,
) -> Result<(), String> {
    let is_reset = |event: &LayersEvent| event.what == LayersEventKind::Reset && !event.is_former;
    let last_reset = events.iter().rposition(is_reset);
    // Nothing from before a reset counts, or comes back.
    let since = last_reset.map_or(0, |place| place + 1);
    let (mut counted, mut drained) = (0_i64, 0);
    for event in events[since..].iter().filter(|event| !event.is_former) {
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
            LayersEventKind::Carried { units, .. } => (units.cast_signed(), 0),
            _ => continue,
        };
        (counted, drained) = (counted + units, drained + no_credit);
    }
    let (used, drains) =
        (history.used[limiter].cast_signed(), drains(plan, limiter, history.ended));
    // A level drains by at most `drains`, and gives no credit for units that had drained before they came back.
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
