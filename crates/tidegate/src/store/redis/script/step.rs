//! The verbs of a step.

/// What a step does with its limiters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// Decides and takes; no figures.
    Decide,
    /// Decides and takes, with figures.
    Ask,
    /// Decides only, with figures.
    Peek,
    /// Takes the cost of each, even into debt, and tells how it then stands: whether one unit more would be
    /// admitted, or else when. None is refused. Those without a cost are decided as by [`Step::Ask`].
    Report,
    /// Gives back what the cost, which was taken, is above what each request turned out to cost, or
    /// takes what it is below, even into debt; with figures. A refund is what turned out to cost nothing.
    Settle,
    /// Gives back the cost that an earlier step took, as far as it still counts and nothing else is
    /// given back in its place; with figures. A queue gives nothing back.
    Undo,
}
