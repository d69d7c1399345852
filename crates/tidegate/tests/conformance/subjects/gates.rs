//! A gate over any store: the verbs of a request, and a gate in this process.

use std::pin::Pin;
use std::time::Duration;

use tidegate::{
    AlgorithmKind, Amendment, Answer, Decision, Descriptor, ManualClock, OnExcess, Request,
    RuleSpec, Spec, Taken,
};

use super::{Kind, Settle, Subject, Turn, Waiting};
pub(crate) use crate::plans::Plans;

/// An answer that is waited for.
pub(crate) type Answered<'g> = Pin<Box<dyn Future<Output = Answer<'g>> + 'g>>;

/// The end of a held cost.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Ending {
    Dropped,
    Kept,
    Released,
    Settled(u64),
}

/// The longest wait that a rule allows.
const LONGEST_WAIT: Duration = Duration::from_secs(30 * 86_400);

/// The verbs of a gate.
pub(crate) trait AnyGate: Sync {
    fn check(&self, request: &Request<'_>) -> Answer<'_>;
    fn admits(&self, request: &Request<'_>) -> bool;
    fn peek(&self, request: &Request<'_>) -> Answer<'_>;
    fn refund(&self, request: &Request<'_>) -> Answer<'_>;
    fn settle(&self, request: &Request<'_>, taken: Option<&Taken>, actual: u64) -> Answer<'_>;
    /// Renews the permits of a request; returns whether they are out still.
    fn renew(&self, request: &Request<'_>, taken: &Taken) -> bool;
    fn reset(&self, request: &Request<'_>) -> usize;
    fn waiting(&self, request: &Request<'_>) -> usize;
    /// The number of limiters, if the gate keeps them itself.
    fn keys(&self) -> Option<usize>;
    fn acquire<'g>(&'g self, request: Request<'g>) -> Answered<'g>;
    /// Replaces the policy, on every node.
    fn replace(&self, rules: Vec<RuleSpec>);
    /// Changes the values of a rule or of an override, on every node.
    fn amend(&self, rule: &str, values: Amendment);
    /// Holds the cost of a request during an action, and then ends it; returns the answer to the request.
    fn hold_while<'g>(
        &'g self,
        request: &Request<'g>,
        happens: &dyn Fn(),
        end: Ending,
    ) -> Result<Answer<'g>, Answer<'g>>;

    fn available(&self, request: &Request<'_>) -> u64 {
        self.peek(request).remaining().unwrap_or(u64::MAX)
    }

    fn hold<'g>(&'g self, request: &Request<'g>, end: Ending) -> Result<Answer<'g>, Answer<'g>> {
        self.hold_while(request, &|| (), end)
    }
}

/// A ban on keys of a rule: after so many refusals within a day, for a week.
pub(crate) struct Banning {
    pub(crate) rule: &'static str,
    pub(crate) refusals: u64,
}

impl Banning {
    pub(crate) const WEEK: Duration = Duration::from_secs(7 * 86_400);
}

/// A gate whose requests come with their own time.
pub(crate) trait ByTime {
    fn decide(&mut self, request: &Request<'_>, at_us: u64) -> Answer<'_>;
}

/// Makes gates over one kind of store.
pub(crate) trait Store: Sync {
    /// A gate whose requests are decided by all nodes in turn. It uses the clock, unless its store has its own.
    fn gate_by(&self, clock: &ManualClock, rules: Vec<RuleSpec>) -> Box<dyn AnyGate + '_>;

    fn gate(&self, rules: Vec<RuleSpec>) -> Box<dyn AnyGate + '_> {
        self.gate_by(&ManualClock::new(), rules)
    }

    /// A gate for state that each process has alone: waiters, bans and remembered answers.
    fn of_one_process(&self, rules: Vec<RuleSpec>, ban: Option<Banning>) -> Box<dyn AnyGate + '_>;

    /// A gate with plans. It uses the clock, unless its store has its own.
    fn planned(
        &self,
        clock: &ManualClock,
        rules: Vec<RuleSpec>,
        plans: &Plans,
    ) -> Box<dyn AnyGate + '_>;

    /// Returns whether its gates use the clock of a test.
    fn has_time(&self) -> bool {
        true
    }

    /// Returns whether one step decides all limiters of a request.
    fn is_one_step(&self) -> bool {
        true
    }

    /// A gate of requests with times of their own, the first at `begin_us`; `None` if the store's numbers are too
    /// small for the rules.
    fn by_time(&self, begin_us: u64, rules: Vec<RuleSpec>) -> Option<Box<dyn ByTime + '_>>;

    /// The algorithms of rules that one request may match together.
    fn algorithms(&self) -> Vec<AlgorithmKind> {
        AlgorithmKind::ALL.to_vec()
    }

    /// Like [`Kind::asks`].
    fn asks(&self) -> u64 {
        400
    }
}

impl<S: Store> Kind for S {
    fn make(&self, spec: Spec) -> Box<dyn Subject + '_> {
        Box::new(OneRule(self.gate(vec![one_rule(spec)])))
    }

    fn in_turn(&self, spec: Spec, max_waiters: usize) -> Box<dyn Waiting + '_> {
        Box::new(OneRule(self.of_one_process(vec![waited_for(spec, max_waiters)], None)))
    }

    fn asks(&self) -> u64 {
        Store::asks(self)
    }
}

/// The rule of [`OneRule`], with queues for `max_waiters`.
pub(crate) fn waited_for(spec: Spec, max_waiters: usize) -> RuleSpec {
    one_rule(spec).on_excess(OnExcess::Wait { wait: LONGEST_WAIT, max_waiters })
}

/// Entries of a descriptor.
pub(crate) type Entries<'a> = &'a [(&'a str, &'a str)];

/// One request of descriptors, each with its cost.
pub(crate) fn ask<T>(costs: &[(Entries<'_>, u64)], verb: impl FnOnce(&Request<'_>) -> T) -> T {
    let descriptors: Vec<_> =
        costs.iter().map(|(entries, cost)| Descriptor::new(entries).cost(*cost)).collect();
    verb(&Request::new(Request::DEFAULT_DOMAIN, &descriptors))
}

/// The units left by each limiter of an answer.
pub(crate) fn left(answer: &Answer<'_>) -> Vec<u64> {
    answer.matched().iter().map(|matched| matched.decision().remaining).collect()
}

/// The units left by each limiter of a descriptor.
pub(crate) fn seen(gate: &dyn AnyGate, entries: Entries<'_>) -> Vec<u64> {
    ask(&[(entries, 1)], |request| left(&gate.peek(request)))
}

/// The number of requests of one unit that are admitted before one is refused.
pub(crate) fn admitted(gate: &dyn AnyGate, entries: Entries<'_>) -> usize {
    (0..1_000).take_while(|_| ask(&[(entries, 1)], |one| gate.check(one).is_allowed())).count()
}

/// One rule with a limiter for each user, asked for one user at a time.
pub(crate) struct OneRule<'g>(pub(crate) Box<dyn AnyGate + 'g>);

/// The rule of [`OneRule`].
pub(crate) fn one_rule(spec: Spec) -> RuleSpec {
    RuleSpec::new("r", spec).key(["user"])
}

fn of<T>(key: &str, cost: u64, verb: impl FnOnce(&Request<'_>) -> T) -> T {
    ask(&[(&[("user", key)], cost)], verb)
}

fn only(answer: &Answer<'_>) -> Decision {
    *answer.matched()[0].decision()
}

impl OneRule<'_> {
    fn settled_later<'s>(
        &'s self,
        key: &'s str,
        units: u64,
        answer: Answer<'s>,
    ) -> Result<Settle<'s>, Decision> {
        if !answer.is_allowed() {
            return Err(only(&answer));
        }
        let taken = Taken::from(&answer);
        Ok(Box::new(move |actual| {
            let answer = of(key, units, |one| self.0.settle(one, Some(&taken), actual));
            (only(&answer), Some(answer.matched()[0].settled()))
        }))
    }
}

impl Subject for OneRule<'_> {
    fn check(&self, key: &str, cost: u64) -> Decision {
        of(key, cost, |request| only(&self.0.check(request)))
    }

    fn admits(&self, key: &str, cost: u64) -> bool {
        of(key, cost, |request| self.0.admits(request))
    }

    fn peek(&self, key: &str, cost: u64) -> Decision {
        of(key, cost, |request| only(&self.0.peek(request)))
    }

    fn refund(&self, key: &str, units: u64) -> Decision {
        of(key, units, |request| only(&self.0.refund(request)))
    }

    fn reserve<'s>(&'s self, key: &'s str, units: u64) -> Result<Settle<'s>, Decision> {
        self.settled_later(key, units, of(key, units, |one| self.0.check(&one.reserving())))
    }

    fn take<'s>(&'s self, key: &'s str, units: u64) -> Option<Result<Settle<'s>, Decision>> {
        Some(self.settled_later(key, units, of(key, units, |one| self.0.check(one))))
    }

    fn reset(&self, key: &str) {
        assert_eq!(of(key, 1, |request| self.0.reset(request)), 1);
    }

    fn key_count(&self) -> Option<usize> {
        self.0.keys()
    }
}

impl Waiting for OneRule<'_> {
    fn acquire<'s>(&'s self, key: &'s str, cost: u64, max_wait: Duration) -> Turn<'s> {
        Box::pin(async move {
            let entries = [("user", key)];
            let request = Request::from(Descriptor::new(&entries).cost(cost)).max_wait(max_wait);
            only(&self.0.acquire(request).await)
        })
    }

    fn change(&self, spec: Spec) {
        self.0.amend("r", spec.into());
    }

    fn waiting(&self, key: &str) -> usize {
        of(key, 1, |request| self.0.waiting(request))
    }
}
