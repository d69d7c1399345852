//! The core itself as what the scripts are held to, a limiter that is idle forgotten whenever
//! something was written.

use std::any::Any;
use std::time::Duration;

use tidegate::script::ScriptStep;
use tidegate::{Decision, Micros, Rule, Timestamp};
use tidegate_core::{Algorithm, Held, Past, Settlement, Visitor};

/// A limiter of any algorithm.
pub trait Limiter {
    /// One step; its decision, and whether the request goes on.
    fn step(&mut self, step: ScriptStep, at: Timestamp, cost: u64, actual: u64)
    -> (bool, Decision);
    /// A look at a limiter whose usage is reported: one unit is decided about, and none taken.
    fn look(&mut self, at: Timestamp) -> (bool, Decision);
    /// The time until nothing is used, if no request comes; the limiter is left as it is.
    fn reset_after(&self, at: Timestamp) -> Duration;
    /// The time until nothing counts any more of what a change of the rule has eased.
    fn eased_for(&self, at: Timestamp) -> Duration;
    /// The same limiter under another rule from `at` on.
    fn amend(self: Box<Self>, at: Timestamp, rule: &Rule) -> Box<dyn Limiter>;
    fn reset(&mut self);
    /// Takes a lease; returns its end.
    fn lease(&mut self, at: Timestamp, units: u64, life: Micros) -> Option<Timestamp>;
    /// Gives back units of a lease; returns whether they counted still.
    fn give_back_lease(&mut self, at: Timestamp, units: u64, since: Timestamp) -> bool;
}

/// The limiter of a rule, not begun yet.
pub fn limiter(rule: &Rule) -> Box<dyn Limiter> {
    rule.visit(New).expect("a limit")
}

struct Of<R: Algorithm> {
    algorithm: R,
    slot: Option<R::State>,
    /// It was carried over from another rule, which is written with the next step.
    amended: bool,
    /// The memory next to a limiter that is not kept.
    bar: Option<Past>,
}

struct New;

impl Visitor for New {
    type Out = Box<dyn Limiter>;

    fn visit<R: Algorithm>(self, algorithm: &R) -> Self::Out {
        Box::new(Of { algorithm: algorithm.clone(), slot: None, amended: false, bar: None })
    }
}

struct CarryOver<Old: Algorithm> {
    old: Old,
    slot: Option<Old::State>,
    at: Timestamp,
}

impl<Old: Algorithm> Visitor for CarryOver<Old> {
    type Out = Box<dyn Limiter>;

    fn visit<R: Algorithm>(self, algorithm: &R) -> Self::Out {
        let mut next = Of { algorithm: algorithm.clone(), slot: None, amended: false, bar: None };
        let Some(state) = self.slot else { return Box::new(next) };
        let (old, known): (&dyn Any, &dyn Any) = (&self.old, &state);
        match (old.downcast_ref::<R>(), known.downcast_ref::<R::State>()) {
            (Some(old), Some(state)) => {
                next.slot = Some(state.clone());
                Held::new(&next.algorithm, &mut next.slot, 0).amend(self.at, old);
            }
            _ => {
                Held::new(&next.algorithm, &mut next.slot, 0).carry_over(self.at, &self.old, state)
            }
        }
        next.amended = next.slot.is_some();
        Box::new(next)
    }
}

impl<R: Algorithm> Of<R> {
    /// Returns whether the state must move with the clock.
    fn moves(&self, at: Timestamp) -> bool {
        self.slot
            .as_ref()
            .is_some_and(|state| self.algorithm.last(state).since(at) > self.algorithm.window())
    }
}

