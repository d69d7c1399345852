//! Limiters by key whose rules come from plans, all keys under one plan.

use std::sync::Arc;

use tidegate::{AlgorithmKind, Clock, Decision, ManualClock, Micros, OnFull, PlannedLimiter, Rule};
use tidegate::{Spec, Timer};

use super::{Capped, InMemory, Settle, Subject, Turn, Waiting, in_memory};

/// The plan is the only rule: without it nothing is limited. Keys without room share the usual one, which is then
/// the same.
pub(crate) struct Planned;

fn planned(clock: ManualClock, usual: Spec, plan: Spec) -> PlannedLimiter<ManualClock> {
    let plan = Arc::new(Rule::new(plan).unwrap());
    let limiter = PlannedLimiter::with_clock(usual, clock).unwrap();
    limiter.with_plans(move |_| Some(Arc::clone(&plan)))
}

impl InMemory for Planned {
    fn by(&self, clock: &ManualClock, spec: Spec, max_waiters: usize) -> Box<dyn Waiting + '_> {
        let unlimited = Spec::unlimited(AlgorithmKind::TokenBucket);
        Box::new(planned(clock.clone(), unlimited, spec).with_max_waiters(max_waiters))
    }
}

in_memory!(Planned);

impl Capped for Planned {
    fn capped(&self, spec: Spec, max_keys: usize, on_full: OnFull) -> Box<dyn Subject + '_> {
        Box::new(planned(ManualClock::new(), spec, spec).with_max_keys(max_keys, on_full))
    }
}

impl<C: Clock> Subject for PlannedLimiter<C> {
    fn check(&self, key: &str, cost: u64) -> Decision {
        self.check(key, cost)
    }

    fn admits(&self, key: &str, cost: u64) -> bool {
        self.admits(key, cost)
    }

    fn peek(&self, key: &str, cost: u64) -> Decision {
        self.peek(key, cost)
    }

    fn refund(&self, key: &str, units: u64) -> Decision {
        self.refund(key, units)
    }

    fn reserve<'s>(&'s self, key: &'s str, units: u64) -> Result<Settle<'s>, Decision> {
        let reserved = self.reserve(key, units)?;
        Ok(Box::new(move |actual| self.settle(key, reserved, actual)))
    }

    fn reset(&self, key: &str) {
        self.reset(key);
    }

    fn available(&self, key: &str) -> u64 {
        self.available(key)
    }
}

impl<C: Timer> Waiting for PlannedLimiter<C> {
    fn acquire<'s>(&'s self, key: &'s str, cost: u64, max_wait: Micros) -> Turn<'s> {
        Box::pin(self.acquire(key, cost, max_wait))
    }

    fn waiting(&self, key: &str) -> usize {
        self.waiting(key)
    }
}
