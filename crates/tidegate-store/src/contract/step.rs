//! The question to a store about one request ([`StepArgs`]), with its limiters, and the reply ([`StepReply`]).

use tidegate_core::{Decision, Micros, ScriptReply, Settled, Timestamp, Token, UsedUnits};
use tokio::time::Instant;

use super::{KeyAsk, KnownUse, Receipt, StoreError, StoredData};
use crate::inline_list::InlineList;
use crate::request::Origin;
use crate::step::{Decided, FirstReservation, Lack, Standing, Values};

/// The operation of a step on the limiters of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verb {
    /// Decides and takes.
    Ask,
    /// Decides and takes nothing.
    Peek,
    /// Settles units that were taken.
    Settle,
    /// Makes permits last their lives from now.
    Renew,
    /// Resets: nothing counts as used then. The replies of its limiters are not read.
    Reset,
}

/// The parts of a step other than its limiters.
#[derive(Clone, Copy, Debug)]
pub struct StepArgs<'a> {
    /// The operation on the limiters.
    pub verb: Verb,
    /// When the step must have ended.
    #[doc(hidden)]
    pub deadline: Instant,
    /// The request's source, and its id if it may be asked again.
    #[doc(hidden)]
    pub origin: Origin<'a>,
    /// True if the request waits in a queue: then neither units taken ahead nor an earlier denial decides it.
    #[doc(hidden)]
    pub is_queued: bool,
    /// True if a look that the store does not answer decides the request.
    #[doc(hidden)]
    pub or_ask: bool,
    /// The actual cost of each limiter, for [`Verb::Settle`].
    pub actual: &'a [u64],
    /// The values under which its units were taken, as far as they are known.
    #[doc(hidden)]
    pub under: &'a [Option<Values>],
    /// The units each limiter is asked for in place of its cost, for [`Verb::Peek`]; empty otherwise.
    pub costs: &'a [u64],
    /// For each limiter with leases, how much earlier its units count as taken; empty if no limiter has leases.
    #[doc(hidden)]
    pub leased: &'a [Option<Micros>],
    /// The time in a replay; `None` for the store's clock.
    pub at: Option<Timestamp>,
    /// Why this process decided the request whose cost is settled, if it did.
    #[doc(hidden)]
    pub lack: Option<Lack>,
    /// The knowledge of this node of each limiter; empty if it has none.
    #[doc(hidden)]
    pub known: &'a [KnownUse],
}

impl<'a> StepArgs<'a> {
    #[doc(hidden)]
    pub const fn new(verb: Verb, origin: Origin<'a>, deadline: Instant) -> Self {
        Self {
            verb,
            deadline,
            origin,
            is_queued: false,
            or_ask: false,
            actual: &[],
            under: &[],
            costs: &[],
            leased: &[],
            at: None,
            lack: None,
            known: &[],
        }
    }

    /// When the step must have ended. After that the store returns
    /// [`StoreError::Timeout`], and gives back the units of a late reply.
    #[must_use]
    pub fn deadline(&self) -> std::time::Instant {
        self.deadline.into_std()
    }

    /// The id of the request, if it may be asked again. A store that remembers answers returns the first answer.
    #[must_use]
    pub fn id(&self) -> Option<&'a str> {
        self.origin.id.map(|id| id.id)
    }

    /// The name and the life of the reservation that the request opens, which the store remembers with the answer.
    #[must_use]
    pub fn reservation(&self) -> Option<(&'a [u8; 16], std::time::Duration)> {
        self.origin.id?.reservation.map(|(name, life)| (name, life.as_duration()))
    }

    /// The same step as a settlement of limiters that turned out to cost nothing.
    #[must_use]
    pub const fn settling(self) -> Self {
        Self { verb: Verb::Settle, actual: &[], costs: &[], leased: &[], ..self }
    }
}

#[doc(hidden)]
impl<'a> StepArgs<'a> {
    /// Looks at limiters: nothing is taken.
    pub const fn peek(deadline: Instant) -> Self {
        Self::new(Verb::Peek, Origin { id: None, source: 0 }, deadline)
    }

    pub const fn settle(actual: &'a [u64], under: &'a [Option<Values>], deadline: Instant) -> Self {
        Self { verb: Verb::Settle, actual, under, ..Self::peek(deadline) }
    }
}

