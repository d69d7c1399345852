//! The subjects of the kit: the verbs of one limiter for each key, and the types that have them.
//!
//! A [`Kind`] makes subjects, and every kind passes every behaviour of a [`Case`]. Abilities of only some kinds are
//! traits of their own: [`Capped`] kinds bound their keys, and [`InMemory`] ones use a clock that is moved by hand.

pub(crate) mod gates;
mod in_process;
pub(crate) mod kinds;
mod limiters;
mod planned;
#[cfg(feature = "redis")]
pub(crate) mod stores;

use std::pin::Pin;

pub(crate) use in_process::InProcess;
pub(crate) use limiters::{Keyed, Single};
pub(crate) use planned::{Planned, Supplied};
use std::time::Duration;
use testkit::model;
use tidegate::{AlgorithmKind, Decision, ManualClock, OnFull, RuleSpec, Settled, Spec};

use gates::AnyGate;
pub(crate) use gates::Store;

pub(crate) const DAY: Duration = Duration::from_secs(86_400);

/// More waiters than in any test.
const MANY: usize = 1_000;

/// Keys that a careless join would confuse.
const KEYS: &[&str] = &["ada", "bob", "", "a|b"];

/// Settles what was taken for the actual cost. A gate also says which units came too late.
pub(crate) type Settle<'s> = Box<dyn FnOnce(u64) -> (Decision, Option<Settled>) + 's>;

/// A decision that is waited for.
pub(crate) type Turn<'s> = Pin<Box<dyn Future<Output = Decision> + 's>>;

/// One limiter for each key, with any store.
pub(crate) trait Subject: Sync {
    /// Keys with a limiter each. A limiter without a key has one.
    fn keys(&self) -> &'static [&'static str] {
        KEYS
    }

    fn check(&self, key: &str, cost: u64) -> Decision;
    fn admits(&self, key: &str, cost: u64) -> bool;
    fn peek(&self, key: &str, cost: u64) -> Decision;
    fn refund(&self, key: &str, units: u64) -> Decision;
    fn reserve<'s>(&'s self, key: &'s str, units: u64) -> Result<Settle<'s>, Decision>;
    /// Takes units by a plain check, which opens no reservation; `None` if it cannot be settled.
    fn take<'s>(&'s self, _key: &'s str, _units: u64) -> Option<Result<Settle<'s>, Decision>> {
        None
    }
    fn reset(&self, key: &str);

    /// The number of keys with a limiter, if it is known.
    fn key_count(&self) -> Option<usize> {
        None
    }

    fn available(&self, key: &str) -> u64 {
        self.peek(key, 1).remaining
    }
}

/// A subject whose callers may wait their turn.
pub(crate) trait Waiting: Subject {
    fn acquire<'s>(&'s self, key: &'s str, cost: u64, max_wait: Duration) -> Turn<'s>;
    /// Puts other values in force.
    fn change(&self, spec: Spec);
    fn waiting(&self, key: &str) -> usize;
}

/// Makes subjects of one kind.
pub(crate) trait Kind: Sync {
    fn make(&self, spec: Spec) -> Box<dyn Subject + '_>;
    fn in_turn(&self, spec: Spec, max_waiters: usize) -> Box<dyn Waiting + '_>;

    /// The algorithms that its rules may have.
    fn algorithms(&self) -> Vec<AlgorithmKind> {
        AlgorithmKind::ALL.to_vec()
    }

    /// The number of requests of each of several callers: fewer if each goes over a network.
    fn asks(&self) -> u64 {
        400
    }
}

/// A kind whose subjects keep so many keys at most.
pub(crate) trait Capped: Kind {
    fn capped(&self, spec: Spec, max_keys: usize, on_full: OnFull) -> Box<dyn Subject + '_>;
}

/// The moment at which a limiter comes under changed values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Follows {
    AtOnce,
    /// When it is asked next, with any decision.
    WhenAsked,
    /// When units are next taken or given back.
    WhenTaken,
}

