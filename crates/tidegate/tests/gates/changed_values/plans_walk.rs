//! Rules with values from plans and from requests, on random walks compared with naive models that are amended.
//!
//! Each request matches three rules: a rule with plans, which requests may overrule, a rule with its own values, and a
//! rule with request-supplied values. `TIDEGATE_LONG=1` goes ten times as far.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use super::limiter_plans::{pass, plans};
use super::models::Models;
use crate::packed::{TODAY_US, TestClock, Unsteady, answered, long, spec_of};
use testkit::model::{self, AlgorithmKind as Kind, Expected};
use testkit::traffic::Rng;
use tidegate::{
    Answer, Descriptor, Gate, Mode, Policy, Request, RequestLimit, Rule, RuleSpec, Setup, Spec,
    Usage,
};

const WALKS: u64 = 250;
const STEPS: usize = 150;
const USERS: [&str; 2] = ["ada", "bob"];
const RULES: [&str; 3] = ["planned", "plain", "brought"];

/// The plan of a user: `None` stands for the rule's own values.
#[derive(Clone, Debug, PartialEq)]
enum Plan {
    Own,
    Other(model::Policy),
    Unlimited,
}

fn any(rng: &mut Rng, pool: &[model::Policy]) -> model::Policy {
    pool[rng.below(pool.len() as u64) as usize].clone()
}

type Id = (usize, String);

/// A limiter of a request: its cost, its values, and whether the request supplied them.
#[derive(Debug)]
struct AskOf {
    id: Id,
    cost: u64,
    asks: u64,
    /// `None` when unlimited.
    values: Option<model::Policy>,
    supplied: bool,
}

/// One descriptor of a request.
struct Asked {
    user: &'static str,
    cost: u64,
    own: Option<(model::Policy, RequestLimit)>,
}

struct Walk {
    gate: Gate<Unsteady<TestClock>>,
    clock: TestClock,
    plans: Arc<Mutex<HashMap<String, Arc<Rule>>>>,
    known: HashMap<&'static str, Plan>,
    own: [model::Policy; 3],
    modes: [Mode; 3],
    usages: [Usage; 3],
    models: Models<Id>,
}

