//! The sums of a run: counts of each case, so that a test sees that the seeds reach all of them.

use super::super::history::{CallerAnswer, DecidedBy, LayersEventKind, LayersHistory};
use crate::layers::sim::Sums;

/// Counts the events of a run that passed: units by the decider that its callers heard of, and by their fate.
pub(super) fn of(history: &LayersHistory) -> Sums {
    let mut sums = Sums::default();
    for event in &history.events {
        match event.what {
            LayersEventKind::Admitted { units, by, .. } => match by {
                DecidedBy::Store => sums.add("by store", units),
                DecidedBy::Lease => sums.add("by lease", units),
                DecidedBy::Here { .. } => sums.add("here", units),
                DecidedBy::Open => sums.add("open", units),
            },
            LayersEventKind::Undone { units, .. } => sums.add("undone", units),
            LayersEventKind::Gone { units, .. } => sums.add("gone", units),
            LayersEventKind::Settled { back, more, .. } => {
                sums.add("settled", back);
                sums.add("more", more);
            }
            LayersEventKind::Returned { units, .. } => sums.add("returned", units),
            LayersEventKind::Reset => sums.add("resets", 1),
            LayersEventKind::Denied { is_repeated: true, .. } => sums.add("denied again", 1),
            LayersEventKind::Stands { .. } => sums.add("counted", 1),
            LayersEventKind::Lost { .. } => sums.add("losses", 1),
            LayersEventKind::Carried { units, .. } => sums.add("carried", units),
            LayersEventKind::Stepped { .. } => sums.add("steps", 1),
            LayersEventKind::Changed => sums.add("changes", 1),
            LayersEventKind::Permit { .. }
            | LayersEventKind::Working { .. }
            | LayersEventKind::Written { .. }
            | LayersEventKind::OutOfTime
            | LayersEventKind::AnsweredLate
            | LayersEventKind::Copied
            | LayersEventKind::Taken { .. }
            | LayersEventKind::Granted { .. }
            | LayersEventKind::Back { .. }
            | LayersEventKind::Denied { .. } => {}
        }
    }
    let refused = history.answers.values().filter(|one| **one == CallerAnswer::Refused);
    sums.add("refused", refused.count() as u64);
    for account in &history.accounts {
        sums.add("late", account.late);
        sums.add("lost", account.lost);
        sums.add("crashed", u64::from(account.crashed));
    }
    sums
}
