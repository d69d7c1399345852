//! The gate in memory: a request is resolved to limiters, one atomic step decides over them, an answer comes out.

mod counts;
mod early;
mod fingerprints;
mod settle;
mod snapshot;
mod waiting;

use std::sync::Arc;

use smallvec::{Array, SmallVec};
use tidegate_core::Timestamp;

use crate::answer::{Answer, Rules};
use crate::clock::{Clock, SystemClock};
use crate::dedupe::{DedupeCache, IdempotencyKey};
use crate::frontend::{self, Frontend, GateQueues, Setup};
use crate::inline_list::{InlineList, StepList};
use crate::key::Seed;
use crate::request::{Descriptor, Request};
use crate::rules::{AmendError, Amendment, Policy, PolicyErrors};
use crate::step::{Ask, Done, Standing, Step, keep_limited};
use crate::store::memory::{Generation, Kept, MemoryStore, Moved};
pub use counts::GateCounts;
use fingerprints::Fingerprints;

/// A policy in force, the limiters of every key, and a clock.
///
/// Share it by reference (or in an `Arc`): every verb takes `&self` and is exact under any concurrency.
///
/// ```
/// use tidegate::{Gate, Policy, RuleSpec};
///
/// let rules = vec![RuleSpec::new("per-user", "2/h").key(["user"]), RuleSpec::new("everyone", "3/h")];
/// let gate = Gate::new(Policy::new(rules)?);
/// let ask = |user| gate.check(("default", &[("user", user)])).is_allowed();
/// // The third request of ada takes nothing from the three of "everyone".
/// assert_eq!(["ada", "ada", "ada", "bob", "eve"].map(ask), [true, true, false, true, false]);
/// # Ok::<(), tidegate::PolicyErrors>(())
/// ```
#[derive(Debug)]
pub struct Gate<C = SystemClock> {
    pub(crate) front: Frontend<C>,
    memory: MemoryStore,
    seed: Seed,
    clock: C,
    /// The queues of waiters.
    pub(crate) queues: GateQueues,
    /// The dedupe cache: answers to requests with an id.
    answers: DedupeCache,
}

impl Gate {
    /// Creates a gate of a [`Policy`] or a [`Setup`], which reads the system's clock.
    ///
    /// ```
    /// use tidegate::{Gate, Policy, RuleSpec};
    ///
    /// let gate = Gate::new(Policy::new(vec![RuleSpec::new("all", "100/s")])?);
    /// assert!(gate.admits(&[]));
    /// # Ok::<(), tidegate::PolicyErrors>(())
    /// ```
    #[must_use]
    pub fn new(setup: impl Into<Setup>) -> Self {
        Self::build(setup.into(), SystemClock::new())
    }
}

impl<C: Clock> Gate<C> {
    /// Creates a gate that reads `clock`; a [`Timestamp`] will do if every request comes with its own time.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tidegate::{Gate, ManualClock, Policy, RuleSpec};
    ///
    /// let clock = ManualClock::new();
    /// let gate = Gate::with_clock(Policy::new(vec![RuleSpec::new("all", "1/h")])?, clock.clone());
    /// assert!(gate.admits(&[]) && !gate.admits(&[]));
    /// clock.advance(Duration::from_secs(3_600));
    /// assert!(gate.admits(&[]));
    /// # Ok::<(), tidegate::PolicyErrors>(())
    /// ```
    #[must_use]
    pub fn with_clock(setup: impl Into<Setup<C>>, clock: C) -> Self {
        Self::build(setup.into(), clock)
    }

    fn build(setup: Setup<C>, clock: C) -> Self {
        let (policy, parts) = setup.apart();
        let memory = MemoryStore::new(policy, &clock);
        let answers = parts.max_remembered_answers.map(DedupeCache::new).unwrap_or_default();
        Self {
            front: Frontend::of(parts, &memory, Some(clock.now())),
            memory,
            seed: Seed::random(),
            clock,
            queues: GateQueues::new(),
            answers,
        }
    }

