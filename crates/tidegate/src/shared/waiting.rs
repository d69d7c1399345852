//! Waits over a store, which needs time to reply.
//!
//! The waiters and their order are those of a gate in process. But no queue is locked while the store is asked:
//! a waiter is overtaken by nobody meanwhile, because later requests queue behind it. Requests that find the
//! queues empty ask side by side, and the store decides their order.

mod to_store;

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Poll, Wake, Waker};
use std::time::Duration;

use tidegate_core::Micros;
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};

use super::store::{Late, Store};
use super::{KeyAsk, SharedGate};
use crate::answer::Answer;
use crate::frontend::{GateQueue, may_wait};
use crate::request::{Origin, Request};
use crate::store::redis::{StoreError, script};
use crate::wait::{Progress, Sums, Ticket, Waiter};
use to_store::ToStore;

/// Wakes one waiter. If nobody listens, the next listener is woken.
struct Bell(Notify);

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.0.notify_one();
    }
}

impl SharedGate {
    /// Returns how many requests in this process wait in front of this one.
    #[must_use]
    pub fn waiting<'r>(&self, request: impl Into<Request<'r>>) -> usize {
        let (request, store) = (&request.into(), self.newest());
        let asks = self.asks(&store, request);
        asks.iter().map(|ask| self.queues().len(&store.queue_of(ask))).sum()
    }

    /// Decides a request like [`SharedGate::check`], but lets it wait if the rules that would refuse it say so,
    /// and resolves when the work may run. See [`Gate::acquire`](crate::Gate::acquire).
    ///
    /// The order holds within this process: each limiter has a queue, and only its head asks the store, again
    /// at `retry_after`. Units that another node gives back are noticed at that time. A request that cannot be
    /// admitted in time, by all that this process knows, is refused immediately.
    ///
    /// While the store is unavailable no request waits: each rule decides by its own
    /// [`OnStoreError`](crate::OnStoreError), also for requests that wait already.
    ///
    /// A request that is dropped while it waits leaves no trace. If it is dropped while the store is asked,
    /// units that it still takes are given back as soon as that is known. There are two exceptions: a queue
    /// keeps them, because its later slots are already promised, and so does a request with an id, because it
    /// may be asked again.
    #[must_use = "a request goes on even if it was refused, unless the answer is looked at"]
    pub async fn acquire<'r>(&self, request: impl Into<Request<'r>>) -> Answer<'_> {
        let request = &request.into();
        let mut answer = self.in_turn(request).await;
        let left = self.left_of_delay(request, &answer).await;
        if !left.is_zero() {
            sleep(Duration::from_micros(left.as_micros())).await;
        }
        answer.release();
        self.conclude(request, answer)
    }

    /// Returns how long it is until the work may run. Of the delay of a remembered answer some has passed, by
    /// the clock that decided it.
    async fn left_of_delay(&self, request: &Request<'_>, answer: &Answer<'_>) -> Micros {
        let delay = answer.delay_micros();
        if delay.is_zero() || !answer.is_repeated() {
            return delay;
        }
        let now = if answer.is_degraded() {
            Some(self.now())
        } else {
            let store = self.newest();
            let seen = store.look(&self.asks(&store, request), &[], Origin::default()).await;
            seen.ok().map(|seen| seen.now)
        };
        now.map_or(delay, |now| answer.at().plus(delay).since(now).min(delay))
    }

    /// Decides like [`SharedGate::acquire`], but resolves as soon as the request is admitted: the answer
    /// contains the `delay`, which the caller has to wait for.
    #[must_use = "a request goes on even if it was refused, unless the answer is looked at"]
    pub async fn check_in_turn<'r>(&self, request: impl Into<Request<'r>>) -> Answer<'_> {
        let request = &request.into();
        let answer = self.in_turn(request).await;
        self.conclude(request, answer)
    }

    /// Decides and takes if that needs no waiting, neither for a limiter nor for the store; returns `None` and takes
    /// nothing if it does. [`SharedGate::check_in_turn`] then decides.
    ///
    /// That is a request that units which this node took ahead cover
    /// ([`RuleSpec::lease`](crate::RuleSpec::lease), [`RuleSpec::split`](crate::RuleSpec::split)), and one without leases
    /// that the store has just denied ([`StoreSettings::denial_memory`](crate::StoreSettings::denial_memory)). If the gate
    /// [bans](SharedGate::with_ban) keys, the result is always `None`.
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
        let (request, store) = (&request.into(), self.newest());
        if !store.decides_here() || self.has_bans() {
            return None;
        }
        let asks = self.asks(&store, request);
        if may_wait(store.policy(), &asks, request.longest_wait().into()) || store.is_behind(&asks)
        {
            return None;
        }
        let answer = self.decide_here(&store, &asks, request.origin())?;
        Some(self.conclude(request, answer))
    }

    async fn in_turn(&self, request: &Request<'_>) -> Answer<'_> {
        let store = self.newest();
        let (asks, origin) = (self.asks(&store, request), request.origin());
        if let Some(answer) = self.banned(&store, &asks, origin).await {
            return answer;
        }
        let longest = request.longest_wait().into();
        if !may_wait(store.policy(), &asks, longest) {
            return self.decide_now(&store, &asks, origin).await;
        }
        let waitable = ToStore::new(self, store, asks, longest);
        // This future is large and seldom needed; in a box it does not enlarge the futures around it.
        Box::pin(InTurn::new(waitable, *request).until_decided()).await
    }

    /// Decides a request that does not wait. It is refused if others wait, because they came first.
    pub(super) async fn decide_now(
        &self,
        store: &Arc<Store>,
        asks: &[KeyAsk],
        origin: Origin<'_>,
    ) -> Answer<'_> {
        if store.is_behind(asks) {
            return match Box::pin(self.behind(store, asks, origin)).await {
                Some(answer) => answer,
                None => self.ask(store, asks, origin).await,
            };
        }
        self.decide_with_leases(store, asks, origin).await
    }

    /// Asks the store, unless it has just denied the request.
    pub(super) async fn ask_unless_denied(
        &self,
        store: &Arc<Store>,
        asks: &[KeyAsk],
        origin: Origin<'_>,
    ) -> Answer<'_> {
        match self.denied_again(store, asks, origin) {
            Some(answer) => answer,
            None => self.ask(store, asks, origin).await,
        }
    }

    /// Returns the answer to a request that does not wait while others do; `None` if there is enough for all of
    /// them.
    async fn behind(
        &self,
        store: &Arc<Store>,
        asks: &[KeyAsk],
        origin: Origin<'_>,
    ) -> Option<Answer<'_>> {
        let mut waitable = ToStore::new(self, Arc::clone(store), asks.into(), Micros::ZERO);
        let costs = waitable.look(|stop| self.sums_of(&stop.queue));
        let seen = match store.look(asks, &costs, origin).await {
            Ok(seen) => seen,
            Err(error) => return Some(self.without_store(store, asks, origin.id, &error)),
        };
        if seen.repeated {
            return Some(store.answer_of(asks, seen));
        }
        waitable.refused_behind(seen).map(|refused| store.exact(asks, refused))
    }

    /// Returns the sums of all requests in a queue.
    fn sums_of(&self, queue: &GateQueue) -> Sums {
        let held = self.queues().lock();
        held.queue(queue).map_or(Sums::NONE, |queue| queue.sums_before(Ticket::MAX))
    }
}

