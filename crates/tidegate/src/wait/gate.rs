//! Waiting at a gate, where a request may meet several limiters.

use tidegate_core::Micros;

use super::door::{Door, Patience, Stop, step_behind};
use super::drive::{wait, wait_blocking, wait_in_line};
use super::lines::{LineKey, Lines};
use crate::answer::Answer;
use crate::clock::{Clock, Park, Timer};
use crate::few::Few;
use crate::gate::{Gate, Met};
use crate::key::Fingerprint;
use crate::request::Request;
use crate::rules::OnExcess;
use crate::store::memory::{Ahead, Done, Step};

/// Which limiter a line of a gate stands before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct GateLine {
    rule: usize,
    variant: usize,
    print: Fingerprint,
}

impl LineKey for GateLine {
    const COUNTS: usize = 256;

    fn spread(&self) -> usize {
        self.print.spread().wrapping_add(self.rule)
    }
}

/// All lines of a gate.
pub(crate) type GateLines = Lines<GateLine>;

impl<C: Clock> Gate<C> {
    /// How many of those who wait would have to go before this request.
    #[must_use]
    pub fn waiting(&self, request: &Request<'_>) -> usize {
        let lines = self.met(request).into_iter().map(|met| line_of(&met));
        lines.map(|line| self.lines.len(&line)).sum()
    }

    /// Decides a request as [`Gate::check_in_turn`] does, if that takes no waiting: `None`, and nothing
    /// is taken or counted, where it is refused now by a rule that may let it wait. For who answers many
    /// one after another, and would rather not make a task of each.
    ///
    /// ```
    /// use tidegate::{Algorithm, Descriptor, Gate, Micros, OnExcess, Policy, Request, RuleSpec, Spec};
    ///
    /// let hour = Micros::from_secs(3_600);
    /// let spec = Spec::new(Algorithm::TokenBucket, 1, hour);
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
        let waits = |met: &Met| can_refuse(met) && !self.patience(met, longest).wait.is_zero();
        if !done.allowed && met.iter().any(waits) {
            return None;
        }
        Some(self.conclude(request, &met, done))
    }

    /// A step of one who does not wait, while others do.
    #[cold]
    pub(crate) fn step_behind(&self, met: Few<Met>, step: Step) -> (Few<Met>, Done) {
        let door = self.door(met, Micros::ZERO);
        let done = step_behind(&door, step);
        (door.met, done)
    }

    /// Wakes who waits first for one of these limiters: there may be units for them.
    pub(crate) fn stir(&self, met: &[Met]) {
        met.iter().for_each(|met| self.lines.stir(&line_of(met)));
    }

    /// The way to these limiters for a request that may wait for so long where their rules let it.
    fn door(&self, met: Few<Met>, max_wait: Micros) -> ToGate<'_, C> {
        let all = met.iter().enumerate().filter(|(_, met)| can_refuse(met));
        let stops = all.map(|(place, met)| Stop {
            line: line_of(met),
            cost: met.cost,
            patience: self.patience(met, max_wait),
            place,
        });
        ToGate { gate: self, stops: stops.collect(), met }
    }

    /// How long a rule lets a request wait that is too much for it.
    fn patience(&self, met: &Met, max_wait: Micros) -> Patience {
        match self.policy().rules().get(met.rule).map(|rule| rule.spec().on_excess) {
            Some(OnExcess::Wait { wait, max_waiters }) => {
                Patience { wait: wait.min(max_wait), max_waiters }
            }
            Some(OnExcess::Reject) | None => Patience { wait: Micros::ZERO, max_waiters: 0 },
        }
    }
}

impl<C: Timer> Gate<C> {
    /// Decides a request like [`Gate::check`], but lets it wait where the rules that would refuse it
    /// say so ([`OnExcess`]), and resolves when the work may run.
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
    /// use tidegate::{Algorithm, Descriptor, Gate, ManualClock, Micros, Policy, Request, RuleSpec, Spec};
    /// use tidegate::OnExcess;
    ///
    /// let wait = OnExcess::Wait { wait: Micros::from_secs(2), max_waiters: 100 };
    /// let spec = Spec::new(Algorithm::TokenBucket, 1, Micros::from_secs(1));
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
        let met = self.met(request);
        let done = match self.banned(&met, self.clock()) {
            Some(done) => done,
            None => wait(self.door(met.clone(), request.longest_wait()), self.clock()).await,
        };
        self.conclude(request, &met, done)
    }

    /// The same as [`Gate::acquire`], but resolves as soon as the request is admitted: a `delay` is told
    /// and not waited for. For who decides on behalf of others, and hands the answer on.
    pub async fn check_in_turn(&self, request: &Request<'_>) -> Answer<'_> {
        match self.check_unless_waiting(request) {
            Some(answer) => answer,
            None => self.wait_in_turn(request).await,
        }
    }

    async fn wait_in_turn(&self, request: &Request<'_>) -> Answer<'_> {
        let met = self.met(request);
        let done = match self.banned(&met, self.clock()) {
            Some(done) => done,
            None => {
                wait_in_line(self.door(met.clone(), request.longest_wait()), self.clock()).await
            }
        };
        self.conclude(request, &met, done)
    }
}

impl<C: Park> Gate<C> {
    /// What [`Gate::acquire`] does, by blocking the thread.
    pub fn acquire_blocking(&self, request: &Request<'_>) -> Answer<'_> {
        let met = self.met(request);
        let done = match self.banned(&met, self.clock()) {
            Some(done) => done,
            None => wait_blocking(self.door(met.clone(), request.longest_wait()), self.clock()),
        };
        self.conclude(request, &met, done)
    }
}

/// Whether a limiter may refuse the request, and so have it wait.
const fn can_refuse(met: &Met) -> bool {
    met.enforced && met.cost > 0
}

const fn line_of(met: &Met) -> GateLine {
    GateLine { rule: met.rule, variant: met.variant, print: met.print }
}

/// The limiters of a gate that one request meets.
#[derive(Debug)]
struct ToGate<'g, C> {
    gate: &'g Gate<C>,
    met: Few<Met>,
    stops: Vec<Stop<GateLine>>,
}

impl<C: Clock> Door for ToGate<'_, C> {
    type Line = GateLine;

    fn lines(&self) -> &GateLines {
        &self.gate.lines
    }

    fn stops(&self) -> &[Stop<GateLine>] {
        &self.stops
    }

    fn step(&self, step: Step) -> Done {
        self.gate.step_now(&self.met, step)
    }

    fn ahead(&self, stop: &Stop<GateLine>) -> Option<Box<dyn Ahead>> {
        self.gate.look_ahead(self.met.get(stop.place)?)
    }

    fn delay(&self, done: &Done) -> Micros {
        let decisions = self.met.iter().zip(&done.decisions).filter(|(met, _)| met.enforced);
        decisions.map(|(_, decided)| decided.decision.delay()).max().unwrap_or_default()
    }

    fn delay_is_waiting(&self) -> bool {
        false
    }
}