    /// The policy that is in force.
    ///
    /// ```
    /// use tidegate::{Gate, Policy, RuleSpec};
    ///
    /// let gate = Gate::new(Policy::new(vec![RuleSpec::new("per-user", "2/h").key(["user"])])?);
    /// assert_eq!(gate.policy().rules()[0].name(), "per-user");
    /// # Ok::<(), tidegate::PolicyErrors>(())
    /// ```
    #[must_use]
    pub fn policy(&self) -> Arc<Policy> {
        Arc::clone(&self.memory.newest().policy)
    }

    /// Decides a request and, when every rule admits it, takes its cost from all of them.
    ///
    /// ```
    /// use tidegate::{Gate, Policy, RuleSpec};
    ///
    /// let gate = Gate::new(Policy::new(vec![RuleSpec::new("per-user", "2/h").key(["user"])])?);
    /// let ada = ("default", &[("user", "ada")]);
    /// assert_eq!(gate.check(ada).remaining(), Some(1));
    /// assert!(gate.check(ada).is_allowed());
    /// let refused = gate.check(ada);
    /// assert!(refused.retry_after().is_some_and(|wait| wait.as_secs() <= 1_800));
    /// # Ok::<(), tidegate::PolicyErrors>(())
    /// ```
    #[must_use = "a request goes on even if it was refused, unless the answer is looked at"]
    pub fn check<'r>(&self, request: impl Into<Request<'r>>) -> Answer<'_> {
        let request = &request.into();
        self.decide(request, &self.clock, Step::Ask)
    }

    /// Decides and takes like [`Gate::check`], but returns only whether the request is allowed, without values.
    ///
    /// ```
    /// use tidegate::{Gate, Policy, RuleSpec};
    ///
    /// let gate = Gate::new(Policy::new(vec![RuleSpec::new("per-user", "2/h").key(["user"])])?);
    /// let ada = ("default", &[("user", "ada")]);
    /// assert_eq!([(); 3].map(|()| gate.admits(ada)), [true, true, false]);
    /// # Ok::<(), tidegate::PolicyErrors>(())
    /// ```
    #[must_use = "a request goes on even if it was refused, unless the result is looked at"]
    pub fn admits<'r>(&self, request: impl Into<Request<'r>>) -> bool {
        let request = &request.into();
        let wants_values = !self.front.observers.is_empty()
            || !self.front.bans.is_empty()
            || request.id().is_some();
        let step = if wants_values { Step::Ask } else { Step::Decide };
        self.decide(request, &self.clock, step).is_allowed()
    }

    /// Returns the answer that [`Gate::check`] would give, and takes nothing.
    ///
    /// ```
    /// use tidegate::{Gate, Policy, RuleSpec};
    ///
    /// let gate = Gate::new(Policy::new(vec![RuleSpec::new("per-user", "2/h").key(["user"])])?);
    /// let ada = ("default", &[("user", "ada")]);
    /// assert!(gate.check(ada).is_allowed());
    /// // How many requests of one unit would be admitted now.
    /// assert_eq!(gate.peek(ada).remaining(), Some(1));
    /// # Ok::<(), tidegate::PolicyErrors>(())
    /// ```
    #[must_use]
    pub fn peek<'r>(&self, request: impl Into<Request<'r>>) -> Answer<'_> {
        let request = &request.into();
        self.step(request, &self.clock, Step::Peek, |generation, asks, mut done| {
            done.refuse_without_rule(request, &generation.policy, asks);
            answer(generation, asks, done)
        })
    }

    /// Returns what the gate keeps in memory now: limiters, in all and of each rule, and remembered answers.
    ///
    /// ```
    /// use tidegate::{Gate, Policy, RuleSpec};
    ///
    /// let gate = Gate::new(Policy::new(vec![RuleSpec::new("per-user", "10/s").key(["user"])])?);
    /// for user in ["ada", "bob", "ada"] {
    ///     let _ = gate.admits(&[("user", user)]);
    /// }
    /// assert_eq!(gate.counts().keys, 2);
    /// # Ok::<(), tidegate::PolicyErrors>(())
    /// ```
    #[must_use]
    pub fn counts(&self) -> GateCounts {
        GateCounts {
            keys: self.memory.keys(),
            remembered_answers: self.answers.len(),
            forgotten_answers: self.answers.forgotten(),
            generation: self.memory.newest(),
        }
    }

    /// Replaces the policy at one instant: no decision mixes both policies, none is lost between them, and a request
    /// that several rules decide is charged to all of them or to none.
    ///
    /// Rules are matched by domain and name. Usage carries over, so no change is a credit or a reset:
    ///
    /// - A rule that is **unchanged** keeps its limiters.
    /// - A rule with **other values** (its [`Spec`](crate::Spec), its overrides) first settles time under the old
    ///   values; then a higher limit adds the difference, and a lower one may leave debt: see
    ///   [`Limiter::amend`](crate::Limiter::amend). If overrides are added, removed or reordered, each limiter of the rule
    ///   gets its new values when it is next asked, and stores them next to its state from then on.
    /// - Other fields (mode, caps, matching, waiting) apply from now on. A rule with another **key** gets new limiters,
    ///   which start fresh, and forgets the answers remembered for its old limiters.
    /// - A rule that is **removed** stops deciding. Its limiters are kept until all of them are idle, so that adding
    ///   the rule back gives no caller a fresh limit.
    /// - A rule that is **added** starts fresh.
    ///
    /// Plans ([`Setup::plans`](crate::Setup::plans)), bans, queues and answers remembered under an id belong to a rule by its domain
    /// and name, and stay. A request that waits for a limiter of a changed or removed rule asks again immediately; a
    /// rule that was added since refuses it if its limiter has no units for it, because the request is not in that
    /// limiter's queue.
    ///
    /// The gate keeps deciding during the change. Limiters are moved one at a time, when they are next asked or by this
    /// call, which returns when all are moved: its duration grows with the number of limiters of changed rules. Changes
    /// from several threads are applied one after another. They count at the time of the gate's clock, so a gate that
    /// decides at the times of a trace has a [`ManualClock`](crate::ManualClock) that is set to them.
    ///
    /// An [`Answer`](crate::Answer) keeps the policy that decided.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tidegate::{AlgorithmKind, Descriptor, Gate, Policy, Request, RuleSpec, Spec};
    ///
    /// let per_day = |limit| Spec::new(AlgorithmKind::SlidingLog, limit, Duration::from_secs(86_400));
    /// let per_user = |limit| RuleSpec::new("per-user", per_day(limit)).key(["user"]);
    /// let all = RuleSpec::new("all", per_day(1_000));
    /// let gate = Gate::new(Policy::new(vec![per_user(100)])?);
    /// let entries = [("user", "ada")];
    /// let descriptors = [Descriptor::new(&entries).cost(80)];
    /// let request = Request::new("default", &descriptors);
    /// assert!(gate.check(&request).is_allowed());
    ///
    /// gate.replace(Policy::new(vec![all.clone(), per_user(120)])?)?;
    /// assert_eq!(gate.peek(&request).remaining(), Some(40));
    /// gate.replace(Policy::new(vec![all.clone()])?)?;
    /// assert_eq!(gate.peek(&request).remaining(), Some(1_000));
    /// gate.replace(Policy::new(vec![all, per_user(100)])?)?;
    /// assert_eq!(gate.peek(&request).remaining(), Some(20)); // 80 are used still
    /// # Ok::<(), tidegate::PolicyErrors>(())
    /// ```
    ///
    /// # Errors
    /// Returns an error if the existing limiters would not fit in the memory that a rule allows. The old policy then
    /// stays in force, and nothing is lost.
    pub fn replace(&self, policy: Policy) -> Result<(), PolicyErrors> {
        self.change(|_| Ok(policy))
    }

    /// Replaces the values of the named rule, or of one of its overrides ([`Amendment`]), with any algorithm, at one
    /// instant: no decision mixes old and new values, none is lost between them, and a request that several rules decide is charged to all of them or to
    /// none.
    ///
    /// This is [`Gate::replace`] with a policy in which the rule has these values. All its other fields stay: its
    /// match, its mode, its caps on keys and its `dedupe` time. Its overrides stay too, and now change the same fields
    /// of the new spec. Limiters under an unlimited plan ([`Setup::plans`](crate::Setup::plans)) stay as they are.
    ///
    /// Each answer reports the values that decided ([`Matched::values`](crate::Matched::values)). A request that is
    /// repeated under its id gets the remembered answer only while the values are still the same.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tidegate::{AlgorithmKind, Descriptor, Gate, Limit, Policy, Request, RuleSpec, Spec};
    ///
    /// let per_day = |limit| Spec::new(AlgorithmKind::SlidingLog, limit, Duration::from_secs(86_400));
    /// let rules = vec![RuleSpec::new("per-user", per_day(100)).key(["user"])];
    /// let gate = Gate::new(Policy::new(rules)?);
    /// let entries = [("user", "ada")];
    /// let descriptors = [Descriptor::new(&entries).cost(80)];
    /// let request = Request::new("default", &descriptors);
    /// assert!(gate.check(&request).is_allowed());
    ///
    /// gate.amend("default", "per-user", per_day(170))?;
    /// assert_eq!(gate.peek(&request).remaining(), Some(90));
    /// let answer = gate.check(&request);
    /// assert_eq!(answer.matched()[0].values().spec().limit, Limit::Units(170));
    /// gate.amend("default", "per-user", per_day(100))?;
    /// assert_eq!(gate.peek(&request).remaining(), Some(0)); // 160 are used
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Returns an error if the policy has no such rule or the rule no such override, if the values are invalid, or if the existing limiters would
    /// not fit in the memory that they allow. The old values then stay in force, and nothing is lost.
    pub fn amend(
        &self,
        domain: &str,
        rule: &str,
        values: impl Into<Amendment>,
    ) -> Result<(), AmendError> {
        self.change(|policy| policy.with_values((domain, rule), values.into()))
    }

    /// Puts in force the policy that `next` makes of the current one.
    fn change<E: From<PolicyErrors>>(
        &self,
        next: impl FnOnce(&Policy) -> Result<Policy, E>,
    ) -> Result<(), E> {
        self.memory.change(
            || self.clock.now(),
            next,
            |changed| {
                self.queues.wake_those(|queue| changed.iter().any(|rule| queue.is_of(*rule)));
            },
        )
    }

    #[cfg(feature = "tower")]
    pub(crate) const fn clock(&self) -> &C {
        &self.clock
    }

    fn decide<'g>(&'g self, request: &Request<'_>, clock: &impl Clock, step: Step) -> Answer<'g> {
        self.step(request, clock, step, |generation, asks, done| {
            self.conclude(request, generation, asks, done)
        })
    }

    /// Runs a step that gives nothing back, and returns the result of `then` with the policy, the limiters and their
    /// replies. They stay where they were made, for to move them takes as long as to decide.
    #[inline]
    fn step<T>(
        &self,
        request: &Request<'_>,
        clock: &impl Clock,
        step: Step,
        then: impl FnOnce(Kept<Generation>, &[Ask], Done) -> T,
    ) -> T {
        if !self.queues.are_idle() {
            let Stepped { generation, asks, done } = self.step_behind(request, clock, step);
            return then(generation, &asks, done);
        }
        loop {
            let generation = self.memory.newest();
            let mut asks = StepList::new();
            self.resolve(&generation, request, |rule| generation.is_per_key(rule), &mut asks);
            keep_limited(&mut asks);
            if let Ok(done) = self.step_in(&generation, request, &asks, clock, step) {
                return then(generation, &asks, done);
            }
            self.memory.wait_for_newer();
        }
    }

    /// Runs that step in one generation.
    #[inline]
    fn step_in(
        &self,
        generation: &Generation,
        request: &Request<'_>,
        asks: &[Ask],
        clock: &impl Clock,
        step: Step,
    ) -> Result<Done, Moved> {
        let once = self.once_for(generation, request, asks, step);
        match early::without_asking(self, generation, asks, once, clock)? {
            Some(done) => Ok(done),
            None => self.step_at(generation, asks, once, clock, step),
        }
    }

    /// The idempotency key of the request, with the verb that is called.
    #[inline]
    fn once_for(
        &self,
        generation: &Generation,
        request: &Request<'_>,
        asks: &[Ask],
        step: Step,
    ) -> Option<IdempotencyKey> {
        // A peek reports the limiter as it is now, also after reported usage.
        let is_answered_again = step == Step::Peek && asks.iter().any(|ask| ask.report);
        if is_answered_again { None } else { early::once(self, generation, request, asks) }
    }

    /// Runs one step over the limiters in `asks`, regardless of waiters.
    fn step_at(
        &self,
        generation: &Generation,
        asks: &[Ask],
        once: Option<IdempotencyKey>,
        clock: &impl Clock,
        step: Step,
    ) -> Result<Done, Moved> {
        let run = || self.memory.step(generation, asks, clock, step);
        match once {
            None => run(),
            Some(once) => self.answers.step(once, asks, clock, step, run),
        }
    }

    /// Turns the result of a decision into an answer, and notifies observers.
    #[inline]
    fn conclude<'g>(
        &'g self,
        request: &Request<'_>,
        generation: Kept<Generation>,
        asks: &[Ask],
        mut done: Done,
    ) -> Answer<'g> {
        done.refuse_without_rule(request, &generation.policy, asks);
        early::count_refusals(self, asks, &done);
        if self.front.observers.is_empty() {
            // Without observers the answer is constructed directly in the caller's memory.
            return answer(generation, asks, done);
        }
        let answer = answer(generation, asks, done);
        self.front.observers.notify(request, &answer);
        answer
    }

    /// Resolves a request: its limiters in the order of the rules, without duplicates.
    fn asks(&self, generation: &Generation, request: &Request<'_>) -> InlineList<Ask> {
        let mut asks = self.all_asks(generation, request);
        keep_limited(&mut asks);
        asks
    }

    /// Resolves a request, and includes limiters that a plan or the request itself makes unlimited.
    fn all_asks(&self, generation: &Generation, request: &Request<'_>) -> InlineList<Ask> {
        let mut asks = InlineList::new();
        self.resolve(generation, request, |rule| generation.is_per_key(rule), &mut asks);
        asks
    }

    /// Adds the limiters of a request to an empty list. Limiters of an unlimited rule are added only if the rule
    /// `may_have_others` than its own values.
    #[inline]
    fn resolve<A: Array<Item = Ask>>(
        &self,
        generation: &Generation,
        request: &Request<'_>,
        may_have_others: impl Fn(usize) -> bool,
        asks: &mut SmallVec<A>,
    ) {
        let mut fingerprints = Fingerprints::new(&self.seed);
        let lineage = |number| generation.lineage(number);
        let fingerprint = |rule, descriptor: &Descriptor<'_>| fingerprints.of(rule, descriptor);
        self.front.resolve(
            &generation.policy,
            lineage,
            request,
            fingerprint,
            may_have_others,
            asks,
        );
    }
}

