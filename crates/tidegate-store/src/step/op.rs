//! The operations of a step, and how each runs on one limiter, over the verbs of the core.

use tidegate_core::{
    Algorithm, Held, Rates, Settled, Settlement, Since, Timestamp, Token, Verdict,
};

use super::reply::{Decided, One, TakenUnits, without_values};

/// The operation on the limiters of a request. Each but [`Step::Decide`] returns the values of the
/// decisions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
// A tag by itself: each decision reads it, and need not compute it from a field.
#[repr(u8)]
pub enum Step {
    /// Decides and takes; returns only the verdict.
    Decide,
    /// Decides and takes.
    Ask,
    /// Decides and takes, for a reservation that is settled later.
    Reserve,
    /// Decides and takes nothing.
    Peek,
    /// Decides like [`Step::Ask`] and takes nothing, for a limiter whose usage is reported.
    AskReported,
    /// Takes reported usage, even into debt, and decides about one unit more.
    Report,
    /// Gives units back.
    Refund,
    /// Settles a cost that was taken: gives the surplus over `actual` back, or takes the rest, even
    /// into debt.
    Settle {
        /// The actual cost of the request.
        actual: u64,
        /// The token of the permit, if the cost took one.
        token: Option<Token>,
        /// When the cost was taken, if the caller knows: units that do not count any more do not come back.
        since: Option<Since>,
    },
    /// Resets the limiter: nothing counts as used.
    Reset {
        /// True if nothing comes back that was taken until now. Only a limiter that gives nothing back need not
        /// remember the reset.
        remembers: bool,
    },
    /// Makes a permit last W from now; denied if it is out no more.
    Renew {
        /// Its token.
        token: Option<Token>,
    },
}

impl Step {
    /// Returns whether this step creates a limiter that does not exist yet.
    #[inline]
    pub const fn begins(self, cost: u64) -> bool {
        match self {
            Self::Decide | Self::Ask | Self::Reserve | Self::AskReported => true,
            Self::Peek | Self::Refund | Self::Renew { .. } | Self::Reset { .. } => false,
            Self::Report => cost > 0,
            Self::Settle { actual, .. } => actual > cost,
        }
    }

    /// Returns whether it may leave units in use, for which there must be room.
    #[inline]
    pub const fn takes(self, cost: u64) -> bool {
        match self {
            // It takes only if the work cost more than was reserved.
            Self::Settle { .. } => self.begins(cost),
            Self::AskReported => false,
            _ => self.begins(cost) && cost > 0,
        }
    }

    /// Returns whether it needs memory for one unit more. A step that only looks is treated like a step that takes.
    #[inline]
    pub const fn grows(self, cost: u64) -> bool {
        matches!(self, Self::Peek | Self::AskReported) && cost > 0 || self.takes(cost)
    }

    /// Returns whether the step puts another rule in force: true for steps that take or give back and for
    /// [`Step::AskReported`], never for [`Step::Peek`].
    #[inline]
    pub const fn changes_rule(self, cost: u64) -> bool {
        self.gives_back() || self.takes(cost) || matches!(self, Self::AskReported)
    }

    /// Returns whether it takes its units only if all limiters of its request admit theirs.
    #[inline]
    pub const fn takes_if_all_admit(self) -> bool {
        matches!(self, Self::Decide | Self::Ask | Self::Reserve)
    }

    /// Returns whether it may have changed the state of a limiter that returned this verdict.
    #[inline]
    pub const fn changes(self, verdict: Verdict, cost: u64) -> bool {
        match self {
            Self::Decide | Self::Ask | Self::Reserve => verdict.is_allowed() && cost > 0,
            Self::Peek | Self::AskReported => false,
            Self::Report
            | Self::Refund
            | Self::Settle { .. }
            | Self::Renew { .. }
            | Self::Reset { .. } => true,
        }
    }

    /// Returns whether it depends on what a table knows of its rule ([`Step::dated`]).
    #[inline]
    pub const fn is_dated(self) -> bool {
        matches!(self, Self::Settle { since: Some(_), .. })
    }

