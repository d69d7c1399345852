//! The history of a run: the actions of the store, the writes of the resource, and the work that ran.

use tidegate_core::Token;

/// A permit as the store gave it. Permits are numbered in the order in which they were taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PermitGrant {
    pub(super) token: Token,
    pub(super) units: u64,
    pub(super) number: usize,
}

/// Something that happened in the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PermitsEventKind {
    /// A permit was asked for; it has a token if it was given.
    Asked {
        units: u64,
        token: Option<Token>,
    },
    Returned {
        token: Token,
        units: u64,
    },
    /// A permit was renewed, if it was still out.
    Renewed {
        token: Token,
        is_out: bool,
    },
    /// The limiter was idle, and the store forgot it.
    Forgotten,
    Copied,
    Lost {
        to_copy: bool,
    },
    Changed {
        limit: u64,
    },
}

/// An event of the store: the time on its clock, the event, and the units in use after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PermitsEvent {
    pub(super) now: u64,
    pub(super) what: PermitsEventKind,
    pub(super) used: u64,
}

/// A run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct PermitsHistory {
    pub(super) store: Vec<PermitsEvent>,
    /// The numbers of the permits that the resource accepted, in order.
    pub(super) written: Vec<usize>,
    /// Writes that the resource refused.
    pub(super) fenced: u64,
    /// Times at which a job worked, and the units of all jobs that had a permit then as far as they knew.
    pub(super) working: Vec<(u64, u64)>,
    /// When the store lost data, and when its clock stepped forward.
    pub(super) losses: Vec<u64>,
    pub(super) steps: Vec<u64>,
    pub(super) crashes: u64,
    /// Jobs that ended because their time was over, and those whose renewal was answered too late.
    pub(super) out_of_time: u64,
    pub(super) answered_late: u64,
    /// Permits that came after their job had given up.
    pub(super) late: u64,
}