/// The result of a step, with the policy that decided.
#[derive(Debug)]
pub(crate) struct Stepped {
    generation: Kept<Generation>,
    asks: InlineList<Ask>,
    done: Done,
}

impl Stepped {
    fn answer<'g>(self) -> Answer<'g> {
        answer(self.generation, &self.asks, self.done)
    }
}

/// The answer of a step under the policy that decided.
#[inline]
fn answer<'g>(generation: Kept<Generation>, asks: &[Ask], done: Done) -> Answer<'g> {
    frontend::answer(Rules::Kept(generation), asks, done, Standing::Exact)
}

/// Verbs for requests that come with their own time, as in a recorded trace. Times may step back.
impl Gate<Timestamp> {
    /// Decides like [`Gate::check`] a request that came at `at`, as in a recorded trace.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tidegate::{Gate, Policy, RuleSpec, Timestamp};
    ///
    /// let policy = Policy::new(vec![RuleSpec::new("all", "1/s")])?;
    /// let gate = Gate::with_clock(policy, Timestamp::EPOCH);
    /// let recorded = [0, 1, 1_000].map(|ms| Timestamp::EPOCH.plus(Duration::from_millis(ms)));
    /// let admitted = recorded.map(|at| gate.check_at(&[], at).is_allowed());
    /// assert_eq!(admitted, [true, false, true]);
    /// # Ok::<(), tidegate::PolicyErrors>(())
    /// ```
    #[must_use = "a request goes on even if it was refused, unless the answer is looked at"]
    pub fn check_at<'r>(&self, request: impl Into<Request<'r>>, at: Timestamp) -> Answer<'_> {
        let request = &request.into();
        self.decide(request, &at, Step::Ask)
    }
}