impl Store {
    /// Returns whether a request waits for a limiter that can refuse this one.
    fn is_behind(&self, asks: &[KeyAsk]) -> bool {
        let waits = |ask: &KeyAsk| !self.queues.is_idle(&self.queue_of(ask));
        !self.queues.are_idle() && asks.iter().any(|ask| ask.can_refuse() && waits(ask))
    }

    /// Wakes the first waiter of each of these limiters in this process, because units may be available.
    pub(super) fn wake(&self, asks: &[KeyAsk]) {
        asks.iter().for_each(|ask| self.queues.wake(&self.queue_of(ask)));
    }

    /// Returns the queue of a limiter in this process.
    fn queue_of(&self, ask: &KeyAsk) -> GateQueue {
        GateQueue::new(ask.lineage, self.seed.of(&ask.fingerprint))
    }
}

/// A request on its way through the queues.
struct InTurn<'a, 'g> {
    turn: Waiter<ToStore<'g>>,
    request: Request<'a>,
    bell: Arc<Bell>,
    waker: Waker,
    /// The number of times that the request may still ask again right after it joined another queue. Units that
    /// came back between its refusal and that moment woke nobody.
    retries: usize,
}

/// The next action of a waiter.
enum Next<'g> {
    Ask,
    Sleep(Duration),
    Done(Answer<'g>),
}

