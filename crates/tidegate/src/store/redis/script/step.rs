//! The verbs of a step.

/// The operation of a step on its limiters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// Decides and takes; returns no values.
    Decide,
    /// Decides and takes; returns the values of the decision.
    Ask,
    /// Only decides; returns the values of the decision.
    Peek,
    /// Takes the cost of each, even into debt, and returns how it then stands: whether one unit
    /// more would be admitted, or else when. Nothing is refused. Limiters without a cost are
    /// decided as by [`Step::Ask`].
    Report,
    /// Gives back what the cost, which was taken, exceeds the actual cost, or takes what it falls
    /// short, even into debt; returns the values. A refund has an actual cost of 0.
    Settle,
    /// Gives back the cost that an earlier step took, as far as it still counts, and gives nothing
    /// else back instead; returns the values. A queue gives nothing back.
    Undo,
    /// Takes the cost ahead, as a lease; returns the values of the decision. See [`Call::lease`](super::Call::lease).
    Lease,
    /// Makes a permit of each limiter last W from now; denied by one whose permit is out no more.
    Renew,
}

impl Step {
    /// Its verb in a script.
    pub(super) const fn verb(self) -> &'static str {
        match self {
            Self::Decide => "decide",
            Self::Ask => "ask",
            Self::Peek => "peek",
            Self::Report => "report",
            Self::Settle => "settle",
            Self::Undo => "undo",
            Self::Lease => "lease",
            Self::Renew => "renew",
        }
    }
}