    /// Returns the step on a limiter whose rule has had its meaning since that time, and these limits.
    #[inline]
    pub fn dated(self, meaning_since: Timestamp, rates: &Rates) -> Self {
        match self {
            Self::Settle { actual, token, since: Some(since) } => {
                let since = Some(since.under(rates));
                Self::Settle { actual, token, since }.on_limiter_since(meaning_since)
            }
            step => step,
        }
    }

    /// Returns the step on a limiter that gives back no units taken before `began`.
    #[inline]
    pub fn on_limiter_since(self, began: Timestamp) -> Self {
        match self {
            Self::Settle { actual, token, since: Some(since) } if since.at < began => {
                Self::Settle { actual, token, since: Some(since.of_other_rule()) }
            }
            step => step,
        }
    }

    /// Returns whether it may leave a state that is too large for a packed state: a debt, an open reservation, or a
    /// reset.
    #[inline]
    pub const fn may_not_fit(self, cost: u64) -> bool {
        match self {
            Self::Settle { .. } | Self::Report | Self::Reserve => self.takes(cost),
            Self::Reset { .. } => true,
            _ => false,
        }
    }

    /// The step that runs under a rule without a limit, on a limiter that had one before: it takes nothing more.
    #[inline]
    pub fn without_limit(self, cost: u64) -> Option<Self> {
        match self {
            Self::Settle { actual, token, since } => {
                Some(Self::Settle { actual: actual.min(cost), token, since })
            }
            Self::Reset { .. } => Some(self),
            _ => None,
        }
    }

    /// The step, and its cost, that runs on the overflow limiter for a key without a limiter of its own. It gives
    /// nothing back, because it is not known whether the units were taken there.
    #[inline]
    pub const fn beyond(self, cost: u64) -> (Self, u64) {
        match self {
            Self::Refund | Self::Reset { .. } => (Self::Peek, 0),
            Self::Settle { .. } if !self.takes(cost) => (Self::Peek, 0),
            other => (other, cost),
        }
    }

    /// The units that the decision of this step is about: none if it settles or gives back.
    #[inline]
    pub const fn asked(self, cost: u64) -> u64 {
        match self {
            Self::Refund | Self::Settle { .. } => 0,
            _ => cost,
        }
    }

    /// Returns whether it never refuses: it gives back or takes whatever the limiter holds.
    #[inline]
    pub const fn is_unconditional(self) -> bool {
        matches!(self, Self::Refund | Self::Settle { .. } | Self::Report | Self::Reset { .. })
    }

    /// Returns whether it may free units, or asks for none.
    #[inline]
    pub const fn gives_back(self) -> bool {
        matches!(self, Self::Refund | Self::Settle { .. } | Self::Renew { .. } | Self::Reset { .. })
    }

    /// Returns whether it returns the values of the decisions.
    #[inline]
    pub const fn wants_values(self) -> bool {
        !matches!(self, Self::Decide)
    }

    /// Runs the step on one locked limiter, at `now`; [`Step::changes`] says whether it changed the state.
    #[inline]
    pub fn run<R: Algorithm>(
        self,
        algorithm: &R,
        slot: &mut Option<R::State>,
        cost: u64,
        now: Timestamp,
    ) -> One {
        self.run_held(Held::new(algorithm, slot, cost), cost, now)
    }

    /// Runs the step on a limiter without memory to grow.
    pub fn run_in_place<R: Algorithm>(
        self,
        algorithm: &R,
        slot: &mut Option<R::State>,
        cost: u64,
        now: Timestamp,
    ) -> One {
        let one = self.run_held(Held::new(algorithm, slot, cost).in_place(), cost, now);
        one.by_overflow(false)
    }

    #[inline]
    fn run_held<R: Algorithm>(self, mut held: Held<'_, R>, cost: u64, now: Timestamp) -> One {
        let mut settled = Settled::Whole;
        let verdict = match self {
            // `ask` is called in one place, so that the compiler inlines it.
            Self::Decide | Self::Ask | Self::Reserve => {
                let verdict = held.ask(now);
                if matches!(self, Self::Reserve) {
                    held.open();
                }
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
        let taken = TakenUnits { token: held.token(), since: Some(held.at()) };
        let decided = Decided { taken, settled, ..Decided::of(decision, false, false) };
        One { verdict, at: now, decided }
    }
}
