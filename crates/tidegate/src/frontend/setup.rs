//! The parts that a program adds to a policy before it makes a gate of it.

use std::fmt;
use std::sync::Arc;

use tidegate_core::{Rule, Timestamp};

use super::{Bans, Frontend, Lookup, Plans};
use crate::clock::SystemClock;
use crate::limiter::Ban;
use crate::observe::{Observer, Observers};
use crate::request::Descriptor;
use crate::rules::{NoSuchRule, Policy, PolicyInternals as _};
use crate::store::memory::MemoryStore;

/// A policy with what a program adds to it: observers, plans and bans. A gate takes one wherever it takes a policy.
///
/// ```
/// use std::sync::Arc;
/// use tidegate::{Gate, Policy, RuleSpec, RuleStatistics, Setup};
///
/// let policy = Policy::new(vec![RuleSpec::new("per-user", "1/h").key(["user"])])?;
/// let statistics = Arc::new(RuleStatistics::new());
/// let gate = Gate::new(Setup::new(policy).observer(statistics.clone()));
/// while gate.admits(&[("user", "ada")]) {}
/// let minute = statistics.of(gate.policy().rules())[0].minute();
/// assert_eq!((minute.pass, minute.block), (1, 1));
/// # Ok::<(), tidegate::PolicyErrors>(())
/// ```
#[must_use = "it decides nothing until a gate is made of it"]
pub struct Setup<C = SystemClock> {
    pub(crate) policy: Policy,
    observers: Observers,
    /// By the domain and the name of the rule, as the bans.
    plans: Vec<((String, String), Box<Lookup>)>,
    bans: Vec<((String, String), Ban<C>)>,
    /// The most remembered answers in memory, if it is not the default.
    pub(crate) max_remembered_answers: Option<usize>,
}

impl<C> Setup<C> {
    /// Creates a setup of a policy alone.
    pub fn new(policy: Policy) -> Self {
        Self {
            policy,
            observers: Observers::default(),
            plans: Vec::new(),
            bans: Vec::new(),
            max_remembered_answers: None,
        }
    }

    /// Notifies an observer of every decision: of each [`Gate::check`](crate::Gate::check), `admits`, `acquire` and their
    /// variants, when it is made, and over a store also of decisions without the store. It is not notified of a peek,
    /// of refunds, settlements and resets. A request that waits, or is held for a delay, is reported when that is over,
    /// and never if it is dropped before. Several observers are notified in the order in which they were added.
    ///
    /// With an observer, [`Gate::admits`](crate::Gate::admits) computes all values and costs as much as a check; without
    /// one it pays nothing.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use tidegate::{Answer, Gate, Policy, Request, RuleSpec, Setup};
    ///
    /// let policy = Policy::new(vec![RuleSpec::new("per-user", "1/h").key(["user"])])?;
    /// let log = |_: &Request<'_>, answer: &Answer<'_>| println!("{:?}", answer.retry_after());
    /// let gate = Gate::new(Setup::new(policy).observer(Arc::new(log)));
    /// assert!(gate.admits(&[("user", "ada")]));
    /// # Ok::<(), tidegate::PolicyErrors>(())
    /// ```
    pub fn observer(mut self, observer: Arc<dyn Observer>) -> Self {
        self.observers.add(observer);
        self
    }