impl Walk {
    fn new(rng: &mut Rng, pool: &[model::Policy]) -> Self {
        let mut own = [(); 3].map(|()| any(rng, pool));
        let modes = [(); 3].map(|()| rng.pick([Mode::Enforce, Mode::Enforce, Mode::Shadow]));
        let usages = [0, 1, 2].map(|number: usize| match own[number].algorithm {
            Kind::LeakyQueue | Kind::Concurrency => Usage::Requested,
            _ => rng.pick([Usage::Requested, Usage::Requested, Usage::Reported]),
        });
        // Usage that is reported has no bound for its debt.
        let both = own.iter_mut().zip(usages).filter(|(_, usage)| *usage == Usage::Reported);
        both.for_each(|(own, _)| own.max_debt = Some(u64::MAX));
        let rule = |number: usize| {
            let rule = RuleSpec::new(RULES[number], spec_of(&own[number]))
                .mode(modes[number])
                .usage(usages[number]);
            let rule = if number == 1 { rule } else { rule.limit_from_request() };
            if number == 2 { rule } else { rule.key(["user"]) }
        };
        let clock = TestClock::at(TODAY_US);
        let plans: Arc<Mutex<HashMap<String, Arc<Rule>>>> = Arc::default();
        let looked_up = Arc::clone(&plans);
        let setup = Setup::new(Policy::new((0..3).map(rule).collect()).unwrap());
        let setup = setup.plans("default", "planned", move |descriptor: &Descriptor<'_>| {
            looked_up.lock().unwrap().get(descriptor.value("user")?).cloned()
        });
        let gate = Gate::with_clock(setup.unwrap(), Unsteady(clock.clone()));
        let known = USERS.map(|user| (user, Plan::Own)).into();
        Self { gate, clock, plans, known, own, modes, usages, models: Models::default() }
    }

    fn change_plan(&mut self, user: &'static str, plan: Plan) {
        let mut plans = self.plans.lock().unwrap();
        let rule = match &plan {
            Plan::Own => None,
            Plan::Other(policy) => Some(spec_of(policy)),
            Plan::Unlimited => Some(Spec::unlimited(tidegate::AlgorithmKind::SlidingLog)),
        };
        match rule.map(|spec| Arc::new(Rule::new(spec).unwrap())) {
            Some(rule) => plans.insert(user.to_owned(), rule),
            None => plans.remove(user),
        };
        self.known.insert(user, plan);
    }

    /// The limiters of a request, including unlimited ones.
    fn asks(&self, asked: &[Asked]) -> Vec<AskOf> {
        let mut all: Vec<AskOf> = Vec::new();
        for rule in 0..3 {
            for one in asked {
                let key = if rule == 2 { String::new() } else { one.user.to_owned() };
                let own = one.own.as_ref().filter(|_| rule != 1).map(|(policy, _)| policy.clone());
                let id = (rule, key);
                if let Some(ask) = all.iter_mut().find(|ask| ask.id == id) {
                    ask.cost = ask.cost.saturating_add(one.cost);
                    if let (false, Some(own)) = (ask.supplied, own) {
                        (ask.supplied, ask.values) = (true, Some(own));
                    }
                    continue;
                }
                let plan = match (rule, &self.known[one.user]) {
                    (0, Plan::Other(plan)) => Some(plan.clone()),
                    (0, Plan::Unlimited) => None,
                    _ => Some(self.own[rule].clone()),
                };
                let supplied = own.is_some();
                all.push(AskOf { id, cost: one.cost, asks: 0, values: own.or(plan), supplied });
            }
        }
        let reports = self.reports(&all);
        for ask in &mut all {
            let is_reported = self.usages[ask.id.0] == Usage::Reported;
            let asks_for_one = if ask.cost > 0 { reports } else { is_reported };
            ask.asks = if asks_for_one { 1 } else { ask.cost };
        }
        all
    }

    /// Returns whether a request reports usage; for a rule in shadow mode only if no other rule could refuse it.
    fn reports(&self, all: &[AskOf]) -> bool {
        let is = |ask: &AskOf, what| (self.modes[ask.id.0], self.usages[ask.id.0]) == what;
        let tells = |mode, usage| all.iter().any(|ask| ask.cost > 0 && is(ask, (mode, usage)));
        tells(Mode::Enforce, Usage::Reported)
            || tells(Mode::Shadow, Usage::Reported) && !tells(Mode::Enforce, Usage::Requested)
    }

    fn at_us(&self) -> u64 {
        self.clock.now_us()
    }

    /// The expected decision of a request that takes.
    fn decided(&mut self, all: &[AskOf]) -> (bool, Vec<(usize, Expected)>) {
        let at_us = self.at_us();
        let reports = self.reports(all);
        for (ask, values) in limited(all).filter(|(ask, _)| ask.asks > 0 && !ask.supplied) {
            self.models.under(at_us, &ask.id, values);
        }
        for (ask, values) in limited(all).filter(|(ask, _)| reports && ask.cost > 0) {
            self.models.under(at_us, &ask.id, values).reported(at_us, ask.cost);
        }
        let tried: Vec<_> = limited(all)
            .map(|(ask, values)| self.models.tried(at_us, &ask.id, values, ask.asks, ask.supplied))
            .collect();
        for ((ask, values), _) in limited(all).zip(&tried).filter(|(_, (_, begins))| *begins) {
            self.models.under(at_us, &ask.id, values);
        }
        let seen: Vec<_> = tried.into_iter().map(|(seen, _)| seen).collect();
        let enforced = |ask: &AskOf| self.modes[ask.id.0] == Mode::Enforce;
        let goes_on =
            limited(all).zip(&seen).all(|((ask, _), seen)| seen.allowed || !enforced(ask));
        let each = limited(all).zip(seen).map(|((ask, values), seen)| {
            let takes = goes_on && seen.allowed && ask.cost > 0 && !reports;
            let took = if takes {
                self.models.under(at_us, &ask.id, values).step(at_us, ask.cost)
            } else {
                seen
            };
            (ask.id.0, Expected { delay_us: if reports { 0 } else { took.delay_us }, ..took })
        });
        (goes_on, each.collect())
    }

    fn step(&mut self, rng: &mut Rng, asked: &[Asked]) {
        let entries: Vec<_> = asked.iter().map(|one| [("user", one.user)]).collect();
        let descriptors = entries.iter().zip(asked).map(|(entries, one)| {
            let descriptor = Descriptor::new(entries).cost(one.cost);
            one.own.as_ref().map_or(descriptor, |(_, own)| descriptor.limit(own))
        });
        let descriptors: Vec<_> = descriptors.collect();
        let request = Request::new("default", &descriptors);
        let (all, at_us) = (self.asks(asked), self.at_us());
        match rng.below(100) {
            0..50 => {
                let (goes_on, each) = self.decided(&all);
                let answer = self.gate.check(&request);
                assert_eq!((answer.is_allowed(), said(&answer)), (goes_on, each), "check");
                let values: Vec<_> = answer.matched().iter().map(|m| *m.values().spec()).collect();
                let asked: Vec<_> = limited(&all).map(|(_, values)| spec_of(values)).collect();
                assert_eq!(values, asked);
            }
            50..60 => {
                let (goes_on, _) = self.decided(&all);
                assert_eq!(self.gate.admits(&request), goes_on, "admits");
            }
            60..72 => {
                for (ask, values) in limited(&all) {
                    self.models.under(at_us, &ask.id, values).refund(at_us, ask.cost);
                }
                let each = self.after(&all);
                assert_eq!(said(&self.gate.refund(&request)), each, "refund");
            }
            72..82 => {
                let actual = rng.below(asked[0].cost.saturating_mul(2).max(2));
                self.settle(&all, asked, actual);
                let each = self.after(&all);
                assert_eq!(said(&self.gate.settle(&request, None, &[actual])), each, "settle");
            }
            82..84 => {
                all.iter().for_each(|ask| self.models.forget(&ask.id));
                assert_eq!(self.gate.reset(&request), all.len(), "reset");
            }
            _ => {
                let each: Vec<_> = limited(&all)
                    .map(|(ask, values)| {
                        (
                            ask.id.0,
                            self.models.tried(at_us, &ask.id, values, ask.asks, ask.supplied).0,
                        )
                    })
                    .collect();
                let answer = self.gate.peek(&request);
                assert_eq!(said(&answer), each, "peek");
            }
        }
    }

    /// A settlement under an unlimited plan is given back under the values in force, or not taken.
    fn settle(&mut self, all: &[AskOf], asked: &[Asked], actual: u64) {
        let at_us = self.at_us();
        for ask in all {
            let meets = |one: &&Asked| ask.id.0 == 2 || one.user == ask.id.1;
            let actual =
                asked.iter().filter(meets).fold(0, |sum: u64, _| sum.saturating_add(actual));
            match &ask.values {
                Some(values) => {
                    self.models.under(at_us, &ask.id, values).settle(at_us, ask.cost, actual)
                }
                None => {
                    if let Some(model) = self.models.get_mut(&ask.id) {
                        model.settle(at_us, ask.cost, actual.min(ask.cost));
                    }
                }
            }
        }
    }

    /// The expected answer to a settlement or a refund, which asks for no unit.
    fn after(&mut self, all: &[AskOf]) -> Vec<(usize, Expected)> {
        let at_us = self.at_us();
        limited(all)
            .map(|(ask, values)| {
                (ask.id.0, self.models.under(at_us, &ask.id, values).peek(at_us, 0))
            })
            .collect()
    }
}

