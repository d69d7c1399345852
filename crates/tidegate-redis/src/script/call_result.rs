//! The result of a call: the step that was decided, or the reason for which nothing was done, such as newer values.

use std::iter;

use tidegate_core::{Decision, Micros, ScriptReply, Timestamp, Verdict};

use super::Written;
use super::limiter::ScriptLimiter;
use super::units::SettledUnits;
use crate::step::{FirstReservation, One, Values};
use crate::store::{GivenBack, LimiterPlaces, LimiterReply, at_places};

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
    /// The states of the limiters with these indices were lost, and nothing was done: ask again, and
    /// [carry](ScriptLimiter::carrying) the units that are known.
    Lost(Vec<usize>),
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

/// For each limiter, the newer values that decide in place of its own.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct NewerValues(pub(super) Vec<Option<Written>>);

impl NewerValues {
    /// Reads the values that begin each state; values that are not older than the limiter's own decide. `None` if there
    /// are none.
    pub(super) fn newer(limiters: &[ScriptLimiter<'_>], state_prefixes: &[&[u8]]) -> Option<Self> {
        let newer = limiters.iter().zip(state_prefixes).map(|(one, prefix)| {
            let written = Written::read(prefix, one.rule)?;
            (one.revision.is_some() && written.revision >= one.revision).then_some(written)
        });
        let newer: Vec<_> = newer.collect();
        newer.iter().any(Option::is_some).then_some(Self(newer))
    }

    /// Adds values that were found later.
    #[must_use]
    pub fn and(mut self, later: Self) -> Self {
        let count = self.0.len().max(later.0.len());
        self.0.resize(count, None);
        for (known, later) in self.0.iter_mut().zip(later.0) {
            *known = later.or_else(|| known.take());
        }
        self
    }

    /// Returns whether every limiter is decided by its own values.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns whether under these values units count as under the limiters' own.
    pub(crate) fn count_as(&self, limiters: &[ScriptLimiter<'_>]) -> bool {
        let mut both = self.0.iter().zip(limiters);
        both.all(|(newer, one)| {
            newer.as_ref().is_none_or(|newer| {
                let values = Values::of(&newer.rule).zip(Values::of(one.rule));
                values.is_some_and(|(newer, own)| newer.counts_as(&own))
            })
        })
    }

    /// Makes place for a limiter that is decided by its own values.
    pub(super) fn insert_none(&mut self, place: usize) {
        if place < self.0.len() {
            self.0.insert(place, None);
        }
    }

    /// Returns the values of the limiters at these indices.
    pub(crate) fn at(&self, places: &[usize]) -> Self {
        Self(places.iter().map(|place| self.0.get(*place).cloned().flatten()).collect())
    }

    /// The limiters to ask about in place of the original ones.
    #[must_use]
    pub fn limiters<'a>(&'a self, limiters: &[ScriptLimiter<'a>]) -> Vec<ScriptLimiter<'a>> {
        let newer = self.0.iter().map(Option::as_ref).chain(iter::repeat(None));
        let under = limiters.iter().zip(newer);
        under
            .map(|(one, newer)| newer.map_or_else(|| one.clone(), |newer| one.under(newer)))
            .collect()
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
    /// The reply with each decision.
    pub(crate) replies: Vec<LimiterReply>,
    /// The values that decided in place of the limiters' own.
    pub(crate) newer: NewerValues,
    /// For each limiter of a step that settles, the units that came back and were cut.
    pub(super) settled: Vec<SettledUnits>,
    /// The limiters whose state was replaced by units that were carried.
    pub carried: LimiterPlaces,
    /// True if a state was lost; then nothing was done.
    pub(crate) is_lost: bool,
}

impl DecidedStep {
    /// Returns when a lease ends that a [`Call::lease`](super::Call::lease) took from this limiter; `None` if it took
    /// none.
    #[must_use]
    pub fn lease_end(&self, limiter: &ScriptLimiter<'_>, life: Micros) -> Option<Timestamp> {
        limiter.rule.lease_end(self.first_state()?, life)
    }

    /// Returns the fate of units that a [`Call::give_back_lease`](super::Call::give_back_lease) gave back to this
    /// limiter.
    #[must_use]
    pub fn lease_given_back(&self) -> GivenBack {
        match self.first_state().map(|state| state.verdict) {
            Some(Verdict::Allow) => GivenBack::Back,
            Some(Verdict::Deny) => GivenBack::TooLate,
            Some(Verdict::Never) | None => GivenBack::NotTaken,
        }
    }

    fn first_state(&self) -> Option<&ScriptReply> {
        self.replies.first()?.state.as_ref()
    }

    /// Returns the units that a settlement or an undo gave back to each limiter, and the units that were cut.
    pub fn settled(&self) -> impl Iterator<Item = SettledUnits> {
        let none = iter::repeat(SettledUnits::default());
        self.settled.iter().copied().chain(none).take(self.decisions.len())
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
            replies: Vec::new(),
            newer: NewerValues(Vec::new()),
            settled: Vec::new(),
            carried: LimiterPlaces::NONE,
            is_lost: false,
        }
    }

    /// The result of a step that did nothing, because a state was lost.
    pub(crate) fn lost() -> Self {
        Self { is_lost: true, ..Self::nothing(Timestamp::EPOCH) }
    }

    /// Adds the reply of the next limiter.
    pub(super) fn push(&mut self, reply: LimiterReply) {
        self.decisions.push(reply.decided.decision);
        self.replies.push(reply);
    }

    /// Adds the decision of a key that has no limiter, before the replies from `place` on.
    pub(crate) fn insert_decision(&mut self, place: usize, decision: Decision) {
        let Self { now, at, .. } = *self;
        let verdict = decision.verdict();
        let state = ScriptReply { now, at, verdict, taken: false, state: Vec::new() };
        let decided = One::instead(decision, at).decided;
        let reply = LimiterReply { state: Some(state), ..LimiterReply::of_store(decided) };
        let place = place.min(self.replies.len());
        self.decisions.insert(place, decision);
        self.replies.insert(place, reply);
        self.newer.insert_none(place);
        let all = self.replies.len().max(64);
        self.carried = self.carried.moved(all, |carried| carried + usize::from(carried >= place));
        if !self.settled.is_empty() {
            self.settled.insert(place.min(self.settled.len()), SettledUnits::default());
        }
    }

    /// Adds the limiters whose state was replaced by an earlier call.
    pub(crate) fn after_carrying(mut self, carried: LimiterPlaces) -> Self {
        self.carried = self.carried.and(carried);
        self
    }

    /// Adds the values that decided.
    pub(crate) fn decided_by(mut self, newer: NewerValues) -> Self {
        self.newer = newer.and(self.newer);
        for (reply, newer) in self.replies.iter_mut().zip(&self.newer.0) {
            reply.decided.values = newer.as_ref().map(|newer| newer.rule.clone());
        }
        self
    }

    /// Puts the decisions at the places that their limiters had before they were sorted.
    pub(crate) fn put_back(self, places: &[usize]) -> Self {
        let mut order: Vec<_> = (0..places.len()).collect();
        order.sort_by_key(|index| places.get(*index));
        let newer = if self.newer.is_empty() { self.newer } else { self.newer.at(&order) };
        let carried = self.carried.moved(places.len(), |sorted| places[sorted]);
        let decisions = at_places(&self.decisions, &order);
        let replies = at_places(&self.replies, &order);
        let settled =
            if self.settled.is_empty() { self.settled } else { at_places(&self.settled, &order) };
        Self { decisions, replies, newer, settled, carried, ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limiters_that_were_carried_keep_their_places() {
        let carried = LimiterPlaces::from_iter([0]);
        let step = || DecidedStep { carried, ..DecidedStep::nothing(Timestamp::EPOCH) };
        // They were asked as the third, the first and the second.
        assert_eq!(step().put_back(&[2, 0, 1]).carried, LimiterPlaces::from_iter([2]));
        let mut with_another = step();
        with_another.insert_decision(0, Decision::UNLIMITED);
        with_another.insert_decision(1, Decision::UNLIMITED);
        assert_eq!(with_another.carried, LimiterPlaces::from_iter([2]));
        with_another.carried = carried;
        with_another.insert_decision(2, Decision::UNLIMITED);
        assert_eq!(with_another.carried, carried);
    }
}
