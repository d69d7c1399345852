//! Limiters by key whose rules come with each call: from plans, all keys under one plan, or supplied by the call.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tidegate::{
    AlgorithmKind, Decision, KeyedLimiter, ManualClock, OnExcess, OnFull, Rule, Spec, Under,
};

use super::{Capped, Follows, InMemory, MANY, Settle, Subject, Turn, Waiting, in_memory};

/// The plan is the only rule: without it nothing is limited. Keys without room share the overflow limiter, which then
/// has the same values.
pub(crate) struct Planned;

/// Each call supplies the values, as the only rule.
pub(crate) struct Supplied;

/// The rule of now.
type Now = Arc<Mutex<Rule>>;

/// A limiter under the rule of now, which calls look up or supply.
struct Limited {
    limiter: KeyedLimiter<ManualClock>,
    rule: Now,
    is_supplied: bool,
    max_waiters: usize,
}

fn read(rule: &Now) -> Rule {
    rule.lock().unwrap_or_else(PoisonError::into_inner).clone()
}

impl Limited {
    fn new(clock: &ManualClock, usual: Spec, spec: Spec, is_supplied: bool) -> Self {
        let rule = Arc::new(Mutex::new(Rule::new(spec).unwrap()));
        let looked_up = Arc::clone(&rule);
        let limiter = KeyedLimiter::with_clock(usual, clock.clone()).unwrap();
        let limiter = limiter.with_plans(move |_| (!is_supplied).then(|| read(&looked_up)));
        Self { limiter, rule, is_supplied, max_waiters: MANY }
    }

    fn of(clock: &ManualClock, spec: Spec, max_waiters: usize, is_supplied: bool) -> Self {
        let unlimited = Spec::unlimited(AlgorithmKind::TokenBucket);
        Self { max_waiters, ..Self::new(clock, unlimited, spec, is_supplied) }
    }
}

/// Calls a verb by plan, or under the rule.
macro_rules! call {
    ($limited:expr, $verb:ident($key:expr $(, $arg:expr)*)) => {
        match $limited.is_supplied {
            true => $limited.limiter.$verb(Under(&read(&$limited.rule), $key) $(, $arg)*),
            false => $limited.limiter.$verb($key $(, $arg)*),
        }
    };
}

impl Subject for Limited {
    fn check(&self, key: &str, cost: u64) -> Decision {
        call!(self, check(key, cost))
    }

    fn admits(&self, key: &str, cost: u64) -> bool {
        call!(self, admits(key, cost))
    }

    fn peek(&self, key: &str, cost: u64) -> Decision {
        call!(self, peek(key, cost))
    }

    fn refund(&self, key: &str, units: u64) -> Decision {
        call!(self, refund(key, units))
    }

    fn reserve<'s>(&'s self, key: &'s str, units: u64) -> Result<Settle<'s>, Decision> {
        let reserved = call!(self, reserve(key, units))?;
        Ok(Box::new(move |actual| (call!(self, settle(key, reserved, actual)), None)))
    }

    fn reset(&self, key: &str) {
        self.limiter.reset(key);
    }
}

impl Waiting for Limited {
    fn acquire<'s>(&'s self, key: &'s str, cost: u64, max_wait: Duration) -> Turn<'s> {
        let wait = OnExcess::Wait { wait: max_wait, max_waiters: self.max_waiters };
        Box::pin(async move {
            match self.is_supplied {
                true => {
                    let rule = read(&self.rule);
                    self.limiter.acquire(Under(&rule, key), cost, wait).await
                }
                false => self.limiter.acquire(key, cost, wait).await,
            }
        })
    }

    fn change(&self, spec: Spec) {
        let rule = Rule::new(spec).unwrap();
        *self.rule.lock().unwrap() = rule;
        if !self.is_supplied {
            self.keys().iter().for_each(|key| self.limiter.plan_changed(*key));
        }
    }

    fn waiting(&self, key: &str) -> usize {
        self.limiter.waiting(key)
    }
}

impl InMemory for Planned {
    fn by(&self, clock: &ManualClock, spec: Spec, max_waiters: usize) -> Box<dyn Waiting + '_> {
        Box::new(Limited::of(clock, spec, max_waiters, false))
    }

    fn follows(&self) -> Follows {
        Follows::WhenAsked
    }
}

impl InMemory for Supplied {
    fn by(&self, clock: &ManualClock, spec: Spec, max_waiters: usize) -> Box<dyn Waiting + '_> {
        Box::new(Limited::of(clock, spec, max_waiters, true))
    }

    fn follows(&self) -> Follows {
        Follows::WhenTaken
    }
}

in_memory!(Planned);
in_memory!(Supplied);

impl Capped for Planned {
    fn capped(&self, spec: Spec, max_keys: usize, on_full: OnFull) -> Box<dyn Subject + '_> {
        let mut limited = Limited::new(&ManualClock::new(), spec, spec, false);
        limited.limiter = limited.limiter.with_max_keys(max_keys, on_full);
        Box::new(limited)
    }
}