/// A kind whose subjects use a clock that a test moves.
pub(crate) trait InMemory: Kind {
    fn by(&self, clock: &ManualClock, spec: Spec, max_waiters: usize) -> Box<dyn Waiting + '_>;

    fn follows(&self) -> Follows {
        Follows::AtOnce
    }

    /// Returns whether a rule may start with part of its units, which is only possible without a key.
    fn has_initial(&self) -> bool {
        false
    }

    /// Returns whether the time for which a queue holds what it admitted is part of the wait.
    fn delay_is_waiting(&self) -> bool {
        true
    }
}

/// Subjects in memory with a clock of their own that stands still.
macro_rules! in_memory {
    ($kind:ty) => {
        impl $crate::subjects::Kind for $kind {
            fn make(&self, spec: tidegate::Spec) -> Box<dyn $crate::subjects::Subject + '_> {
                self.by(&tidegate::ManualClock::new(), spec, $crate::subjects::MANY)
            }

            fn in_turn(
                &self,
                spec: tidegate::Spec,
                max_waiters: usize,
            ) -> Box<dyn $crate::subjects::Waiting + '_> {
                self.by(&tidegate::ManualClock::new(), spec, max_waiters)
            }
        }
    };
}

/// One kind of subject under one algorithm.
pub(crate) struct Case<'k, K: ?Sized> {
    pub(crate) kind: &'k K,
    pub(crate) algorithm: AlgorithmKind,
}

impl<K: ?Sized> Case<'_, K> {
    /// The algorithm as the models know it.
    pub(crate) fn model(&self) -> model::AlgorithmKind {
        model::AlgorithmKind::named(self.algorithm.name()).unwrap()
    }

    /// The units that stay taken when a reservation is settled: none for a permit, regardless of the work's cost.
    pub(crate) fn kept(&self, actual: u64) -> u64 {
        if self.algorithm.holds_permits() { 0 } else { actual }
    }
}

impl<'k, K: Kind + ?Sized> Case<'k, K> {
    /// A subject that admits `limit` units a day immediately.
    pub(crate) fn of(&self, limit: u64) -> Box<dyn Subject + 'k> {
        self.kind.make(per_day(self.algorithm, limit))
    }

    /// A subject with queues for at most `max_waiters`.
    pub(crate) fn in_turn(&self, limit: u64, max_waiters: usize) -> Box<dyn Waiting + 'k> {
        self.kind.in_turn(per_day(self.algorithm, limit), max_waiters)
    }
}

impl<'k> Case<'k, dyn InMemory> {
    /// A subject with a clock of its own and room for many waiters.
    pub(crate) fn by(&self, clock: &ManualClock, spec: Spec) -> Box<dyn Waiting + 'k> {
        self.kind.by(clock, spec, MANY)
    }
}

impl<'k> Case<'k, dyn Store> {
    /// A rule of the case's algorithm that admits `limit` units a day immediately.
    pub(crate) fn rule(&self, name: &str, limit: u64) -> RuleSpec {
        RuleSpec::new(name, per_day(self.algorithm, limit))
    }

    pub(crate) fn gate(&self, rules: impl Into<Vec<RuleSpec>>) -> Box<dyn AnyGate + 'k> {
        self.kind.gate(rules.into())
    }

    /// A gate for state that each process has alone.
    pub(crate) fn of_one_process(&self, rules: impl Into<Vec<RuleSpec>>) -> Box<dyn AnyGate + 'k> {
        self.kind.of_one_process(rules.into(), None)
    }
}

/// A spec that admits `limit` units a day immediately: a queue serves one and holds all others.
pub(crate) fn per_day(algorithm: AlgorithmKind, limit: u64) -> Spec {
    let mut spec = Spec::new(algorithm, limit, DAY);
    spec.capacity =
        (algorithm == AlgorithmKind::LeakyQueue && limit > 0).then(|| limit.saturating_sub(1));
    spec
}

pub(crate) use in_memory;
