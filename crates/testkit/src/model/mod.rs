//! Naive models: one file per algorithm, each deciding from its definition.
//!
//! The trait `Meaning` (`meaning`) is the definition of an algorithm; [`Model`] adds the parts that all algorithms
//! share: the clock, the birth of a limiter (here), changes of a rule (`amend`, `eased`, `revised`), settlements
//! (`settled`, with `drained` and `mark` for levels), and waiting ([`Line`]).
//!
//! Times and units are `i128`, and levels are exact fractions. Counts by time keep their whole history, so a step
//! costs O(history). Only what the specification says is forgotten: by a reset, by a change of the rule's meaning,
//! by a clock that steps back, and limits that ended more than eight changes ago. Values are exact while `limit *
//! time` and `capacity * window` stay below 2^126, and reported values stop at `u64::MAX`.

mod amend;
mod closed;
mod concurrency;
mod drained;
mod eased;
mod expected;
mod fixed_window;
mod history;
mod leaky_bucket;
mod leaky_queue;
mod line;
mod mark;
mod meaning;
mod policy;
mod rate;
mod revised;
mod settled;
mod sliding_counter;
mod sliding_log;
mod sliding_window;
mod token_bucket;

pub use expected::Expected;
pub use line::{End, Line};
pub use policy::{AlgorithmKind, Policy};
pub use revised::Revised;
pub use settled::Settled;

use meaning::Meaning;
use {
    closed::Closed, concurrency::Concurrency, fixed_window::FixedWindow, leaky_bucket::LeakyBucket,
    leaky_queue::LeakyQueue, sliding_counter::SlidingCounter, sliding_log::SlidingLog,
    sliding_window::SlidingWindow, token_bucket::TokenBucket,
};

/// One limiter, decided naively.
///
/// Its clock is the `at_us` of each verb. A reading up to one window before the last unit taken
/// counts as the time of that unit. An earlier reading first moves the whole state back to the reading,
/// even in a verb that only looks.
#[derive(Clone, Debug)]
pub struct Model {
    policy: Policy,
    state: Option<Box<dyn Meaning>>,
    last: Option<i128>,
    /// Units taken before this time come back no more: the rule got another meaning, the clock stepped back, or a reset
    /// forgot them.
    lost: i128,
    /// The limits that were in force before.
    limits: drained::Limits,
    /// A level that a lower limit has *eased*: it counts as less, so that no caller waits long because of the change.
    eased: Option<eased::Eased>,
}

impl Model {
    /// A limiter that does not exist yet: its first [`step`](Self::step) creates it.
    pub fn new(policy: Policy) -> Self {
        Self {
            policy,
            state: None,
            last: None,
            lost: 0,
            limits: drained::Limits::default(),
            eased: None,
        }
    }

    /// The rule in force.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// Decides a request and, if it is allowed, charges `cost` units. A cost of 0 is always
    /// allowed.
    ///
    /// This creates the limiter with any outcome.
    pub fn step(&mut self, at_us: u64, cost: u64) -> Expected {
        let t = self.now(at_us);
        let behind = t - i128::from(at_us);
        self.born(t);
        let before = self.look(t, behind, cost);
        if !before.allowed || cost == 0 {
            return before;
        }
        self.charge(t, i128::from(cost));
        Expected { delay_us: before.delay_us, ..self.look(t, behind, 0) }
    }

    /// Decides a request to a limiter whose usage is reported. A cost of 0 asks for one unit and
    /// takes nothing; any other cost is taken, admitted or not, and the answer is the answer that a request of one unit
    /// would then get.
    ///
    /// This creates the limiter with any outcome.
    pub fn reported(&mut self, at_us: u64, cost: u64) -> Expected {
        let t = self.now(at_us);
        self.born(t);
        let taken = if self.policy.max_debt.is_some() { cost.min(self.space(t)) } else { cost };
        if taken > 0 {
            self.charge(t, i128::from(taken));
        }
        Expected { delay_us: 0, ..self.look(t, t - i128::from(at_us), 1) }
    }

    /// The answer to a request now, without taking anything: `remaining` and `reset_after_us` do
    /// not count `cost`.
    pub fn peek(&mut self, at_us: u64, cost: u64) -> Expected {
        let t = self.now(at_us);
        self.look(t, t - i128::from(at_us), cost)
    }

    /// Gives `units` back, at most as many as are used.
    pub fn refund(&mut self, at_us: u64, units: u64) {
        let t = self.now(at_us);
        let Some(state) = &mut self.state else { return };
        match &mut self.eased {
            Some(eased) => eased.refund(t, i128::from(units), state.as_mut()),
            None => state.refund(t, i128::from(units)),
        }
    }

    /// Ends a reservation: gives surplus units back, or takes the shortfall, even into debt. Permits come back as a
    /// whole; without a token, the permits that end first.
    pub fn settle(&mut self, at_us: u64, reserved: u64, actual: u64) {
        if self.policy.holds_permits() {
            return self.refund(at_us, reserved);
        }
        if actual <= reserved {
            return self.refund(at_us, reserved - actual);
        }
        let t = self.now(at_us);
        let taken = (actual - reserved).min(self.space(t));
        if taken > 0 {
            self.charge(t, i128::from(taken));
        } else {
            self.born(t);
        }
    }

