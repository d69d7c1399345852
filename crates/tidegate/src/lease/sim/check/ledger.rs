//! The judge of conservation: each unit that the store took has one fate.

use std::collections::{BTreeMap, BTreeSet};

use super::super::history::{LeasesEvent, LeasesEventKind, LeasesLossCause, TakenFor};
use super::clock::{Instant, StoreClock};
use crate::lease::sim::Sums;

/// The units that were taken for one lease or request, when they were taken, and their fate.
#[derive(Clone, Copy, Debug, Default)]
struct UnitFates {
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
    events: &[&LeasesEvent],
    gone: &BTreeSet<(usize, u64)>,
    mut clock: StoreClock,
    sums: &mut Sums,
) -> Result<(), String> {
    let loses_data = events.iter().any(|event| event.what == LeasesEventKind::Lost);
    let mut accounts = BTreeMap::<TakenFor, UnitFates>::new();
    for event in events {
        clock.note(event);
        let source = match event.what {
            LeasesEventKind::Taken { by: Some(by), .. }
            | LeasesEventKind::Answered { by, .. }
            | LeasesEventKind::Undone { by, .. } => TakenFor::Request(by),
            LeasesEventKind::Granted { id, .. }
            | LeasesEventKind::Spent { id, .. }
            | LeasesEventKind::Returned { id, .. } => TakenFor::Lease(id),
            LeasesEventKind::Missed { of, .. } => of,
            LeasesEventKind::Lost => {
                // The store lost the record of the return, so the returned units may be taken back once more.
                let leases = accounts.iter_mut().filter(|(of, _)| matches!(of, TakenFor::Lease(_)));
                leases.for_each(|(_, account)| (account.back, account.lost) = (0, 0));
                continue;
            }
            _ => continue,
        };
        let account = accounts.entry(source).or_default();
        let is_lost = account.taken > 0 && !clock.admits(account.since, event.time);
        match event.what {
            LeasesEventKind::Taken { units, .. } | LeasesEventKind::Granted { units, .. } => {
                (account.taken, account.since) = (account.taken + units, clock.instant());
            }
            LeasesEventKind::Answered { units, .. } | LeasesEventKind::Spent { units, .. } => {
                account.answered += units
            }
            LeasesEventKind::Undone { .. } | LeasesEventKind::Returned { .. } if is_lost => {
                return Err(format!("units of {source:?} come back over a step of the clock"));
            }
            LeasesEventKind::Undone { units, .. } | LeasesEventKind::Returned { units, .. } => {
                account.back += units;
            }
            LeasesEventKind::Missed { units, why, .. } => {
                account.lost += units;
                sums.add(why.name(), units);
            }
            _ => {}
        }
    }
    for (source, account) in accounts {
        let UnitFates { taken, answered, back, mut lost, .. } = account;
        sums.add("answered", answered);
        if let TakenFor::Lease((node, begun, _)) = source {
            let why = match (gone.contains(&(node, begun)), loses_data) {
                (true, _) => Some(LeasesLossCause::Crashed),
                (_, true) => Some(LeasesLossCause::NotTaken),
                (false, false) => None,
            };
            let missing = taken.saturating_sub(answered + back + lost);
            if let Some(why) = why {
                lost += missing;
                sums.add(why.name(), missing);
            }
        }
        if taken != answered + back + lost {
            return Err(format!("the units of {source:?} do not add up: {account:?}"));
        }
    }
    Ok(())
}
