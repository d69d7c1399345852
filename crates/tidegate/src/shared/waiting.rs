//! Waits over a store, which needs time to reply.
//!
//! Waiters and their order are the same as in a gate in process, but no queue is locked while the store is asked. No
//! request overtakes a waiter during that time, because later requests queue after it. Requests that find the queues
//! empty ask side by side, and the store decides their order.

mod to_store;

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Poll, Wake, Waker};
use std::time::Duration;

use tidegate_core::Micros;
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};

use super::{InForce, SharedGate};
use crate::answer::Answer;
use crate::frontend::{GateQueue, may_wait};
use crate::inline_list::InlineList;
use crate::layers::Layer;
use crate::request::{Origin, Request, RequestInternals as _};
use crate::step::Standing;
use crate::store::{KeyAsk, StepArgs, StepReply, Store, Verb};
use crate::wait::{AttemptResult, Sums, Ticket, Waiter};
use to_store::ToStore;

/// Wakes one waiter. If no task listens, the next listener is woken.
struct Bell(Notify);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.notify_one();
    }
}

impl<S: Store> SharedGate<S> {
    /// Returns how many requests in this process wait in front of it.
    ///
    /// ```no_run
    /// # fn example(gate: &tidegate::SharedGate) {
    /// println!("{} requests wait", gate.waiting(&[("user", "ada")]));
    /// # }
    /// ```
    #[must_use]
    pub fn waiting<'r>(&self, request: impl Into<Request<'r>>) -> usize {
        let request = &request.into();
        let in_force = self.newest();
        let asks = self.asks(&in_force, request);
        asks.iter().map(|ask| self.queues.len(&self.queue_of(ask))).sum()
    }

    /// Decides a request like [`SharedGate::check`], but lets it wait if the rules that would refuse it say so,
    /// and resolves when the work may run. See [`Gate::acquire`](crate::Gate::acquire).
    ///
    /// The order holds within this process: each limiter has a queue, and only its head asks the store, again
    /// at `retry_after`. Units that another node gives back are noticed at that time. A request that cannot be
    /// admitted in time, as far as this process knows, is refused immediately.
    ///
    /// While the store is unavailable no request waits: each rule decides by its own
    /// [`OnStoreError`](crate::OnStoreError), also for requests that wait already.
    ///
    /// A request that is dropped while it waits leaves no trace. If it is dropped while the store is asked,
    /// units that it still takes are given back as soon as that is known. There are two exceptions: a queue
    /// keeps them, because its later slots are already promised, and so does a request with an id, because it
    /// may be asked again.
    ///
    /// ```no_run
    /// # async fn example(gate: &tidegate::SharedGate) {
    /// if gate.acquire(&[("user", "ada")]).await.is_allowed() {
    ///     // The work goes here.
    /// }
    /// # }
    /// ```
    #[must_use = "a request goes on even if it was refused, unless the answer is looked at"]
    pub async fn acquire<'r>(&self, request: impl Into<Request<'r>>) -> Answer<'_> {
        let request = &request.into();
        let mut answer = self.in_turn(request, request.longest_wait().into()).await;
        if !request.returns_delay() {
            let left = self.left_of_delay(request, &answer).await;
            if !left.is_zero() {
                sleep(Duration::from_micros(left.as_micros())).await;
            }
            answer.release();
        }
        self.conclude(request, answer)
    }

    /// Returns how long it is until the work may run. Of the delay of a remembered answer some has passed, by
    /// the clock that decided it.
    async fn left_of_delay(&self, request: &Request<'_>, answer: &Answer<'_>) -> Micros {
        let delay = answer.delay_micros();
        if delay.is_zero() || !answer.is_repeated() {
            return delay;
        }
        // A repeated answer keeps the instant of the first decision, by the clock that decided then: the clock of this
        // process, or the store's, which only a look tells.
        let now = if answer.is_degraded() {
            Some(self.now())
        } else {
            let in_force = self.newest();
            let look = StepArgs::peek(in_force.tower.host().deadline());
            let seen = in_force.tower.step(&self.asks(&in_force, request), look).await.ok();
            seen.filter(|seen| seen.standing == Standing::Exact).map(|seen| seen.now)
        };
        // A clock that stepped back holds no request for longer than its delay.
        now.map_or(delay, |now| answer.at().plus(delay).since(now).min(delay))
    }

    /// Decides and takes if that needs no waiting, neither for a limiter nor for the store; returns `None` and takes
    /// nothing if it does. [`SharedGate::acquire`] then decides.
    ///
    /// That is a request that units which this node took ahead cover
    /// ([`RuleSpec::lease`](crate::RuleSpec::lease), [`RuleSpec::split`](crate::RuleSpec::split)), and a request
    /// that the store has just denied ([`StoreSettings::denial_memory`](crate::StoreSettings::denial_memory)). If the gate
    /// [bans](crate::Setup::ban) keys, the result is always `None`.
    ///
    /// ```no_run
    /// # async fn example(gate: &tidegate::SharedGate) -> bool {
    /// let request = ("default", &[("user", "ada")]);
    /// match gate.check_unless_waiting(request) {
    ///     Some(answer) => answer.is_allowed(),
    ///     None => gate.check(request).await.is_allowed(),
    /// }
    /// # }
    /// ```
    pub fn check_unless_waiting<'r>(&self, request: impl Into<Request<'r>>) -> Option<Answer<'_>> {
        let request = &request.into();
        let in_force = self.newest();
        // A ban may have to ask the store for a remembered answer.
        if !in_force.tower.decides_now() || !self.front.bans.is_empty() {
            return None;
        }
        let asks = self.asks(&in_force, request);
        let longest = request.longest_wait().into();
        if may_wait(&in_force.generation.policy, &asks, longest) || self.is_behind(&asks) {
            return None;
        }
        let args = in_force.args(Verb::Ask, request.origin());
        let reply = in_force.tower.step_now(&asks, args)?;
        Some(self.conclude(request, in_force.answer(&asks, reply)))
    }

    /// Returns the answer to a request that does not wait while others do; `None` if there is enough for all of
    /// them.
    pub(super) async fn behind(
        &self,
        in_force: &Arc<InForce<S>>,
        asks: &[KeyAsk],
        origin: Origin<'_>,
    ) -> Option<Answer<'_>> {
        // A look for the units of all requests that wait,
        // because nothing may be taken before these are decided.
        let mut waitable = ToStore::new(self, Arc::clone(in_force), asks.into(), Micros::ZERO);
        let costs = waitable.look(|stop| self.sums_of(&stop.queue));
        let seen = in_force.look(asks, &costs, origin).await;
        if seen.repeated || is_without_store(&seen) {
            return Some(self.counted(in_force.answer(asks, seen)));
        }
        waitable.refused_behind(seen)
    }

    /// Returns the sums of all requests in a queue.
    fn sums_of(&self, queue: &GateQueue) -> Sums {
        let held = self.queues.lock();
        held.queue(queue).map_or(Sums::NONE, |queue| queue.sums_before(Ticket::MAX))
    }
}

