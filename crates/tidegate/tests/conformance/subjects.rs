//! What the kit is run over: the verbs of one limiter for each key, and who has them.
//!
//! A [`Kind`] makes subjects, and every kind passes every behaviour of a [`Case`]. What only some can do is a trait of
//! its own: [`Capped`] kinds bound their keys, and [`InMemory`] ones go by a clock that is moved by hand.

pub(crate) mod gates;
mod in_process;
mod limiters;
mod planned;
#[cfg(feature = "redis")]
pub(crate) mod stores;

use std::pin::Pin;

pub(crate) use in_process::InProcess;
pub(crate) use limiters::{Keyed, Single};
pub(crate) use planned::Planned;
use testkit::model;
use tidegate::{AlgorithmKind, Decision, ManualClock, Micros, OnFull, RuleSpec, Spec};

use gates::AnyGate;
pub(crate) use gates::Store;

pub(crate) const DAY: Micros = Micros::from_secs(86_400);

/// More than wait in any test.
const MANY: usize = 1_000;

/// Keys that a careless joining would mix up.
const KEYS: &[&str] = &["ada", "bob", "", "a|b"];

/// Settles what was reserved: the units that it did cost.
pub(crate) type Settle<'s> = Box<dyn FnOnce(u64) -> Decision + 's>;

/// A decision that is waited for.
pub(crate) type Turn<'s> = Pin<Box<dyn Future<Output = Decision> + 's>>;

/// One limiter for each key, whatever it is kept in.
pub(crate) trait Subject: Sync {
    /// Keys that have a limiter each. A limiter by itself has one.
    fn keys(&self) -> &'static [&'static str] {
        KEYS
    }

    fn check(&self, key: &str, cost: u64) -> Decision;
    fn admits(&self, key: &str, cost: u64) -> bool;
    fn peek(&self, key: &str, cost: u64) -> Decision;
    fn refund(&self, key: &str, units: u64) -> Decision;
    fn reserve<'s>(&'s self, key: &'s str, units: u64) -> Result<Settle<'s>, Decision>;
    fn reset(&self, key: &str);
    fn available(&self, key: &str) -> u64;
}

/// A subject whose callers may wait their turn.
pub(crate) trait Waiting: Subject {
    fn acquire<'s>(&'s self, key: &'s str, cost: u64, max_wait: Micros) -> Turn<'s>;
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

    /// How often each of several callers asks: fewer times where each time is a journey.
    fn asks(&self) -> u64 {
        400
    }
}

/// A kind whose subjects keep so many keys at most.
pub(crate) trait Capped: Kind {
    fn capped(&self, spec: Spec, max_keys: usize, on_full: OnFull) -> Box<dyn Subject + '_>;
}

/// A kind whose subjects go by a clock that a test moves.
pub(crate) trait InMemory: Kind {
    fn by(&self, clock: &ManualClock, spec: Spec, max_waiters: usize) -> Box<dyn Waiting + '_>;

    /// Whether a rule may begin with part of its units, which no limiter of many does.
    fn has_initial(&self) -> bool {
        false
    }

    /// Whether the time for which a queue holds what it admitted is part of the wait.
    fn delay_is_waiting(&self) -> bool {
        true
    }
}

/// Subjects in memory by a clock of their own that nobody moves.
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
}

impl<'k, K: Kind + ?Sized> Case<'k, K> {
    /// A subject that admits `limit` units a day at once.
    pub(crate) fn of(&self, limit: u64) -> Box<dyn Subject + 'k> {
        self.kind.make(per_day(self.algorithm, limit))
    }

    /// One whose callers may wait, in lines of so many.
    pub(crate) fn in_turn(&self, limit: u64, max_waiters: usize) -> Box<dyn Waiting + 'k> {
        self.kind.in_turn(per_day(self.algorithm, limit), max_waiters)
    }
}

impl<'k> Case<'k, dyn InMemory> {
    /// A subject by a clock of its own, in whose lines many may wait.
    pub(crate) fn by(&self, clock: &ManualClock, spec: Spec) -> Box<dyn Waiting + 'k> {
        self.kind.by(clock, spec, MANY)
    }
}

impl<'k> Case<'k, dyn Store> {
    /// A rule of the case's algorithm that admits `limit` units a day at once.
    pub(crate) fn rule(&self, name: &str, limit: u64) -> RuleSpec {
        RuleSpec::new(name, per_day(self.algorithm, limit))
    }

    pub(crate) fn gate(&self, rules: impl Into<Vec<RuleSpec>>) -> Box<dyn AnyGate + 'k> {
        self.kind.gate(rules.into())
    }

    /// A gate for what each process knows by itself.
    pub(crate) fn of_one_process(&self, rules: impl Into<Vec<RuleSpec>>) -> Box<dyn AnyGate + 'k> {
        self.kind.of_one_process(rules.into(), None)
    }
}

/// A rule that admits `limit` units a day at once: a queue serves one and holds all others.
pub(crate) fn per_day(algorithm: AlgorithmKind, limit: u64) -> Spec {
    let mut spec = Spec::new(algorithm, limit, DAY);
    spec.capacity =
        (algorithm == AlgorithmKind::LeakyQueue && limit > 0).then(|| limit.saturating_sub(1));
    spec
}

pub(crate) use in_memory;
