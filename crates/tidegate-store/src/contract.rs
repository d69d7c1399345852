//! The contract of a store: the trait that a store keeps, and each layer over it.
//!
//! A gate turns a request into asks, one for each limiter, and hands them to [`Store::step`] of the outermost
//! layer. Each layer answers the asks that it can and hands the rest inward; the innermost store, Redis or a store
//! of your own, decides them in one atomic step. The reply of an undecided step travels back as [`GaveUp`], and carries
//! [`Late`] units: units that the step took, or takes later, after its caller had given up.
//!
//! Two verbs look alike: [`Store::fit`] waits until the store is fit to be asked (and [`Store::lost`] until it is not),
//! and [`Store::fits`] checks that the values of a policy fit into it. The files of this folder have the arguments and
//! the reply of a step (`step`), a policy in force (`generation`), the knowledge of a node about lost data (`known`),
//! the questions about leases (`lease`), its errors, counts and events, with the findings about its setup, the records
//! of reservations, and the process around a store (`host`).

mod counts;
mod error;
mod event;
mod generation;
mod host;
mod known;
mod lease;
mod record;
mod step;

use std::fmt;
use std::sync::Arc;

use tidegate_core::Rule;
#[doc(inline)]
pub use tidegate_rules::shared::StoreError;
use tokio::sync::oneshot;

use crate::rules::{Policy, PolicyErrors};
use crate::step::{Ask, Decided};
pub use counts::StoreCounts;
pub use error::done_in_part;
pub use event::{Finding, LEAST_VERSION, OnEvent, StoreEvent, StoreObserver};
pub use generation::{Generation, RuleInForce};
pub use host::{Host, stand_still};
pub use known::{KnownUse, LimiterPlaces, StoredData};
pub use lease::{
    GivenBack, LeaseAsk, LeaseReply, LeaseResult, LimiterReport, ReturnReply, Unspent, Wanted,
};
pub use record::{Receipt, RecordReply, RecordVerb};
pub use step::{LimiterReply, StepArgs, StepReply, Verb, at_places, is_report};

/// A limiter of a request, by its key in the store.
pub type KeyAsk = Ask<Vec<u8>>;

impl KeyAsk {
    /// The key of the limiter: bytes that no other limiter of any rule has.
    #[must_use]
    pub fn key(&self) -> &[u8] {
        &self.fingerprint
    }

    /// The rule under which the limiter decides; `None` if the policy has no such rule.
    #[must_use]
    pub fn rule<'a>(&'a self, policy: &'a Policy) -> Option<&'a Rule> {
        self.rule_in(policy)
    }

    /// Returns whether the limiter can refuse the request: its rule is not in shadow mode.
    #[must_use]
    pub const fn is_enforced(&self) -> bool {
        self.enforced
    }
}

/// Called with limiters that got units back for which no caller waits.
pub type OnUnitsBack = Arc<dyn Fn(&[KeyAsk]) + Send + Sync>;

/// The news of a store, besides replies, that a gate needs.
///
/// ```
/// use tidegate::store::Hooks;
/// use tidegate::{StoreError, StoreEvent};
///
/// /// Called when the connection to the store breaks.
/// fn lost(hooks: &Hooks, error: &StoreError) {
///     hooks.report(StoreEvent::Lost(error));
/// }
///
/// /// Called when the store says which nodes are connected to it, by number.
/// fn connected(hooks: &Hooks, nodes: &[u64], this_node: u64) {
///     let before = nodes.iter().filter(|node| **node < this_node).count();
///     hooks.nodes(nodes.len() as u64, before as u64);
/// }
/// ```
#[derive(Clone)]
pub struct Hooks {
    #[doc(hidden)]
    pub units_back: OnUnitsBack,
    #[doc(hidden)]
    pub nodes: Arc<dyn Fn(u64, u64) + Send + Sync>,
    #[doc(hidden)]
    pub report: OnEvent,
}

impl Hooks {
    /// Notes that these limiters got units back for which no caller waits, as after a late reply: requests that wait
    /// for them ask again.
    pub fn units_back(&self, asks: &[KeyAsk]) {
        (self.units_back)(asks);
    }

