//! Counts over time: the data of a lane of a picture.
//!
//! The report of a rule fills it, if a picture is wanted.

use tidegate::Micros;

use crate::plot::{Bins, Lane};

/// Requests admitted and refused, and for a queue the departures, by bin.
#[derive(Clone, Debug)]
pub(super) struct Drawn {
    bins: Bins,
    admitted: Vec<u64>,
    refused: Vec<u64>,
    leaves: Option<Vec<u64>>,
}

impl Drawn {
    pub(super) fn new(bins: Bins, is_queue: bool) -> Self {
        let leaves = is_queue.then(|| bins.zeros());
        Self { bins, admitted: bins.zeros(), refused: bins.zeros(), leaves }
    }

    pub(super) fn admit(&mut self, at_us: u64, delay: Micros) {
        self.bins.add(&mut self.admitted, at_us, 1);
        if let Some(leaves) = &mut self.leaves {
            self.bins.add(leaves, at_us.saturating_add(delay.as_micros()), 1);
        }
    }

    pub(super) fn refuse(&mut self, at_us: u64) {
        self.bins.add(&mut self.refused, at_us, 1);
    }

    pub(super) fn lane(&self, title: &str, note: String, is_shadow: bool) -> Lane {
        Lane {
            title: title.to_owned(),
            note,
            admitted: self.admitted.clone(),
            refused: self.refused.clone(),
            is_shadow,
            leaves: self.leaves.clone(),
        }
    }
}
