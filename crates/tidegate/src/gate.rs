//! The gate in memory: a request is resolved to limiters, one atomic step decides over them, an answer comes out.

mod counts;
mod settle;
mod snapshot;
mod step;
mod waiting;

use std::io::{self, Read, Write};
use std::mem;
use std::sync::Arc;

use tidegate_core::Timestamp;

use crate::answer::Answer;
use crate::clock::{Clock, SystemClock};
use crate::dedupe::DedupeCache;
use crate::frontend::{Frontend, GateQueues, Setup};
use crate::key::Seed;
use crate::request::Request;
use crate::rules::{
    AmendError, Amendment, Policy, PolicyErrors, PolicyInternals as _, with_values,
};
use crate::snapshot::{SnapshotError, SnapshotLoaded, SnapshotWritten};
use crate::step::Step;
use crate::store::memory::MemoryStore;
pub use counts::GateCounts;
use step::answer;

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
    pub(crate) clock: C,
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
        Self::with_clock(setup, SystemClock::new())
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
        let mut setup = setup.into();
        let memory = MemoryStore::new(mem::take(&mut setup.policy), &clock);
        let answers = setup.max_remembered_answers.map(DedupeCache::new).unwrap_or_default();
        Self {
            front: Frontend::of(setup, &memory, Some(clock.now())),
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
        self.run(request, &self.clock, Step::Peek, |generation, asks, mut done| {
            if asks.is_empty() && generation.policy.refuses_without_rule(request) {
                done.allowed = false;
            }
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
    #[doc = include_str!("frontend/replace.md")]
    ///
    /// A rule with another **key** gets new limiters, which start fresh, and forgets the answers remembered for its old
    /// limiters. A rule that is **added** starts fresh. The limiters of a removed rule are kept until all of them are
    /// idle.
    ///
    /// The gate keeps deciding during the change. Limiters are moved one at a time, when they are next asked or by this
    /// call, which returns when all are moved: its duration grows with the number of limiters of changed rules. Changes
    /// from several threads are applied one after another. They count at the time of the gate's clock, so a gate that
    /// decides at the times of a trace has a [`ManualClock`](crate::ManualClock) that is set to them.
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

    /// Replaces the values of the named rule, or of one of its overrides ([`Amendment`]), with any algorithm.
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
    /// Returns an error if the policy has no such rule or the rule no such override, if the values are invalid, or if
    /// the existing limiters would not fit in the memory that they allow. The old values then stay in force, and
    /// nothing is lost.
    pub fn amend(
        &self,
        domain: &str,
        rule: &str,
        values: impl Into<Amendment>,
    ) -> Result<(), AmendError> {
        self.change(|policy| with_values(policy, (domain, rule), values.into()))
    }

    /// Writes the state that a gate in another process needs to go on ([`Gate::with_snapshot`]): the limiters of every
    /// rule in force, with the values they were counted under and the limiter of keys without room; bans and counted
    /// refusals; remembered answers to requests with an id; and the secret that keys are hashed with.
    ///
    /// Waiting requests, held permits, statistics, plans and observers are not in it, nor are the limiters of rules
    /// that were removed.
    ///
    /// Decisions go on during the call: a few limiters are locked at a time, never while `to` is written, and a change
    /// of the policy waits until all are written. So a snapshot is not of one instant. Each limiter is as it was at
    /// some moment of the call: units admitted after the call began may be missing, but no unit is in it that was not
    /// admitted.
    ///
    /// A reader of the snapshot knows the secret and can make keys whose limiters collide: keep it as you keep a
    /// password. Writes are of up to 64 KiB, or as long as one log is; small ones are few, but `to` may as well be
    /// buffered.
    ///
    /// ```
    /// use tidegate::{AlgorithmKind, Gate, ManualClock, Policy, RuleSpec, Spec};
    ///
    /// let spec = Spec::per_hour(2).algorithm(AlgorithmKind::SlidingLog);
    /// let policy = Policy::new(vec![RuleSpec::new("per-user", spec).key(["user"])])?;
    /// let clock = ManualClock::new();
    /// let before = Gate::with_clock(policy.clone(), clock.clone());
    /// let ada = ("default", &[("user", "ada")]);
    /// assert!(before.admits(ada));
    /// let mut file = Vec::new();
    /// let written = before.write_snapshot(&mut file)?;
    /// assert_eq!((written.limiters, written.bytes), (1, file.len() as u64));
    ///
    /// let (after, loaded) = Gate::with_clock(policy, clock).with_snapshot(&file[..])?;
    /// assert_eq!(loaded.limiters, 1);
    /// assert_eq!((after.admits(ada), after.admits(ada)), (true, false));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Returns the errors of `to`.
    pub fn write_snapshot(&self, mut to: impl Write) -> io::Result<SnapshotWritten> {
        snapshot::write(self, &mut to)
    }

    /// Goes on from a snapshot that a gate has [written](Gate::write_snapshot): the new gate decides as if the old gate had
    /// never stopped. Call it before the first request.
    ///
    /// Time passes as the clocks say: units leave while no process runs. If this gate's clock is earlier than the
    /// writer's, that counts as a step of the clock: it makes no caller wait longer than a window, and gives no caller
    /// more than one fill. Rules are matched by domain and name, and usage under other values is carried over as by
    /// [`Gate::replace`]. The limiters of a rule that this gate does not have are dropped, and so are the limiters of a
    /// rule with another key. The caps of the rules hold: a limiter for which there is no room is not taken over, and
    /// its key is treated like any other key without room. Answers to requests with an id are remembered as long as the
    /// values of their rules are the same and the program is of the same version.
    ///
    /// ```
    /// use tidegate::{Gate, Policy, RuleSpec};
    ///
    /// let policy = Policy::new(vec![RuleSpec::new("all", "100/h")])?;
    /// let mut file = Vec::new();
    /// Gate::new(policy.clone()).write_snapshot(&mut file)?;
    /// let (gate, loaded) = Gate::new(policy).with_snapshot(&file[..])?;
    /// assert!(gate.admits(&[]) && loaded.limiters == 0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Returns an error if the snapshot is damaged, incomplete or of another version, and if this gate has limiters
    /// already. Even for damaged bytes, memory is taken only as far as there are bytes. The gate is dropped on an
    /// error, because a part may have been loaded: begin with a new gate.
    pub fn with_snapshot(
        mut self,
        from: impl Read,
    ) -> Result<(Self, SnapshotLoaded), SnapshotError> {
        let loaded = snapshot::load(&mut self, from)?;
        Ok((self, loaded))
    }

    /// Puts in force the policy that `next` makes of the current one.
    fn change<E: From<PolicyErrors>>(
        &self,
        next: impl FnOnce(&Policy) -> Result<Policy, E>,
    ) -> Result<(), E> {
        self.memory.change(|| self.clock.now(), next, |changed| self.queues.wake_all_of(changed))
    }
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