    /// Notes that `nodes` share the store, and that `before` of them precede this node in an order that all of them
    /// know. Each node has an equal share of a limit that it decides without the store.
    pub fn nodes(&self, nodes: u64, before: u64) {
        (self.nodes)(nodes, before);
    }

    /// Tells the observer of the gate that the store is [lost](StoreEvent::Lost), [back](StoreEvent::Back) or otherwise
    /// noteworthy. No layer reports an outage by itself.
    pub fn report(&self, event: StoreEvent<'_>) {
        (self.report)(event);
    }
}

impl fmt::Debug for Hooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hooks")
    }
}

/// A store of limiters under one policy.
///
/// A step is all or nothing: if a limiter that is enforced refuses the request, no limiter takes anything. The
/// order of calls is not the order of decisions.
///
/// A layer is a struct over another store, and a store itself. It answers the asks that it can, hands the rest inward,
/// and notes the replies. Each verb passes through every layer, so that a layer forgets knowledge that a settlement or
/// a reset makes untrue.
pub trait Store: Clone + Send + Sync + 'static {
    /// Runs a step over the limiters of a request.
    ///
    /// The future may be dropped at any time: then the store itself gives back the units that the step takes. The
    /// exceptions are a report, whose usage has happened, and a step whose answer the store remembers under the id of the
    /// request ([`StepArgs::id`]): the units belong to the request, which may be asked again.
    ///
    /// # Errors
    /// The store did not decide by the deadline. It is not known if units were taken, unless nothing was sent
    /// ([`StoreError::Away`]). If the error is dropped, units of a late reply are given back.
    fn step(
        &self,
        asks: &[KeyAsk],
        args: StepArgs<'_>,
    ) -> impl Future<Output = Result<StepReply, GaveUp>> + Send;

    /// Gives back the units that the step with these `args` took, where it took them. The reply has the limiters that
    /// got units back. The deadline of `args` may have passed. If the store cannot be reached for some time, the units
    /// stay taken: no caller tries again.
    fn undo(
        &self,
        asks: &[KeyAsk],
        args: StepArgs<'_>,
        reply: &StepReply,
    ) -> impl Future<Output = StepReply> + Send;

    /// Returns this store under another policy. A gate asks only stores that came from here, about steps as about
    /// records, and so does a caller of `SharedGate::store`.
    #[must_use]
    fn under(&self, generation: &Arc<Generation>) -> Self;

    /// Returns the process around the store. Its clock times the memory of this process; the time of a decision is the
    /// time in its reply, which another clock may give.
    fn host(&self) -> &Host;

    /// Takes units of a limiter ahead, with a record in the store. A store that keeps no such records grants nothing:
    /// rules with leases then decide each request by a step. `LimiterState` has no verb that takes or returns leased
    /// units, so a store that is built on it leaves this default.
    fn lease(
        &self,
        _ask: &KeyAsk,
        _lease: LeaseAsk<'_>,
    ) -> impl Future<Output = LeaseReply> + Send {
        // In time: a late reply would count as the sign of a store that is too slow for leases.
        std::future::ready(LeaseReply::new(true, LeaseResult::Undecided))
    }

    /// Gives back units that were taken ahead, once: giving back consumes the record of `node`. Returns their fate, and
    /// the standing of the limiter; `None` if it counts in another way by now.
    ///
    /// # Errors
    /// The store did not reply. It may be asked again.
    fn give_back_lease(
        &self,
        _rest: &Unspent<KeyAsk>,
        _node: u64,
    ) -> impl Future<Output = Result<Option<ReturnReply>, StoreError>> + Send {
        std::future::ready(Ok(None))
    }

    /// Writes, reads, claims or extends the record of that name, in one atomic operation. By default a store keeps no
    /// records: a reservation is then known only to the process that made it.
    ///
    /// # Errors
    /// The store did not reply within [`Host::timeout`]; only a record that was written may be asked for again.
    fn record(
        &self,
        _name: &[u8],
        _verb: RecordVerb<'_>,
    ) -> impl Future<Output = Result<RecordReply, StoreError>> + Send {
        // By this error the checks of the kit know that the store keeps no records.
        let none = StoreError::Refused("it keeps no records of reservations".to_owned());
        std::future::ready(Err(none))
    }

    /// Resolves when the store is fit to be asked; immediately, while it is. Only leases that are given back, and
    /// callers of a gate's store, wait for it: a request asks in any case, and a store that knows that it is away
    /// should return [`StoreError::Away`] at once.
    fn fit(&self) -> impl Future<Output = ()> + Send {
        std::future::ready(())
    }

    /// Resolves when the store cannot be asked; immediately, while it cannot. A request that waits in a queue is then
    /// decided without the store.
    fn lost(&self) -> impl Future<Output = ()> + Send {
        std::future::pending()
    }

    /// Returns the slot of a limiter; `None` if one step covers all limiters of the store.
    fn slot(&self, _ask: &KeyAsk) -> Option<u16> {
        None
    }

    /// Returns whether limiters of the store can have these values, which a plan or a request supplies.
    fn can_hold(&self, _rule: &Rule) -> bool {
        true
    }

    /// Checks whether a policy fits: limiters of the store can have its values.
    ///
    /// # Errors
    /// The rules that cannot be kept there.
    fn fits(&self, _policy: &Policy) -> Result<(), PolicyErrors> {
        Ok(())
    }

    /// Takes the hooks of the gate over this store, once, before any step. The layers have clones of this store by then,
    /// so a store keeps the hooks where its clones find them, in an `Arc<OnceLock<Hooks>>` for example.
    fn attach(&self, _hooks: Hooks) {}

    /// Returns what the store counts by itself; the gate over it adds what it and the layers count.
    fn counts(&self) -> StoreCounts {
        StoreCounts::default()
    }

    /// Takes this node off the list of nodes, for good: it is about to end.
    ///
    /// # Errors
    /// The store did not reply within [`Host::timeout`].
    fn leave(&self) -> impl Future<Output = Result<(), StoreError>> + Send {
        std::future::ready(Ok(()))
    }
}

