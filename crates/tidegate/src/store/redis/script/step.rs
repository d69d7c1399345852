//! The verbs of a step.

/// The operation of a step on its limiters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ScriptStep {
    /// Decides and takes; returns no values.
    Decide,
    /// Decides and takes; returns the values of the decision.
    Ask,
    /// Only decides; returns the values of the decision.
    Peek,
    /// Takes the cost of each, even into debt, and returns the resulting standing: if one unit more would be admitted,
    /// or else when. Nothing is refused. Limiters without a cost are decided as by [`ScriptStep::Ask`].
    Report,
    /// As [`ScriptStep::Report`], but no limiter whose rule has a `max_debt` takes more than that. Returns the units that
    /// were cut.
    ReportWithin,
    /// Settles: gives back the surplus of the taken cost over the actual cost, or takes the shortfall, even into debt,
    /// as far as the rule allows; returns the values, and how many units came back and were cut. A limiter says [when
    /// its cost was taken](super::ScriptLimiter::taken_at), and then nothing else is given back instead; or else what would
    /// have left first. A refund has an actual cost of 0.
    Settle,
    /// Gives back the cost that an earlier step took, and nothing else instead; returns the values.
    Undo,
    /// Takes the cost ahead, as a lease; returns the values of the decision. See [`Call::lease`](super::Call::lease).
    Lease,
    /// Makes a permit of each limiter last W from now; denied by one whose permit is out no more.
    Renew,
}

impl ScriptStep {
    /// Its verb in a script.
    pub(super) const fn verb(self) -> &'static str {
        match self {
            Self::Decide => "decide",
            Self::Ask => "ask",
            Self::Peek => "peek",
            Self::Report | Self::ReportWithin => "report",
            Self::Settle => "settle",
            Self::Undo => "undo",
            Self::Lease => "lease",
            Self::Renew => "renew",
        }
    }

    /// Returns whether it gives back or takes a difference, and says how much.
    pub(super) const fn settles(self) -> bool {
        matches!(self, Self::Settle | Self::Undo)
    }

    /// Returns whether it gives units back as of when they were taken, or cuts off units above a bound.
    pub(super) const fn needs_bounds(self) -> bool {
        matches!(self, Self::Settle | Self::Undo | Self::ReportWithin)
    }

    /// Returns whether it takes usage, and refuses nothing.
    pub(crate) const fn is_report(self) -> bool {
        matches!(self, Self::Report | Self::ReportWithin)
    }
}
