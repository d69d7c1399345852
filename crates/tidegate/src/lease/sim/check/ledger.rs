//! The judge of conservation: each unit that the store took has one fate.

use std::collections::BTreeMap;

use super::super::history::{Event, Source, What};
use super::Summary;

/// The units that were taken for one lease or request, and what became of them.
#[derive(Clone, Copy, Debug, Default)]
struct Account {
    taken: u64,
    told: u64,
    back: u64,
    lost: u64,
}

/// Checks that for each lease and each request the units of one limiter are those that callers were told, that came back
/// and that were lost. At the end no node holds any.
pub(super) fn adds_up(events: &[&Event], summary: &mut Summary) -> Result<(), String> {
    let mut accounts = BTreeMap::<Source, Account>::new();
    for event in events {
        let source = match event.what {
            What::Taken { by: Some(by), .. } | What::Told { by, .. } | What::Undone { by, .. } => {
                Source::Request(by)
            }
            What::Granted { id, .. } | What::Spent { id, .. } | What::Returned { id, .. } => {
                Source::Lease(id)
            }
            What::Missed { of, .. } => of,
            _ => continue,
        };
        let account = accounts.entry(source).or_default();
        match event.what {
            What::Taken { units, .. } | What::Granted { units, .. } => account.taken += units,
            What::Told { units, .. } | What::Spent { units, .. } => account.told += units,
            What::Undone { units, .. } | What::Returned { units, .. } => account.back += units,
            What::Missed { units, why, .. } => {
                account.lost += units;
                summary.lost[why as usize] += units;
            }
            _ => {}
        }
    }
    for (source, account) in accounts {
        let Account { taken, told, back, lost } = account;
        summary.told += told;
        if taken != told + back + lost {
            return Err(format!("the units of {source:?} do not add up: {account:?}"));
        }
    }
    Ok(())
}