/// The error of a step that was not decided. If it is dropped, units that the step took, or takes later, are given
/// back.
#[derive(Debug)]
pub struct GaveUp {
    /// Why the step was not decided.
    #[doc(hidden)]
    pub error: StoreError,
    /// The decisions of limiters that the error is not about: they hold units that were taken ahead. Empty if there
    /// are none.
    #[doc(hidden)]
    pub covered: Vec<Option<Decided>>,
    /// The units that the step took, or takes later.
    #[doc(hidden)]
    pub late: Late,
}

impl From<StoreError> for GaveUp {
    fn from(error: StoreError) -> Self {
        Self { error, covered: Vec::new(), late: Late::default() }
    }
}

impl GaveUp {
    /// Adds the units that a late reply takes.
    #[must_use]
    pub fn with_late(self, late: Late) -> Self {
        Self { late: self.late.and(late), ..self }
    }
}

/// Units that a step took, or takes later, without a caller to receive them. If this is dropped, they are given back.
#[derive(Default)]
pub struct Late(Vec<Box<dyn FnOnce(bool) + Send + Sync>>);

impl Late {
    /// Creates late units. `decided` is called once and says whether they are kept: true if the request is admitted
    /// without the store. It is called wherever the error ends, also in a `drop` outside of a runtime, so it must not
    /// block, and starts tasks by a [`Handle`](tokio::runtime::Handle) of its own.
    ///
    /// Units that stay taken in any case are not late: units of a report, and of a request whose answer the store remembers
    /// under its id.
    pub fn new(decided: impl FnOnce(bool) + Send + Sync + 'static) -> Self {
        Self(vec![Box::new(decided)])
    }

    /// Units that are kept if `keep` is sent anything, and given back if it is dropped.
    #[doc(hidden)]
    pub fn unless_sent(keep: oneshot::Sender<()>) -> Self {
        Self::new(move |is_kept| {
            if is_kept {
                // An error means that there was nothing to give back.
                let _ = keep.send(());
            }
        })
    }

    #[doc(hidden)]
    pub fn and(mut self, mut other: Self) -> Self {
        // This empties `other`, so that dropping it gives nothing back.
        self.0.append(&mut other.0);
        self
    }

    /// Keeps the units, because the request is admitted.
    #[doc(hidden)]
    pub fn keep(mut self) {
        // Drained: `drop` runs next, and finds nothing that it would give back.
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
