//! The result of a call: the step that was decided, or the reason for which nothing was done.

use std::sync::Arc;

use tidegate_core::{Decision, Micros, Rule, ScriptReply, Timestamp, Token, Verdict};

use super::limiter::ScriptLimiter;
use super::newer_values::NewerValues;
use super::revision::Written;
use super::settled::SettledUnits;
use crate::lease::GivenBack;
use crate::step::FirstReservation;

/// The result of a call.
#[derive(Clone, Debug, PartialEq)]
pub enum CallResult {
    /// The step was run.
    Decided(DecidedStep),
    /// A limiter was written under another rule, and nothing was done: send [`Call::amending`](super::Call::amending).
    Changed,
    /// A limiter was written under values that are not older, and nothing was done: ask again under
    /// those values.
    Superseded(NewerValues),
    /// There is no space for a new limiter, and nothing was done. Holds the resource that each limiter lacks, in order.
    NoSpace(Vec<Option<Lacks>>),
}

/// The resource that a new limiter lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lacks {
    /// There are as many keys [as allowed](ScriptLimiter::among).
    Space,
    /// The server has no memory left.
    Memory,
}

impl Lacks {
    pub(super) fn read(code: &[u8]) -> Option<Self> {
        match code {
            b"F" => Some(Self::Space),
            b"O" => Some(Self::Memory),
            _ => None,
        }
    }
}

/// The result of a step.
#[derive(Clone, Debug, PartialEq)]
pub struct DecidedStep {
    /// True if all limiters that are enforced admit the request; for [`ScriptStep::Report`](super::ScriptStep::Report),
    /// one unit more.
    pub allowed: bool,
    /// The reading of the server's clock.
    pub now: Timestamp,
    /// The instant that counts: the reading of the server's clock, or the time of the last unit of
    /// a limiter that is later. Of several limiters, the latest.
    pub at: Timestamp,
    /// True if this is the remembered answer to an earlier request: see
    /// [`Call::remembering`](super::Call::remembering).
    pub repeated: bool,
    /// The reservation of that request.
    pub(crate) first: Option<FirstReservation>,
    /// One decision for each limiter, in the order of the call; none for
    /// [`ScriptStep::Decide`](super::ScriptStep::Decide).
    pub decisions: Vec<Decision>,
    /// The state and values that each decision was worked out from.
    pub(crate) seen: Vec<SeenLimiter>,
}

impl SeenLimiter {
    /// The values that decided in place of the limiter's own.
    pub(crate) fn decided_by(&self) -> Option<&Arc<Rule>> {
        self.newer.as_ref().map(|newer| &newer.rule)
    }

    /// The reply of this limiter with its decision. A key without space has no limiter of its own.
    pub(crate) fn reply(&self, decision: Decision) -> crate::step::Decided {
        crate::step::Decided {
            values: self.decided_by().cloned(),
            token: self.token,
            since: Some(self.reply.at),
            settled: self.settled.of_core(),
            ..crate::step::Decided::of(decision, self.overflow, self.overflow)
        }
    }
}

/// The reply for one limiter.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SeenLimiter {
    pub(crate) reply: ScriptReply,
    /// True if its state is as under values that are not in force.
    pub(crate) tried: bool,
    /// The values that decided, if they were not the limiter's own.
    pub(crate) newer: Option<Written>,
    /// True if there was no space for it: then it is the overflow limiter, or none.
    pub(crate) overflow: bool,
    /// The token of the permit that was taken.
    pub(crate) token: Option<Token>,
    /// The units that a settlement gave back and cut.
    pub(crate) settled: SettledUnits,
}

impl NewerValues {
    /// The values that decided about each of these limiters in place of its own.
    pub(crate) fn seen<'s>(seen: impl Iterator<Item = &'s SeenLimiter>) -> Self {
        let all: Vec<_> = seen.map(|seen| seen.newer.clone()).collect();
        if all.iter().all(Option::is_none) { Self::default() } else { Self(all) }
    }
}

impl DecidedStep {
    /// Returns when a lease ends that a [`Call::lease`](super::Call::lease) took from this limiter; `None` if it took
    /// none.
    #[must_use]
    pub fn lease_end(&self, limiter: &ScriptLimiter<'_>, life: Micros) -> Option<Timestamp> {
        limiter.rule.lease_end(&self.seen.first()?.reply, life)
    }

    /// Returns the fate of units that a [`Call::give_back_lease`](super::Call::give_back_lease) gave back to this
    /// limiter.
    #[must_use]
    pub fn lease_given_back(&self) -> GivenBack {
        match self.seen.first().map(|seen| seen.reply.verdict) {
            Some(Verdict::Allow) => GivenBack::Back,
            Some(Verdict::Deny) => GivenBack::TooLate,
            Some(Verdict::Never) | None => GivenBack::NotTaken,
        }
    }

    /// Adds the values that decided.
    pub(crate) fn decided_by(mut self, newer: NewerValues) -> Self {
        let newer = self.seen.iter_mut().zip(newer.0);
        newer.for_each(|(seen, newer)| seen.newer = seen.newer.take().or(newer));
        self
    }

    /// Returns the units that a settlement or an undo gave back to each limiter, and the units that were cut.
    pub fn settled(&self) -> impl Iterator<Item = SettledUnits> {
        self.seen.iter().map(|seen| seen.settled)
    }

    /// The result of a step over no limiter.
    pub(crate) const fn nothing(at: Timestamp) -> Self {
        Self {
            allowed: true,
            now: at,
            at,
            repeated: false,
            first: None,
            decisions: Vec::new(),
            seen: Vec::new(),
        }
    }
}
