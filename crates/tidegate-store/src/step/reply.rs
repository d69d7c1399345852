//! The reply of a store to a step, and the units that it took.

use tidegate_core::{Decision, Micros, Outcome, Rule, Settled, Since, Timestamp, Token, Verdict};

use super::ask::Ask;
use crate::inline_list::InlineList;

/// The kind of the script of a bucket, whose last two parameters say how much fits.
pub const BUCKET: u8 = 1;
/// The kind of the script of a queue, whose last two parameters say how much fits.
pub const QUEUE: u8 = 2;
/// The kind of the script of permits, which are known by their tokens.
const PERMITS: u8 = 10;

/// Units that a limiter took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TakenUnits {
    /// The token of the permit that was taken.
    pub token: Option<Token>,
    /// The instant that counted when they were taken, if it is known.
    pub since: Option<Timestamp>,
}

#[doc(hidden)]
impl TakenUnits {
    /// Units that were taken at `since`, with the token of a permit.
    #[inline]
    pub const fn new(token: Option<Token>, since: Option<Timestamp>) -> Self {
        Self { token, since }
    }

    /// The units as the limiter knows them; `None` if it is not known when they were taken.
    #[inline]
    pub fn as_known(self, is_reserved: bool) -> Option<Since> {
        let since = Since::at(self.since?);
        Some(if is_reserved { since.of_reservation() } else { since })
    }
}

/// The values of a rule that say whether units which were taken under them come back under others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Values {
    kind: u8,
    #[doc(hidden)]
    pub limit: u64,
    window: u64,
    /// Buckets, anchor or resolution.
    others: [u64; 2],
}

impl Values {
    /// The values of a rule; `None` if it is unlimited.
    #[must_use]
    #[inline]
    pub fn of(rule: &Rule) -> Option<Self> {
        let input = rule.script_input(0)?;
        let kind = input.script.kind;
        let [limit, window, third, fourth] = input.parameters;
        let others = if matches!(kind, BUCKET | QUEUE) { [0; 2] } else { [third, fourth] };
        Some(Self { kind, limit, window, others })
    }

    /// Its numbers, for [`Values::from_numbers`].
    #[doc(hidden)]
    pub fn to_numbers(self) -> [u64; 5] {
        let Self { kind, limit, window, others: [third, fourth] } = self;
        [kind.into(), limit, window, third, fourth]
    }

    /// The values with these numbers; `None` if there are none.
    #[doc(hidden)]
    pub fn from_numbers([kind, limit, window, third, fourth]: [u64; 5]) -> Option<Self> {
        let kind = u8::try_from(kind).ok()?;
        Some(Self { kind, limit, window, others: [third, fourth] })
    }

    /// Returns whether units that were taken under the other values count in the same way.
    #[doc(hidden)]
    pub fn counts_as(&self, other: &Self) -> bool {
        let window_of = |one: &Self| if one.kind == PERMITS { 0 } else { one.window };
        (self.kind, window_of(self), self.others) == (other.kind, window_of(other), other.others)
    }
}

/// The reply of one limiter of a step.
#[derive(Clone, Debug, PartialEq)]
pub struct Decided {
    /// The decision.
    pub decision: Decision,
    /// There was no room: the key shares a limiter with others, or was refused, or its limiter keeps coarser times.
    pub overflow: bool,
    /// Another limiter than the key's own replied.
    pub elsewhere: bool,
    /// The rule that decided, if it was changed since it was loaded.
    pub values: Option<Rule>,
    /// The units that were taken.
    pub taken: TakenUnits,
    /// The result of a settlement.
    pub settled: Settled,
}

impl Decided {
    /// The decision of a limiter under the values of its policy.
    #[inline]
    pub const fn of(decision: Decision, overflow: bool, elsewhere: bool) -> Self {
        Self {
            decision,
            overflow,
            elsewhere,
            values: None,
            taken: TakenUnits { token: None, since: None },
            settled: Settled::Whole,
        }
    }
}

/// The reply of one limiter by itself.
#[derive(Clone, Debug)]
pub struct One {
    /// The verdict.
    pub verdict: Verdict,
    /// When it was decided.
    pub at: Timestamp,
    /// For [`Step::Decide`](super::Step::Decide) only the verdict, without values.
    pub decided: Decided,
}

