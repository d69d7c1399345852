//! A limiter of any algorithm with the verbs of the models, so that the two can be compared.
#![allow(
    unreachable_pub,
    dead_code,
    clippy::expect_used,
    clippy::panic,
    reason = "each test uses its part, and fails by panicking"
)]

#[path = "../../../tidegate/tests/common/words.rs"]
mod words;

use std::any::Any;

use testkit::cases::Verb;
use testkit::model::{Expected, Policy};
use tidegate_core::{
    Algorithm, Held, Rule, RuleErrors, Settled, Settlement, Since, Timestamp, Token, Visitor,
};
pub use words::{expected, spec_of};

/// The verbs that a test uses, for any algorithm.
pub trait Limiter {
    fn step(&mut self, at_us: u64, cost: u64) -> Expected;
    fn peek(&mut self, at_us: u64, cost: u64) -> Expected;
    fn refund(&mut self, at_us: u64, units: u64);
    fn settle(&mut self, at_us: u64, reserved: u64, actual: u64);
    /// Decides; a reservation holds the admitted units. Also returns when they were taken.
    fn reserve(&mut self, at_us: u64, cost: u64) -> (Expected, u64);
    fn settle_since(&mut self, at_us: u64, since_us: u64, reserved: u64, actual: u64) -> Settled;
    fn exists(&self) -> bool;
    /// Resets as a store does, and remembers that.
    fn reset_at(&mut self, at_us: u64);
    /// Settles the units of the permit with this token.
    fn return_permit(&mut self, at_us: u64, token: u64, units: u64);
    fn renew(&mut self, at_us: u64, token: u64) -> bool;
    /// Decides; returns the token of the permit that was taken, if one was.
    fn token_of(&mut self, at_us: u64, cost: u64) -> Option<u64>;
    fn amend(self: Box<Self>, at_us: u64, policy: &Policy) -> Box<dyn Limiter>;
    fn reset(&mut self);
    /// Drops the state if that would change nothing; returns whether it did.
    fn forget_if_new(&mut self, at_us: u64) -> bool;
    fn bound(&self, largest_cost: u64) -> u64;
}

/// The limiter of a policy, which does not exist yet.
pub fn limiter(policy: &Policy) -> Box<dyn Limiter> {
    let rule = rule(policy).unwrap_or_else(|errors| panic!("{policy:?}: {errors}"));
    rule.visit(New).expect("no policy of the models is unlimited")
}

/// The rule of a policy, or what is wrong with it.
pub fn rule(policy: &Policy) -> Result<Rule, RuleErrors> {
    let mut spec = spec_of(policy);
    spec.window = spec.window.filter(|window| !window.is_zero());
    Rule::new(spec)
}

/// Runs a verb of a case table; returns the decision if the verb has one.
pub fn run(
    mut limiter: Box<dyn Limiter>,
    policy: &mut Policy,
    at_us: u64,
    verb: &Verb,
) -> (Box<dyn Limiter>, Option<Expected>) {
    let decision = match verb {
        Verb::Ask(cost) => Some(limiter.step(at_us, *cost)),
        Verb::Peek(cost) => Some(limiter.peek(at_us, *cost)),
        Verb::Refund(units) => {
            limiter.refund(at_us, *units);
            None
        }
        Verb::Settle { reserved, actual } => {
            limiter.settle(at_us, *reserved, *actual);
            None
        }
        Verb::Return { units, token } => {
            limiter.return_permit(at_us, *token, *units);
            None
        }
        Verb::Renew { token } => {
            limiter.renew(at_us, *token);
            None
        }
        Verb::Reset => {
            limiter.reset();
            None
        }
        Verb::Amend(fields) => {
            policy.apply_fields(fields).expect("fields of a rule");
            return (limiter.amend(at_us, policy), None);
        }
    };
    (limiter, decision)
}

struct Of<R: Algorithm> {
    algorithm: R,
    slot: Option<R::State>,
}

struct New;

impl Visitor for New {
    type Out = Box<dyn Limiter>;

    fn visit<R: Algorithm>(self, algorithm: &R) -> Self::Out {
        Box::new(Of { algorithm: algorithm.clone(), slot: None })
    }
}

/// Carries the state of an `Old` over to the rule that is visited.
struct CarryOver<Old: Algorithm> {
    old: Old,
    slot: Option<Old::State>,
    at: Timestamp,
}

