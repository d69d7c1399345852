//! Decisions as scripts: the call for a step over limiters, and the meaning of its reply. No client
//! is known here.
//!
//! The script of an algorithm is next to its code: one function, which runs the verbs in their order.
//! The algorithm works out the values of a decision from the state that the script returns. A
//! script is whole Lua files, joined: `prelude.lua`, the files of the algorithms, and `dispatch.lua`, or `batch.lua` or
//! `each.lua` for several requests in one call; `amend.lua` and `space.lua` stand between them where they are needed.
//!
//! ```
//! use tidegate::script::{Call, CallResult, RedisReply, ScriptLimiter, ScriptStep};
//! use std::time::Duration;
//! use tidegate::{AlgorithmKind, Rule, Spec};
//!
//! let rule = Rule::new(Spec::new(AlgorithmKind::TokenBucket, 100, Duration::from_secs(1)))?;
//! let limiters: Vec<_> = ScriptLimiter::new(b"tg:api:ada", &rule, 1).into_iter().collect();
//! let call = Call::new(&limiters, ScriptStep::Ask, None);
//! // A client sends `EVALSHA call.script.sha1 1 KEYS.. ARGV..`, and hands the reply back:
//! let reply = RedisReply::Nil;
//! // It was written under another rule: the same is asked again, and the state amended, in one step.
//! assert_eq!(call.answer(&limiters, &reply), Ok(CallResult::Changed));
//! let call = call.amending();
//! # Ok::<(), tidegate::RuleErrors>(())
//! ```

mod batch;
mod call;
mod call_result;
mod carried;
mod each;
mod joined;
mod limiter;
mod reply;
mod units;

use tidegate_core::{Rule, Timestamp};

pub use crate::step::Values;
pub use crate::store::GivenBack;
pub use batch::{CallBatch, Replies};
pub use call::Call;
pub use call_result::{CallResult, DecidedStep, Lacks, NewerValues};
pub use each::Each;
pub use joined::JoinedScript;
pub use limiter::{Among, ScriptLimiter};
pub use reply::{NotAnAnswer, RedisReply};
pub(crate) use units::Purpose;
pub use units::{LeaseRecord, SettledUnits, Surplus};

/// The version of stored states: the first byte of every state, below 32. A state of another version is neither read
/// nor overwritten.
const VERSION: u8 = 1;
/// Bytes before a state that identify it: version, algorithm, and the values of the rule. The
/// revision of these values follows.
const HEAD: usize = 22;

/// The operation of a step on its limiters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ScriptStep {
    /// Decides and takes; returns no values.
    Decide,
    /// Decides and takes; returns the values of the decision.
    Ask,
    /// Only decides; returns the values of the decision.
    Peek,
    /// Takes the cost of each, even into debt, and returns the resulting standing: if one unit more would be admitted,
    /// or else when. Nothing is refused. Limiters without a cost are decided as by [`ScriptStep::Ask`].
    Report,
    /// As [`ScriptStep::Report`], but no limiter whose rule has a `max_debt` takes more than that. Returns the units
    /// that were cut.
    ReportWithin,
    /// Settles: gives back the surplus of the taken cost over the actual cost, or takes the shortfall, even into debt,
    /// as far as the rule allows; returns the values, and how many units came back and were cut. A limiter says [when
    /// its cost was taken](ScriptLimiter::taken_at), and then nothing else is given back instead; or else what would
    /// have left first. A refund has an actual cost of 0.
    Settle,
    /// Gives back the cost that an earlier step took, and nothing else instead; returns the values.
    Undo,
    /// Takes the cost ahead, as a lease; returns the values of the decision. See [`Call::lease`].
    Lease,
    /// Makes a permit of each limiter last W from now; denied by one whose permit is out no more.
    Renew,
}

