//! A gate whose limiters live in a shared store: many nodes, one limit.
//!
//! A verb goes through the layers over the store under the policy in force ([`InForce`]); each answer keeps that
//! policy.

mod bans;
mod build;
mod counts;
mod record;
mod replay;
mod settle;
mod waiting;

use std::sync::Arc;

use tidegate_core::{Micros, Timestamp};

use crate::answer::{Answer, Rules};
use crate::clock::SystemClock;
use crate::frontend::{self, Frontend, GateQueue, GateQueues, keep_limited, may_wait};
use crate::inline_list::InlineList;
use crate::key::Seed;
use crate::layers::{AcrossSlots, Carry, Layer, Leases, Local, Tower, UntilDropped};
use crate::request::{Descriptor, Origin, Request, RequestInternals as _};
use crate::rules::{Policy, PolicyRule};
use crate::step::Done;
use crate::store::memory::Newest;
use crate::store::{GaveUp, Generation, KeyAsk, StepArgs, StepReply, Store, StoreCounts, Verb};
use build::Warned;
use counts::Undecided;
pub use record::{FoundReservation, ReservationRecord};
pub use replay::SharedReplay;
use tidegate_redis::{RedisStore, key_of};
use waiting::InTurn;

/// A policy, and its limiters in a store that other nodes use as well.
///
/// One decision is one step in the store, by the store's clock. So no more is admitted than the limit, however
/// many nodes ask and however wrong their own clocks are. If the store does not decide a request, this process
/// does, and marks the answer [degraded](Answer::is_degraded). If the store does not reply, each rule's
/// [`OnStoreError`](crate::OnStoreError) decides. If the store replies but has [more
/// load](Answer::is_overloaded) than it decides in time, this node admits at most its share of the limit.
///
/// A call that was lost may have taken units, so it is not sent twice. A request with an id
/// ([`Request::with_id`]) is the exception, if every rule that can refuse it remembers the answer for at least
/// the deadline ([`RuleSpec::dedupe`](crate::RuleSpec::dedupe)). Its call is sent once more if the connection
/// is lost, or if no reply comes within half of the deadline.
///
/// ```no_run
/// use std::time::Duration;
/// use tidegate::{
///     AlgorithmKind, Descriptor, Policy, Request, RuleSpec, SharedGate, Spec, StoreSettings,
/// };
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let rule = RuleSpec::new("per-user", Spec::new(AlgorithmKind::TokenBucket, 100, Duration::from_secs(1)));
/// let policy = Policy::new(vec![rule.key(["user"])])?;
/// let settings = StoreSettings::new("redis://127.0.0.1:6379".parse()?);
/// let gate = SharedGate::new(policy, settings, |event| eprintln!("{event:?}"))?;
///
/// let entries = [("user", "ada")];
/// let descriptors = [Descriptor::new(&entries)];
/// let answer = gate.check(&Request::new("default", &descriptors)).await;
/// if answer.is_allowed() { /* go on */ }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct SharedGate<S: Store = RedisStore> {
    front: Frontend<SystemClock>,
    /// The store without its layers.
    store: S,
    /// Begins the name of every limiter.
    key_prefix: String,
    /// The queues of requests that wait in this process.
    queues: Arc<GateQueues>,
    /// The secret of the fingerprints that identify queues.
    seed: Seed,
    newest: Newest<InForce<S>>,
    /// The limiters of this process.
    local: Arc<Local>,
    warned: Arc<Warned>,
    undecided: Arc<Undecided>,
    _until_dropped: UntilDropped,
}

impl<S: Store> SharedGate<S> {
    /// Returns the policy that is in force on this node.
    ///
    /// ```no_run
    /// # fn example(gate: &tidegate::SharedGate) {
    /// gate.policy().rules().iter().for_each(|rule| println!("{}", rule.name()));
    /// # }
    /// ```
    #[must_use]
    pub fn policy(&self) -> Arc<Policy> {
        Arc::clone(&self.newest.read().generation.policy)
    }

    /// Returns the policy that is in force, and the store under it.
    fn newest(&self) -> Arc<InForce<S>> {
        self.newest.read().share()
    }

    /// Returns the store without its layers: its settings, its availability ([`Store::fit`]), and its own verbs, such
    /// as [`RedisStore::check_under`].
    ///
    /// ```no_run
    /// use tidegate::SharedGate;
    /// use tidegate::store::Store;
    ///
    /// /// Resolves when the store is available.
    /// async fn recovered(gate: &SharedGate) {
    ///     gate.store().fit().await;
    /// }
    /// ```
    #[must_use]
    pub const fn store(&self) -> &S {
        &self.store
    }

