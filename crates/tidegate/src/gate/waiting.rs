//! Waiting at a gate, where a request may have several limiters.

use std::sync::{Arc, Mutex, PoisonError};

use tidegate_core::Micros;

use super::Gate;
use super::step::Stepped;
use crate::answer::Answer;
use crate::clock::{Clock, Park, Timer};
use crate::dedupe::IdempotencyKey;
use crate::frontend::{GateQueue, GateQueues, delay_of, may_wait, queue_of, stops_of};
use crate::inline_list::InlineList;
use crate::request::{Request, RequestInternals as _};
use crate::step::{Ask, Done, Step};
use crate::store::memory::{Kept, MemoryGeneration, Moved, Preview};
use crate::wait::{InProcess, QueuedLimiter, Waitable, Waiter, step_behind};

impl<C: Clock> Gate<C> {
    /// The number of waiters that would be admitted before this request.
    ///
    /// ```
    /// use tidegate::{Gate, Policy, RuleSpec};
    ///
    /// let gate = Gate::new(Policy::new(vec![RuleSpec::new("per-user", "2/h").key(["user"])])?);
    /// let ada = ("default", &[("user", "ada")]);
    /// assert_eq!(gate.waiting(ada), 0);
    /// # Ok::<(), tidegate::PolicyErrors>(())
    /// ```
    #[must_use]
    pub fn waiting<'r>(&self, request: impl Into<Request<'r>>) -> usize {
        let request = &request.into();
        let asks = self.all_asks(&self.memory.newest(), request);
        let queues = asks.iter().map(queue_of);
        queues.map(|queue| self.queues.len(&queue)).sum()
    }

    /// Wakes the requests that wait for a limiter of this request, because its plan has changed. Without this call
    /// they ask again only when their current wait is over. Other requests need no call.
    ///
    /// ```
    /// use tidegate::{Gate, Policy, RuleSpec};
    ///
    /// let gate = Gate::new(Policy::new(vec![RuleSpec::new("per-user", "2/h").key(["user"])])?);
    /// let ada = ("default", &[("user", "ada")]);
    /// // After the function of `Setup::plans` returns another plan for ada:
    /// gate.plan_changed(ada);
    /// # Ok::<(), tidegate::PolicyErrors>(())
    /// ```
    pub fn plan_changed<'r>(&self, request: impl Into<Request<'r>>) {
        self.wake(&self.all_asks(&self.memory.newest(), &request.into()));
    }

    /// Decides a request as [`Gate::acquire`] does if that needs no waiting in a queue. Returns `None`, and takes and
    /// counts nothing, if a rule that lets it wait refuses it now. For servers that decide many requests one after
    /// another, and create a task only for those that wait.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tidegate::{AlgorithmKind, Descriptor, Gate, OnExcess, Policy, Request, RuleSpec, Spec};
    ///
    /// let hour = Duration::from_secs(3_600);
    /// let spec = Spec::new(AlgorithmKind::TokenBucket, 1, hour);
    /// let waits = RuleSpec::new("all", spec).on_excess(OnExcess::Wait { wait: hour, max_waiters: 1 });
    /// let gate = Gate::new(Policy::new(vec![waits])?);
    /// let descriptors = [Descriptor::new(&[])];
    /// let request = Request::new("default", &descriptors);
    /// assert!(gate.check_unless_waiting(&request).is_some_and(|answer| answer.is_allowed()));
    /// assert!(gate.check_unless_waiting(&request).is_none(), "`acquire` would wait");
    /// # Ok::<(), tidegate::PolicyErrors>(())
    /// ```
    pub fn check_unless_waiting<'r>(&self, request: impl Into<Request<'r>>) -> Option<Answer<'_>> {
        let request = &request.into();
        self.run(request, &self.clock, Step::Ask, |generation, asks, done| {
            let is_decided =
                done.allowed || !may_wait(&generation.policy, asks, request.longest_wait().into());
            is_decided.then(|| self.conclude(request, generation, asks, done))
        })
    }

    /// Turns the last step of a request that may have waited into an answer.
    fn conclude_last<'g>(&'g self, waitable: &ToGate<'_, C>, done: Done) -> Answer<'g> {
        let Stepped { generation, asks, done } = waitable.stepped(done);
        self.conclude(&waitable.request, generation, &asks, done)
    }

    /// Wakes the first waiter of each of these limiters: there may be units for it.
    pub(crate) fn wake(&self, asks: &[Ask]) {
        asks.iter().for_each(|ask| self.queues.wake(&queue_of(ask)));
    }

    /// The path to these limiters, for a request that may wait as long as it and their rules allow.
    fn waitable<'a>(
        &'a self,
        request: &Request<'a>,
        generation: Arc<MemoryGeneration>,
        asks: InlineList<Ask>,
        once: Option<IdempotencyKey>,
        max_wait: Micros,
    ) -> ToGate<'a, C> {
        let stops = stops_of(&generation.policy, &asks, max_wait, queue_of);
        let last = Mutex::default();
        ToGate { gate: self, request: *request, generation, stops, asks, once, last }
    }

    /// Creates a waiter; or returns the outcome, if that needs no limiter.
    fn arrive<'a>(&'a self, request: &Request<'a>) -> (Waiter<ToGate<'a, C>>, Option<Done>) {
        let (generation, (asks, once, early)) = self.memory.ask(|generation| {
            let asks = self.asks(generation, request);
            let once = self.once(generation, request, &asks, Step::Ask);
            let mut early = self.without_asking(generation, &asks, once, &self.clock)?;
            // Reported usage never waits, and is taken before anything is looked up.
            if early.is_none() && asks.iter().any(Ask::is_report) {
                early = Some(self.step_at(generation, &asks, once, &self.clock, Step::Ask)?);
            }
            Ok((asks, once, early))
        });
        let longest = request.longest_wait().into();
        (Waiter::new(self.waitable(request, generation.share(), asks, once, longest)), early)
    }

    /// Runs a step while other requests wait.
    #[cold]
    pub(super) fn run_behind(
        &self,
        request: &Request<'_>,
        clock: &impl Clock,
        step: Step,
    ) -> Stepped {
        let (generation, (asks, once, early)) = self.memory.ask(|generation| {
            let asks = self.asks(generation, request);
            let once = self.once(generation, request, &asks, step);
            let early = self.without_asking(generation, &asks, once, clock)?;
            Ok((asks, once, early))
        });
        if let Some(done) = early {
            return Stepped { generation, asks, done };
        }
        // It does not wait: it only learns which requests are in front of it, and for how long.
        let waitable = self.waitable(request, generation.share(), asks, once, Micros::ZERO);
        let done = step_behind(&waitable, step);
        waitable.stepped(done)
    }
}

