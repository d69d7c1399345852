//! A step on one limiter, over the verbs of the core.

use tidegate_core::{
    Algorithm, Decision, Held, Settled, Settlement, Timestamp, Verbs as _, Verdict,
};

use super::{One, Step, without_values};

impl Step {
    /// Runs the step on one locked limiter, at `now`; [`Step::changes`] says whether it changed the state.
    #[inline]
    pub(crate) fn run<R: Algorithm>(
        self,
        algorithm: &R,
        slot: &mut Option<R::State>,
        cost: u64,
        now: Timestamp,
    ) -> One {
        self.run_held(Held::new(algorithm, slot, cost), cost, now)
    }

    /// Runs the step on a limiter without memory to grow.
    pub(crate) fn run_in_place<R: Algorithm>(
        self,
        algorithm: &R,
        slot: &mut Option<R::State>,
        cost: u64,
        now: Timestamp,
    ) -> One {
        let one = self.run_held(Held::new(algorithm, slot, cost).in_place(), cost, now);
        One { overflow: true, ..one }
    }

    #[inline]
    fn run_held<R: Algorithm>(self, mut held: Held<'_, R>, cost: u64, now: Timestamp) -> One {
        let mut settled = Settled::Whole;
        let verdict = match self {
            Self::Decide | Self::Ask => held.ask(now),
            Self::Reserve => {
                let verdict = held.ask(now);
                held.open();
                verdict
            }
            Self::Peek | Self::AskReported => {
                held.advance(now);
                held.decide()
            }
            Self::Report => {
                settled = held.take_reported(now);
                // Usage of 0 has not advanced the state.
                held.advance(now);
                held.decide()
            }
            Self::Refund => {
                held.advance(now);
                held.give_back();
                held.decide()
            }
            Self::Settle { actual, token, since } => {
                settled = held.settle(now, Settlement { token, since, reserved: cost, actual });
                // A settlement without a limiter has advanced nothing.
                held.advance(now);
                held.decide()
            }
            Self::Reset { remembers } => {
                held.reset(now, remembers);
                Verdict::Allow
            }
            Self::Renew { token } => {
                // Units without a permit need no renewal.
                let is_out = token.is_none_or(|token| held.renew(now, token));
                held.advance(now);
                if is_out { Verdict::Allow } else { Verdict::Deny }
            }
        };
        let decision = if self.wants_values() { held.report() } else { without_values(verdict) };
        let token = held.token();
        let since = Some(held.at());
        One { token, since, settled, ..One::of(verdict, decision, now) }
    }
}

impl One {
    /// The reply to a key without room, whose own limiter does not decide.
    pub(crate) fn instead(decision: Decision, at: Timestamp) -> Self {
        let one = Self::of(decision.verdict(), decision, at);
        Self { overflow: true, elsewhere: true, ..one }
    }
}