    /// Decides a request and, if every rule admits it, takes its cost from all of them. The request does not
    /// wait, and is refused if others wait in this process ([`SharedGate::acquire`]).
    ///
    /// ```no_run
    /// # async fn example(gate: &tidegate::SharedGate) {
    /// if gate.check(&[("user", "ada")]).await.is_allowed() {
    ///     // The work goes here.
    /// }
    /// # }
    /// ```
    #[must_use = "a request goes on even if it was refused, unless the answer is looked at"]
    pub async fn check<'r>(&self, request: impl Into<Request<'r>>) -> Answer<'_> {
        let request = &request.into();
        let answer = self.in_turn(request, Micros::ZERO).await;
        self.conclude(request, answer)
    }

    /// Returns the answer of [`SharedGate::check`] as if no request waited, and takes nothing. While the store is
    /// unavailable a rule that is open limits nothing.
    ///
    /// ```no_run
    /// use tidegate::SharedGate;
    ///
    /// /// The requests of one unit that would be admitted now; `None` if no rule limits them.
    /// async fn left(gate: &SharedGate, user: &str) -> Option<u64> {
    ///     gate.peek(&[("user", user)]).await.remaining()
    /// }
    /// ```
    #[must_use]
    pub async fn peek<'r>(&self, request: impl Into<Request<'r>>) -> Answer<'_> {
        let request = &request.into();
        let in_force = self.newest();
        let asks = self.asks(&in_force, request);
        let origin = request.origin();
        if !self.front.bans.is_empty()
            && let Some(answer) = bans::banned(self, &in_force, &asks, origin).await
        {
            return answer.refused_without_rule(request);
        }
        let look = in_force.args(Verb::Peek, origin);
        let answer = self.answer(&in_force, &asks, in_force.tower.step(&asks, look).await);
        answer.refused_without_rule(request)
    }

    /// Returns the counts of requests to the store, by outcome, and of the nodes that share it.
    ///
    /// ```no_run
    /// # fn example(gate: &tidegate::SharedGate) {
    /// let counts = gate.counts();
    /// println!("{} nodes, {} decisions without the store", counts.nodes, counts.degraded());
    /// # }
    /// ```
    #[must_use]
    pub fn counts(&self) -> StoreCounts {
        let in_force = self.newest();
        let mut counts = self.undecided.read(in_force.leases(), in_force.tower.counts());
        counts.nodes = self.local.share().nodes();
        counts
    }

    /// Returns the store in force without its layers, and the limiters of a request.
    #[cfg(any(test, feature = "kit"))]
    pub(crate) fn store_and_asks(&self, request: &Request<'_>) -> (S, Vec<KeyAsk>) {
        let in_force = self.newest();
        (in_force.innermost().clone(), self.asks(&in_force, request).into_vec())
    }

    pub(crate) fn now(&self) -> Timestamp {
        self.local.now()
    }

    /// The process around the store, for work after an answer.
    #[cfg(feature = "tower")]
    pub(crate) fn host(&self) -> &crate::store::Host {
        self.store.host()
    }

    /// Returns the limiters of a request, in the order of the rules, each once.
    fn asks(&self, in_force: &InForce<S>, request: &Request<'_>) -> InlineList<KeyAsk> {
        let mut asks = self.all_asks(in_force, request);
        keep_limited(&mut asks, &in_force.generation.policy);
        asks
    }

    /// Returns the limiters of a request, including those that a plan or the request makes unlimited.
    fn all_asks(&self, in_force: &InForce<S>, request: &Request<'_>) -> InlineList<KeyAsk> {
        self.resolve(in_force, request, |number| {
            let rule = in_force.generation.policy.rules().get(number);
            let lineage = in_force.generation.lineage(number);
            rule.is_some_and(|rule| self.front.plans.has_any(lineage, rule))
        })
    }

    /// Resolves a request; an unlimited rule is left out unless it `may_have_others` than its own values.
    fn resolve(
        &self,
        in_force: &InForce<S>,
        request: &Request<'_>,
        may_have_others: impl Fn(usize) -> bool,
    ) -> InlineList<KeyAsk> {
        let mut asks = InlineList::new();
        self.front.resolve(
            &in_force.generation.policy,
            |rule| in_force.generation.lineage(rule),
            request,
            |rule: &PolicyRule, descriptor: &Descriptor<'_>| {
                key_of(&self.key_prefix, rule, descriptor)
            },
            may_have_others,
            &mut asks,
        );
        asks
    }

    /// Makes the answer to a request, and counts it if it was decided without the store.
    fn answer(
        &self,
        in_force: &InForce<S>,
        asks: &[KeyAsk],
        replied: Result<StepReply, GaveUp>,
    ) -> Answer<'_> {
        let reply =
            replied.unwrap_or_else(|gave_up| StepReply::unavailable(asks.len(), &gave_up.error));
        self.counted(in_force.answer(asks, reply))
    }

    /// Counts an answer if it was decided without the store.
    fn counted<'g>(&self, answer: Answer<'g>) -> Answer<'g> {
        if answer.is_degraded() {
            self.undecided.count(&answer);
        }
        answer
    }

    /// Decides a request, which may wait as long as its rules allow, at most for `longest`. A request that may not wait
    /// is refused if others wait, because they came first.
    async fn in_turn(&self, request: &Request<'_>, longest: Micros) -> Answer<'_> {
        let in_force = self.newest();
        let asks = self.asks(&in_force, request);
        let origin = request.origin();
        if !self.front.bans.is_empty()
            && let Some(answer) = bans::banned(self, &in_force, &asks, origin).await
        {
            return answer;
        }
        if !longest.is_zero() && may_wait(&in_force.generation.policy, &asks, longest) {
            let waiting = InTurn::new(self, in_force, asks, longest, *request);
            // This future is large and seldom needed; in a box it does not enlarge the futures around it.
            return Box::pin(waiting.until_decided()).await;
        }
        let is_behind = self.is_behind(&asks);
        if is_behind && let Some(answer) = Box::pin(self.behind(&in_force, &asks, origin)).await {
            return answer;
        }
        // After others, the store alone decides, or this process without it.
        let args = StepArgs { is_queued: is_behind, ..in_force.args(Verb::Ask, origin) };
        self.answer(&in_force, &asks, in_force.tower.step(&asks, args).await)
    }

    /// Returns whether another request already waits for a limiter that can refuse these asks.
    fn is_behind(&self, asks: &[KeyAsk]) -> bool {
        !self.queues.are_idle()
            && asks.iter().any(|ask| ask.can_refuse() && !self.queues.is_idle(&self.queue_of(ask)))
    }

    /// Wakes the first waiter of each of these limiters in this process, because units may be available.
    fn wake(&self, asks: &[KeyAsk]) {
        asks.iter().for_each(|ask| self.queues.wake(&self.queue_of(ask)));
    }

    /// Returns the queue of a limiter in this process.
    fn queue_of(&self, ask: &KeyAsk) -> GateQueue {
        GateQueue::new(ask.lineage, self.seed.of(&ask.fingerprint))
    }

    /// Counts the refusals of a decision and notifies the observers.
    fn conclude<'g>(&'g self, request: &Request<'_>, answer: Answer<'g>) -> Answer<'g> {
        let answer = answer.refused_without_rule(request);
        if !answer.is_allowed() && !self.front.bans.is_empty() {
            bans::count_refusals(self, request, &answer);
        }
        self.front.observers.notify(request, &answer);
        answer
    }
}

