//! Waiting at a gate, where a request may meet several limiters.

mod renewed;

use tidegate_core::Micros;

use self::renewed::Renewed;
use super::Gate;
use crate::answer::Answer;
use crate::clock::{Clock, Park, Timer};
use crate::dedupe::IdempotencyKey;
use crate::frontend::{GateQueue, GateQueues, delay_of, patience, queue_of, stops_of};
use crate::inline_list::InlineList;
use crate::request::Request;
use crate::step::{Done, Met, Step};
use crate::store::memory::Preview;
use crate::wait::{InProcess, Stop, Waitable, Waiter, step_behind};

impl<C: Clock> Gate<C> {
    /// How many of those who wait would have to go before this request.
    #[must_use]
    pub fn waiting(&self, request: &Request<'_>) -> usize {
        let queues = self.met_at_all(request).into_iter().map(|met| queue_of(&met));
        queues.map(|queue| self.queues.len(&queue)).sum()
    }

    /// Decides a request as [`Gate::check_in_turn`] does, if that takes no waiting: `None`, and nothing
    /// is taken or counted, where it is refused now by a rule that may let it wait. For who answers many
    /// one after another, and would rather not make a task of each.
    ///
    /// ```
    /// use tidegate::{AlgorithmKind, Descriptor, Gate, Micros, OnExcess, Policy, Request, RuleSpec, Spec};
    ///
    /// let hour = Micros::from_secs(3_600);
    /// let spec = Spec::new(AlgorithmKind::TokenBucket, 1, hour);
    /// let waits = RuleSpec::new("all", spec).on_excess(OnExcess::Wait { wait: hour, max_waiters: 1 });
    /// let gate = Gate::new(Policy::new(vec![waits])?);
    /// let descriptors = [Descriptor::new(&[])];
    /// let request = Request::new("default", &descriptors);
    /// assert!(gate.check_unless_waiting(&request).is_some_and(|answer| answer.is_allowed()));
    /// assert!(gate.check_unless_waiting(&request).is_none(), "`check_in_turn` would wait");
    /// # Ok::<(), tidegate::PolicyErrors>(())
    /// ```
    pub fn check_unless_waiting(&self, request: &Request<'_>) -> Option<Answer<'_>> {
        let (met, done) = self.step(request, self.clock(), Step::Ask);
        let longest = request.longest_wait();
        let waits = |met: &Met| {
            met.can_refuse() && !patience(self.policy(), met.rule, longest).wait.is_zero()
        };
        if !done.allowed && met.iter().any(waits) {
            return None;
        }
        Some(self.conclude(request, &met, done))
    }

    /// A step of one who does not wait, while others do.
    #[cold]
    pub(crate) fn step_behind(
        &self,
        met: InlineList<Met>,
        once: Option<IdempotencyKey>,
        step: Step,
    ) -> (InlineList<Met>, Done) {
        let waitable = self.waitable(met, once, Micros::ZERO);
        let done = step_behind(&waitable, step);
        (waitable.met, done)
    }

    /// Wakes who waits first for one of these limiters: there may be units for them.
    pub(crate) fn wake(&self, met: &[Met]) {
        met.iter().for_each(|met| self.queues.wake(&queue_of(met)));
    }

    /// The way to these limiters for a request that may wait for so long where their rules let it.
    fn waitable(
        &self,
        met: InlineList<Met>,
        once: Option<IdempotencyKey>,
        max_wait: Micros,
    ) -> ToGate<'_, C> {
        let stops = stops_of(self.policy(), &met, max_wait, queue_of);
        ToGate { gate: self, stops, met, once, renewed: None }
    }

    /// One who comes to wait; and what it is told, if that needs no limiter.
    fn arrive<'a>(&'a self, request: &Request<'a>) -> (Waiter<ToGate<'a, C>>, Option<Done>) {
        let met = self.met(request);
        let once = self.once(request, &met);
        let told = self.without_asking(&met, once, self.clock());
        // What is reported never waits, and is taken before anything is looked at.
        let is_report = met.iter().any(|met| met.report);
        let told = told.or_else(|| is_report.then(|| self.step_now(&met, once, Step::Ask)));
        let renewed = Renewed::of(self, request);
        let waitable = ToGate { renewed, ..self.waitable(met, once, request.longest_wait()) };
        (Waiter::new(waitable), told)
    }

    /// The answer of one who has waited.
    fn answer_of(
        &self,
        request: &Request<'_>,
        waiter: &Waiter<ToGate<'_, C>>,
        done: Done,
    ) -> Answer<'_> {
        let ToGate { met, renewed, .. } = waiter.waitable();
        match renewed.as_ref().and_then(Renewed::take) {
            Some(met) => self.conclude(request, &met, done),
            None => self.conclude(request, met, done),
        }
    }
}