impl<Old: Algorithm> Visitor for CarryOver<Old> {
    type Out = Box<dyn Limiter>;

    fn visit<R: Algorithm>(self, algorithm: &R) -> Self::Out {
        let mut next = Of { algorithm: algorithm.clone(), slot: None };
        let Some(state) = self.slot else {
            return Box::new(next);
        };
        let (old, state): (&dyn Any, &dyn Any) = (&self.old, &state);
        match (old.downcast_ref::<R>(), state.downcast_ref::<R::State>()) {
            (Some(old), Some(state)) => {
                next.slot = Some(state.clone());
                Held::new(&next.algorithm, &mut next.slot, 0).amend(self.at, old);
            }
            _ => {
                let state = state.downcast_ref::<Old::State>().expect("its own type").clone();
                Held::new(&next.algorithm, &mut next.slot, 0).carry_over(self.at, &self.old, state);
            }
        }
        Box::new(next)
    }
}

impl<R: Algorithm> Of<R> {
    fn held(&mut self, cost: u64) -> Held<'_, R> {
        Held::new(&self.algorithm, &mut self.slot, cost)
    }
}

impl<R: Algorithm> Limiter for Of<R> {
    fn step(&mut self, at_us: u64, cost: u64) -> Expected {
        let mut held = self.held(cost);
        let _ = held.ask(Timestamp::from_micros(at_us));
        expected(&held.report())
    }

    fn peek(&mut self, at_us: u64, cost: u64) -> Expected {
        expected(&self.held(cost).peek(Timestamp::from_micros(at_us)))
    }

    fn refund(&mut self, at_us: u64, units: u64) {
        self.held(units).refund(Timestamp::from_micros(at_us));
    }

    fn settle(&mut self, at_us: u64, reserved: u64, actual: u64) {
        let settlement = Settlement { reserved, actual, ..Settlement::default() };
        let _ = self.held(0).settle(Timestamp::from_micros(at_us), settlement);
    }

    fn reserve(&mut self, at_us: u64, cost: u64) -> (Expected, u64) {
        let mut held = self.held(cost);
        let _ = held.ask(Timestamp::from_micros(at_us));
        held.open();
        (expected(&held.report()), held.at().as_micros())
    }

    fn settle_since(&mut self, at_us: u64, since_us: u64, reserved: u64, actual: u64) -> Settled {
        let since = Some(Since::at(Timestamp::from_micros(since_us)).of_reservation());
        let settlement = Settlement { token: None, since, reserved, actual };
        self.held(0).settle(Timestamp::from_micros(at_us), settlement)
    }

    fn exists(&self) -> bool {
        self.slot.is_some()
    }

    fn reset_at(&mut self, at_us: u64) {
        self.held(0).reset(Timestamp::from_micros(at_us), true);
    }

    fn return_permit(&mut self, at_us: u64, token: u64, units: u64) {
        let token = Token::from_micros(token);
        let settlement = Settlement { token, since: None, reserved: units, actual: units / 2 };
        let _ = self.held(0).settle(Timestamp::from_micros(at_us), settlement);
    }

    fn renew(&mut self, at_us: u64, token: u64) -> bool {
        let token = Token::from_micros(token);
        token.is_some_and(|token| self.held(0).renew(Timestamp::from_micros(at_us), token))
    }

    fn token_of(&mut self, at_us: u64, cost: u64) -> Option<u64> {
        let mut held = self.held(cost);
        let _ = held.ask(Timestamp::from_micros(at_us));
        held.token().map(Token::as_micros)
    }

    fn amend(self: Box<Self>, at_us: u64, policy: &Policy) -> Box<dyn Limiter> {
        let carry =
            CarryOver { old: self.algorithm, slot: self.slot, at: Timestamp::from_micros(at_us) };
        rule(policy).expect("a sound policy").visit(carry).expect("limited")
    }

    fn reset(&mut self) {
        self.slot = None;
    }

    fn forget_if_new(&mut self, at_us: u64) -> bool {
        let at = Timestamp::from_micros(at_us);
        let forget = self.slot.as_ref().is_some_and(|state| self.algorithm.is_unused(state, at));
        if forget {
            self.slot = None;
        }
        forget
    }

    fn bound(&self, largest_cost: u64) -> u64 {
        self.algorithm.bound(largest_cost)
    }
}
