//! The trait of a store, for gates and for layers over a store: a step over the limiters of a request.

use std::fmt;
use std::sync::Arc;

use tidegate_core::{Micros, Rule, Timestamp};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::error::StoreError;
use super::memory::Generation;
use super::step::{KeyAsk, StepArgs, StepReply};
use crate::inline_list::InlineList;
use crate::lease::{GivenBack, Report, Unspent, Wanted};
use crate::step::{Decided, Lineage};

/// Called with limiters that got units back for which no caller waits.
pub(crate) type OnUnitsBack = Arc<dyn Fn(&[KeyAsk]) + Send + Sync>;

/// A store of limiters under one policy, or a layer over a store.
///
/// A step is all or nothing: if a limiter that is enforced refuses the request, no limiter takes anything. The
/// order of calls is not the order of decisions.
///
/// A layer is a struct over another store. It answers what it can, hands the rest inward, and notes what comes
/// back. Each verb passes through every layer, so that a layer forgets what a settlement or a reset makes untrue.
pub(crate) trait Store: Clone + Send + Sync + 'static {
    /// Runs a step over the limiters of a request.
    ///
    /// # Errors
    /// The store did not decide by the deadline. It is not known if units were taken, unless nothing was sent. If
    /// the error is dropped, units of a late reply are given back.
    fn step(
        &self,
        asks: &[KeyAsk],
        args: StepArgs<'_>,
    ) -> impl Future<Output = Result<StepReply, GaveUp>> + Send;

    /// Gives back what the step with these `args` took, where it was taken. The reply has those limiters that got units
    /// back.
    fn undo(
        &self,
        asks: &[KeyAsk],
        args: StepArgs<'_>,
        reply: &StepReply,
    ) -> impl Future<Output = StepReply> + Send;

    /// Resets limiters: nothing counts as used then.
    ///
    /// # Errors
    /// The store did not reply.
    fn reset(
        &self,
        asks: &[KeyAsk],
        deadline: Instant,
    ) -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Takes units of a limiter ahead, with a record in the store.
    fn lease(&self, ask: &KeyAsk, lease: LeaseAsk<'_>) -> impl Future<Output = LeaseReply> + Send;

    /// Gives back units that were taken ahead, once: giving back consumes the record of `node`. Returns what became
    /// of them, and how the limiter stands; `None` if it counts in another way by now.
    ///
    /// # Errors
    /// The store did not reply. It may be asked again.
    fn give_back_lease(
        &self,
        rest: &Unspent<KeyAsk>,
        node: u64,
    ) -> impl Future<Output = Result<Option<(GivenBack, Report)>, StoreError>> + Send;

    /// Returns this store under another policy.
    #[must_use]
    fn under(&self, generation: &Arc<Generation>) -> Self;

    /// Starts work that goes on when its caller has gone: units that are given back, leases that are taken.
    fn spawn<T: Send + 'static>(
        &self,
        work: impl Future<Output = T> + Send + 'static,
    ) -> tokio::task::JoinHandle<T>;

    /// The time of this process.
    fn now(&self) -> Timestamp;

    /// The time of a clock that is never set, and that runs on while the machine sleeps.
    fn uptime(&self) -> Micros;

    /// Returns when a step that begins now must have ended.
    fn deadline(&self) -> Instant;

    /// Resolves when the store can be asked; immediately, while it can.
    fn fit(&self) -> impl Future<Output = ()> + Send;

    /// Returns the slot of a limiter; `None` if one step covers all limiters of the store.
    fn slot(&self, ask: &KeyAsk) -> Option<u16>;

    /// Returns whether limiters of the store can have these values.
    fn can_hold(&self, rule: &Rule) -> bool;

    /// Returns the decisions of limiters that units taken ahead cover now, and that take nothing.
    fn covered(&self, _asks: &[KeyAsk]) -> InlineList<Option<Decided>> {
        InlineList::new()
    }

    /// Returns whether units of a limiter are taken ahead. Such a limiter opens no reservation.
    fn has_leases(&self, _ask: &KeyAsk) -> bool {
        false
    }

    /// Returns how long this node can still spend units of a limiter that it took ahead; `None` if it has none.
    fn lasts(&self, _ask: &KeyAsk) -> Option<Micros> {
        None
    }

    /// Returns whether [`Store::step_now`] may decide a request.
    fn decides_now(&self) -> bool {
        false
    }

    /// Decides a request if the store need not be asked; returns `None`, and takes nothing, if it must be.
    fn step_now(&self, _asks: &[KeyAsk], _args: StepArgs<'_>) -> Option<StepReply> {
        None
    }

    /// Notes that these rules have other values, or none: this store is under an older policy by now.
    fn superseded(&self, _changed: &[Lineage]) {}

    /// Gives back what this node took ahead, and takes no more of it.
    fn end(&self) -> impl Future<Output = ()> + Send {
        std::future::ready(())
    }
}

/// The error of a step that was not decided. If it is dropped, what the step took, or takes later, is given back.
#[derive(Debug)]
pub(crate) struct GaveUp {
    pub(crate) error: StoreError,
    /// The decisions of limiters that the error is not about: they hold units that were taken ahead. Empty if there
    /// are none.
    pub(crate) covered: Vec<Option<Decided>>,
    pub(crate) late: Late,
}

impl From<StoreError> for GaveUp {
    fn from(error: StoreError) -> Self {
        Self { error, covered: Vec::new(), late: Late::default() }
    }
}

/// Units that a step took, or takes later, and of which no caller was told. If this is dropped, they are given back.
#[derive(Default)]
pub(crate) struct Late(Vec<Box<dyn FnOnce(bool) + Send + Sync>>);

impl Late {
    /// Units of which `decided` is told, once, whether they are kept.
    pub(crate) fn new(decided: impl FnOnce(bool) + Send + Sync + 'static) -> Self {
        Self(vec![Box::new(decided)])
    }

    /// Units that are kept if `keep` is sent anything, and given back if it is dropped.
    pub(crate) fn unless_sent(keep: oneshot::Sender<()>) -> Self {
        Self::new(move |is_kept| {
            if is_kept {
                // An error means that there was nothing to give back.
                let _ = keep.send(());
            }
        })
    }

    pub(crate) fn and(mut self, mut other: Self) -> Self {
        self.0.append(&mut other.0);
        self
    }

    /// Keeps the units, because the request is admitted.
    pub(crate) fn keep(mut self) {
        self.0.drain(..).for_each(|decided| decided(true));
    }
}

impl Drop for Late {
    fn drop(&mut self) {
        self.0.drain(..).for_each(|decided| decided(false));
    }
}

impl fmt::Debug for Late {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Late").field(&self.0.len()).finish()
    }
}

/// A lease to take from the store.
#[derive(Clone, Copy)]
pub(crate) struct LeaseAsk<'a> {
    pub(crate) wanted: &'a Wanted,
    /// Names this process in the records of leases.
    pub(crate) node: u64,
    /// Called when no reply came in time, before a late reply is waited for.
    pub(crate) on_late: &'a (dyn Fn() + Sync),
}

/// The reply to a question for a lease.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LeaseReply {
    pub(crate) is_in_time: bool,
    pub(crate) result: LeaseResult,
}

/// What is known of a lease that was asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum LeaseResult {
    /// How the limiter stands, and, if the lease was granted, when it was taken and when it ends.
    Decided(Report, Option<[Timestamp; 2]>),
    /// It was not granted, because the limiter has other values or no room.
    Undecided,
    /// The question was not sent.
    NotSent,
    /// The question was sent, and no reply will come: the store may have granted the lease.
    Unknown,
}