impl<C: Timer> Gate<C> {
    /// Decides a request like [`Gate::check`], but lets it wait where the rules that would refuse it
    /// say so ([`OnExcess`](crate::OnExcess)), and resolves when the work may run.
    ///
    /// It waits for one limiter at a time, the one with the longest wait, so it holds up nobody who
    /// does not need that one; then it asks all of them again. It goes before all who came later,
    /// wherever it stands, and never before one who came sooner. It may wait for as long as the least
    /// patient of the rules that were in its way lets it, from its arrival; if one of them rejects,
    /// or the wait can not end in time, it is refused at once. [`Request::max_wait`] shortens it.
    ///
    /// A `retry_after` of a refusal counts in those who wait for each limiter. A request that meets
    /// several may have to wait longer, for others may meet other ones.
    ///
    /// What is said of dropping and of not polling at [`Limiter::acquire`](crate::Limiter::acquire)
    /// holds here.
    ///
    /// ```
    /// use tidegate::{AlgorithmKind, Descriptor, Gate, ManualClock, Micros, Policy, Request, RuleSpec, Spec};
    /// use tidegate::OnExcess;
    ///
    /// let wait = OnExcess::Wait { wait: Micros::from_secs(2), max_waiters: 100 };
    /// let spec = Spec::new(AlgorithmKind::TokenBucket, 1, Micros::from_secs(1));
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
    /// clock.advance(Micros::from_secs(1));
    /// assert!(second.as_mut().poll(&mut context).is_ready());
    /// # drop(second);
    /// # Ok::<(), tidegate::PolicyErrors>(())
    /// ```
    pub async fn acquire(&self, request: &Request<'_>) -> Answer<'_> {
        let (mut waiter, told) = self.arrive(request);
        let done = match told {
            Some(done) => done,
            None => waiter.decided(self.clock()).await,
        };
        let done = waiter.hold(done, self.clock()).await;
        self.answer_of(request, &waiter, done)
    }

    /// The same as [`Gate::acquire`], but resolves as soon as the request is admitted: a `delay` is told
    /// and not waited for. For who decides on behalf of others, and hands the answer on.
    pub async fn check_in_turn(&self, request: &Request<'_>) -> Answer<'_> {
        match self.check_unless_waiting(request) {
            Some(answer) => answer,
            // Seldom, and large: what stands around it would be as large, and be moved so.
            None => Box::pin(self.wait_in_turn(request)).await,
        }
    }

    async fn wait_in_turn(&self, request: &Request<'_>) -> Answer<'_> {
        let (mut waiter, told) = self.arrive(request);
        let done = match told {
            Some(done) => done,
            None => waiter.decided(self.clock()).await,
        };
        self.answer_of(request, &waiter, done)
    }
}

impl<C: Park> Gate<C> {
    /// What [`Gate::acquire`] does, by blocking the thread: who may wait, and how long, is said by the rules
    /// (`on_excess`), and may be cut short by the request.
    ///
    /// ```
    /// use tidegate::{AlgorithmKind, Descriptor, Gate, Micros, OnExcess, Policy, Request, RuleSpec, Spec};
    ///
    /// let spec = Spec::new(AlgorithmKind::TokenBucket, 1, Micros::from_millis(40));
    /// let patient = OnExcess::Wait { wait: Micros::from_secs(10), max_waiters: 100 };
    /// let gate = Gate::new(Policy::new(vec![RuleSpec::new("all", spec).on_excess(patient)])?);
    /// let descriptors = [Descriptor::new(&[])];
    /// let request = Request::new("default", &descriptors);
    /// assert!(gate.acquire_blocking(&request).is_allowed());
    /// assert!(gate.acquire_blocking(&request).is_allowed()); // 40 ms later
    /// let hasty = Request::new("default", &descriptors).max_wait(Micros::from_micros(1));
    /// assert!(!gate.acquire_blocking(&hasty).is_allowed()); // at once
    /// # Ok::<(), tidegate::PolicyErrors>(())
    /// ```
    pub fn acquire_blocking(&self, request: &Request<'_>) -> Answer<'_> {
        let (mut waiter, told) = self.arrive(request);
        let done = told.unwrap_or_else(|| waiter.decided_blocking(self.clock()));
        let done = waiter.hold_blocking(done, self.clock());
        self.answer_of(request, &waiter, done)
    }
}

/// The limiters of a gate that one request meets.
#[derive(Debug)]
struct ToGate<'g, C> {
    gate: &'g Gate<C>,
    met: InlineList<Met>,
    once: Option<IdempotencyKey>,
    stops: Vec<Stop<GateQueue>>,
    /// Where plans are looked up again while it waits.
    renewed: Option<Renewed<'g>>,
}

impl<C: Clock> Waitable for ToGate<'_, C> {
    type Key = GateQueue;

    fn queues(&self) -> &GateQueues {
        &self.gate.queues
    }

    fn stops(&self) -> &[Stop<GateQueue>] {
        &self.stops
    }

    fn preview(&self, stop: &Stop<GateQueue>) -> Option<Box<dyn Preview>> {
        match &self.renewed {
            None => self.gate.preview_now(self.met.get(stop.place)?),
            Some(renewed) => {
                self.gate.preview_now(renewed.now(self.gate, &self.met).get(stop.place)?)
            }
        }
    }

    fn delay(&self, done: &Done) -> Micros {
        delay_of(&self.met, done)
    }

    fn delay_is_waiting(&self) -> bool {
        false
    }
}

impl<C: Clock> InProcess for ToGate<'_, C> {
    fn step(&self, step: Step) -> Done {
        match &self.renewed {
            None => self.gate.step_now(&self.met, self.once, step),
            Some(renewed) => {
                let met = renewed.now(self.gate, &self.met);
                // What is remembered is known by the figures too.
                self.gate.step_now(&met, renewed.once(self.gate, &met), step)
            }
        }
    }
}
