//! The statistics of each rule, kept by an observer: decisions by outcome, and units in sliding windows.

use std::sync::{Arc, OnceLock};

use super::by_rule::ByRule;
use super::{Observer, RuleOutcome};
use crate::answer::{Answer, Matched};
use crate::clock::{Clock, SystemClock};
use crate::request::Request;
use crate::rules::PolicyRule;
use crate::stats::{Snapshot, Statistics};
use tidegate_store::counters::Striped;

/// An [`Observer`] that counts for each rule: its decisions by [outcome](crate::RuleOutcome) since the start, and the
/// units that it passed and blocked over the last second and the last minute.
///
/// A rule passes the cost of an allowed request, and blocks the cost of a request that it refuses itself. A rule that
/// admits a request which another rule refuses passes nothing, because nothing was taken from it. A rule in shadow mode
/// counts the decision that it would have made. A rule that a request matches under several keys counts for each of
/// them. Answers that are [repeated](Answer::is_repeated) count nothing.
///
/// A rule keeps its statistics when its policy is replaced by one with a rule of the same domain and name. Use one
/// observer for each gate. Counting takes a lock for the first decision of a half second alone, and allocates
/// then: from the first decision on the [statistics](Statistics#size) of a rule take up to nine kilobytes. Units are counted at the time of the answer ([`Answer::at`]); the
/// clock here only reads.
///
/// ```
/// use std::sync::Arc;
/// use tidegate::{Gate, ManualClock, Policy, RuleOutcome, RuleSpec, RuleStatistics, Setup};
///
/// let clock = ManualClock::new();
/// let statistics = Arc::new(RuleStatistics::with_clock(clock.clone()));
/// let policy = Policy::new(vec![RuleSpec::new("per-user", "1/h").key(["user"])])?;
/// let gate = Gate::with_clock(Setup::new(policy).observer(statistics.clone()), clock);
/// assert!(gate.admits(&[("user", "ada")]));
/// assert!(!gate.admits(&[("user", "ada")]));
///
/// let of_all = statistics.of(gate.policy().rules());
/// let minute = of_all[0].minute();
/// assert_eq!((minute.pass, minute.block), (1, 1));
/// assert_eq!(of_all[0].counts().decisions(RuleOutcome::Refused), 1);
/// # Ok::<(), tidegate::PolicyErrors>(())
/// ```
#[derive(Debug)]
pub struct RuleStatistics<C = SystemClock> {
    by_rule: ByRule<OfRule<C>>,
    clock: C,
}

/// The statistics of one rule, which go on counting.
///
/// ```
/// use std::sync::Arc;
/// use tidegate::{Gate, Policy, RuleSpec, RuleStatistics, Setup};
///
/// let statistics = Arc::new(RuleStatistics::new());
/// let policy = Policy::new(vec![RuleSpec::new("all", "10/h")])?;
/// let gate = Gate::new(Setup::new(policy).observer(statistics.clone()));
/// let of_rule = &statistics.of(gate.policy().rules())[0];
/// assert_eq!(of_rule.minute().pass, 0);
/// assert!(gate.admits(&[]));
/// assert_eq!(of_rule.minute().pass, 1);
/// # Ok::<(), tidegate::PolicyErrors>(())
/// ```
#[derive(Clone, Debug)]
pub struct StatisticsOfRule<C = SystemClock> {
    of_rule: Arc<OfRule<C>>,
    clock: C,
}

#[derive(Debug)]
struct OfRule<C> {
    counters: Striped<COUNTS>,
    windows: OnceLock<Box<Statistics<C>>>,
}

impl<C: Clock + Clone> OfRule<C> {
    #[inline]
    fn windows(&self, clock: &C) -> &Statistics<C> {
        self.windows.get_or_init(|| Box::new(Statistics::with_clock(clock.clone())))
    }

    #[inline]
    fn count(&self, answer: &Answer<'_>, matched: &Matched<'_>, clock: &C) {
        self.counters.add(RuleOutcome::of(answer, matched) as usize, 1);
        if matched.is_overflow() {
            self.counters.add(OVERFLOW, 1);
        }
        if answer.is_allowed() && matched.is_near() {
            self.counters.add(NEAR, 1);
        }
        // A request that only another rule refused is neither passed nor blocked here.
        let is_passed = matched.is_report() || matched.decision().is_allowed();
        if !is_passed {
            // A look asks about one unit at no cost, and that unit was refused.
            let asked = if matched.is_look() { 1 } else { matched.cost() };
            self.windows(clock).block_at(asked, answer.at());
        } else if matched.is_report() || answer.is_allowed() {
            self.windows(clock).pass_at(matched.cost(), answer.at());
        }
    }
}