impl<C: Timer> Gate<C> {
    /// Decides a request like [`Gate::check`], but lets it wait if the rules that would refuse it allow that
    /// ([`OnExcess`](crate::OnExcess)), and resolves when the work may run; or, if the request
    /// [returns its delay](Request::returning_delay), as soon as it is admitted.
    ///
    /// A request waits for one limiter at a time, namely the limiter with the longest wait, so it delays no request
    /// that does not need that limiter; then it asks all of them again. In every queue it goes after requests that came
    /// earlier and before requests that came later. From its arrival it may wait for the shortest time that the
    /// refusing rules allow; it is refused immediately if one of them rejects, or if the wait cannot end in time.
    /// [`Request::max_wait`] shortens the time.
    ///
    /// The `retry_after` of a refusal includes the waiters of each limiter. A request with several limiters may have
    /// to wait longer, because other requests may have other limiters.
    ///
    /// For dropping the future and for not polling it, see [`Limiter::acquire`](crate::Limiter::acquire).
    ///
    /// # Panics
    /// Panics when it has to wait, if the clock's timer does: tokio's timer panics outside of its runtime.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tidegate::{
    ///     AlgorithmKind, Descriptor, Gate, ManualClock, Policy, Request, RuleSpec, Spec,
    /// };
    /// use tidegate::OnExcess;
    ///
    /// let wait = OnExcess::Wait { wait: Duration::from_secs(2), max_waiters: 100 };
    /// let spec = Spec::new(AlgorithmKind::TokenBucket, 1, Duration::from_secs(1));
    /// let rule = RuleSpec::new("all", spec).on_excess(wait);
    /// let clock = ManualClock::new();
    /// let gate = Gate::with_clock(Policy::new(vec![rule])?, clock.clone());
    /// let descriptors = [Descriptor::new(&[])];
    /// let request = Request::new("default", &descriptors);
    /// assert!(gate.check(&request).is_allowed());
    ///
    /// let mut second = Box::pin(gate.acquire(&request));
    /// # let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    /// # use std::future::Future;
    /// assert!(second.as_mut().poll(&mut context).is_pending());
    /// clock.advance(Duration::from_secs(1));
    /// assert!(second.as_mut().poll(&mut context).is_ready());
    /// # drop(second);
    /// # Ok::<(), tidegate::PolicyErrors>(())
    /// ```
    #[must_use = "a request goes on even if it was refused, unless the answer is looked at"]
    pub async fn acquire<'r>(&self, request: impl Into<Request<'r>>) -> Answer<'_> {
        let request = &request.into();
        let (mut waiter, early) = self.arrive(request);
        let mut done = match early {
            Some(done) => done,
            None => waiter.decided(&self.clock).await,
        };
        // A caller that gets the delay holds the work itself.
        if !request.returns_delay() {
            done = waiter.hold(done, &self.clock).await;
        }
        self.conclude_last(waiter.waitable(), done)
    }
}

