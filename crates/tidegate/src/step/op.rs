//! What is to be done with limiters.

use tidegate_core::Verdict;

/// What is to be done with the limiters a request meets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Decide and take; no figures.
    Decide,
    /// Decide and take, with figures.
    Ask,
    /// Decide only, with figures.
    Peek,
    /// Decide like [`Step::Ask`], and take nothing: a look at a limiter whose usage is reported.
    AskReported,
    /// Take, even into debt, and decide about one unit more, with figures: usage that is reported.
    Report,
    /// Give back, with figures.
    Refund,
    /// Give back what the cost, which was taken, is above `actual`, or take what it is below, even into
    /// debt; with figures.
    Settle {
        /// What the request turned out to cost.
        actual: u64,
    },
}

impl Step {
    /// Whether a limiter that does not exist yet begins with this step.
    pub(crate) const fn begins(self, cost: u64) -> bool {
        match self {
            Self::Decide | Self::Ask | Self::AskReported => true,
            Self::Peek | Self::Refund => false,
            Self::Report => cost > 0,
            Self::Settle { actual } => actual > cost,
        }
    }

    /// Whether it may leave units behind, which need room.
    pub(crate) const fn takes(self, cost: u64) -> bool {
        match self {
            Self::Settle { .. } => self.begins(cost),
            Self::AskReported => false,
            _ => self.begins(cost) && cost > 0,
        }
    }

    /// Whether it is to have memory for a unit more: one that only looks is answered as though it took.
    pub(crate) const fn grows(self, cost: u64) -> bool {
        matches!(self, Self::Peek | Self::AskReported) && cost > 0 || self.takes(cost)
    }

    /// Whether it may have changed the state of a limiter that it was run with, which answered so.
    #[inline]
    pub(crate) const fn changes(self, verdict: Verdict, cost: u64) -> bool {
        match self {
            Self::Decide | Self::Ask => verdict.is_allowed() && cost > 0,
            Self::Peek | Self::AskReported => false,
            Self::Report | Self::Refund | Self::Settle { .. } => true,
        }
    }

    /// Whether it may take beyond the limit: its debt may be too large for a packed state.
    pub(crate) const fn owes(self, cost: u64) -> bool {
        matches!(self, Self::Settle { .. } | Self::Report) && self.takes(cost)
    }

    /// The same for a key without a limiter of its own, with the one that such keys share: nothing is
    /// given back there, for nobody knows whether it was taken there.
    pub(crate) const fn beyond(self, cost: u64) -> Self {
        match self {
            Self::Refund => Self::Peek,
            Self::Settle { .. } if !self.takes(cost) => Self::Peek,
            other => other,
        }
    }

    /// Whether it refuses nothing: what it gives back, or takes, is done whatever the limiter holds.
    pub(crate) const fn is_unconditional(self) -> bool {
        matches!(self, Self::Refund | Self::Settle { .. } | Self::Report)
    }

    /// Whether it may leave a limiter with more to give than before.
    pub(crate) const fn gives_back(self) -> bool {
        matches!(self, Self::Refund | Self::Settle { .. })
    }

    /// Whether figures are asked for.
    pub(crate) const fn wants_figures(self) -> bool {
        !matches!(self, Self::Decide)
    }
}
