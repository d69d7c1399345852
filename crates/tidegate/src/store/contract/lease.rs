//! Units that a node takes ahead from a store, and gives back: the questions and the replies.

use tidegate_core::{Timestamp, UsedUnits};

use super::known::{KnownUse, StoredData};
use crate::lease::{GivenBack, LimiterReport, Wanted};

/// A lease to take from the store.
#[derive(Clone, Copy)]
pub struct LeaseAsk<'a> {
    /// The units, and how long they last.
    pub wanted: &'a Wanted,
    /// Names this process in the records of leases.
    pub node: u64,
    /// Called when no reply came in time, before a late reply is waited for.
    pub on_late: &'a (dyn Fn() + Sync),
    /// The knowledge of this node of the limiter.
    pub(crate) known: &'a KnownUse,
}

/// The reply to a question for a lease.
#[derive(Clone, Debug)]
pub struct LeaseReply {
    /// True if the reply came by the deadline.
    pub is_in_time: bool,
    /// The state of the lease, as far as it is known.
    pub result: LeaseResult,
    /// The units in use, and the time of the last, if the store reported them.
    pub(crate) used: Option<(Vec<UsedUnits>, Timestamp)>,
    pub(crate) data: StoredData,
}

impl LeaseReply {
    /// The reply to a question for a lease.
    #[must_use]
    pub fn new(is_in_time: bool, result: LeaseResult) -> Self {
        Self { is_in_time, result, used: None, data: StoredData::default() }
    }
}

/// The reply to units of a lease that were given back.
#[derive(Clone, Debug)]
pub struct ReturnReply {
    /// The fate of the units.
    pub given_back: GivenBack,
    /// The standing of the limiter after it.
    pub report: LimiterReport,
    /// The units in use, and the time of the last, if the store reported them.
    pub(crate) used: Option<(Vec<UsedUnits>, Timestamp)>,
    pub(crate) data: StoredData,
}

impl ReturnReply {
    /// The reply to units of a lease that were given back.
    #[must_use]
    pub fn new(given_back: GivenBack, report: LimiterReport) -> Self {
        Self { given_back, report, used: None, data: StoredData::default() }
    }
}

/// The state of a lease that was asked for, as far as it is known.
#[derive(Clone, Copy, Debug)]
pub enum LeaseResult {
    /// The state of the limiter, and, if the lease was granted, the times when it was taken and ends.
    Decided(LimiterReport, Option<[Timestamp; 2]>),
    /// It was not granted, because the limiter has other values or no space.
    Undecided,
    /// The question was not sent.
    NotSent,
    /// The question was sent, and no reply will come: the store may have granted the lease.
    Unknown,
}