impl<S: Store> InForce<S> {
    /// Looks at limiters with these costs. Without the store, the request is decided.
    async fn look(&self, asks: &[KeyAsk], costs: &[u64], origin: Origin<'_>) -> StepReply {
        let look = self.args(Verb::Peek, origin);
        self.step_in_turn(asks, StepArgs { costs, or_ask: true, ..look }).await
    }

    /// Runs a step of a request that waits, or that others wait in front of.
    async fn step_in_turn(&self, asks: &[KeyAsk], args: StepArgs<'_>) -> StepReply {
        let replied = self.tower.step(asks, StepArgs { is_queued: true, ..args }).await;
        replied.unwrap_or_else(|gave_up| StepReply::unavailable(asks.len(), &gave_up.error))
    }

    /// Returns whether limiters live in several slots.
    fn is_across_slots(&self, asks: &[KeyAsk]) -> bool {
        let mut slots = asks.iter().map(|ask| self.tower.slot(ask));
        let first = slots.next();
        slots.any(|slot| Some(slot) != first)
    }
}

/// Returns whether the store did not decide.
fn is_without_store(reply: &StepReply) -> bool {
    reply.standing != Standing::Exact && !reply.replies.iter().flatten().any(|one| one.by_store)
}

/// A request on its way through the queues.
pub(super) struct InTurn<'a, 'g, S: Store> {
    turn: Waiter<ToStore<'g, S>>,
    request: Request<'a>,
    bell: Arc<Bell>,
    waker: Waker,
    /// The number of times that the request may still ask again right after it joined another queue. Units that
    /// came back between its refusal and that moment woke no waiter.
    retries: usize,
}

