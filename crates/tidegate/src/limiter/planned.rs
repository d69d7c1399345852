//! A limiter for each key, each under figures of its own: those of a caller's plan.

use std::fmt;
use std::sync::Arc;

use tidegate_core::{Decision, Rule, RuleErrors, Spec};

use super::Reservation;
use crate::clock::{Clock, Reading, SystemClock};
use crate::key::{Fingerprint, Seed};
use crate::rules::{OnFull, RuleSpec};
use crate::step::{One, Step, UNLIMITED, decision_of, unlimited_at};
use crate::store::memory::{Limiters, Part, Preview};
use crate::wait::{DEFAULT_MAX_WAITERS, Queues};

/// Tells the plan of a key.
type Plans = dyn Fn(&[u8]) -> Plan + Send + Sync;

/// The plan of a key; `None` for one that has none of its own.
pub(crate) type Plan = Option<Arc<Rule>>;

/// A limiter for each key, in bounded memory, whose figures are not one rule for all but looked up for
/// each call: the plan that a caller has booked, or figures that a call brings along.
///
/// - [`with_plans`](Self::with_plans) names once where plans are looked up; then the verbs are those of a
///   [`KeyedLimiter`](crate::KeyedLimiter), but for `check_many`, and `amend`, whose place a lookup takes.
/// - [`under`](Self::under) has a call bring its own figures.
///
/// A plan is a checked [`Rule`] of any algorithm. A key whose plan changes keeps what it has used: the
/// call that finds the change settles time under the old figures, and then puts the new ones in force, as
/// [`KeyedLimiter::amend`](crate::KeyedLimiter::amend) does. Figures that a call brings along are put in
/// force just so, but only if it takes something or gives it back: one that is denied changes nothing, and
/// is told when it would be admitted if nobody else came. (But a bucket that begins with fewer tokens than
/// the call costs begins with the call, for else it would never fill.) A look ([`peek`](Self::peek), or a
/// cost of 0) tells how things would stand under its figures, and leaves those in force.
///
/// No change is a credit or a reset by itself. Time that passes under faster figures does drain at their
/// rate, until others are put in force: two limits that are to hold at once for one caller need two keys,
/// or two limiters.
///
/// Under an unlimited plan nothing is counted, and what was used before stays used when a limit comes
/// back; only a reservation that was taken before still gives back what it did not use.
///
/// Plans are not kept, but for the figures of each limiter beside its state, so a caller who brings
/// other figures with each call takes no more memory than any other. Keys are not kept either, only
/// fingerprints of them. Keys for which there is no room share one limiter under the figures of the usual
/// plan, whatever their own, or are refused ([`OnFull`]); also where the usual plan is unlimited, and so has
/// no figures to share, and where their own plan would never admit the cost.
///
/// ```
/// use std::sync::Arc;
/// use tidegate::{AlgorithmKind, Micros, PlannedLimiter, Rule, Spec};
///
/// let per_hour = |limit| Spec::new(AlgorithmKind::SlidingLog, limit, Micros::from_secs(3_600));
/// let large = Arc::new(Rule::new(per_hour(100))?);
/// let limiter = PlannedLimiter::new(per_hour(2))?
///     .with_plans(move |key| (key == b"ada").then(|| Arc::clone(&large)));
///
/// assert_eq!(limiter.check("ada", 1).remaining, 99);
/// assert_eq!(limiter.check("bob", 1).remaining, 1);
///
/// // For this call only: what was used stays used.
/// let medium = Rule::new(per_hour(10))?;
/// assert_eq!(limiter.under(&medium).check("bob", 1).remaining, 8);
/// # Ok::<(), tidegate::RuleErrors>(())
/// ```
pub struct PlannedLimiter<C = SystemClock> {
    limiters: Limiters,
    /// The plan of keys that have none of their own.
    usual: Rule,
    plans: Option<Box<Plans>>,
    pub(crate) seed: Seed,
    pub(crate) clock: C,
    /// Who waits.
    pub(crate) queues: Queues<Fingerprint>,
    /// For each key.
    pub(crate) max_waiters: usize,
}

