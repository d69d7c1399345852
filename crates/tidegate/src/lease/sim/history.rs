//! The history of a run: units that the store took and got back, units that reached callers and that each node spent,
//! and units that were lost, with the cause.

use std::collections::BTreeSet;

/// A lease: the node that asked for it, the number of starts of that node, and the ticket.
pub(super) type GrantId = (usize, u64, u64);

/// A request that a store decided, in the same form.
pub(super) type RequestId = (usize, u64, u64);

/// The purpose of units.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum TakenFor {
    Lease(GrantId),
    Request(RequestId),
}

/// Something that happened to one limiter, or to all of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum LeasesEventKind {
    /// The store took units for a request, which is admitted unless they are undone. The last client has no id.
    Taken { units: u64, by: Option<RequestId> },
    /// A caller got the answer that a request is admitted, for which the store took these units.
    Answered { by: RequestId, units: u64 },
    /// Units that the store took will neither reach a caller nor come back.
    Missed { of: TakenFor, units: u64, why: LeasesLossCause },
    /// The store got units back, as taken at `since`, of a request that no caller waited for any more.
    Undone { by: RequestId, units: u64, since: u64 },
    /// The store took units for a lease that can be spent before `end`.
    Granted { id: GrantId, units: u64, end: u64, revision: usize },
    /// A node spent units of a lease. Its own rule had this revision.
    Spent { id: GrantId, units: u64, revision: usize },
    /// The store got units of a lease back, as taken at `since`.
    Returned { id: GrantId, units: u64, since: u64 },
    /// The units that the store counts as used, and the leased units that all nodes hold, after a request that the
    /// store admitted or refused.
    Stands { used: u64, held: u64, refused: bool },
    /// The clock of the store was set by so many microseconds.
    Stepped { by: i64 },
    /// The store lost data of all limiters.
    Lost,
    /// A node dropped its leases.
    Dropped { node: usize },
    /// The limiter got its second rule.
    Changed,
    /// A node took nothing from the store because no message comes through, and admitted a request in its place. It
    /// could spend so many units then.
    Local { held: u64 },
}

/// The cause of a loss of units.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum LeasesLossCause {
    /// Their reply was lost on its way.
    Unanswered,
    /// Their reply was late, and its undo was lost on its way.
    NotUndone,
    /// The node that they were taken for crashed, or ended before the store had them back.
    Crashed,
    /// They were leased, and the store lost the record of that.
    NotTaken,
    /// They were given back when their window had ended, or the rule or the clock had changed.
    TooLate,
}

impl LeasesLossCause {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Unanswered => "unanswered",
            Self::NotUndone => "not undone",
            Self::Crashed => "held by nodes that ended",
            Self::NotTaken => "not taken",
            Self::TooLate => "too late",
        }
    }
}

/// An event: its time, its limiter, and its kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LeasesEvent {
    pub(super) time: u64,
    pub(super) key: usize,
    pub(super) what: LeasesEventKind,
}

/// The counts of a node's book, and the units that the node's requests really spent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BookCounts {
    pub(super) taken: u64,
    pub(super) spent: u64,
    pub(super) unspent: u64,
    pub(super) held: u64,
    pub(super) truly_spent: u64,
}

/// A run.
#[derive(Clone, Debug, Default)]
pub(super) struct LeasesHistory {
    pub(super) events: Vec<LeasesEvent>,
    pub(super) accounts: Vec<BookCounts>,
    /// When the last client began to take the rest.
    pub(super) ended: u64,
    pub(super) put_back: u64,
    pub(super) crashes: u64,
    /// The nodes that crashed or left, by their number and how often they had begun.
    pub(super) gone: BTreeSet<(usize, u64)>,
    /// Units that were given back again, because no reply had come.
    pub(super) again: u64,
    /// Replies to requests that no caller waited for.
    pub(super) late: u64,
    /// Shares that were asked for without a request, and units that were given back because a node joined.
    pub(super) renewed: u64,
    pub(super) excess: u64,
    /// When clients asked.
    pub(super) asked: Vec<u64>,
}

impl LeasesHistory {
    pub(super) fn add(&mut self, time: u64, key: usize, what: LeasesEventKind) {
        self.events.push(LeasesEvent { time, key, what });
    }

    pub(super) fn miss(
        &mut self,
        time: u64,
        key: usize,
        of: TakenFor,
        units: u64,
        why: LeasesLossCause,
    ) {
        if units > 0 {
            self.add(time, key, LeasesEventKind::Missed { of, units, why });
        }
    }
}
