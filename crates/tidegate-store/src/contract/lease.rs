//! Units that a node takes ahead from a store, and gives back: the questions and the replies.

use tidegate_core::{Micros, Timestamp, UsedUnits};

use super::known::{KnownUse, StoredData};

/// A lease to ask the store for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// The number of the question, which its reply repeats.
    pub ticket: u64,
    /// The lowest ticket of this limiter that is still open: the store may forget lower tickets.
    pub oldest: u64,
    /// Units to take.
    pub units: u64,
    /// The time for which they can be spent. (`Micros` is a whole number of microseconds:
    /// [`as_micros`](Micros::as_micros), [`as_duration`](Micros::as_duration).)
    pub life: Micros,
    /// The time that its units count as taken earlier if they are given back.
    pub earlier: Micros,
}

impl Wanted {
    /// The whole lease as units to give back, because it came too late, or because no reply says whether there is one.
    #[doc(hidden)]
    pub const fn unspent<K>(&self, key: K) -> Unspent<K> {
        let Self { ticket, units, earlier, .. } = *self;
        Unspent { key, ticket, units, kept: 0, earlier }
    }
}

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
    #[doc(hidden)]
    pub known: &'a KnownUse,
}

/// The reply to a question for a lease.
#[derive(Clone, Debug)]
pub struct LeaseReply {
    /// True if the reply came by the deadline.
    pub is_in_time: bool,
    /// The state of the lease, as far as it is known.
    pub result: LeaseResult,
    /// The units in use, and the time of the last, if the store reported them.
    #[doc(hidden)]
    pub used: Option<(Vec<UsedUnits>, Timestamp)>,
    #[doc(hidden)]
    pub data: StoredData,
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
    #[doc(hidden)]
    pub used: Option<(Vec<UsedUnits>, Timestamp)>,
    #[doc(hidden)]
    pub data: StoredData,
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

/// Unspent units of a lease, to give back to the store once. If there are none, the ticket is
/// done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unspent<K> {
    /// The limiter.
    pub key: K,
    /// The number of the lease.
    pub ticket: u64,
    /// Units to give back.
    pub units: u64,
    /// Units of the lease that stay taken.
    pub kept: u64,
    /// The time that they count as taken earlier than the lease.
    pub earlier: Micros,
}

/// The state of a limiter in the store, by a reply.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LimiterReport {
    /// Units that a request could still take.
    pub remaining: u64,
    /// When the store decided that, by its clock.
    pub at: Timestamp,
    /// When nothing is used unless more is taken, by the same clock.
    pub idle_at: Timestamp,
}

/// The fate of units of a lease that were given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GivenBack {
    /// They are back, by this call or an earlier one.
    Back,
    /// They count no more: their window, bucket or tick has ended, or they have drained.
    TooLate,
    /// The record does not have them: this server never granted them, or has forgotten it.
    NotTaken,
}
