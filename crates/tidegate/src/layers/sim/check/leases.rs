//! The judge of leases: their units, and the counts of nodes.
//!
//! It keeps an account for each node, limiter and revision: granted units come in, spent and returned units go out,
//! and it may never be below zero.

use std::collections::BTreeMap;

use super::super::history::{DecidedBy, LayersEvent, LayersEventKind, LayersHistory};
use super::super::plan::{LONG, LayersPlan};

/// Each unit of a lease is spent, or given back once, or it is lost: with its node, or for a cause that the node counts.
pub(super) fn each_once(plan: &LayersPlan, history: &LayersHistory) -> Result<(), String> {
    let is_reset = |limiter: usize| {
        let resets =
            |event: &LayersEvent| event.limiter == limiter && event.what == LayersEventKind::Reset;
        history.events.iter().any(resets)
    };
    // By node, limiter and revision.
    let mut left: BTreeMap<(usize, usize, u32), i64> = BTreeMap::new();
    let mut returned: BTreeMap<(usize, usize, u32), i64> = BTreeMap::new();
    // The revision of a lease, and whether a store granted it that had been replaced.
    let mut granted: BTreeMap<(usize, u64), (u32, bool)> = BTreeMap::new();
    // The store may have lost the record of a return, so the units may be taken back once more.
    let loses =
        |event: &LayersEvent| event.is_former || matches!(event.what, LayersEventKind::Lost { .. });
    let loses = history.events.iter().any(loses);
    let mut admitted = vec![0; history.accounts.len()];
    let mut taken = vec![0; history.accounts.len()];
    let mut late = vec![0; history.accounts.len()];
    let mut back = vec![0; history.accounts.len()];
    // The tickets up to which leases ended with a reset through the node, and when that was known.
    let mut voids: BTreeMap<(usize, usize), (u64, u64)> = BTreeMap::new();
    let mut newest: BTreeMap<(usize, usize), u64> = BTreeMap::new();
    // When the last lease of a node ends.
    let mut ends: BTreeMap<(usize, usize), u64> = BTreeMap::new();
    for event in &history.events {
        // Leases stay when another rule changes.
        let of_rule = |revision| plan.second_rule(event.limiter).map_or(0, |_| revision);
        let void = |node| voids.get(&(node, event.limiter)).copied();
        let (node, revision, units) = match event.what {
            LayersEventKind::Granted { node, ticket, units, ends: at, revision } => {
                let revision = of_rule(revision);
                granted.insert((node, ticket), (revision, event.is_former));
                taken[node] += units;
                newest.insert((node, event.limiter), ticket);
                let last = ends.entry((node, event.limiter)).or_default();
                *last = at.max(*last);
                (node, revision, units.cast_signed())
            }
            // Its successor does not have them.
            LayersEventKind::Returned { .. } if event.is_former => continue,
            LayersEventKind::Returned { node, ticket, units, is_late, .. } => {
                let Some((revision, false)) = granted.get(&(node, ticket)).copied() else {
                    return Err(format!("a lease comes back that was not granted: {event:?}"));
                };
                let came = if is_late { &mut late } else { &mut back };
                came[node] += units;
                let is_void = void(node).is_some_and(|(last, _)| ticket <= last);
                let units = if is_void { 0 } else { units.cast_signed() };
                *returned.entry((node, event.limiter, revision)).or_default() += units;
                (node, revision, -units)
            }
            LayersEventKind::Lost { .. } => {
                // A store that has lost the record of a return accepts it once more.
                for (of, units) in returned.iter_mut().filter(|(of, _)| of.1 == event.limiter) {
                    *left.entry(*of).or_default() += std::mem::take(units);
                }
                continue;
            }
            LayersEventKind::Admitted {
                node,
                units,
                by: DecidedBy::Lease,
                asked,
                revision,
                ..
            } => {
                let revision = of_rule(revision);
                admitted[node] += units;
                if ends.get(&(node, event.limiter)).is_none_or(|ends| asked >= *ends) {
                    return Err(format!("a lease is spent after its end: {event:?}"));
                }
                let is_void = void(node).is_some_and(|(_, at)| asked <= at);
                (node, revision, if is_void { 0 } else { -units.cast_signed() })
            }
            LayersEventKind::Back { node, is_reset: true } => {
                let of = (node, event.limiter);
                let last = newest.get(&of).copied().unwrap_or_default();
                voids.insert(of, (last, event.at));
                left.retain(|(of, limiter, _), _| (*of, *limiter) != (node, event.limiter));
                continue;
            }
            _ => continue,
        };
        let left = left.entry((node, event.limiter, revision)).or_default();
        *left += units;
        if *left < 0 {
            return Err(format!("more was spent than leased: {event:?}"));
        }
    }
    for (node, account) in history.accounts.iter().enumerate().filter(|(_, one)| !one.crashed) {
        // A reset forgets leases, even if some are spent.
        let own = left.iter().filter(|((of, limiter, _), _)| *of == node && !is_reset(*limiter));
        let lost = own.map(|(_, units)| units.cast_unsigned()).sum::<u64>();
        // A node that lives to the end has the time to give back all units that still count then.
        let of_long = left.iter().filter(|((of, limiter, _), _)| *of == node && *limiter == LONG);
        let of_long: i64 = of_long.map(|(_, units)| units).sum();
        let gives_all = plan.nodes[node].end.is_none() && !is_reset(LONG);
        // A lease without a reply may end before the store is back.
        let unheard = u64::saturating_sub(taken[node], account.taken + account.late);
        if !loses && (lost > account.no_reply + unheard || gives_all && of_long > 0) {
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