    /// The time of the last unit, as it counts: a settlement names this time.
    pub fn last_us(&self) -> Option<u64> {
        self.last.map(expected::value)
    }

    /// The token of the permit that was taken last.
    pub fn token(&self) -> Option<u64> {
        self.state.as_ref()?.token()
    }

    /// Returns units of the permit with this token, if it is still out.
    pub fn return_permit(&mut self, at_us: u64, token: u64, units: u64) {
        let t = self.now(at_us);
        if let Some(state) = &mut self.state {
            state.return_permit(t, token, i128::from(units));
        }
    }

    /// Makes the permit with this token last W from now; returns whether it was still out.
    pub fn renew(&mut self, at_us: u64, token: u64) -> bool {
        let t = self.now(at_us);
        let renewed = self.state.as_mut().is_some_and(|state| state.renew(t, token));
        if renewed {
            self.last = Some(t);
        }
        renewed
    }

    /// Units used at this instant, rounded up.
    pub fn used(&mut self, at_us: u64) -> u64 {
        let t = self.now(at_us);
        expected::value(self.seen(t).used(t))
    }

    /// Resets the limiter: nothing counts as used. A bucket that begins with fewer tokens is full; any other limiter
    /// is as if it did not exist yet.
    pub fn reset(&mut self, at_us: u64) {
        let t = self.now(at_us);
        if self.state.is_some() && self.gone_us(at_us) > 0 {
            // Only if something was used: units that are still to be given back were taken by now.
            self.lose(t + 1);
        }
        self.forget();
        if fresh(&self.policy, t).used(t) > 0 {
            let at_us = expected::value(t);
            self.step(at_us, 0);
            self.refund(at_us, u64::MAX);
        }
    }

    /// Forgets the limiter, including its last time: the next step is a first step.
    pub fn forget(&mut self) {
        self.state = None;
        self.last = None;
        self.eased = None;
    }

    /// The limiter's own time for a reading of the clock: never before the last unit taken,
    /// which an early reading may move back (see [`Model`]).
    fn now(&mut self, at_us: u64) -> i128 {
        let t = i128::from(at_us);
        let Some(last) = self.last else { return t };
        if last - t <= self.policy.clock_window() {
            return t.max(last);
        }
        if let Some(state) = &mut self.state {
            state.move_back(last, t);
        }
        if let Some(eased) = &mut self.eased {
            eased.move_back(last, t);
        }
        // Only the present limit has been in force since the clock reads so.
        self.lose(last + 1);
        self.last = Some(t);
        t
    }

    /// The state as seen at `t`; a fresh one if there is none.
    fn seen(&self, t: i128) -> Box<dyn Meaning> {
        self.state.clone().unwrap_or_else(|| fresh(&self.policy, t))
    }

    fn look(&self, t: i128, behind: i128, cost: u64) -> Expected {
        Expected::look(self.seen(t).as_ref(), &self.policy, t, behind, cost)
    }

    /// The state, created at `t` if there is none. A bucket that starts part full counts as used at
    /// its creation, so that a clock that steps back before it makes no caller wait for it.
    fn born(&mut self, t: i128) -> &mut dyn Meaning {
        let (policy, last) = (&self.policy, &mut self.last);
        self.state
            .get_or_insert_with(|| {
                let state = fresh(policy, t);
                *last = (state.used(t) > 0).then_some(t);
                state
            })
            .as_mut()
    }

    /// Takes units, admitted or not.
    fn charge(&mut self, t: i128, units: i128) {
        // Before the new units, which would keep an eased level alive for ever.
        self.eased.take_if(|eased| eased.is_over(t));
        self.born(t).charge(t, units);
        if let Some(eased) = &mut self.eased {
            eased.whole().charge(t, units);
        }
        self.last = Some(t);
    }
}

/// The state of a fresh limiter at `t`.
fn fresh(policy: &Policy, t: i128) -> Box<dyn Meaning> {
    match policy.algorithm {
        _ if policy.window_us == 0 => Box::new(Closed::fresh()),
        AlgorithmKind::FixedWindow => Box::new(FixedWindow::fresh(policy)),
        AlgorithmKind::SlidingWindow => Box::new(SlidingWindow::fresh(policy)),
        AlgorithmKind::SlidingCounter => Box::new(SlidingCounter::fresh(policy)),
        AlgorithmKind::SlidingLog => Box::new(SlidingLog::fresh(policy)),
        AlgorithmKind::TokenBucket => Box::new(TokenBucket::fresh(policy, t)),
        AlgorithmKind::LeakyBucket => Box::new(LeakyBucket::fresh(policy)),
        AlgorithmKind::LeakyQueue => Box::new(LeakyQueue::fresh(policy)),
        AlgorithmKind::Concurrency => Box::new(Concurrency::fresh(policy)),
    }
}