impl<'a, 'g> InTurn<'a, 'g> {
    fn new(waitable: ToStore<'g>, request: Request<'a>) -> Self {
        let bell = Arc::new(Bell(Notify::new()));
        let (waker, retries) = (Waker::from(Arc::clone(&bell)), waitable.stops.len());
        Self { turn: Waiter::new(waitable), request, bell, waker, retries }
    }

    async fn until_decided(mut self) -> Answer<'g> {
        let gate = self.turn.waitable().gate;
        loop {
            let late = Late::default();
            let is_behind = self.turn.is_behind(gate.now());
            let origin = self.request.origin();
            self.turn.waitable_mut().follow_changes(&self.request);
            let ToStore { store, asks, .. } = self.turn.waitable();
            if !store.parts(asks).is_empty() {
                // Under the current policy its limiters live in several slots, and rules over several slots let
                // no request wait.
                return gate.ask(store, asks, origin).await;
            }
            let seen = if is_behind {
                self.look().await
            } else {
                gate.take(store, asks, origin, &late).await
            };
            let ToStore { store, asks, .. } = self.turn.waitable();
            let next = match seen {
                Err(error) => {
                    let answer = gate.without_store(store, asks, origin.id, &error);
                    if answer.is_allowed() {
                        late.keep();
                    }
                    Next::Done(answer)
                }
                Ok(seen) if seen.repeated || seen.allowed && !is_behind => {
                    Next::Done(gate.counted(store.answer_of(asks, seen)))
                }
                Ok(seen) => self.hear(seen, is_behind),
            };
            match next {
                Next::Ask => {}
                // It asks again, whatever ended its sleep.
                Next::Sleep(pause) => drop(timeout(pause, self.woken()).await),
                Next::Done(answer) => return answer,
            }
        }
    }

    /// Resolves when it may be this request's turn, or when the store is unavailable, so that it need not wait.
    async fn woken(&self) {
        let mut rung = pin!(self.bell.0.notified());
        let mut lost = pin!(self.turn.waitable().gate.lost());
        poll_fn(|context| match rung.as_mut().poll(context) {
            Poll::Ready(()) => Poll::Ready(()),
            Poll::Pending => lost.as_mut().poll(context),
        })
        .await;
    }

    /// Looks at the limiters, to learn when the requests in front will have gone.
    async fn look(&mut self) -> Result<script::Decided, StoreError> {
        let before = self.turn.sums_before();
        let waitable = self.turn.waitable_mut();
        let looked = waitable.look(|stop| {
            let sums = before.iter().find(|(place, _)| *place == stop.place);
            sums.map_or(Sums::NONE, |(_, sums)| *sums)
        });
        waitable.store.look(&waitable.asks, &looked, self.request.origin()).await
    }

    fn hear(&mut self, seen: script::Decided, looked: bool) -> Next<'g> {
        let gate = self.turn.waitable().gate;
        let (stood, at, now) = (self.turn.stands(), seen.now, gate.now());
        if !looked {
            self.turn.waitable_mut().laps.clear();
        }
        let done = self.turn.waitable_mut().see(seen, now);
        match self.turn.hear(done, looked, now, &self.waker) {
            None => Next::Ask,
            Some(Progress::Done(done)) => Next::Done(self.turn.waitable_mut().refused(done, at)),
            Some(Progress::AskAgainAt(_)) if self.has_joined_another(stood, looked) => Next::Ask,
            Some(Progress::AskAgainAt(then)) => {
                Next::Sleep(Duration::from_micros(then.since(now).as_micros()))
            }
        }
    }

    fn has_joined_another(&mut self, stood: Option<usize>, looked: bool) -> bool {
        let has_joined = !looked && self.turn.stands() != stood && self.retries > 0;
        self.retries -= usize::from(has_joined);
        has_joined
    }
}