/// The reply to a step.
#[derive(Debug)]
pub struct StepReply {
    #[doc(hidden)]
    pub allowed: bool,
    /// The reading of the store's clock.
    #[doc(hidden)]
    pub now: Timestamp,
    /// True if this is the remembered answer to an earlier request with the same id.
    #[doc(hidden)]
    pub repeated: bool,
    /// The reservation of that request, if this is its remembered answer.
    #[doc(hidden)]
    pub first: Option<FirstReservation>,
    /// Says if the limiters decided, or the rules without the store.
    #[doc(hidden)]
    pub standing: Standing,
    /// The replies of the limiters, in the order of the step; `None` for a limiter that was not asked.
    #[doc(hidden)]
    pub replies: InlineList<Option<LimiterReply>>,
    /// The note of the store for undoing the step.
    #[doc(hidden)]
    pub receipt: Option<Receipt>,
    #[doc(hidden)]
    pub data: StoredData,
}

/// The reply of one limiter of a step.
#[derive(Clone, Debug, PartialEq)]
pub struct LimiterReply {
    #[doc(hidden)]
    pub decided: Decided,
    /// True if the store decided, and no layer in place of it.
    #[doc(hidden)]
    pub by_store: bool,
    /// The state that the store decided by, from which waits are foretold; `None` if it did not report the state.
    #[doc(hidden)]
    pub state: Option<ScriptReply>,
    /// The units in use after the step, oldest first, and the time of the last, if the store reported them.
    #[doc(hidden)]
    pub used: Option<(Vec<UsedUnits>, Timestamp)>,
}

impl LimiterReply {
    /// The reply of a limiter of the store: its decision, and the instant that counted, which a settlement names. The reply
    /// under an unlimited rule is [`LimiterReply::unlimited`].
    #[must_use]
    pub const fn new(decision: Decision, since: Timestamp) -> Self {
        let mut decided = Decided::of(decision, false, false);
        decided.taken.since = Some(since);
        Self::of_store(decided)
    }

    /// The reply under an unlimited rule, which admits everything.
    #[must_use]
    pub const fn unlimited() -> Self {
        Self::of_store(Decided::of(Decision::UNLIMITED, false, false))
    }

    /// Adds the token of the permit that was taken.
    #[must_use]
    pub fn with_token(mut self, token: Token) -> Self {
        self.decided.taken.token = Some(token);
        self
    }

    /// Adds the result of a settlement.
    #[must_use]
    pub fn with_settled(mut self, settled: Settled) -> Self {
        self.decided.settled = settled;
        self
    }

    /// The decision of the limiter.
    #[must_use]
    pub const fn decision(&self) -> &Decision {
        &self.decided.decision
    }

    /// The instant that counted when units were taken; `None` under an unlimited rule.
    #[must_use]
    pub const fn since(&self) -> Option<Timestamp> {
        self.decided.taken.since
    }

    /// The token of the permit that was taken.
    #[must_use]
    pub const fn token(&self) -> Option<Token> {
        self.decided.taken.token
    }

    /// The result of a settlement.
    #[must_use]
    pub const fn settled(&self) -> Settled {
        self.decided.settled
    }
}

#[doc(hidden)]
impl LimiterReply {
    /// The reply of a limiter that a layer decided, without the store.
    pub const fn of_layer(decided: Decided) -> Self {
        Self { decided, by_store: false, state: None, used: None }
    }

    /// The reply of a limiter of the store.
    pub const fn of_store(decided: Decided) -> Self {
        Self { decided, by_store: true, state: None, used: None }
    }
}

impl StepReply {
    /// The reply of a store that ran a step when its clock read `now` (the clock where the limiters are, in another process
    /// for example; or [`StepArgs::at`]): one reply for each limiter, in the order of the step. `allowed` says whether the
    /// decisions of all limiters that are enforced admit it, whatever the verb. A report takes its units in any case; it is
    /// allowed if one unit more would be.
    #[must_use]
    pub fn new(
        allowed: bool,
        now: Timestamp,
        replies: impl IntoIterator<Item = LimiterReply>,
    ) -> Self {
        let replies = replies.into_iter().map(Some).collect();
        Self { allowed, replies, ..Self::nothing(0, now) }
    }

    /// Adds the note of the store for undoing the step.
    #[must_use]
    pub fn with_receipt(self, receipt: Receipt) -> Self {
        Self { receipt: Some(receipt), ..self }
    }

    /// Marks the remembered answer to an earlier request with the same id: this request took nothing.
    #[must_use]
    pub fn repeated(self) -> Self {
        Self { repeated: true, ..self }
    }

    /// Adds the reservation of the earlier request to its remembered answer.
    #[must_use]
    pub fn with_first(self, first: FirstReservation) -> Self {
        Self { first: Some(first), ..self }
    }

