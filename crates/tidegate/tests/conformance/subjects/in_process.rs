//! Gates in this process, packed and sharded.

use tidegate::{
    Amendment, Answer, Ban, Gate, ManualClock, OnFull, Policy, Request, RuleSpec, Setup, Spec,
    Taken, Timer, Timestamp,
};

use super::gates::{
    Answered, AnyGate, Banning, ByTime, Ending, OneRule, Plans, Store, one_rule, waited_for,
};
use super::{Capped, DAY, InMemory, Subject, Waiting};
use crate::packed::Unsteady;

/// Gates in this process; with a clock that may step back all states are kept in shards.
pub(crate) enum InProcess {
    Packed,
    Sharded,
}

impl InProcess {
    fn by(
        &self,
        clock: ManualClock,
        rules: Vec<RuleSpec>,
        ban: Option<Banning>,
    ) -> Box<dyn AnyGate> {
        match self {
            Self::Packed => Box::new(gate(rules, ban, clock)),
            Self::Sharded => Box::new(gate(rules, ban, Unsteady(clock))),
        }
    }
}

impl Store for InProcess {
    fn gate_by(&self, clock: &ManualClock, rules: Vec<RuleSpec>) -> Box<dyn AnyGate + '_> {
        self.by(clock.clone(), rules, None)
    }

    fn of_one_process(&self, rules: Vec<RuleSpec>, ban: Option<Banning>) -> Box<dyn AnyGate + '_> {
        self.by(ManualClock::new(), rules, ban)
    }

    fn planned(
        &self,
        clock: &ManualClock,
        rules: Vec<RuleSpec>,
        plans: &Plans,
    ) -> Box<dyn AnyGate + '_> {
        let clock = clock.clone();
        match self {
            Self::Packed => Box::new(Gate::with_clock(plans.setup(rules), clock)),
            Self::Sharded => Box::new(Gate::with_clock(plans.setup(rules), Unsteady(clock))),
        }
    }

    fn by_time(&self, begin_us: u64, rules: Vec<RuleSpec>) -> Option<Box<dyn ByTime + '_>> {
        Some(match self {
            Self::Packed => {
                let clock = ManualClock::starting_at(Timestamp::from_micros(begin_us));
                Box::new(Moved { gate: gate(rules, None, clock.clone()), clock })
            }
            Self::Sharded => {
                let policy = Policy::new(rules).unwrap();
                Box::new(Gate::with_clock(policy, Timestamp::EPOCH))
            }
        })
    }
}

/// A gate and its clock, which is moved to the time of each request, and never back.
struct Moved {
    gate: Gate<ManualClock>,
    clock: ManualClock,
}

impl ByTime for Moved {
    fn decide(&mut self, request: &Request<'_>, at_us: u64) -> Answer<'_> {
        self.clock.advance_to(Timestamp::from_micros(at_us));
        self.gate.check(request)
    }
}

impl ByTime for Gate<Timestamp> {
    fn decide(&mut self, request: &Request<'_>, at_us: u64) -> Answer<'_> {
        self.check_at(request, Timestamp::from_micros(at_us))
    }
}

fn gate<C: Timer + Clone>(rules: Vec<RuleSpec>, ban: Option<Banning>, clock: C) -> Gate<C> {
    let mut setup = Setup::new(Policy::new(rules).unwrap());
    if let Some(Banning { rule, refusals }) = ban {
        let ban = Ban::with_clock(refusals, DAY, Banning::WEEK, clock.clone()).unwrap();
        setup = setup.ban(Request::DEFAULT_DOMAIN, rule, ban).unwrap();
    }
    Gate::with_clock(setup, clock)
}

impl Capped for InProcess {
    fn capped(&self, spec: Spec, max_keys: usize, on_full: OnFull) -> Box<dyn Subject + '_> {
        Box::new(OneRule(self.gate(vec![one_rule(spec).max_keys(max_keys, on_full)])))
    }
}

impl InMemory for InProcess {
    fn by(&self, clock: &ManualClock, spec: Spec, max_waiters: usize) -> Box<dyn Waiting + '_> {
        Box::new(OneRule(self.by(clock.clone(), vec![waited_for(spec, max_waiters)], None)))
    }

    fn delay_is_waiting(&self) -> bool {
        false
    }
}

impl<C: Timer> AnyGate for Gate<C> {
    fn check(&self, request: &Request<'_>) -> Answer<'_> {
        self.check(request)
    }

    fn admits(&self, request: &Request<'_>) -> bool {
        self.admits(request)
    }

    fn peek(&self, request: &Request<'_>) -> Answer<'_> {
        self.peek(request)
    }

    fn refund(&self, request: &Request<'_>) -> Answer<'_> {
        self.refund(request)
    }

    fn settle(&self, request: &Request<'_>, taken: Option<&Taken>, actual: u64) -> Answer<'_> {
        self.settle(request, taken, &[actual])
    }

    fn renew(&self, request: &Request<'_>, taken: &Taken) -> bool {
        self.renew(request, taken)
    }

    fn reset(&self, request: &Request<'_>) -> usize {
        self.reset(request)
    }

    fn waiting(&self, request: &Request<'_>) -> usize {
        self.waiting(request)
    }

    fn keys(&self) -> Option<usize> {
        Some(self.counts().keys)
    }

    fn acquire<'g>(&'g self, request: Request<'g>) -> Answered<'g> {
        Box::pin(async move { self.acquire(&request).await })
    }

    fn replace(&self, rules: Vec<RuleSpec>) {
        self.replace(Policy::new(rules).unwrap()).unwrap();
    }

    fn amend(&self, rule: &str, values: Amendment) {
        self.amend(Request::DEFAULT_DOMAIN, rule, values).unwrap();
    }

    fn hold_while<'g>(
        &'g self,
        request: &Request<'g>,
        happens: &dyn Fn(),
        end: Ending,
    ) -> Result<Answer<'g>, Answer<'g>> {
        let charge = self.hold(request)?;
        let answer = charge.answer().clone();
        happens();
        match end {
            Ending::Dropped => drop(charge),
            Ending::Kept => charge.keep(),
            Ending::Released => charge.release(),
            Ending::Settled(actual) => charge.settle(actual),
        }
        Ok(answer)
    }
}