impl<C: Park> Gate<C> {
    /// Waits like [`Gate::acquire`], but blocks the thread. The rules (`on_excess`) and the request say whether it
    /// may wait, and for how long.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tidegate::{AlgorithmKind, Descriptor, Gate, OnExcess, Policy, Request, RuleSpec, Spec};
    ///
    /// let spec = Spec::new(AlgorithmKind::TokenBucket, 1, Duration::from_millis(40));
    /// let patient = OnExcess::Wait { wait: Duration::from_secs(10), max_waiters: 100 };
    /// let gate = Gate::new(Policy::new(vec![RuleSpec::new("all", spec).on_excess(patient)])?);
    /// let descriptors = [Descriptor::new(&[])];
    /// let request = Request::new("default", &descriptors);
    /// assert!(gate.acquire_blocking(&request).is_allowed());
    /// assert!(gate.acquire_blocking(&request).is_allowed()); // 40 ms later
    /// let hasty = Request::new("default", &descriptors).max_wait(Duration::from_micros(1));
    /// assert!(!gate.acquire_blocking(&hasty).is_allowed()); // at once
    /// # Ok::<(), tidegate::PolicyErrors>(())
    /// ```
    #[must_use = "a request goes on even if it was refused, unless the answer is looked at"]
    pub fn acquire_blocking<'r>(&self, request: impl Into<Request<'r>>) -> Answer<'_> {
        let request = &request.into();
        let (mut waiter, early) = self.arrive(request);
        let mut done = early.unwrap_or_else(|| waiter.decided_blocking(&self.clock));
        if !request.returns_delay() {
            done = waiter.hold_blocking(done, &self.clock);
        }
        self.conclude_last(waiter.waitable(), done)
    }
}

/// The limiters that a request had when it came, whose queues it may wait in.
#[derive(Debug)]
struct ToGate<'g, C> {
    gate: &'g Gate<C>,
    request: Request<'g>,
    generation: Arc<MemoryGeneration>,
    asks: InlineList<Ask>,
    once: Option<IdempotencyKey>,
    stops: Vec<QueuedLimiter<GateQueue>>,
    /// The result of the last step: rules and plans may have changed since the request came.
    last: Mutex<Option<Stepped>>,
}

impl<C: Clock> ToGate<'_, C> {
    /// Asks the limiters that the request has now: other rules may be in force, and plans are looked up again.
    fn ask_now<T>(
        &self,
        ask: impl Fn(&MemoryGeneration, &[Ask], Option<IdempotencyKey>) -> Result<T, Moved>,
    ) -> (Arc<MemoryGeneration>, InlineList<Ask>, T) {
        let (generation, (asks, early)) = self.gate.memory.ask(|generation| {
            // The same policy, and no plan that could differ by now: the limiters are as they were found.
            if std::ptr::eq(generation, &*self.generation) && !generation.any_per_key() {
                return Ok((self.asks.clone(), ask(generation, &self.asks, self.once)?));
            }
            let asks = self.gate.asks(generation, &self.request);
            // The idempotency key depends on the values too.
            let once = self.gate.once(generation, &self.request, &asks, Step::Ask);
            let early = ask(generation, &asks, once)?;
            Ok((asks, early))
        });
        (generation.share(), asks, early)
    }

    /// Converts `done` from the limiters of the first step to the limiters of the last step.
    fn stepped(&self, done: Done) -> Stepped {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(Stepped { generation, asks, done: last }) = last else {
            let generation = Kept::from(Arc::clone(&self.generation));
            return Stepped { generation, asks: self.asks.clone(), done };
        };
        let both = asks.iter().zip(last.decisions);
        let decisions =
            both.map(|(ask, last)| done.of(&self.asks, ask).cloned().unwrap_or(last)).collect();
        Stepped { generation, asks, done: Done { decisions, ..done } }
    }
}

impl<C: Clock> Waitable for ToGate<'_, C> {
    type Key = GateQueue;

    fn queues(&self) -> &GateQueues {
        &self.gate.queues
    }

    fn stops(&self) -> &[QueuedLimiter<GateQueue>] {
        &self.stops
    }

    fn preview(&self, stop: &QueuedLimiter<GateQueue>) -> Option<Box<dyn Preview>> {
        let first = self.asks.get(stop.index)?;
        let (_, _, preview) = self.ask_now(|generation, asks, _| {
            let same = asks.iter().find(|ask| ask.is_of(first));
            same.map_or(Ok(None), |ask| generation.preview(ask, &self.gate.clock))
        });
        preview
    }

    fn delay(&self, done: &Done) -> Micros {
        delay_of(&self.asks, done)
    }
}

impl<C: Clock> InProcess for ToGate<'_, C> {
    fn step(&self, step: Step) -> Done {
        let (generation, asks, done) = self.ask_now(|generation, ask, once| {
            self.gate.step_at(generation, ask, once, &self.gate.clock, step)
        });
        // In the order of the request's first limiters.
        let seen = Done { decisions: done.of_each(&asks, &self.asks), ..done };
        // The answer is about the limiters of the last step.
        let last = Stepped { generation: Kept::from(generation), asks, done };
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(last);
        seen
    }
}
