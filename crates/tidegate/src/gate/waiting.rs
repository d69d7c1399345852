//! Waiting at a gate, where a request may meet several limiters.

mod renewed;

use std::sync::Arc;

use tidegate_core::Micros;

use self::renewed::Last;
use super::{Gate, Stepped};
use crate::answer::Answer;
use crate::clock::{Clock, Park, Timer};
use crate::dedupe::IdempotencyKey;
use crate::frontend::{GateQueue, GateQueues, delay_of, patience, queue_of, stops_of};
use crate::inline_list::InlineList;
use crate::request::Request;
use crate::step::{Decided, Done, Met, Step};
use crate::store::memory::{Generation, Kept, Moved, Preview};
use crate::wait::{InProcess, Stop, Waitable, Waiter, step_behind};

impl<C: Clock> Gate<C> {
    /// How many of those who wait would have to go before this request.
    #[must_use]
    pub fn waiting(&self, request: &Request<'_>) -> usize {
        let met = self.met_at_all(&self.memory.newest(), request);
        let queues = met.iter().map(queue_of);
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
        let stepped = self.step(request, &self.clock, Step::Ask);
        let (policy, longest) = (&stepped.generation.policy, request.longest_wait());
        let waits =
            |met: &Met| met.can_refuse() && !patience(policy, met.rule, longest).wait.is_zero();
        if !stepped.done.allowed && stepped.met.iter().any(waits) {
            return None;
        }
        Some(self.conclude(request, stepped))
    }

    /// A step of one who does not wait, while others do.
    #[cold]
    pub(super) fn step_behind(
        &self,
        request: &Request<'_>,
        clock: &impl Clock,
        step: Step,
    ) -> Stepped {
        let (generation, (met, once, told)) = self.memory.ask(|generation| {
            let met = self.met(generation, request);
            let once = self.once_for(generation, request, &met, step);
            let told = self.without_asking(generation, &met, once, clock)?;
            Ok((met, once, told))
        });
        if let Some(done) = told {
            return Stepped { generation, met, done };
        }
        let waitable = self.waitable(request, generation.share(), met, once, Micros::ZERO);
        let done = step_behind(&waitable, step);
        waitable.last.stepped(done)
    }

    /// Wakes who waits first for one of these limiters: there may be units for them.
    pub(crate) fn wake(&self, met: &[Met]) {
        met.iter().for_each(|met| self.queues.wake(&queue_of(met)));
    }

    /// The way to these limiters for a request that may wait for so long where their rules let it.
    fn waitable<'a>(
        &'a self,
        request: &Request<'a>,
        generation: Arc<Generation>,
        met: InlineList<Met>,
        once: Option<IdempotencyKey>,
        max_wait: Micros,
    ) -> ToGate<'a, C> {
        let stops = stops_of(&generation.policy, &met, max_wait, queue_of);
        let last = Last::new(&generation, &met);
        ToGate { gate: self, request: *request, generation, stops, met, once, last }
    }

    /// One who comes to wait; and what it is told, if that needs no limiter.
    fn arrive<'a>(&'a self, request: &Request<'a>) -> (Waiter<ToGate<'a, C>>, Option<Done>) {
        let (generation, (met, once, told)) = self.memory.ask(|generation| {
            let met = self.met(generation, request);
            let once = self.once(generation, request, &met);
            let mut told = self.without_asking(generation, &met, once, &self.clock)?;
            // What is reported never waits, and is taken before anything is looked at.
            if told.is_none() && met.iter().any(|met| met.report) {
                told = Some(self.step_at(generation, &met, once, &self.clock, Step::Ask)?);
            }
            Ok((met, once, told))
        });
        let longest = request.longest_wait();
        (Waiter::new(self.waitable(request, generation.share(), met, once, longest)), told)
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
            None => waiter.decided(&self.clock).await,
        };
        let done = waiter.hold(done, &self.clock).await;
        self.conclude(request, waiter.waitable().last.stepped(done))
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
            None => waiter.decided(&self.clock).await,
        };
        self.conclude(request, waiter.waitable().last.stepped(done))
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
        let done = told.unwrap_or_else(|| waiter.decided_blocking(&self.clock));
        let done = waiter.hold_blocking(done, &self.clock);
        self.conclude(request, waiter.waitable().last.stepped(done))
    }
}

/// The limiters of a gate that one request met when it came, and so the queues that it may stand in.
#[derive(Debug)]
struct ToGate<'g, C> {
    gate: &'g Gate<C>,
    request: Request<'g>,
    generation: Arc<Generation>,
    met: InlineList<Met>,
    once: Option<IdempotencyKey>,
    stops: Vec<Stop<GateQueue>>,
    last: Last,
}

impl<C: Clock> ToGate<'_, C> {
    /// Asks about the limiters that the request meets by now: other rules may be in force, and plans are looked up
    /// again.
    fn ask_now<T>(
        &self,
        ask: impl Fn(&Generation, &[Met], Option<IdempotencyKey>) -> Result<T, Moved>,
    ) -> (Arc<Generation>, InlineList<Met>, T) {
        let (generation, (met, told)) = self.gate.memory.ask(|generation| {
            if std::ptr::eq(generation, &*self.generation) && !generation.any_per_key() {
                return Ok((self.met.clone(), ask(generation, &self.met, self.once)?));
            }
            let met = self.gate.met(generation, &self.request);
            // What is remembered is known by the figures too.
            let once = self.gate.once(generation, &self.request, &met);
            let told = ask(generation, &met, once)?;
            Ok((met, told))
        });
        (generation.share(), met, told)
    }
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
        let first = self.met.get(stop.place)?;
        let (_, _, preview) = self.ask_now(|generation, met, _| {
            let same = met.iter().find(|met| met.is_of(first));
            same.map_or(Ok(None), |met| generation.preview(met, &self.gate.clock))
        });
        preview
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
        let (generation, met, done) = self.ask_now(|generation, met, once| {
            self.gate.step_at(generation, met, once, &self.gate.clock, step)
        });
        // By the places of the limiters that were met at first; one that is not met any more refuses nobody.
        let decided = |first| done.of(&met, first).cloned().unwrap_or_else(Decided::unlimited);
        let decisions = self.met.iter().map(decided).collect();
        let seen = Done { decisions, ..done };
        self.last.note(Stepped { generation: Kept::from(generation), met, done });
        seen
    }
}