/// The limited ones among the limiters, with their values.
fn limited(all: &[AskOf]) -> impl Iterator<Item = (&AskOf, &model::Policy)> {
    all.iter().filter_map(|ask| Some((ask, ask.values.as_ref()?)))
}

fn said(answer: &Answer<'_>) -> Vec<(usize, Expected)> {
    let number = |name: &str| RULES.iter().position(|rule| *rule == name).unwrap();
    let each = answer.matched().into_iter();
    each.map(|matched| (number(matched.rule().name()), answered(matched.decision()))).collect()
}

/// A request about one user, or two, or the same twice; sometimes it supplies values.
fn asked(rng: &mut Rng, pool: &[model::Policy], brings: u64) -> Vec<Asked> {
    let some = (0..rng.between(1, 2)).map(|_| {
        let own = rng.chance(brings).then(|| any(rng, pool)).map(|policy| {
            let rule = Rule::new(spec_of(&policy)).unwrap();
            (policy, RequestLimit::new(rule))
        });
        let most = pool[0].limit.max(1);
        Asked { user: rng.pick(USERS), cost: rng.skewed(most + 1), own }
    });
    some.collect()
}

#[test]
fn under_plans_and_supplied_values_a_gate_answers_as_amended_models_do() {
    for seed in 0..WALKS * if long() { 10 } else { 1 } {
        let rng = &mut Rng::new(seed);
        let pool = plans(rng);
        let mut walk = Walk::new(rng, &pool);
        let (loyalty, brings) = (rng.pick([50, 90, 98]), rng.pick([0, 20, 60]));
        for step in 0..STEPS {
            if !rng.chance(loyalty) {
                let plan = match rng.below(8) {
                    0..2 => Plan::Own,
                    2 => Plan::Unlimited,
                    _ => Plan::Other(any(rng, &pool)),
                };
                walk.change_plan(rng.pick(USERS), plan);
            }
            let plan = any(rng, &pool);
            pass(rng, &walk.clock, &plan);
            let mut asked = asked(rng, &pool, brings);
            let most = if walk.usages.contains(&Usage::Reported) { 1_000 } else { u64::MAX };
            asked.iter_mut().for_each(|one| one.cost = one.cost.min(most));
            let took = std::panic::AssertUnwindSafe(|| walk.step(rng, &asked));
            let equal = std::panic::catch_unwind(took).is_ok();
            assert!(equal, "seed {seed}, step {step}, of {pool:?}");
            // A debt may last past the last representable instant, where models go on.
            let at_us = walk.at_us();
            if walk.models.values_mut().any(|one| one.peek(at_us, 0).reset_after_us > u64::MAX / 4)
            {
                break;
            }
        }
    }
}