impl Default for RuleStatistics {
    fn default() -> Self {
        Self::new()
    }
}

impl RuleStatistics {
    /// Creates it without counts, to be read by the system's clock.
    #[must_use]
    pub fn new() -> Self {
        Self::with_clock(SystemClock::new())
    }
}

impl<C: Clock + Clone + 'static> RuleStatistics<C> {
    /// Creates it without counts, to be read by copies of `clock`: in tests, a copy of the gate's.
    #[must_use]
    pub fn with_clock(clock: C) -> Self {
        let by_rule =
            ByRule::new(|_| OfRule { counters: Striped::default(), windows: OnceLock::new() });
        Self { by_rule, clock }
    }

    /// Returns the statistics of the rules of a policy, in their order.
    #[must_use]
    pub fn of(&self, rules: &[PolicyRule]) -> Vec<StatisticsOfRule<C>> {
        let all = self.by_rule.of_all(rules).into_iter();
        all.map(|of_rule| StatisticsOfRule { of_rule, clock: self.clock.clone() }).collect()
    }
}

impl<C: Clock + Clone> StatisticsOfRule<C> {
    /// The decisions since the start, by outcome.
    #[must_use]
    pub fn counts(&self) -> OutcomeCounts {
        OutcomeCounts(self.of_rule.counters.read())
    }

    /// The counts of the last second.
    #[must_use]
    pub fn second(&self) -> Snapshot {
        self.of_rule.windows.get().map_or_else(Snapshot::default, |windows| windows.second())
    }

    /// The counts of the last minute.
    #[must_use]
    pub fn minute(&self) -> Snapshot {
        self.of_rule.windows.get().map_or_else(Snapshot::default, |windows| windows.minute())
    }

    /// The windows themselves, made if the rule has not decided yet. They have the units that the rule passed and
    /// blocked, and the callers' own counts of the requests that it admitted ([`Statistics::success`],
    /// [`Statistics::exception`]).
    #[must_use]
    pub fn windows(&self) -> &Statistics<C> {
        self.of_rule.windows(&self.clock)
    }
}

impl<C: Clock + Clone + 'static> Observer for RuleStatistics<C> {
    fn decided(&self, _: &Request<'_>, answer: &Answer<'_>) {
        if !answer.is_repeated() {
            let clock = &self.clock;
            self.by_rule.each(answer, |matched, of_rule| of_rule.count(answer, matched, clock));
        }
    }
}

const OUTCOMES: usize = RuleOutcome::ALL.len();
/// The number of the counter of decisions without room; the counters of the outcomes come before it.
const OVERFLOW: usize = OUTCOMES;
const NEAR: usize = OUTCOMES + 1;
const COUNTS: usize = OUTCOMES + 2;

/// The decisions of one rule by outcome.
///
/// ```
/// use std::sync::Arc;
/// use tidegate::{Gate, Policy, RuleOutcome, RuleSpec, RuleStatistics, Setup};
///
/// let statistics = Arc::new(RuleStatistics::new());
/// let policy = Policy::new(vec![RuleSpec::new("all", "2/h").near("0.5".parse()?)])?;
/// let gate = Gate::new(Setup::new(policy).observer(statistics.clone()));
/// while gate.admits(&[]) {}
///
/// let counts = statistics.of(gate.policy().rules())[0].counts();
/// assert_eq!(counts.decisions(RuleOutcome::Allowed), 2);
/// assert_eq!(counts.decisions(RuleOutcome::Refused), 1);
/// assert_eq!((counts.near(), counts.overflow()), (2, 0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OutcomeCounts([u64; COUNTS]);

impl OutcomeCounts {
    /// The number of decisions with this outcome.
    #[must_use]
    pub const fn decisions(&self, outcome: RuleOutcome) -> u64 {
        self.0[outcome as usize]
    }

    /// The number of decisions for which the rule had no room ([`Matched::is_overflow`](crate::Matched::is_overflow)).
    #[must_use]
    pub const fn overflow(&self) -> u64 {
        self.0[OVERFLOW]
    }

    /// Allowed requests after which the limiter was [near its end](crate::Matched::is_near).
    #[must_use]
    pub const fn near(&self) -> u64 {
        self.0[NEAR]
    }
}