impl<R: Algorithm> Of<R> {
    /// Drops a state that was written and is idle.
    fn written(&mut self, at: Timestamp, wrote: bool) {
        let at = self.slot.as_mut().map_or(at, |state| self.algorithm.advance(state, at));
        if let Some(state) = &mut self.slot
            && let Some(past) = self.algorithm.past_mut(state)
            && let Some(bar) = self.bar.take()
        {
            *past = bar;
        }
        let is_gone = |state: &R::State| {
            let eased = self.algorithm.past(state).map_or(Timestamp::EPOCH, Past::eased_until);
            self.algorithm.is_unused(state, at) && eased <= at
        };
        if wrote && self.slot.as_ref().is_some_and(is_gone) {
            let past = self.slot.as_ref().and_then(|state| self.algorithm.past(state));
            self.bar = past.cloned();
            self.slot = None;
        }
        if wrote || self.slot.is_none() {
            self.amended = false;
        }
    }
}

impl<R: Algorithm> Limiter for Of<R> {
    fn step(
        &mut self,
        step: ScriptStep,
        at: Timestamp,
        cost: u64,
        actual: u64,
    ) -> (bool, Decision) {
        let begins = self.slot.is_none();
        let moves = self.moves(at) || self.amended;
        let mut held = Held::new(&self.algorithm, &mut self.slot, cost);
        let (decision, wrote) = match step {
            ScriptStep::Ask | ScriptStep::Decide => {
                let takes = held.ask(at).is_allowed() && cost > 0;
                (held.report(), takes || moves || begins)
            }
            ScriptStep::Peek => (held.peek(at), moves),
            ScriptStep::Report | ScriptStep::ReportWithin => {
                held.take_reported(at);
                held.advance(at);
                let _ = held.decide();
                let decision = held.report();
                if begins && cost == 0 {
                    self.slot = None;
                }
                (decision, moves || cost > 0)
            }
            ScriptStep::Undo | ScriptStep::Lease | ScriptStep::Renew => {
                panic!("leases and permits have verbs and tokens of their own")
            }
            ScriptStep::Settle => {
                let settled =
                    held.settle(at, Settlement { reserved: cost, actual, ..Settlement::default() });
                // Units that are cut off are not taken.
                let actual = actual - settled.cut_units();
                let began = actual > cost && !R::HOLDS_PERMITS;
                let wrote = if R::HOLDS_PERMITS { cost > 0 } else { cost != actual };
                let mut held = Held::new(&self.algorithm, &mut self.slot, 0);
                held.advance(at);
                let decision = held.report();
                if begins && !began {
                    self.slot = None;
                }
                (decision, moves || wrote)
            }
        };
        self.written(at, wrote);
        (decision.is_allowed(), decision)
    }

    fn look(&mut self, at: Timestamp) -> (bool, Decision) {
        let wrote = self.moves(at) || self.amended || self.slot.is_none();
        let mut held = Held::new(&self.algorithm, &mut self.slot, 1);
        held.advance(at);
        let _ = held.decide();
        let decision = held.report();
        self.written(at, wrote);
        (decision.is_allowed(), decision)
    }

    fn reset_after(&self, at: Timestamp) -> Duration {
        Held::new(&self.algorithm, &mut self.slot.clone(), 0).peek(at).reset_after()
    }

    fn eased_for(&self, at: Timestamp) -> Duration {
        let past = self.slot.as_ref().and_then(|state| self.algorithm.past(state));
        past.map_or(Duration::ZERO, |past| past.eased_until().since(at).into())
    }

    fn amend(self: Box<Self>, at: Timestamp, rule: &Rule) -> Box<dyn Limiter> {
        rule.visit(CarryOver { old: self.algorithm, slot: self.slot, at }).expect("a limit")
    }

    fn reset(&mut self) {
        self.slot = None;
    }

    fn lease(&mut self, at: Timestamp, units: u64, life: Micros) -> Option<Timestamp> {
        let (begins, moves) = (self.slot.is_none(), self.moves(at));
        let end = Held::new(&self.algorithm, &mut self.slot, units).lease(at, life);
        if begins && end.is_none() {
            self.slot = None;
        }
        self.written(at, moves || end.is_some());
        end
    }

    fn give_back_lease(&mut self, at: Timestamp, units: u64, since: Timestamp) -> bool {
        let moves = self.moves(at);
        let returned = Held::new(&self.algorithm, &mut self.slot, units).give_back_lease(at, since);
        self.written(at, moves || returned > 0);
        returned > 0
    }
}