impl ScriptStep {
    /// Its verb in a script.
    const fn verb(self) -> &'static str {
        match self {
            Self::Decide => "decide",
            Self::Ask => "ask",
            Self::Peek => "peek",
            Self::Report | Self::ReportWithin => "report",
            Self::Settle => "settle",
            Self::Undo => "undo",
            Self::Lease => "lease",
            Self::Renew => "renew",
        }
    }

    /// Returns whether it gives back or takes a difference, and says how much.
    const fn settles(self) -> bool {
        matches!(self, Self::Settle | Self::Undo)
    }

    /// Returns whether it gives units back as of when they were taken, or cuts off units above a bound.
    const fn needs_bounds(self) -> bool {
        matches!(self, Self::Settle | Self::Undo | Self::ReportWithin)
    }

    /// Returns whether it takes usage, and refuses nothing.
    pub(crate) const fn is_report(self) -> bool {
        matches!(self, Self::Report | Self::ReportWithin)
    }
}

/// The revision of a rule's values: a number that a policy gives itself, and when the values were
/// loaded.
///
/// The revision with the larger number is newer; 0 stands for a policy without a revision. Of equal numbers, the
/// revision that was loaded later is newer. A limiter in a store is decided by the values of the newest revision that
/// has taken from it, whichever node asks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Revision {
    given: u32,
    loaded: Timestamp,
}

impl Revision {
    /// No revision: older than every other. Values without one take effect in the order of the requests that
    /// supply them.
    pub const NONE: Self = Self { given: 0, loaded: Timestamp::EPOCH };
    /// Bytes of a revision in a state.
    const BYTES: usize = 11;

    /// Values of a policy with this number (0 for none), loaded when the store's clock read
    /// `loaded`.
    #[must_use]
    pub const fn new(given: u32, loaded: Timestamp) -> Self {
        Self { given, loaded }
    }

    /// Returns whether this is a revision.
    #[must_use]
    pub fn is_some(self) -> bool {
        self != Self::NONE
    }

    /// The form that scripts compare: the number in four bytes, the microseconds in seven.
    fn stamp(self) -> [u8; Self::BYTES] {
        let mut stamp = [0; Self::BYTES];
        stamp[..4].copy_from_slice(&self.given.to_le_bytes());
        stamp[4..].copy_from_slice(&self.loaded.as_micros().to_le_bytes()[..7]);
        stamp
    }

    fn of_stamp(stamp: [u8; Self::BYTES]) -> Self {
        let [given @ .., _, _, _, _, _, _, _] = stamp;
        Self {
            given: u32::from_le_bytes(given),
            loaded: Timestamp::from_micros(number(&stamp[4..])),
        }
    }
}

/// The values that a limiter in a store was written under.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Written {
    pub(crate) rule: Rule,
    pub(crate) revision: Revision,
}

impl Written {
    /// Reads the values of a state with these first bytes, for nodes whose own rule is `own`; `None` if this
    /// version does not know such values.
    fn read(begins: &[u8], own: &Rule) -> Option<Self> {
        let (head, stamp) = begins.split_first_chunk::<HEAD>()?;
        if head[0] != VERSION {
            return None;
        }
        let parameters = [&head[2..6], &head[6..12], &head[12..18], &head[18..22]].map(number);
        let rule = own.of_parameters(head[1], parameters)?;
        let revision = Revision::of_stamp(*stamp.first_chunk()?);
        Some(Self { rule, revision })
    }
}

/// An integer, low byte first.
fn number(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_larger_word_is_newer_whenever_it_was_loaded_and_of_equal_words_the_later_one() {
        let at = |given, us| Revision::new(given, Timestamp::from_micros(us));
        let in_order = [Revision::NONE, at(0, 1), at(0, 1 << 50), at(1, 0), at(1, 7), at(2, 3)];
        assert!(in_order.is_sorted_by(|one, other| one < other));
        for one in in_order {
            assert_eq!(Revision::of_stamp(one.stamp()), one);
            assert_eq!(one.is_some(), one != Revision::NONE);
        }
    }
}
