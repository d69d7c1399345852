//! Random walks of a gate whose values change in every way, compared with naive models that are changed: rules and
//! overrides are amended, policies are replaced, users get other plans, and requests supply values.
//!
//! In memory time passes, and every value is compared. A store has its own clock: its windows are of days, so that the
//! time of a test does not count. `TIDEGATE_LONG=1` walks ten times as many.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::SystemTime;

use testkit::model::{self, AlgorithmKind as Kind, Expected};
use testkit::traffic::Rng;
use tidegate::{
    AlgorithmKind, Answer, Descriptor, ManualClock, Micros, Mode, Request, RequestLimit, Rule,
    Spec, Timestamp, Usage,
};

use super::known::{AskOf, Asked, Id, NAMES, Rules, limited, vip};
use crate::kit::every_gate;
use crate::models::{Models, nearby, pool};
use crate::packed::{TODAY_US, answered, long, spec_of};
use crate::subjects::gates::{AnyGate, Plans};
use crate::subjects::{Case, Store};
use crate::walk::HORIZON_US;

every_gate! { values_that_change_decide_as_models_that_are_changed }

const USERS: [&str; 3] = ["ada", "bob", "vip"];

struct Walk<'g> {
    gate: Box<dyn AnyGate + 'g>,
    clock: ManualClock,
    has_time: bool,
    is_one_step: bool,
    gives_back: bool,
    pool: Vec<model::Policy>,
    plans: Plans,
    rules: Rules,
    models: Models<Id>,
}

impl<'g> Walk<'g> {
    fn new(rng: &mut Rng, case: &Case<'g, dyn Store>) -> Self {
        let algorithms = case.kind.algorithms();
        let pool = pool(rng, case.model(), &algorithms, case.kind.has_time());
        let rules = Rules::new(rng, &pool);
        let clock = ManualClock::starting_at(Timestamp::from_micros(began_us(case)));
        let plans = Plans::default();
        let gate = case.kind.planned(&clock, rules.policy(), &plans);
        let has_time = case.kind.has_time();
        // Of a queue nothing comes back once a later slot is promised, if time has passed.
        let has_queue = pool.iter().any(|policy| policy.algorithm == Kind::LeakyQueue);
        Self {
            gate,
            clock,
            has_time,
            is_one_step: case.kind.is_one_step(),
            gives_back: has_time || !has_queue,
            pool,
            plans,
            rules,
            models: Models::default(),
        }
    }

    fn at_us(&self) -> u64 {
        tidegate::Clock::now(&self.clock).as_micros()
    }

    fn any(&self, rng: &mut Rng) -> model::Policy {
        self.pool[rng.below(self.pool.len() as u64) as usize].clone()
    }

    fn change_plan(&mut self, rng: &mut Rng) {
        let user = rng.pick(USERS);
        let plan = match rng.below(8) {
            0..2 => None,
            2 => Some(None),
            _ => Some(Some(self.any(rng))),
        };
        let unlimited = Spec::unlimited(AlgorithmKind::SlidingLog);
        self.plans.set(user, plan.as_ref().map(|plan| plan.as_ref().map_or(unlimited, spec_of)));
        match plan {
            Some(plan) => self.rules.planned.insert(user, plan),
            None => self.rules.planned.remove(user),
        };
    }

    /// Changes a rule, by a change of its values alone or by another policy.
    fn change_rule(&mut self, rng: &mut Rng) {
        let number = rng.below(NAMES.len() as u64) as usize;
        let mut own = match &self.rules.all[number].own {
            Some(own) if rng.chance(60) => Some(nearby(rng, own)),
            _ => Some(self.any(rng)).filter(|_| !rng.chance(15)),
        };
        let known = &mut self.rules.all[number];
        if let Some(own) = own.as_mut().filter(|_| known.usage == Usage::Reported) {
            own.max_debt = Some(u64::MAX);
        }
        let name = NAMES[number];
        match rng.below(10) {
            // A level whose limiters have values of their own may remember when its rate changed, also while nothing
            // is used. The gate then forgets the rule later than the models do.
            0..2 => known.in_force = known.follows_late || !known.in_force,
            2 if known.in_force && known.has_key => {
                let limit = own.as_ref().map(|own| own.limit);
                let vip = if known.vip.is_some() { None } else { Some(limit) };
                if known.could_be(known.own.as_ref(), vip) {
                    (known.vip, known.follows_late) = (vip, true);
                }
            }
            3 => self.rules.order.rotate_left(1),
            4..6 if known.vip.is_some() && known.in_force => {
                let limit = own.as_ref().map(|own| own.limit);
                if known.could_be(known.own.as_ref(), Some(limit)) {
                    known.vip = Some(limit);
                    self.gate.amend(name, vip(limit).into());
                    return self.follow();
                }
            }
            what if known.could_be(own.as_ref(), known.vip) => {
                known.own = own;
                if known.in_force && what < 8 {
                    self.gate.amend(name, known.spec().into());
                    return self.follow();
                }
            }
            _ => return,
        }
        self.gate.replace(self.rules.policy());
        self.follow();
    }