/// The next action of a waiter.
enum Next<'g> {
    Ask,
    Sleep(Duration),
    Done(Box<Answer<'g>>),
}

impl<'a, 'g, S: Store> InTurn<'a, 'g, S> {
    pub(super) fn new(
        gate: &'g SharedGate<S>,
        in_force: Arc<InForce<S>>,
        asks: InlineList<KeyAsk>,
        longest: Micros,
        request: Request<'a>,
    ) -> Self {
        let waitable = ToStore::new(gate, in_force, asks, longest);
        let bell = Arc::new(Bell(Notify::new()));
        let waker = Waker::from(Arc::clone(&bell));
        let retries = waitable.stops.len();
        Self { turn: Waiter::new(waitable), request, bell, waker, retries }
    }

    pub(super) async fn until_decided(mut self) -> Answer<'g> {
        let gate = self.turn.waitable().gate;
        loop {
            // This also starts an attempt: `hear` asks again if units came back after it.
            let is_behind = self.turn.is_behind(gate.now());
            let origin = self.request.origin();
            self.turn.waitable_mut().follow_changes(&self.request);
            let ToStore { in_force, asks, .. } = self.turn.waitable();
            // Under the current policy its limiters may live in several slots, and rules over several slots let no
            // request wait.
            let is_across_slots = in_force.is_across_slots(asks);
            let seen = if is_behind && !is_across_slots {
                self.look().await
            } else {
                let ask = in_force.args(Verb::Ask, origin);
                in_force.step_in_turn(asks, ask).await
            };
            let ToStore { in_force, asks, .. } = self.turn.waitable();
            let is_decided = is_across_slots
                || seen.repeated
                || seen.allowed && !is_behind
                || is_without_store(&seen);
            let next = if is_decided {
                Next::Done(Box::new(gate.counted(in_force.answer(asks, seen))))
            } else {
                self.handle_replies(seen, is_behind)
            };
            match next {
                Next::Ask => {}
                // A timeout and a wake both lead to another question, because units that another node gives back wake
                // no waiter here.
                Next::Sleep(pause) => drop(timeout(pause, self.woken()).await),
                Next::Done(answer) => return *answer,
            }
        }
    }

    /// Resolves when it may be this request's turn, or when the store is unavailable, so that it need not wait.
    async fn woken(&self) {
        let mut rung = pin!(self.bell.0.notified());
        let mut lost = pin!(self.turn.waitable().gate.store.lost());
        poll_fn(|context| match rung.as_mut().poll(context) {
            Poll::Ready(()) => Poll::Ready(()),
            Poll::Pending => lost.as_mut().poll(context),
        })
        .await;
    }

    /// Looks at the limiters, to learn when the requests in front will have gone.
    async fn look(&mut self) -> StepReply {
        let before = self.turn.sums_before();
        let waitable = self.turn.waitable_mut();
        let looked = waitable.look(|stop| {
            let sums = before.iter().find(|(index, _)| *index == stop.index);
            sums.map_or(Sums::NONE, |(_, sums)| *sums)
        });
        waitable.in_force.look(&waitable.asks, &looked, self.request.origin()).await
    }

    fn handle_replies(&mut self, seen: StepReply, looked: bool) -> Next<'g> {
        let gate = self.turn.waitable().gate;
        // Read before the reply is handled, which may move it to another queue.
        let stood = self.turn.stands();
        let at = seen.now;
        let now = gate.now();
        // Only a look is for another cost than the request's own.
        if !looked {
            self.turn.waitable_mut().laps.clear();
        }
        let done = self.turn.waitable_mut().see(seen, now);
        match self.turn.handle_replies(done, looked, now, &self.waker) {
            None => Next::Ask,
            Some(AttemptResult::Done(done)) => {
                Next::Done(Box::new(self.turn.waitable_mut().refused(done, at)))
            }
            Some(AttemptResult::AskAgainAt(_)) if self.has_joined_another(stood, looked) => {
                Next::Ask
            }
            Some(AttemptResult::AskAgainAt(then)) => {
                Next::Sleep(Duration::from_micros(then.since(now).as_micros()))
            }
        }
    }

    fn has_joined_another(&mut self, stood: Option<usize>, looked: bool) -> bool {
        let has_joined = !looked && self.turn.stands() != stood && self.retries > 0;
        // At most once for each limiter, so that a request which is refused in turn by several comes to rest.
        self.retries -= usize::from(has_joined);
        has_joined
    }
}
