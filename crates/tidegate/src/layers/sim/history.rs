//! The history of a run: units that the store took and got back, and answers of callers. A run writes it, the
//! judges read it.

use std::collections::BTreeMap;

use tidegate_core::Token;

/// The cause for which units of a request neither reach its caller nor come back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum LayersLossCause {
    /// Their reply was lost.
    Unanswered,
    /// They were to be given back, and the message was lost, or no message came through.
    NotUndone,
    /// They were given back when they counted no more.
    TooLate,
    /// The node of the request crashed.
    Crashed,
}

/// The decider of a limiter of an admitted request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DecidedBy {
    Store,
    Lease,
    /// The limiter of the node, in place of the store. The node could spend so many leased units of it.
    Here {
        held: u64,
    },
    /// No limiter: the rule is open.
    Open,
}

/// Something that happened to a limiter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LayersEventKind {
    /// The store took units for a request.
    Taken {
        request: u64,
        units: u64,
    },
    /// Units of a request came back; a level gives no credit for `drained` of them, in thousandths.
    Undone {
        request: u64,
        units: u64,
        drained: u64,
    },
    Gone {
        request: u64,
        units: u64,
        why: LayersLossCause,
    },
    /// A node got a lease, which can be spent before `ends`.
    Granted {
        node: usize,
        ticket: u64,
        units: u64,
        ends: u64,
        revision: u32,
    },
    /// A node gave units of a lease back, once. If they were not too late, the store has them again.
    Returned {
        node: usize,
        ticket: u64,
        units: u64,
        is_late: bool,
        drained: u64,
    },
    /// A reservation was settled in the store: units came back, or were taken as well.
    Settled {
        request: u64,
        back: u64,
        late: u64,
        more: u64,
        cut: u64,
        drained: u64,
    },
    Reset,
    /// A node carried units to the store, which counts so many more since.
    Carried {
        units: u64,
        /// The time of the last of them, by the clock of the store, in microseconds since the run began.
        last: u64,
    },
    /// A caller heard that a settlement or a reset was done, or that it is not known if it was.
    Back {
        node: usize,
        is_reset: bool,
    },
    /// A limiter denied a request that was asked at that time: the store, or a denial of the store that is repeated.
    Denied {
        node: usize,
        cost: u64,
        asked: u64,
        is_repeated: bool,
    },
    /// A caller was told that its request is admitted. It had asked at that time.
    Admitted {
        request: u64,
        node: usize,
        units: u64,
        by: DecidedBy,
        asked: u64,
        revision: u32,
    },
    /// After a request, the units that the store counts, and the leased units that all nodes can spend.
    Stands {
        used: u64,
        held: u64,
    },
    /// A replica has caught up.
    Copied,
    /// The store lost all data, or what the replica did not have.
    Lost {
        to_copy: bool,
    },
    /// The clock of the store was set by so many microseconds.
    Stepped {
        by: i64,
    },
    /// The rule may have its second values from now on.
    Changed,
    /// A step on permits at a reading of the store's clock: after it so many units are out, of the limit.
    Permit {
        step: PermitStep,
        now: u64,
        out: u64,
        limit: u64,
    },
    /// A job works, as far as it knows under a permit.
    Working {
        request: u64,
        units: u64,
    },
    /// A write of a job came to the resource, which took it unless it had seen a larger token.
    Written {
        token: Option<Token>,
        is_taken: bool,
    },
    /// A job ended because its permit may have ended.
    OutOfTime,
    /// A job ended because its permit was out no more when it was to be renewed.
    AnsweredLate,
}

/// A step of a store on a limiter of permits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PermitStep {
    /// A permit was asked for; it has a token if it was given.
    Asked {
        units: u64,
        token: Option<Token>,
    },
    Returned {
        units: u64,
        token: Token,
    },
    /// A permit was renewed, if it was still out.
    Renewed {
        token: Token,
        is_out: bool,
    },
    /// The limiter was idle, and the store forgot it.
    Forgotten,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LayersEvent {
    /// Microseconds since the run began.
    pub(super) at: u64,
    pub(super) limiter: usize,
    /// True for an action of a store that a replica has taken the place of.
    pub(super) is_former: bool,
    pub(super) what: LayersEventKind,
}

/// The answer to a caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CallerAnswer {
    Refused,
    Admitted {
        is_degraded: bool,
    },
    /// A look, or a reset.
    Nothing,
}

/// The counts of a node when it ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct NodeCounts {
    pub(super) crashed: bool,
    pub(super) taken: u64,
    pub(super) spent: u64,
    pub(super) unspent: u64,
    /// Units that the store got back, as the node knows.
    pub(super) returned: u64,
    pub(super) lost: u64,
    /// Of these, the units that came back when they counted no more.
    pub(super) too_late: u64,
    /// Of these, the units that the store did not have.
    pub(super) not_taken: u64,
    /// Of these, the units without a reply.
    pub(super) no_reply: u64,
    /// Units of leases that came when nothing waited for them, and were given back.
    pub(super) late: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct LayersHistory {
    pub(super) events: Vec<LayersEvent>,
    /// By the number of the request. A caller that has gone, or whose node crashed, has no answer.
    pub(super) answers: BTreeMap<u64, CallerAnswer>,
    pub(super) accounts: Vec<NodeCounts>,
    /// The units of each limiter that the store counts at the end.
    pub(super) used: Vec<u64>,
    /// When the run ended, in microseconds.
    pub(super) ended: u64,
}