    /// Puts limiters under the values in force. While there is no limit they stay as they are, and the limiters of a
    /// removed rule until all are idle.
    fn follow(&mut self) {
        let at_us = self.at_us();
        for known in &mut self.rules.all {
            let ids = self.models.ids(|id: &Id| id.0 == known.number);
            if !known.in_force {
                let idle = |id| self.models.get_mut(id).is_none_or(|one| one.gone_us(at_us) == 0);
                if ids.iter().all(idle) {
                    ids.iter().for_each(|id| self.models.forget(id));
                }
            } else if !known.follows_late {
                for id in ids {
                    if let Some(values) = known.values(&id.1) {
                        self.models.under(at_us, &id, &values);
                    }
                }
            }
        }
    }

    /// The expected decision of a request that takes.
    fn decided(&mut self, all: &[AskOf]) -> (bool, Vec<(usize, Expected)>) {
        let (at_us, reports) = (self.at_us(), self.rules.reports(all));
        for (ask, values) in limited(all).filter(|(ask, _)| ask.asks > 0 && !ask.supplied) {
            self.models.under(at_us, &ask.id, values);
        }
        for (ask, values) in limited(all).filter(|(ask, _)| reports && ask.cost > 0) {
            self.models.under(at_us, &ask.id, values).reported(at_us, ask.cost);
        }
        let tried = |(ask, values): (&AskOf, &model::Policy)| {
            self.models.tried(at_us, &ask.id, values, ask.asks, ask.supplied)
        };
        let tried: Vec<_> = limited(all).map(tried).collect();
        for ((ask, values), _) in limited(all).zip(&tried).filter(|(_, (_, begins))| *begins) {
            self.models.under(at_us, &ask.id, values);
        }
        let enforced = |ask: &AskOf| self.rules.all[ask.id.0].mode == Mode::Enforce;
        let mut both = limited(all).zip(&tried);
        let goes_on = both.all(|((ask, _), (seen, _))| seen.allowed || !enforced(ask));
        let mut each = Vec::new();
        for ((ask, values), (seen, _)) in limited(all).zip(tried) {
            let takes = goes_on && seen.allowed && ask.cost > 0 && !reports;
            let took = match takes {
                true => self.models.under(at_us, &ask.id, values).step(at_us, ask.cost),
                false => seen,
            };
            each.push((
                ask.id.0,
                Expected { delay_us: if reports { 0 } else { took.delay_us }, ..took },
            ));
        }
        (goes_on, each)
    }

    /// Settles without a reservation. Under an unlimited plan units are given back under the values in force, or not
    /// taken; an unlimited rule is not settled, because nothing says that it took them.
    fn settle(&mut self, all: &[AskOf], asked: &[Asked], actual: u64) {
        let at_us = self.at_us();
        for ask in all {
            let matches = |one: &&Asked| ask.id.1.is_empty() || one.user == ask.id.1;
            let actual =
                asked.iter().filter(matches).fold(0, |sum: u64, _| sum.saturating_add(actual));
            let is_planned = self.rules.all[ask.id.0].lets_requests_supply();
            match (&ask.values, self.models.get_mut(&ask.id)) {
                (Some(values), _) => {
                    self.models.under(at_us, &ask.id, values).settle(at_us, ask.cost, actual);
                }
                (None, Some(model)) if is_planned => {
                    model.settle(at_us, ask.cost, actual.min(ask.cost));
                }
                (None, _) => {}
            }
        }
    }

    /// The answer to what was given back, which asks for no unit.
    fn after(&mut self, all: &[AskOf]) -> Vec<(usize, Expected)> {
        let at_us = self.at_us();
        let seen = |(ask, values): (&AskOf, &model::Policy)| {
            (ask.id.0, self.models.under(at_us, &ask.id, values).peek(at_us, 0))
        };
        limited(all).map(seen).collect()
    }

    fn compare(&self, answer: &Answer<'_>, want: &[(usize, Expected)]) {
        let number = |name: &str| NAMES.iter().position(|rule| *rule == name).unwrap();
        let matched = answer.matched().into_iter();
        let got: Vec<_> =
            matched.map(|one| (number(one.rule().name()), answered(one.decision()))).collect();
        // Time that passes in a store is not the models'.
        let seen = |(rule, one): &(usize, Expected)| match self.has_time {
            true => (*rule, *one),
            false => {
                (*rule, Expected { retry_after_us: None, reset_after_us: 0, delay_us: 0, ..*one })
            }
        };
        let [got, want] = [&got[..], want].map(|all| all.iter().map(seen).collect::<Vec<_>>());
        assert_eq!(got, want);
    }

