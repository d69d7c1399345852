//! The settlement of a reservation, or why there was none: the types that a settle, a reserve and a renewal answer, over
//! HTTP and RESP.

use std::time::Duration;

use tidegate::json::DecisionLine;
use tidegate::{Answer, StoreError, Timestamp};

use super::table::{OF_ANY, allocated};
use crate::flags;

/// The end of a reservation, as it is remembered: in few bytes for any request.
#[derive(Debug)]
pub(crate) struct ReservationEnd {
    /// The fingerprint of the costs that it was settled for.
    pub(super) costs: u64,
    /// The units of these costs in all, to name them in an error.
    pub(super) units: u64,
    /// The state of the limiters then, or the reason why the result of the settle is unknown.
    pub(crate) stand: Result<SettledReservation, Box<str>>,
}

/// A settle that was answered, by this call or an earlier one.
#[derive(Debug)]
pub(crate) struct Settling {
    pub(crate) outcome: std::sync::Arc<ReservationEnd>,
    /// The settlement of this call; `None` if an earlier call settled.
    pub(crate) done: Option<SettleResult>,
    /// Units that were not taken because the reservation held nothing.
    pub(crate) cut_of_nothing: u64,
}

/// The settlement that a call made.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct SettleResult {
    pub(crate) domain: String,
    /// The costs of its descriptors that were reserved, and the costs it was settled for.
    pub(super) reserved: Vec<u64>,
    pub(super) actual: Vec<u64>,
}

/// The state of the limiters of a request once it was settled.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct SettledReservation {
    rule: Option<Box<str>>,
    line: DecisionLine<'static>,
    flags: [bool; 4],
    /// The units of each cost that were not taken, because they would be too much debt; empty if nothing was cut.
    cut: Box<[u64]>,
}

/// The line of an allowed request that no rule limits.
const fn allowed(at: Timestamp) -> DecisionLine<'static> {
    DecisionLine {
        rule: None,
        allowed: true,
        limit: None,
        remaining: None,
        retry_after_us: Some(0),
        delay_us: 0,
        at_us: at.as_micros(),
        reset_after_us: 0,
    }
}

/// Cuts the units that a limiter did not take off the last costs that have it.
fn cut_off(
    cut: &mut [u64],
    actual: &[u64],
    settled: tidegate::Settled,
    is_matched_by: impl Fn(usize) -> bool,
) {
    let mut left = settled.cut_units();
    for (descriptor, (of_it, units)) in cut.iter_mut().zip(actual).enumerate().rev() {
        if actual.len() == 1 || is_matched_by(descriptor) {
            // Several limiters may cut one cost: the largest cut holds, because none takes less.
            let here = left.min(*units);
            left -= here;
            *of_it = here.max(*of_it);
        }
    }
}

impl SettledReservation {
    /// The end of a reservation that was settled for the `actual` costs. A settle always succeeds, so its answer is an
    /// allowed request without a wait. It names the rule with the fewest remaining units.
    pub(crate) fn of(answer: &Answer<'_>, actual: &[u64]) -> Self {
        let least = answer.enforced().min_by_key(|one| one.decision().remaining);
        let line = DecisionLine {
            limit: least.map(|one| one.decision().limit),
            remaining: least.map(|one| one.decision().remaining),
            reset_after_us: DecisionLine::from(answer).reset_after_us,
            ..allowed(answer.at())
        };
        let rule = least.map(|one| one.rule().name().into());
        let mut cut: Box<[u64]> = actual.iter().map(|_| 0).collect();
        for one in answer.enforced() {
            cut_off(&mut cut, actual, one.settled(), |descriptor| one.is_matched_by(descriptor));
        }
        for one in answer.unreached() {
            cut_off(&mut cut, actual, one.settled(), |descriptor| one.is_matched_by(descriptor));
        }
        let cut = if cut.iter().any(|units| *units > 0) { cut } else { Box::default() };
        Self { rule, line, flags: flags::of(answer).map(|(_, is)| is), cut }
    }

    /// A reservation that held nothing; `cut` are the units of each cost that were not taken.
    pub(super) fn nothing(at: Timestamp, is_unlimited: bool, cut: Box<[u64]>) -> Self {
        // The flags are in the order of `flags::named`.
        Self { rule: None, line: allowed(at), flags: [is_unlimited, false, false, false], cut }
    }