/// A policy, and the store under it. A request that starts with it is decided under that policy, even if another policy
/// is put in force before it ends.
#[derive(Debug)]
struct InForce<S> {
    generation: Arc<Generation>,
    tower: Tower<S>,
}

impl<S> InForce<S> {
    const fn leases(&self) -> &Leases<AcrossSlots<Carry<S>>> {
        &self.tower.inner.inner
    }

    const fn innermost(&self) -> &S {
        &self.leases().inner.inner.inner
    }
}

impl<S: Store> InForce<S> {
    /// A step of the tower, until its deadline.
    fn args<'a>(&self, verb: Verb, origin: Origin<'a>) -> StepArgs<'a> {
        StepArgs::new(verb, origin, self.tower.host().deadline())
    }

    /// Makes the answer from the reply to a step.
    fn answer<'g>(&self, asks: &[KeyAsk], reply: StepReply) -> Answer<'g> {
        let StepReply { allowed, now, repeated, first, standing, replies, .. } = reply;
        let done = Done { allowed, at: now, repeated, decisions: replies };
        let rules = Rules::Shared(Arc::clone(&self.generation));
        let mut answer = frontend::answer(rules, asks, done, standing, |reply| {
            reply.as_mut().map(|reply| &mut reply.decided)
        });
        answer.first = first.map(Box::new);
        for reply in answer.replies.iter_mut().filter(|reply| reply.reserves) {
            let own =
                asks.iter().find(|ask| (ask.rule, ask.by) == (reply.number as usize, reply.by));
            // No reservation is closed there when its rule has leases no more.
            reply.reserves = !own.is_some_and(|ask| self.tower.has_leases(ask));
        }
        if answer.is_unavailable() {
            // Nothing was taken, so the usage may be reported again.
            answer.replies.iter_mut().for_each(|one| one.report = false);
        }
        answer
    }
}
