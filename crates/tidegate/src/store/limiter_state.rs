//! The state of one limiter of any algorithm, for a store of your own.
//!
//! Such a store keeps a [`LimiterState`] for each key, turns each ask into a [`LimiterStep`], and runs it where the
//! state lives. The code is the code of the gate in memory, so that both decide alike.

use tidegate_core::{Rule, Timestamp, Token};

use super::{KeyAsk, LimiterReply, StepArgs, Verb};
use crate::step::{Step, TakenUnits, without_values};
use crate::store::memory::Single;

/// The state of one limiter of any algorithm. A store of your own may keep one for each key.
///
/// A step runs under a [`Rule`]. Another process makes it with [`Rule::new`] of the fields of [`Rule::spec`], which are all
/// that a rule consists of. The checks of `tidegate::kit` use each field that changes a decision, and so find such a
/// field that is not sent.
///
/// ```
/// use tidegate::store::{LimiterState, LimiterStep, Verb};
/// use tidegate::{Rule, Spec, Timestamp};
///
/// let rule = Rule::new("2/s".parse::<Spec>()?)?;
/// let (mut state, now) = (LimiterState::default(), Timestamp::from_micros(1_000_000));
/// let ask = LimiterStep::new(Verb::Ask, 1);
/// assert!(state.step(&rule, ask, now).decision().is_allowed());
/// assert!(state.step(&rule, ask, now).decision().is_allowed());
/// assert!(!state.step(&rule, ask, now).decision().is_allowed());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct LimiterState(Single);

/// The part of a step for a single limiter: plain values, which can be sent to another process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LimiterStep {
    /// The operation on the limiter.
    pub verb: Verb,
    /// Units to take, or that were taken and are settled.
    pub cost: u64,
    /// Units to decide about: the cost, or 1 if usage is reported.
    pub asks: u64,
    /// The units that the request turned out to cost, for [`Verb::Settle`].
    pub actual: u64,
    /// True if usage is reported: it is taken also into debt.
    pub is_report: bool,
    /// True if the cost is reserved, to be settled later, or was reserved and is settled now.
    pub reserves: bool,
    /// The token of the permit to return or to renew.
    pub token: Option<Token>,
    /// When the units were taken that come back, if that is known.
    pub since: Option<Timestamp>,
    /// True if the step takes nothing, because another limiter refuses the request.
    pub looks: bool,
}

impl LimiterStep {
    /// A step of so many units.
    #[must_use]
    pub const fn new(verb: Verb, cost: u64) -> Self {
        Self {
            verb,
            cost,
            asks: cost,
            actual: 0,
            is_report: false,
            reserves: false,
            token: None,
            since: None,
            looks: false,
        }
    }

    /// The part of the limiter at this place in a step over `asks`.
    #[must_use]
    pub fn of(ask: &KeyAsk, args: &StepArgs<'_>, place: usize) -> Self {
        Self {
            verb: args.verb,
            cost: ask.cost,
            asks: args.costs.get(place).copied().unwrap_or(ask.asks()),
            actual: args.actual.get(place).copied().unwrap_or_default(),
            is_report: ask.is_report(),
            reserves: ask.reserves,
            token: ask.taken.token,
            since: ask.taken.since,
            looks: false,
        }
    }

    /// The step that gives back the units of this limiter in [`StepReply::to_undo`](super::StepReply::to_undo).
    #[must_use]
    pub fn undoing(ask: &KeyAsk) -> Self {
        let TakenUnits { token, since, .. } = ask.taken;
        Self { reserves: ask.reserves, token, since, ..Self::new(Verb::Settle, ask.cost) }
    }

    /// The same step, which decides and takes nothing. Unlike [`Verb::Peek`] it begins a limiter that is new, as a
    /// request does that is refused.
    #[must_use]
    pub const fn looking(self) -> Self {
        Self { looks: true, ..self }
    }

    /// The step on a limiter, and its units.
    fn parts(self) -> (Step, u64) {
        let Self { cost, asks, actual, token, since, .. } = self;
        match self.verb {
            _ if self.looks => (Step::Peek, asks),
            // In this order, because a report of 0 units, which asks about one unit, must only look.
            Verb::Ask if self.is_report && cost > 0 => (Step::Report, cost),
            Verb::Ask if asks > cost => (Step::AskReported, asks),
            Verb::Ask if self.reserves => (Step::Reserve, cost),
            Verb::Ask => (Step::Ask, cost),
            Verb::Peek => (Step::Peek, asks),
            Verb::Settle => {
                // A reservation is closed by its settlement.
                let since = TakenUnits::new(token, since).as_known(self.reserves);
                (Step::Settle { actual, token, since }, cost)
            }
            Verb::Renew => (Step::Renew { token }, cost),
            Verb::Reset => (Step::Reset { remembers: true }, cost),
        }
    }
}

impl LimiterState {
    /// Runs a step under `rule` at `now`. New values take effect with any step but a look, and usage carries over.
    /// Under an unlimited rule everything is admitted, and a settlement gives back units taken before.
    pub fn step(&mut self, rule: &Rule, step: LimiterStep, now: Timestamp) -> LimiterReply {
        let is_request = step.looks && step.verb == Verb::Ask;
        let (step, cost) = step.parts();
        // A bucket that begins with fewer tokens has to exist: it fills from its first request on, and a reset fills it.
        if (is_request || matches!(step, Step::Reset { .. }))
            && rule.begins_in_use()
            && self.0.is_new()
        {
            self.run(rule, Step::Ask, 0, now);
        }
        if step == Step::Peek {
            // On a copy, because a look puts no values in force.
            return self.clone().run(rule, step, cost, now);
        }
        self.run(rule, step, cost, now)
    }

    /// Returns whether the state may be forgotten at `now`, because a new state would decide the same: nothing is used, and
    /// no units from before a reset or a change of the rule could come back. Under a rule with `initial` a state is never
    /// forgotten ([`Rule::begins_in_use`]).
    #[must_use]
    pub fn is_idle(&self, now: Timestamp) -> bool {
        self.0.is_idle(now)
    }

    fn run(&mut self, rule: &Rule, step: Step, cost: u64, now: Timestamp) -> LimiterReply {
        let Some(mut one) = self.0.run(rule, step, cost, now) else {
            return LimiterReply::unlimited();
        };
        if matches!(step, Step::Renew { .. }) {
            // The values are of no request, so the verdict alone says if the permit is still out.
            one.decided.decision.outcome = without_values(one.verdict).outcome;
        }
        LimiterReply::of_store(one.decided)
    }
}
