//! Limiters by key whose rules come from plans, all keys under one plan.

use std::sync::Arc;

use tidegate::{AlgorithmKind, KeyedLimiter, ManualClock, OnFull, Rule, Spec};

use super::limiters::Bounded;
use super::{Capped, InMemory, MANY, Subject, Waiting, in_memory};

/// The plan is the only rule: without it nothing is limited. Keys without room share the overflow limiter, which then
/// has the same values.
pub(crate) struct Planned;

fn planned(clock: ManualClock, usual: Spec, plan: Spec) -> KeyedLimiter<ManualClock> {
    let plan = Arc::new(Rule::new(plan).unwrap());
    let limiter = KeyedLimiter::with_clock(usual, clock).unwrap();
    limiter.with_plans(move |_| Some(Arc::clone(&plan)))
}

impl InMemory for Planned {
    fn by(&self, clock: &ManualClock, spec: Spec, max_waiters: usize) -> Box<dyn Waiting + '_> {
        let unlimited = Spec::unlimited(AlgorithmKind::TokenBucket);
        Box::new(Bounded(planned(clock.clone(), unlimited, spec), max_waiters))
    }
}

in_memory!(Planned);

impl Capped for Planned {
    fn capped(&self, spec: Spec, max_keys: usize, on_full: OnFull) -> Box<dyn Subject + '_> {
        Box::new(Bounded(
            planned(ManualClock::new(), spec, spec).with_max_keys(max_keys, on_full),
            MANY,
        ))
    }
}