    /// Looks up the values of the named rule for each key with `plans`: the plan of the caller that a descriptor is
    /// about, with any algorithm. `None` stands for the rule's own values, or for the values of its override. Under an
    /// unlimited plan the rule does not decide, and its limiters keep their usage.
    ///
    /// A second call replaces the lookup. The request is decided with its other rules in one atomic step, and every
    /// verb uses the plan. A key whose plan changes keeps its usage: the request that finds the change settles time
    /// under the old values and puts the new values in force, even if it is refused. A peek, or a cost of 0, reports
    /// the decision under the new values and puts nothing in force. Values that a request supplies
    /// ([`RequestLimit`](crate::RequestLimit)) take precedence over the plan.
    ///
    /// `plans` is called for each request, once for each limiter of the rule; for a waiting request it is called
    /// again whenever its turn may have come. It should return the same plan for all descriptors with the same key.
    /// It must be quick and must not ask this gate: while requests wait, it runs with all queues locked.
    ///
    /// Over a store all nodes should look up the same values. If they differ, each call puts the values of its node in
    /// force, and usage carries over: a plan has no [revision](Policy::with_revision), unlike the values of the
    /// rule itself. A request that waits keeps its plan until another policy is put in force. Values that no store can
    /// hold, such as a log whose string could exceed 512 MB, are refused as by a rule that is closed while the store is
    /// unavailable ([`Answer::is_unavailable`](crate::Answer::is_unavailable)). While the store is unavailable, a rule that
    /// is decided in process uses this node's share of the plan, and denies if that is less than one unit.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tidegate::{AlgorithmKind, Descriptor, Gate, Policy, Request, Rule, RuleSpec, Setup, Spec};
    ///
    /// let per_hour = |limit| Spec::new(AlgorithmKind::SlidingLog, limit, Duration::from_secs(3_600));
    /// let rules = vec![RuleSpec::new("per-user", per_hour(2)).key(["user"]), RuleSpec::new("all", per_hour(50))];
    /// let large = Rule::new(per_hour(100))?;
    /// let setup = Setup::new(Policy::new(rules)?).plans("default", "per-user", move |descriptor| {
    ///     (descriptor.value("user") == Some("ada")).then(|| large.clone())
    /// })?;
    /// let gate = Gate::new(setup);
    ///
    /// let left = |user| {
    ///     let entries = [("user", user)];
    ///     gate.check(&Request::new("default", &[Descriptor::new(&entries)])).matched()[0].decision().remaining
    /// };
    /// assert_eq!((left("ada"), left("bob")), (99, 1));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Returns an error if the policy has no such rule.
    pub fn plans(
        mut self,
        domain: &str,
        rule: &str,
        plans: impl Fn(&Descriptor<'_>) -> Option<Rule> + Send + Sync + 'static,
    ) -> Result<Self, NoSuchRule> {
        let rule = self.named(domain, rule)?;
        self.plans.push((rule, Box::new(plans)));
        Ok(self)
    }

    /// Bans each key that the named rule refuses too often: see [`Ban`], which should use a copy of this gate's
    /// clock.
    ///
    /// Every denial by the rule counts as a refusal of its key, once for each request. That includes requests that
    /// waited and costs that never fit, but not keys for which the rule has no room: those are refused because of
    /// other keys. A request with a banned key is denied before any limiter is asked: nothing is charged, the request
    /// does not wait, and `retry_after` is the rest of the ban, or the limiter's own wait if that is longer. A
    /// request that waits already when the ban starts goes on waiting. A cost of 0 is always allowed, and a rule in
    /// shadow mode never bans. [`Gate::reset`](crate::Gate::reset) lifts the bans of the limiters that it resets.
    ///
    /// Over a store this process counts refusals and keeps bans: each node bans for the refusals that it returned itself,
    /// and its `reset` lifts its own bans. Refusals without the store are not counted, because the store might have
    /// admitted the request. A ban that has started holds while the store is unavailable. The answer to a banned request
    /// contains only the banned limiters, because only the store knows the others; `retry_after` is the rest of the ban,
    /// or the store's last `retry_after` for the limiter if that is longer. If a request has an
    /// [id](crate::Request::with_id) and its answer may be remembered, the store is looked at for that answer first: any
    /// node may have admitted the request. So an id costs the store a look also while the key is banned.
    ///
    /// A rule has one ban; a second call replaces it.
    ///
    /// ```
    /// use std::time::Duration;
    /// use tidegate::{
    ///     AlgorithmKind, Ban, Descriptor, Gate, ManualClock, Policy, Request, RuleSpec, Setup, Spec,
    /// };
    ///
    /// let clock = ManualClock::new();
    /// let spec = Spec::new(AlgorithmKind::FixedWindow, 1, Duration::from_secs(1));
    /// let policy = Policy::new(vec![RuleSpec::new("per-user", spec).key(["user"])])?;
    /// let hour = Duration::from_secs(3_600);
    /// let ban = Ban::with_clock(2, Duration::from_secs(60), hour, clock.clone())?;
    /// let setup = Setup::new(policy).ban("default", "per-user", ban)?;
    /// let gate = Gate::with_clock(setup, clock);
    ///
    /// let entries = [("user", "ada")];
    /// let descriptors = [Descriptor::new(&entries)];
    /// let request = Request::new("default", &descriptors);
    /// assert!(gate.admits(&request));
    /// assert!(!gate.admits(&request));
    /// assert!(!gate.admits(&request)); // the second refusal
    /// assert_eq!(gate.check(&request).retry_after(), Some(hour));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Returns an error if the policy has no such rule.
    pub fn ban(mut self, domain: &str, rule: &str, ban: Ban<C>) -> Result<Self, NoSuchRule> {
        let rule = self.named(domain, rule)?;
        self.bans.push((rule, ban));
        Ok(self)
    }

    /// Remembers at most `most` answers of requests that have an id, in a gate in memory (default one million, some 200
    /// bytes each), for the `dedupe` time of their rules. Expired answers count until they are dropped. At the cap, each
    /// new answer replaces the answer under the same lock that expires first; a lock covers an arbitrary part of all
    /// answers. The request of the replaced answer is decided again if it is repeated.
    pub const fn max_remembered_answers(mut self, most: usize) -> Self {
        self.max_remembered_answers = Some(most);
        self
    }

    /// Returns the domain and the name of a rule, if the policy has it.
    fn named(&self, domain: &str, rule: &str) -> Result<(String, String), NoSuchRule> {
        self.policy.named(domain, rule)?;
        Ok((domain.to_owned(), rule.to_owned()))
    }
}

impl<C> From<Policy> for Setup<C> {
    fn from(policy: Policy) -> Self {
        Self::new(policy)
    }
}

impl<C> fmt::Debug for Setup<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Setup").field("policy", &self.policy).finish_non_exhaustive()
    }
}

impl<C> Frontend<C> {
    /// Creates the parts of a gate whose rules have their lineages in `memory`. If `at` is given, each limiter of a rule
    /// with plans has a rule of its own there from then on.
    pub(crate) fn of(setup: Setup<C>, memory: &MemoryStore, at: Option<Timestamp>) -> Self {
        let Setup { observers, plans, bans, .. } = setup;
        let mut front = Self { plans: Plans::none(), bans: Bans::none(), observers };
        // The setup has found all of these rules in the policy.
        for ((domain, rule), plan) in plans {
            let lineage = match at {
                Some(at) => memory.keep_per_key(&domain, &rule, at),
                None => memory.keep_lineage(&domain, &rule),
            };
            if let Ok(lineage) = lineage {
                front.plans.add(lineage, plan);
            }
        }
        for ((domain, rule), ban) in bans {
            if let Ok(lineage) = memory.keep_lineage(&domain, &rule) {
                front.bans.add(lineage, ban);
            }
        }
        front
    }
}
