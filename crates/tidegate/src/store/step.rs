//! A step over the limiters of a request, as a store is asked for it, and its reply.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use tidegate_core::{Decision, Micros, ScriptReply, Timestamp};
use tokio::time::Instant;

use crate::inline_list::InlineList;
use crate::request::Origin;
use crate::step::{Ask, Decided, Lack, Standing, Values};

/// A limiter of a request, by its key in the store.
pub(crate) type KeyAsk = Ask<Vec<u8>>;

/// What a step does with the limiters of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    /// Decides and takes.
    Ask,
    /// Decides and takes nothing.
    Peek,
    /// Settles what was taken.
    Settle,
    /// Makes permits last their lives from now.
    Renew,
}

/// The parts of a step other than its limiters.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StepArgs<'a> {
    pub(crate) verb: Verb,
    /// When the step must have ended.
    pub(crate) deadline: Instant,
    /// The request's source, and its id if it may be asked again.
    pub(crate) origin: Origin<'a>,
    /// True if the request waits in a queue: then neither units taken ahead nor an earlier denial decides it.
    pub(crate) is_queued: bool,
    /// True if a look that the store does not answer decides the request.
    pub(crate) or_ask: bool,
    /// The actual cost of each limiter, for [`Verb::Settle`].
    pub(crate) actual: &'a [u64],
    /// The values under which its units were taken, as far as they are known.
    pub(crate) under: &'a [Option<Values>],
    /// The units each limiter is asked for in place of its cost, for [`Verb::Peek`]; empty otherwise.
    pub(crate) costs: &'a [u64],
    /// Of each limiter with leases, how much earlier than they were taken its units count if they are given back;
    /// empty if no limiter has leases.
    pub(crate) leased: &'a [Option<Micros>],
    /// The time in a replay; `None` for the store's clock.
    pub(crate) at: Option<Timestamp>,
    /// Why this process decided the request whose cost is settled, if it did.
    pub(crate) lack: Option<Lack>,
}

impl<'a> StepArgs<'a> {
    pub(crate) const fn new(verb: Verb, origin: Origin<'a>, deadline: Instant) -> Self {
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
        }
    }

    /// Looks at limiters: nothing is taken.
    pub(crate) const fn peek(deadline: Instant) -> Self {
        Self::new(Verb::Peek, Origin { id: None, source: 0 }, deadline)
    }

    pub(crate) const fn settle(
        actual: &'a [u64],
        under: &'a [Option<Values>],
        deadline: Instant,
    ) -> Self {
        let settle = Self::new(Verb::Settle, Origin { id: None, source: 0 }, deadline);
        Self { actual, under, ..settle }
    }
}

/// The reply to a step.
#[derive(Debug)]
pub(crate) struct StepReply {
    pub(crate) allowed: bool,
    /// The reading of the store's clock.
    pub(crate) now: Timestamp,
    /// True if this is the remembered answer to an earlier request with the same id.
    pub(crate) repeated: bool,
    /// Says if the limiters decided, or the rules without the store.
    pub(crate) standing: Standing,
    /// The replies of the limiters, in the order of the step; `None` for a limiter that was not asked.
    pub(crate) replies: InlineList<Option<LimiterReply>>,
    /// What the store must know to undo the step.
    pub(crate) receipt: Option<Receipt>,
}

/// What a store must know to undo a step, and no caller understands.
#[derive(Clone)]
pub(crate) struct Receipt(Arc<dyn Any + Send + Sync>);

impl Receipt {
    pub(crate) fn new(of_store: impl Any + Send + Sync) -> Self {
        Self(Arc::new(of_store))
    }

    /// Returns what the store put in; `None` if that has another type.
    pub(crate) fn get<T: Any>(&self) -> Option<&T> {
        self.0.downcast_ref()
    }
}

impl fmt::Debug for Receipt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Receipt")
    }
}

/// The reply of one limiter of a step.
#[derive(Clone, Debug)]
pub(crate) struct LimiterReply {
    pub(crate) decided: Decided,
    /// Whether the store decided, and no layer in place of it.
    pub(crate) by_store: bool,
    /// The state that the store decided by, from which waits are foretold; `None` if it did not report the state.
    pub(crate) state: Option<ScriptReply>,
}

impl LimiterReply {
    /// The reply of a limiter that a layer decided, without the store.
    pub(crate) const fn of_layer(decided: Decided) -> Self {
        Self { decided, by_store: false, state: None }
    }

    /// The reply of a limiter of the store.
    pub(crate) const fn of_store(decided: Decided) -> Self {
        Self { decided, by_store: true, state: None }
    }
}

impl StepReply {
    /// The reply to a step over limiters of which none was asked yet.
    pub(crate) fn nothing(limiters: usize, now: Timestamp) -> Self {
        Self {
            allowed: true,
            now,
            repeated: false,
            standing: Standing::Exact,
            replies: (0..limiters).map(|_| None).collect(),
            receipt: None,
        }
    }

    /// Puts the reply of the limiter at a place, instead of its last one.
    pub(crate) fn put(&mut self, place: usize, reply: LimiterReply) {
        if let Some(slot) = self.replies.get_mut(place) {
            *slot = Some(reply);
        }
    }

    /// Puts the replies of the limiters at these places; a limiter without a reply keeps its last one.
    pub(crate) fn put_all(
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

    /// The reply to a step that neither the store nor any layer decided: the request is refused.
    pub(crate) fn unavailable(limiters: usize, lack: Lack) -> Self {
        let standing = Standing::Unavailable(lack);
        Self { allowed: false, standing, ..Self::nothing(limiters, Timestamp::EPOCH) }
    }

    /// Returns whether the limiters decided. A key without room and without a limit was admitted because its rule is
    /// open and the store has no memory for its limiter.
    pub(crate) fn standing_by_replies(&self) -> Standing {
        let is_opened =
            |one: &LimiterReply| one.decided.overflow && one.decided.decision.is_unlimited();
        if self.replies.iter().flatten().any(is_opened) {
            return Standing::Degraded(Lack::Unavailable);
        }
        Standing::Exact
    }

    /// Returns the decision of the limiter at a place, if the store took it, by the limiter of the key itself.
    pub(crate) fn own(&self, place: usize) -> Option<Decision> {
        let reply = self.replies.get(place)?.as_ref()?;
        (reply.by_store && !reply.decided.overflow).then_some(reply.decided.decision)
    }

    /// Returns the decision like [`StepReply::own`], if it was also taken under the values of this node.
    pub(crate) fn own_under_own_values(&self, place: usize) -> Option<Decision> {
        let reply = self.replies.get(place)?.as_ref()?;
        self.own(place).filter(|_| reply.decided.values.is_none())
    }
}

/// Returns the elements at these places.
pub(crate) fn at_places<T: Clone>(all: &[T], places: &[usize]) -> Vec<T> {
    places.iter().filter_map(|place| all.get(*place).cloned()).collect()
}

/// Returns whether a request with these limiters reports usage.
pub(crate) fn is_report(asks: &[KeyAsk]) -> bool {
    asks.iter().any(|ask| ask.report)
}