    /// The values as a check reports them.
    pub(crate) fn line(&self) -> DecisionLine<'_> {
        DecisionLine { rule: self.rule.as_deref(), ..self.line }
    }

    /// The flags, by the names that every protocol uses.
    pub(crate) fn flags(&self) -> [(&'static str, bool); 4] {
        flags::named(self.flags)
    }

    /// The units of the cost number `index` that were taken in all, and the units that were cut.
    pub(crate) fn shares(&self, index: usize, actual: u64) -> [u64; 2] {
        let cut = self.cut.get(index).copied().unwrap_or_default();
        [actual.saturating_sub(cut), cut]
    }
}

impl ReservationEnd {
    /// The bytes of a settled reservation while it is remembered.
    pub(super) fn bytes(&self) -> usize {
        /// The counters of an `Arc`.
        const OF_AN_ARC: usize = 2 * size_of::<usize>();
        let texts = match &self.stand {
            Ok(settled) => {
                let rule = settled.rule.as_ref().map_or(0, |rule| rule.len());
                allocated(rule) + allocated(size_of_val(&*settled.cut))
            }
            Err(why) => allocated(why.len()),
        };
        OF_ANY + allocated(OF_AN_ARC + size_of::<Self>()) + texts
    }
}

impl SettleResult {
    /// The reserved cost and the final one, in words.
    pub(crate) fn costs(&self) -> (String, String) {
        (format!("reserved {:?}", self.reserved), format!("settled for {:?}", self.actual))
    }
}

/// Why there is no reservation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Unreserved {
    /// There is no room for one more.
    Full,
    /// It would live longer than a rule lets it.
    TooLong { asked: Duration, rule: String, most: Duration },
    /// The request was admitted, but its record may not be in the store.
    Unrecorded(StoreError),
}

impl std::fmt::Display for Unreserved {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Full => f.write_str(
                "the reservations of this server have no room for one more, and nothing was taken: come back later; \
                 the operator may set a larger --reservation-memory",
            ),
            Self::TooLong { asked, rule, most } => {
                write!(
                    f,
                    "a life of {} ms is longer than a reservation of the rule `{rule}` may have: expected 1 to {} ms, or \
                     a larger `max_life` of the rule",
                    asked.as_millis(),
                    most.as_millis()
                )
            }
            Self::Unrecorded(error) => write!(
                f,
                "{error}; the request was admitted, but its reservation may not be in the store: repeat it under its \
                 request_id"
            ),
        }
    }
}

/// Why a call settled nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Unsettled {
    /// The text is no id of a reservation.
    NoId,
    /// The id is unknown here: its life is over, or another process gave it.
    Unknown,
    /// The number of costs is neither one nor the number of descriptors.
    Costs { descriptors: usize },
    /// It was settled already for costs of so many units in all; a settle asked for other costs.
    Otherwise { settled: u64, asked: Option<u64> },
    /// Another server of the store has settled or is settling it; or this server has, and does not remember the result.
    Elsewhere,
    /// There is no room for a reservation of another server.
    Full,
    /// The store was not asked, or only for the record; another call may settle.
    Undone(StoreError),
    /// The store was not asked; it is, again and again, until the reservation ends at this time.
    Pending(Timestamp),
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
                "this server has no such reservation: its life is over, or a server gave it that had no store then and \
                 may have started again since; what it took is left as it is",
            ),
            Self::Costs { descriptors } => write!(
                f,
                "the actual costs are too few or too many: expected one number, or one for each of the {descriptors} \
                 descriptors of the reserve"
            ),
            Self::Otherwise { settled, asked: Some(asked) } => write!(
                f,
                "the reservation was settled already, for another cost: for {settled} in all, and this settle says \
                 {asked}; only the same settle may be repeated"
            ),
            Self::Otherwise { settled, asked: None } => {
                write!(f, "the reservation was settled already, for {settled} in all")
            }
            Self::Elsewhere => f.write_str(
                "another server of the same store settles the reservation, or has settled it: a settle is repeated \
                 where it was sent first",
            ),
            Self::Full => f.write_str(
                "the reservations of this server have no room for a reservation of another server, and nothing was \
                 settled: come back later, or ask another server",
            ),
            Self::Undone(error) => write!(f, "{error}; nothing was settled"),
            Self::Pending(_) => f.write_str(
                "the store does not answer, and nothing was settled; the reservation is settled as soon as it does, unless \
                 its life is over by then",
            ),
            Self::Unrenewed(error) => {
                write!(f, "{error}; the permits may end when they would have: renew again")
            }
        }
    }
}