    /// Returns whether the request is admitted.
    #[must_use]
    pub const fn is_allowed(&self) -> bool {
        self.allowed
    }

    /// The limiters of a step of [`Verb::Ask`], each with the units that it took, as [`StepArgs::settling`] gives them back. A
    /// refused request and a repeated answer took none. No other verb is undone, and no report, whose usage has happened.
    #[must_use]
    pub fn to_undo(&self, asks: &[KeyAsk]) -> Vec<KeyAsk> {
        let has_taken = self.allowed && !self.repeated;
        asks.iter()
            .zip(&self.replies)
            .map(|(ask, reply)| match reply {
                Some(LimiterReply { decided, .. })
                    if has_taken && decided.decision.is_allowed() =>
                {
                    KeyAsk { taken: decided.taken, ..ask.clone() }
                }
                _ => ask.costing(0),
            })
            .collect()
    }

    /// Returns the note of the store for undoing the step.
    #[must_use]
    pub const fn receipt(&self) -> Option<&Receipt> {
        self.receipt.as_ref()
    }

    /// The replies of the limiters, in the order of the step; `None` for a limiter that was not asked.
    pub fn replies(&self) -> impl ExactSizeIterator<Item = Option<&LimiterReply>> {
        self.replies.iter().map(Option::as_ref)
    }
}

#[doc(hidden)]
impl StepReply {
    /// The reply to a step before any limiter was asked.
    pub fn nothing(limiters: usize, now: Timestamp) -> Self {
        Self {
            allowed: true,
            now,
            repeated: false,
            first: None,
            standing: Standing::Exact,
            replies: (0..limiters).map(|_| None).collect(),
            receipt: None,
            data: StoredData::default(),
        }
    }

    /// Puts the reply of the limiter at a place, instead of its last reply.
    pub fn put(&mut self, place: usize, reply: LimiterReply) {
        if let Some(slot) = self.replies.get_mut(place) {
            *slot = Some(reply);
        }
    }

    /// Puts the replies of the limiters at these places; a limiter without a reply keeps its last reply.
    pub fn put_all(
        &mut self,
        places: impl IntoIterator<Item = usize>,
        replies: impl IntoIterator<Item = Option<LimiterReply>>,
    ) {
        for (place, reply) in places.into_iter().zip(replies) {
            if let Some(reply) = reply {
                self.put(place, reply);
            }
        }
    }

    /// Puts the decisions of a layer about the limiters at these places.
    pub fn put_decided(
        &mut self,
        places: impl IntoIterator<Item = usize>,
        decisions: impl IntoIterator<Item = Option<Decided>>,
    ) {
        let replies = decisions.into_iter().map(|decided| decided.map(LimiterReply::of_layer));
        self.put_all(places, replies);
    }

    /// The reply to a step that neither the store nor any layer decided: the request is refused.
    pub fn unavailable(limiters: usize, error: &StoreError) -> Self {
        let standing = Standing::Unavailable(Lack::of(error));
        Self { allowed: false, standing, ..Self::nothing(limiters, Timestamp::EPOCH) }
    }

    /// Returns whether the limiters decided. A key without space and without a limit was admitted because its rule is
    /// open and the store has no memory for its limiter.
    pub fn standing_by_replies(&self) -> Standing {
        let is_opened =
            |one: &LimiterReply| one.decided.overflow && one.decided.decision.is_unlimited();
        if self.replies.iter().flatten().any(is_opened) {
            return Standing::Degraded(Lack::Unavailable);
        }
        Standing::Exact
    }

    /// Returns the decision of the limiter at a place, if the store took it, by the limiter of the key itself.
    pub fn own(&self, place: usize) -> Option<Decision> {
        let reply = self.replies.get(place)?.as_ref()?;
        (reply.by_store && !reply.decided.overflow).then_some(reply.decided.decision)
    }

    /// Returns the decision like [`StepReply::own`], if it was also taken under the values of this node.
    pub fn own_under_own_values(&self, place: usize) -> Option<Decision> {
        let reply = self.replies.get(place)?.as_ref()?;
        self.own(place).filter(|_| reply.decided.values.is_none())
    }
}

/// Returns the elements at these places.
pub fn at_places<T: Clone>(all: &[T], places: &[usize]) -> Vec<T> {
    places.iter().filter_map(|place| all.get(*place).cloned()).collect()
}

/// Returns whether a request with these limiters reports usage.
pub fn is_report(asks: &[KeyAsk]) -> bool {
    asks.iter().any(KeyAsk::is_report)
}