impl PlannedLimiter {
    /// Limiters by the system's clock, at most a million at once; keys beyond share one. `usual` is the
    /// plan of keys that have none of their own; its `max_memory` (1 GiB unless said) bounds the states
    /// of all keys together, whatever their plans.
    ///
    /// # Errors
    /// All that is wrong with the words of the rule.
    pub fn new(usual: Spec) -> Result<Self, RuleErrors> {
        Self::with_clock(usual, SystemClock::new())
    }
}

impl<C: Clock> PlannedLimiter<C> {
    /// The same by `clock`.
    ///
    /// # Errors
    /// All that is wrong with the words of the rule.
    pub fn with_clock(usual: Spec, clock: C) -> Result<Self, RuleErrors> {
        Ok(Self {
            limiters: Limiters::of_rules(&Rule::new(usual)?, &RuleSpec::new("", usual)),
            usual: Rule::new(usual)?,
            plans: None,
            seed: Seed::random(),
            clock,
            queues: Queues::new(),
            max_waiters: DEFAULT_MAX_WAITERS,
        })
    }

    /// The same, empty, with another cap; one outside of 1 to 10^9 counts as the nearest of the two.
    #[must_use]
    pub fn with_max_keys(self, max_keys: usize, on_full: OnFull) -> Self {
        let caps = RuleSpec::new("", *self.usual.spec()).max_keys(max_keys, on_full);
        Self { limiters: Limiters::of_rules(&self.usual, &caps), ..self }
    }

    /// Looks up the plan of a key with `plans` in each call: once, and for one that waits again whenever its
    /// turn may have come. `None` is the usual plan.
    ///
    /// It is to be quick, and must not ask this limiter: for a call that may wait, it runs while all queues
    /// are held.
    #[must_use]
    pub fn with_plans(
        mut self,
        plans: impl Fn(&[u8]) -> Option<Arc<Rule>> + Send + Sync + 'static,
    ) -> Self {
        self.plans = Some(Box::new(plans));
        self
    }

    /// The same limiters under figures that the call brings along, whatever the plan of the key. They are
    /// in force from then on if the call takes something or gives it back.
    pub const fn under<'a>(&'a self, rule: &'a Rule) -> Under<'a, C> {
        Under { all: self, rule, brought: true }
    }

    /// Takes `cost` units of the key's limiter if they fit now; works out no figures.
    pub fn admits(&self, key: impl AsRef<[u8]>, cost: u64) -> bool {
        self.by_plan(key.as_ref(), |under, key| under.admits(key, cost))
    }

    /// Takes `cost` units of the key's limiter if they fit now, and tells the figures; under an unlimited
    /// plan the largest there are.
    pub fn check(&self, key: impl AsRef<[u8]>, cost: u64) -> Decision {
        self.by_plan(key.as_ref(), |under, key| under.check(key, cost))
    }

    /// What [`PlannedLimiter::check`] would answer, taking nothing.
    pub fn peek(&self, key: impl AsRef<[u8]>, cost: u64) -> Decision {
        self.by_plan(key.as_ref(), |under, key| under.peek(key, cost))
    }

    /// Gives `units` back to the key's limiter, to no fewer than none used.
    pub fn refund(&self, key: impl AsRef<[u8]>, units: u64) -> Decision {
        self.by_plan(key.as_ref(), |under, key| under.refund(key, units))
    }

    /// Units that would be admitted for the key now, one by one.
    pub fn available(&self, key: impl AsRef<[u8]>) -> u64 {
        self.peek(key, 1).remaining
    }

    /// The figure `limit` of the key's decisions: that of its plan.
    pub fn capacity(&self, key: impl AsRef<[u8]>) -> u64 {
        self.peek(key, 0).limit
    }

    /// Takes `units` of the key's limiter for work whose cost is known only afterwards: see
    /// [`Limiter::reserve`](crate::Limiter::reserve).
    ///
    /// # Errors
    /// The decision that refuses, with when to come back; nothing is taken.
    pub fn reserve(&self, key: impl AsRef<[u8]>, units: u64) -> Result<Reservation, Decision> {
        self.by_plan(key.as_ref(), |under, key| under.reserve(key, units))
    }

