//! A store for the tests of layers: it runs the verbs of the core, in virtual time, and fails on command.
//!
//! A test puts the layer that it tests over a [`FakeStore`], says which of the next steps go wrong
//! ([`FakeStore::fault`]), and reads the steps that got through the layer ([`FakeStore::steps`]). The states are in
//! `limiter` and `limiters`, the records of reservations in `records`.

mod limiter;
mod limiters;
mod records;

use std::collections::VecDeque;
use std::pin::pin;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tidegate_core::{Micros, Timestamp};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep, timeout_at};

use super::{
    GaveUp, Generation, Host, KeyAsk, Late, LeaseAsk, LeaseReply, RecordReply, RecordVerb,
    ReturnReply, StepArgs, StepReply, Store, Verb,
};
use crate::clock::Clock;
use crate::layers::Layer;
use crate::rules::{Policy, RuleSpec};
use crate::step::{AskKind, AskValues, DescriptorSet, Lineage, TakenUnits};
use crate::store::{RuleInForce, StoreError, Unspent};
pub(crate) use limiter::limiter;
pub(crate) use limiters::FakeLimiters;
use records::FakeRecords;

/// The time of the store when a test begins.
const FIRST: Timestamp = Timestamp::from_micros(1_000_000_000_000);
/// The deadline of a step.
const TIMEOUT: Duration = Duration::from_millis(100);

/// A fault in a step, or of a lease: its question can take long, and its reply come late, or too late.
#[derive(Clone, Debug)]
pub(crate) enum Fault {
    /// The store does nothing.
    Fails(StoreError),
    /// The store decides, and its reply is too late for the caller.
    IsLate,
    /// The request takes so long, and the reply no time.
    Takes(Duration),
    /// The store decides, and its reply takes so long.
    RepliesAfter(Duration),
}

/// The store. Its clones are the same store.
#[derive(Clone, Debug)]
pub(crate) struct FakeStore {
    pub(crate) generation: Arc<Generation>,
    shared: Arc<FakeShared>,
}

#[derive(Debug)]
struct FakeShared {
    host: Host,
    /// True if each limiter lives in a slot of its own.
    has_slots: bool,
    state: Mutex<FakeState>,
}

/// The contents of the store: the faults to come, the steps so far, and the state that the steps change.
#[derive(Debug, Default)]
struct FakeState {
    /// The faults of the next steps.
    faults: VecDeque<Option<Fault>>,
    /// The verbs and the keys of the steps so far.
    steps: Vec<(Verb, Vec<String>)>,
    limiters: FakeLimiters,
    records: FakeRecords,
}

impl FakeStore {
    /// A store of limiters of these rules; each rule has the keys of one entry.
    pub(crate) fn new(rules: Vec<RuleSpec>) -> Self {
        Self::with(rules, false)
    }

    /// A store that keeps each limiter in a slot of its own.
    pub(crate) fn with_slots(rules: Vec<RuleSpec>) -> Self {
        Self::with(rules, true)
    }

    fn with(rules: Vec<RuleSpec>, has_slots: bool) -> Self {
        let of_rule = |rule| RuleInForce { lineage: Lineage::of_rule(rule), since: FIRST };
        let numbers = (0..).take(rules.len());
        let policy = Arc::new(Policy::new(rules).unwrap());
        let generation = Generation::new(policy, numbers.map(of_rule).collect());
        let host = Host::new(TIMEOUT).with_clock(VirtualClock(Instant::now()));
        let shared = FakeShared { host, has_slots, state: Mutex::default() };
        Self { generation: Arc::new(generation), shared: Arc::new(shared) }
    }

    /// Lets the next steps go wrong, in order; `None` lets one succeed.
    pub(crate) fn fault(&self, faults: impl IntoIterator<Item = Option<Fault>>) {
        self.state().faults.extend(faults);
    }

    /// Returns the keys of the steps since this was last called, with their verbs.
    pub(crate) fn steps(&self) -> Vec<(Verb, Vec<String>)> {
        std::mem::take(&mut self.state().steps)
    }

    /// Returns the units that are left of a limiter.
    pub(crate) fn left(&self, ask: &KeyAsk) -> u64 {
        let look = StepArgs::peek(self.shared.host.deadline());
        let reply = self.decide(&[ask.costing(0)], look);
        reply.replies[0].as_ref().unwrap().decided.decision.remaining
    }

    /// Lets the store have only the limiters of a server: an empty one, or a copy of its own.
    pub(crate) fn put(&self, limiters: FakeLimiters) {
        self.state().limiters = limiters;
    }

    /// A copy of its limiters.
    pub(crate) fn copy(&self) -> FakeLimiters {
        self.state().limiters.clone()
    }

    fn state(&self) -> MutexGuard<'_, FakeState> {
        self.shared.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn decide(&self, asks: &[KeyAsk], args: StepArgs<'_>) -> StepReply {
        let now = args.at.unwrap_or_else(|| self.shared.host.now());
        self.state().limiters.step(&self.generation.policy, asks, args, now)
    }

    fn give_back(
        &self,
        asks: &[KeyAsk],
        leased: &[Option<Micros>],
        reply: &StepReply,
        at: Option<Timestamp>,
    ) -> StepReply {
        let now = at.unwrap_or_else(|| self.shared.host.now());
        let mut state = self.state();
        // It goes over the connection that brought the reply.
        if state.limiters.server != reply.data.server {
            return StepReply::nothing(asks.len(), now);
        }
        state.limiters.undo(&self.generation.policy, asks, leased, reply, now)
    }
}