    fn step(&mut self, rng: &mut Rng, asked: &[Asked]) {
        let entries: Vec<_> = asked.iter().map(|one| [("user", one.user)]).collect();
        let mut descriptors = Vec::new();
        for (entries, one) in entries.iter().zip(asked) {
            let descriptor = Descriptor::new(entries).cost(one.cost);
            descriptors.push(one.own.as_ref().map_or(descriptor, |(_, own)| descriptor.limit(own)));
        }
        let request = Request::new(Request::DEFAULT_DOMAIN, &descriptors);
        let (all, at_us) = (self.rules.asks(asked), self.at_us());
        match rng.below(100) {
            0..50 => {
                let (goes_on, each) = self.decided(&all);
                let answer = self.gate.check(&request);
                self.compare(&answer, &each);
                assert_eq!(answer.is_allowed(), goes_on, "check");
                let frame = |spec: Spec| (spec.algorithm, spec.limit, spec.window);
                let matched = answer.matched().into_iter();
                let values: Vec<_> = matched.map(|one| frame(*one.values().spec())).collect();
                let want: Vec<_> =
                    limited(&all).map(|(_, values)| frame(spec_of(values))).collect();
                assert_eq!(values, want, "the answer reports the values that decided");
            }
            50..60 => {
                let (goes_on, _) = self.decided(&all);
                assert_eq!(self.gate.admits(&request), goes_on, "admits");
            }
            60..70 if self.gives_back => {
                for (ask, values) in limited(&all) {
                    self.models.under(at_us, &ask.id, values).refund(at_us, ask.cost);
                }
                let each = self.after(&all);
                self.compare(&self.gate.refund(&request), &each);
            }
            // A store does not know whether a settlement under an unlimited rule is about a permit.
            70..80 if self.gives_back && (self.has_time || limited(&all).count() == all.len()) => {
                let actual = rng.below(asked[0].cost.saturating_mul(2).max(2));
                self.settle(&all, asked, actual);
                let each = self.after(&all);
                self.compare(&self.gate.settle(&request, None, actual), &each);
            }
            80..83 => {
                // A rule without a limit is not reset, unless its limiters have values of their own.
                let of_rule =
                    |ask: &&AskOf| ask.values.is_some() || self.rules.all[ask.id.0].follows_late;
                let all: Vec<_> = all.iter().filter(of_rule).collect();
                all.iter().for_each(|ask| self.models.forget(&ask.id));
                let count = self.gate.reset(&request);
                assert!(
                    count == all.len() || !self.is_one_step,
                    "{count} of {} are reset",
                    all.len()
                );
            }
            _ => {
                let seen = |(ask, values): (&AskOf, &model::Policy)| {
                    let tried = self.models.tried(at_us, &ask.id, values, ask.asks, ask.supplied);
                    (ask.id.0, tried.0)
                };
                let each: Vec<_> = limited(&all).map(seen).collect();
                self.compare(&self.gate.peek(&request), &each);
            }
        }
    }

    /// A request about one user, or two, or the same twice; sometimes it supplies values.
    fn asked(&self, rng: &mut Rng, supplies: u64) -> Vec<Asked> {
        let owes = self.rules.all.iter().any(|known| known.usage == Usage::Reported);
        let mut all = Vec::new();
        for _ in 0..rng.between(1, 2) {
            let own = rng.chance(supplies).then(|| self.any(rng));
            let own = own.map(|own| {
                let limit = RequestLimit::new(Rule::new(spec_of(&own)).unwrap());
                (own, limit)
            });
            let cost = rng.skewed(self.pool[0].limit.max(1) + 1);
            // A debt must stay representable.
            let cost = if owes { cost.min(1_000) } else { cost };
            all.push(Asked { user: rng.pick(USERS), cost, own });
        }
        all
    }

    fn pass(&self, rng: &mut Rng) {
        let window_us = self.any(rng).window_us.max(1);
        let us = match rng.below(10) {
            0..3 => 0,
            3..6 => rng.below(window_us / 100 + 2),
            6..9 => rng.below(window_us),
            _ => rng.below(4 * window_us),
        };
        self.clock.advance(std::time::Duration::from_micros(us));
    }
}

/// The time of the models: in a store its own, because the weight of earlier units depends on it.
fn began_us(case: &Case<'_, dyn Store>) -> u64 {
    match case.kind.has_time() {
        true => TODAY_US,
        false => Micros::from(SystemTime::UNIX_EPOCH.elapsed().unwrap()).as_micros(),
    }
}

fn values_that_change_decide_as_models_that_are_changed(case: &Case<'_, dyn Store>) {
    let (walks, steps) = if case.kind.has_time() { (30, 150) } else { (3, 60) };
    for seed in 0..walks * if long() { 10 } else { 1 } {
        let rng = &mut Rng::new(seed);
        let mut walk = Walk::new(rng, case);
        let began_us = walk.at_us();
        let changes = rng.pick([2, 10, 30]);
        let supplies = if case.kind.is_one_step() { rng.pick([0, 20, 60]) } else { 0 };
        for step in 0..steps {
            let took = AssertUnwindSafe(|| {
                if rng.chance(changes) {
                    walk.change_plan(rng);
                }
                if rng.chance(changes) {
                    walk.change_rule(rng);
                }
                if walk.has_time {
                    walk.pass(rng);
                }
                let asked = walk.asked(rng, supplies);
                walk.step(rng, &asked);
            });
            assert!(catch_unwind(took).is_ok(), "seed {seed}, step {step}, of {:?}", walk.pool);
            let at_us = walk.at_us();
            if walk.models.has_debt_beyond_time(at_us) || at_us - began_us > HORIZON_US {
                break;
            }
        }
    }
}