    /// Ends a reservation of the same key with what the work did cost: see
    /// [`KeyedLimiter::settle`](crate::KeyedLimiter::settle).
    pub fn settle(&self, key: impl AsRef<[u8]>, reservation: Reservation, actual: u64) -> Decision {
        self.by_plan(key.as_ref(), |under, key| under.settle(key, reservation, actual))
    }

    /// Makes the key's limiter as good as new, and lets whoever waits for it go on.
    pub fn reset(&self, key: impl AsRef<[u8]>) {
        let fingerprint = self.seed.of_bytes(key.as_ref());
        self.limiters.forget(fingerprint);
        self.queues.wake(&fingerprint);
    }

    /// Tells those who wait for the key that it has another plan: else they ask again only when what they
    /// were told would be over. Who does not wait needs no telling.
    pub fn plan_changed(&self, key: impl AsRef<[u8]>) {
        self.queues.wake(&self.seed.of_bytes(key.as_ref()));
    }

    /// Limiters in existence.
    #[must_use]
    pub fn keys(&self) -> usize {
        self.limiters.keys()
    }

    /// A verb under the plan of the key.
    pub(crate) fn by_plan<T>(&self, key: &[u8], verb: impl FnOnce(Under<'_, C>, &[u8]) -> T) -> T {
        verb(self.under_plan(&self.plan(key)), key)
    }

    /// The plan of the key, looked up.
    pub(crate) fn plan(&self, key: &[u8]) -> Plan {
        self.plans.as_ref().and_then(|plans| plans(key))
    }

    /// The limiters of keys of this plan.
    pub(crate) fn under_plan<'a>(&'a self, plan: &'a Plan) -> Under<'a, C> {
        Under { all: self, rule: plan.as_deref().unwrap_or(&self.usual), brought: false }
    }
}

/// The limiters of a [`PlannedLimiter`] under figures that a call brings along.
///
/// ```
/// use tidegate::{AlgorithmKind, Micros, PlannedLimiter, Rule, Spec};
///
/// let limiter = PlannedLimiter::new(Spec::unlimited(AlgorithmKind::TokenBucket))?;
/// let mut burst_of_three = Spec::new(AlgorithmKind::TokenBucket, 30, Micros::from_secs(60));
/// burst_of_three.capacity = Some(3);
/// let rule = Rule::new(burst_of_three)?;
/// let verdicts = [(); 4].map(|()| limiter.under(&rule).admits("ada", 1));
/// assert_eq!(verdicts, [true, true, true, false]);
/// # Ok::<(), tidegate::RuleErrors>(())
/// ```
#[derive(Debug)]
pub struct Under<'a, C = SystemClock> {
    pub(crate) all: &'a PlannedLimiter<C>,
    pub(crate) rule: &'a Rule,
    /// Whether the call brought it, so that it is not the key's plan.
    brought: bool,
}

impl<C> Clone for Under<'_, C> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<C> Copy for Under<'_, C> {}