/// A limiter of the rule with this index, for `cost` units.
pub(crate) fn ask(rule: usize, key: &str, cost: u64) -> KeyAsk {
    KeyAsk {
        lineage: Lineage::of_rule(u32::try_from(rule).unwrap()),
        rule,
        fingerprint: key.as_bytes().to_vec(),
        cost,
        kind: AskKind::Question,
        enforced: true,
        values: AskValues::of_variant(0),
        by: DescriptorSet::one(rule),
        reserves: false,
        taken: TakenUnits::default(),
    }
}

/// A question whether a request goes on, by the deadline of the store.
pub(crate) fn asking(store: &impl Store) -> StepArgs<'static> {
    StepArgs::new(Verb::Ask, crate::request::Origin::default(), store.host().deadline())
}

/// Lets tasks that were started run.
pub(crate) async fn let_tasks_run() {
    for _ in 0..16 {
        tokio::task::yield_now().await;
    }
}

/// Decides after the time that the request takes, and returns the reply after the time that it takes.
async fn delayed<T>(fault: Option<&Fault>, decide: impl FnOnce() -> T) -> T {
    if let Some(Fault::Takes(time)) = fault {
        sleep(*time).await;
    }
    let reply = decide();
    if let Some(Fault::RepliesAfter(time)) = fault {
        sleep(*time).await;
    }
    reply
}

impl Store for FakeStore {
    async fn step(&self, asks: &[KeyAsk], args: StepArgs<'_>) -> Result<StepReply, GaveUp> {
        let keys = asks.iter().map(|ask| String::from_utf8_lossy(&ask.fingerprint).into_owned());
        // In a block, so that the lock is released: `decide` locks again, and a late reply is awaited.
        let fault = {
            let mut state = self.state();
            state.steps.push((args.verb, keys.collect()));
            state.faults.pop_front().flatten()
        };
        match fault {
            Some(Fault::Fails(error)) => Err(error.into()),
            Some(Fault::IsLate) => {
                let (keep, kept) = oneshot::channel();
                let store = self.clone();
                let asks = asks.to_vec();
                let leased = args.leased.to_vec();
                // Taken before the error is returned, as by a store whose reply is on its way.
                let reply = self.decide(&asks, args);
                if args.verb != Verb::Ask {
                    return Err(StoreError::Timeout.into());
                }
                // A task, because the error may be dropped long after this call has returned.
                tokio::spawn(async move {
                    if kept.await.is_err() {
                        store.give_back(&asks, &leased, &reply, None);
                    }
                });
                // Dropped without being sent, no caller keeps the units.
                let late = Late::unless_sent(keep);
                Err(GaveUp { late, ..GaveUp::from(StoreError::Timeout) })
            }
            fault => Ok(delayed(fault.as_ref(), || self.decide(asks, args)).await),
        }
    }

    async fn undo(&self, asks: &[KeyAsk], args: StepArgs<'_>, reply: &StepReply) -> StepReply {
        self.give_back(asks, args.leased, reply, args.at)
    }

    async fn lease(&self, ask: &KeyAsk, lease: LeaseAsk<'_>) -> LeaseReply {
        let policy = &self.generation.policy;
        let fault = self.state().faults.pop_front().flatten();
        let mut asked = pin!(delayed(fault.as_ref(), || {
            let now = self.shared.host.now();
            self.state().limiters.lease(policy, ask, lease, now)
        }));
        let in_time = timeout_at(self.shared.host.deadline(), asked.as_mut()).await;
        let reply = match in_time {
            Ok(reply) if !matches!(fault, Some(Fault::IsLate)) => return reply,
            in_time => {
                (lease.on_late)();
                if let Ok(reply) = in_time { reply } else { asked.await }
            }
        };
        LeaseReply { is_in_time: false, ..reply }
    }

    async fn give_back_lease(
        &self,
        rest: &Unspent<KeyAsk>,
        node: u64,
    ) -> Result<Option<ReturnReply>, StoreError> {
        let policy = &self.generation.policy;
        let fault = self.state().faults.pop_front().flatten();
        let reply = delayed(fault.as_ref(), || {
            let now = self.shared.host.now();
            self.state().limiters.give_back_lease(policy, rest, node, now)
        });
        Ok(Some(reply.await))
    }

    async fn record(&self, name: &[u8], verb: RecordVerb<'_>) -> Result<RecordReply, StoreError> {
        let now = self.shared.host.now();
        Ok(self.state().records.run(name, verb, now))
    }

    fn under(&self, generation: &Arc<Generation>) -> Self {
        Self { generation: Arc::clone(generation), ..self.clone() }
    }

    fn host(&self) -> &Host {
        &self.shared.host
    }

    fn slot(&self, ask: &KeyAsk) -> Option<u16> {
        self.shared.has_slots.then(|| u16::try_from(ask.rule).unwrap())
    }
}

impl Layer for FakeStore {}

/// A process by the clock of the system, for tests that run no task.
pub(crate) fn host() -> Host {
    static RUNTIME: LazyLock<Runtime> =
        LazyLock::new(|| Builder::new_current_thread().build().unwrap());
    // A host keeps the runtime that it is made in, also if it never starts a task.
    let _entered = RUNTIME.enter();
    Host::new(TIMEOUT)
}

/// The virtual time of tokio, from [`FIRST`] on.
struct VirtualClock(Instant);

impl Clock for VirtualClock {
    fn now(&self) -> Timestamp {
        FIRST.plus(Micros::from(self.0.elapsed()))
    }
}
