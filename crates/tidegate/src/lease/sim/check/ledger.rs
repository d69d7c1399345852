//! The judge of conservation: each unit that the store took has one fate.

use std::collections::{BTreeMap, BTreeSet};

use super::super::history::{Event, Source, What, Why};
use super::Summary;
use super::clock::{Clock, Instant};

/// The units that were taken for one lease or request, when they were taken, and their fate.
#[derive(Clone, Copy, Debug, Default)]
struct Account {
    taken: u64,
    since: Instant,
    answered: u64,
    back: u64,
    lost: u64,
}

/// Checks for each lease and each request that the units of one limiter reached callers, came back or were lost. At the
/// end no node holds any. Units of a lease are lost only with its node (`gone`) or with data of the store, or if they
/// are given back too late; so neither refusals nor outages eat them.
pub(super) fn adds_up(
    events: &[&Event],
    gone: &BTreeSet<(usize, u64)>,
    mut clock: Clock,
    summary: &mut Summary,
) -> Result<(), String> {
    let loses_data = events.iter().any(|event| event.what == What::Lost);
    let mut accounts = BTreeMap::<Source, Account>::new();
    for event in events {
        clock.note(event);
        let source = match event.what {
            What::Taken { by: Some(by), .. }
            | What::Answered { by, .. }
            | What::Undone { by, .. } => Source::Request(by),
            What::Granted { id, .. } | What::Spent { id, .. } | What::Returned { id, .. } => {
                Source::Lease(id)
            }
            What::Missed { of, .. } | What::Unused { of, .. } | What::Settled { of, .. } => of,
            What::Lost => {
                // The store lost the record of the return, so the returned units may be taken back once more.
                let leases = accounts.iter_mut().filter(|(of, _)| matches!(of, Source::Lease(_)));
                leases.for_each(|(_, account)| (account.back, account.lost) = (0, 0));
                continue;
            }
            _ => continue,
        };
        let account = accounts.entry(source).or_default();
        let is_lost = account.taken > 0 && !clock.admits(account.since, event.time);
        match event.what {
            What::Taken { units, .. } | What::Granted { units, .. } => {
                (account.taken, account.since) = (account.taken + units, clock.instant());
            }
            What::Answered { units, .. } | What::Spent { units, .. } => account.answered += units,
            // More than a work has is an error below.
            What::Unused { units, .. } => account.answered = account.answered.saturating_sub(units),
            What::Undone { .. } | What::Returned { .. } | What::Settled { .. } if is_lost => {
                return Err(format!("units of {source:?} come back over a step of the clock"));
            }
            What::Undone { units, .. }
            | What::Returned { units, .. }
            | What::Settled { units, .. } => account.back += units,
            What::Missed { units, why, .. } => {
                account.lost += units;
                summary.lost[why as usize] += units;
            }
            _ => {}
        }
    }
    for (source, account) in accounts {
        let Account { taken, answered, back, mut lost, .. } = account;
        summary.answered += answered;
        if let Source::Lease((node, begun, _)) = source {
            let why = match (gone.contains(&(node, begun)), loses_data) {
                (true, _) => Some(Why::Crashed),
                (_, true) => Some(Why::NotTaken),
                (false, false) => None,
            };
            let missing = taken.saturating_sub(answered + back + lost);
            if let Some(why) = why {
                (lost, summary.lost[why as usize]) =
                    (lost + missing, summary.lost[why as usize] + missing);
            }
        }
        if taken != answered + back + lost {
            return Err(format!("the units of {source:?} do not add up: {account:?}"));
        }
    }
    Ok(())
}