impl<C: Clock> Under<'_, C> {
    /// See [`PlannedLimiter::admits`].
    pub fn admits(&self, key: impl AsRef<[u8]>, cost: u64) -> bool {
        let fingerprint = self.fingerprint(key.as_ref());
        if !self.all.queues.are_idle() {
            return self.behind(fingerprint, cost, Step::Decide).allowed;
        }
        self.step_now(fingerprint, cost, Step::Decide).verdict.is_allowed()
    }

    /// See [`PlannedLimiter::check`].
    pub fn check(&self, key: impl AsRef<[u8]>, cost: u64) -> Decision {
        self.step(self.fingerprint(key.as_ref()), cost, Step::Ask)
    }

    /// See [`PlannedLimiter::peek`].
    pub fn peek(&self, key: impl AsRef<[u8]>, cost: u64) -> Decision {
        self.step(self.fingerprint(key.as_ref()), cost, Step::Peek)
    }

    /// See [`PlannedLimiter::refund`].
    pub fn refund(&self, key: impl AsRef<[u8]>, units: u64) -> Decision {
        self.step(self.fingerprint(key.as_ref()), units, Step::Refund)
    }

    /// See [`PlannedLimiter::reserve`].
    ///
    /// # Errors
    /// The decision that refuses, with when to come back; nothing is taken.
    pub fn reserve(&self, key: impl AsRef<[u8]>, units: u64) -> Result<Reservation, Decision> {
        let fingerprint = self.fingerprint(key.as_ref());
        Reservation::of(units, self.take_or_refuse(fingerprint, units)?)
    }

    /// See [`PlannedLimiter::settle`].
    pub fn settle(&self, key: impl AsRef<[u8]>, reservation: Reservation, actual: u64) -> Decision {
        let (fingerprint, units, step) =
            (self.fingerprint(key.as_ref()), reservation.units(), Step::Settle { actual });
        if reservation.took_nothing() {
            self.step(fingerprint, units, Step::Peek)
        } else if reservation.took_elsewhere() {
            let one = self.all.limiters.shared(units, step, self.reading());
            // Those who wait for it wait in the queues of their own keys.
            self.all.queues.wake_all();
            one.and_then(|one| one.decision).unwrap_or(UNLIMITED)
        } else {
            self.step(fingerprint, units, step)
        }
    }

    /// The fingerprint of a key.
    pub(crate) fn fingerprint(&self, key: &[u8]) -> Fingerprint {
        self.all.seed.of_bytes(key)
    }

    fn step(&self, fingerprint: Fingerprint, cost: u64, step: Step) -> Decision {
        if !self.all.queues.are_idle() && !step.gives_back() {
            return decision_of(&self.behind(fingerprint, cost, step));
        }
        let one = self.step_now(fingerprint, cost, step);
        if step.gives_back() {
            self.all.queues.wake(&fingerprint);
        }
        told(one)
    }

    /// The same with all that came of it.
    #[cfg(feature = "tower")]
    pub(crate) fn done(
        &self,
        fingerprint: Fingerprint,
        cost: u64,
        step: Step,
    ) -> crate::step::Done {
        if !self.all.queues.are_idle() && !step.gives_back() {
            return self.behind(fingerprint, cost, step);
        }
        let done = self.done_now(fingerprint, cost, step);
        if step.gives_back() {
            self.all.queues.wake(&fingerprint);
        }
        done
    }

    /// One step, whoever waits.
    pub(crate) fn step_now(&self, fingerprint: Fingerprint, cost: u64, step: Step) -> One {
        let one = self.all.limiters.one(&self.part(fingerprint, cost, step), self.reading());
        // There is always a table of limiters that have rules of their own.
        one.unwrap_or_else(|| unlimited_at(self.all.clock.now()))
    }

    /// A preview; `None` when unlimited.
    pub(crate) fn preview_now(&self, fingerprint: Fingerprint) -> Option<Box<dyn Preview>> {
        let part = self.part(fingerprint, 1, Step::Peek);
        let preview = || self.all.limiters.preview(&part, self.reading());
        if self.rule.is_unlimited() { None } else { preview() }
    }

    const fn part(&self, fingerprint: Fingerprint, cost: u64, step: Step) -> Part<'_> {
        Part::alone(fingerprint, cost, step).under(self.rule, self.brought)
    }

    /// A reading of the clock, which is read once the limiter is locked.
    fn reading(&self) -> Reading<'_> {
        Reading::if_wanted(false, &self.all.clock)
    }
}

/// What a step told, of an unlimited rule too.
fn told(one: One) -> Decision {
    one.decision.unwrap_or(UNLIMITED)
}

/// The usual plan and the keys there are, not what looks up the others.
impl<C: fmt::Debug> fmt::Debug for PlannedLimiter<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("PlannedLimiter");
        shown.field("usual", &self.usual).field("keys", &self.limiters.keys());
        shown.field("clock", &self.clock).finish_non_exhaustive()
    }
}