impl One {
    /// The reply of the limiter itself.
    #[inline]
    pub const fn of(verdict: Verdict, decision: Decision, at: Timestamp) -> Self {
        let mut decided = Decided::of(decision, false, false);
        decided.taken.since = Some(at);
        Self { verdict, at, decided }
    }

    /// The reply under a rule that admits everything.
    #[inline]
    pub const fn unlimited(at: Timestamp) -> Self {
        Self::of(Verdict::Allow, Decision::UNLIMITED, at)
    }

    /// The reply to a key without room, whose own limiter does not decide.
    pub fn instead(decision: Decision, at: Timestamp) -> Self {
        Self::of(decision.verdict(), decision, at).by_overflow(true)
    }

    /// The same reply where there was no room: of another limiter than the key's own, or of one that keeps coarser
    /// times.
    pub fn by_overflow(mut self, elsewhere: bool) -> Self {
        self.decided.overflow = true;
        self.decided.elsewhere |= elsewhere;
        self
    }
}

/// A verdict as a decision.
#[inline]
pub const fn without_values(verdict: Verdict) -> Decision {
    let outcome = match verdict {
        Verdict::Allow => Outcome::Allow { delay: Micros::ZERO },
        Verdict::Deny => Outcome::Deny { retry_after: Micros::ZERO },
        Verdict::Never => Outcome::Never,
    };
    Decision { outcome, limit: 0, remaining: 0, reset_after: Micros::ZERO }
}

/// The reservation of the first of the requests that have one remembered answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FirstReservation {
    /// The name that the first request [reserved as](tidegate_rules::request::Request::reserving_as).
    pub name: [u8; 16],
    /// The rest of its life, by the clock of the store; zero if it has ended.
    pub left: std::time::Duration,
}

/// The result of a step: one decision for each limiter, in the order of the request (none for
/// [`Step::Decide`](super::Step::Decide)).
#[derive(Debug)]
pub struct Done<D = Decided> {
    /// True if all limiters that are enforced admit it.
    pub allowed: bool,
    /// When it was decided.
    pub at: Timestamp,
    /// True if this is the remembered answer to an earlier request with the same id.
    pub repeated: bool,
    /// The decisions, in the order of the request.
    pub decisions: InlineList<D>,
}

impl<D> Done<D> {
    /// Returns the decision of one of the limiters of the step; `None` if it is not among them.
    #[inline]
    pub fn of<K: PartialEq>(&self, asks: &[Ask<K>], one: &Ask<K>) -> Option<&D> {
        self.decisions.get(asks.iter().position(|ask| ask.is_of(one))?)
    }
}

impl Done {
    /// Returns the decisions of `others`, which the step over `asks` decided about. A limiter that is not among `asks`
    /// refuses nothing.
    pub fn of_each<K: PartialEq>(&self, asks: &[Ask<K>], others: &[Ask<K>]) -> InlineList<Decided> {
        others
            .iter()
            .map(|one| match self.of(asks, one) {
                Some(decided) => decided.clone(),
                None => Decided::of(Decision::UNLIMITED, false, false),
            })
            .collect()
    }
}

/// The result of a step over one limiter.
impl From<Done> for One {
    fn from(done: Done) -> Self {
        let verdict = if done.allowed { Verdict::Allow } else { Verdict::Deny };
        match done.decisions.into_iter().next() {
            None => Self::of(verdict, without_values(verdict), done.at),
            Some(decided) => {
                // Only the decision says if the cost can never fit.
                let verdict = if done.allowed { verdict } else { decided.decision.verdict() };
                Self { verdict, at: done.at, decided }
            }
        }
    }
}

/// The origin of the decisions of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// The limiters decided.
    Exact,
    /// The rules decided, without the store.
    Degraded(Lack),
    /// The rules decided, and only the missing store can refuse the request.
    Unavailable(Lack),
}

/// Why the store did not decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lack {
    /// The store does not answer.
    Unavailable,
    /// The store answers, but cannot decide this request in time.
    Overloaded,
}

impl Standing {
    /// Why the store did not decide, if it did not.
    pub const fn lack(self) -> Option<Lack> {
        match self {
            Self::Exact => None,
            Self::Degraded(lack) | Self::Unavailable(lack) => Some(lack),
        }
    }
}
