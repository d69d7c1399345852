//! How a reservation was settled, or why it was not.

use tidegate::json::DecisionLine;
use tidegate::{Answer, Descriptor, Request, StoreError};

use crate::flags;

/// The end of a reservation.
#[derive(Debug)]
pub(crate) struct Settling {
    pub(crate) domain: Box<str>,
    /// The costs of its descriptors that were reserved.
    reserved: Box<[u64]>,
    /// The costs it was settled for.
    pub(super) actual: Box<[u64]>,
    /// How the limiters stood then; or why it is unknown whether anything was settled.
    pub(crate) stand: Result<Settled, String>,
}

/// How the limiters of a request stood once it was settled.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Settled {
    rule: Option<Box<str>>,
    line: DecisionLine<'static>,
    pub(crate) flags: [(&'static str, bool); 4],
}

/// A settle is always done, so its answer is that of an allowed request that has nothing to wait for, about the rule
/// with the fewest remaining units.
impl From<&Answer<'_>> for Settled {
    fn from(answer: &Answer<'_>) -> Self {
        let least = answer.enforced().min_by_key(|one| one.decision().remaining);
        let line = DecisionLine {
            rule: None,
            allowed: true,
            limit: least.map(|one| one.decision().limit),
            remaining: least.map(|one| one.decision().remaining),
            retry_after_us: Some(0),
            delay_us: 0,
            at_us: answer.at().as_micros(),
            reset_after_us: DecisionLine::from(answer).reset_after_us,
        };
        let rule = least.map(|one| one.rule().name().into());
        Self { rule, line, flags: flags::of(answer) }
    }
}

impl Settled {
    /// The values as a check reports them.
    pub(crate) fn line(&self) -> DecisionLine<'_> {
        DecisionLine { rule: self.rule.as_deref(), ..self.line }
    }
}

impl Settling {
    pub(crate) fn of(
        request: &Request<'_>,
        actual: &[u64],
        stand: Result<Settled, String>,
    ) -> Self {
        let reserved = request.descriptors().iter().map(Descriptor::units).collect();
        Self { domain: request.domain().into(), reserved, actual: actual.into(), stand }
    }

    /// The reserved cost and the final one, in words.
    pub(crate) fn costs(&self) -> (String, String) {
        let Self { reserved, actual, .. } = self;
        (format!("reserved {reserved:?}"), format!("settled for {actual:?}"))
    }
}

/// Why a call settled nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Unsettled {
    /// The text is no id of a reservation.
    NoId,
    /// The id is unknown here: its life is over, or another process gave it.
    Unknown,
    /// There are other numbers of costs than one, or one for each of so many descriptors.
    Costs { descriptors: usize },
    /// It was settled already, for other costs.
    Otherwise,
    /// The store was not asked; another call may settle.
    Undone(StoreError),
    /// The store did not reply to a renewal, which may be repeated.
    Unrenewed(StoreError),
}

impl std::fmt::Display for Unsettled {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NoId => f.write_str(
                "the reservation is no id: expected the 32 hexadecimal digits of a reserve",
            ),
            Self::Unknown => f.write_str(
                "this server has no such reservation: its life is over, or another server gave it, or this one has \
                 started again since; what it took is left as it is",
            ),
            Self::Costs { descriptors } => write!(
                f,
                "the actual costs are too few or too many: expected one number, or one for each of the {descriptors} \
                 descriptors of the reserve"
            ),
            Self::Otherwise => f.write_str(
                "the reservation was settled already, for another cost: only the same settle may be repeated",
            ),
            Self::Undone(error) => write!(f, "{error}; nothing was settled"),
            Self::Unrenewed(error) => {
                write!(f, "{error}; the permits may end when they would have: renew again")
            }
        }
    }
}
