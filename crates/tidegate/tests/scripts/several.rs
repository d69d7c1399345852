//! Several limiters in one script: all enforced limiters admit, or none is charged; shadow rules count and never
//! refuse; values are the rule's, looked up, or supplied by the request. A random walk compares every value with a gate
//! in memory that uses the same time; the clock steps back now and then.
//!
//! `TIDEGATE_LONG=1` goes ten times as far.

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use testkit::model;
use testkit::traffic::Rng;
use tidegate::script::{Call, ScriptLimiter, ScriptStep, Surplus};
use tidegate::{
    AlgorithmKind, Clock, Decision, Descriptor, Gate, Layout, Mode, Policy, Request, RequestLimit,
    Rule, RuleSpec, Setup, Spec, Timestamp, Usage,
};

use crate::server::policies::{checked, closed, in_layout, small};
use crate::server::{Client, long};

const NAMES: [&str; 3] = ["planned", "plain", "brought"];
const ENTRIES: &[(&str, &str)] = &[("user", "ada")];

/// A clock that is put to any time.
#[derive(Clone, Debug)]
pub(crate) struct Hand(pub(crate) Arc<AtomicU64>);

impl Clock for Hand {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.0.load(SeqCst))
    }
}

/// Some values without enormous debts.
fn values(rng: &mut Rng, layout: Layout) -> Rule {
    loop {
        let algorithm = rng.pick(model::AlgorithmKind::ALL);
        let mut policy = small(rng, algorithm);
        policy.limit = if rng.chance(5) { 0 } else { policy.limit };
        let Ok(rule) = checked(&policy) else { continue };
        return if rng.chance(3) { closed() } else { in_layout(*rule.spec(), layout) };
    }
}

struct Walk<'c> {
    client: &'c Client,
    number: u64,
    pool: Vec<Rule>,
    own: [Rule; 3],
    modes: [Mode; 3],
    usages: [Usage; 3],
    plan: Arc<Mutex<Option<Rule>>>,
    gate: Gate<Hand>,
    clock: Hand,
}

impl<'c> Walk<'c> {
    fn new(client: &'c Client, number: u64, rng: &mut Rng) -> Self {
        let layout = rng.pick([Layout::String, Layout::SortedSet]);
        let pool: Vec<_> = (0..4).map(|_| values(rng, layout)).collect();
        let mut own = [(); 3].map(|()| any(rng, &pool));
        let modes = [(); 3].map(|()| rng.pick([Mode::Enforce, Mode::Enforce, Mode::Shadow]));
        let mut usages =
            [(); 3].map(|()| rng.pick([Usage::Requested, Usage::Requested, Usage::Reported]));
        for (usage, own) in usages.iter_mut().zip(&own) {
            let algorithm = own.spec().algorithm;
            if algorithm.is_queue() || algorithm.holds_permits() {
                *usage = Usage::Requested;
            }
        }
        // Usage that is reported has no bound for its debt.
        for (own, _) in own.iter_mut().zip(usages).filter(|(_, usage)| *usage == Usage::Reported) {
            let mut spec = *own.spec();
            spec.max_debt = Some(u64::MAX);
            *own = Rule::new(spec).unwrap();
        }
        let rule = |number: usize| {
            let rule = RuleSpec::new(NAMES[number], *own[number].spec())
                .mode(modes[number])
                .usage(usages[number]);
            if number == 1 { rule } else { rule.limit_from_request() }
        };
        let plan: Arc<Mutex<Option<Rule>>> = Arc::default();
        let looked_up = Arc::clone(&plan);
        let clock = Hand(Arc::new(AtomicU64::new(1_763_700_000_000_000)));
        let policy = Policy::new((0..3).map(rule).collect()).unwrap();
        let setup = Setup::new(policy);
        let setup = setup.plans("default", "planned", move |_| looked_up.lock().unwrap().clone());
        let gate = Gate::with_clock(setup.unwrap(), clock.clone());
        Self { client, number, pool, own, modes, usages, plan, gate, clock }
    }

    fn pass(&self, rng: &mut Rng) {
        let us = rng.pick([0, 1, 1_000, 10_000, 100_000, 3_000_000, 30_000_000]);
        self.clock.0.fetch_add(us, SeqCst);
        if rng.chance(8) && self.is_used(rng) {
            let back = rng.pick([1, 5_000, 400_000, 90_000_000]);
            self.clock.0.fetch_sub(back, SeqCst);
        }
    }

    /// Returns whether each limiter is in use: an idle limiter may be gone, or be seen by a clock gone back.
    fn is_used(&self, rng: &mut Rng) -> bool {
        let (one, other, context) = self.step(rng, ScriptStep::Peek, None, 0);
        assert_eq!(one, other, "{context}");
        one.1.iter().filter(|one| one.reset_after() > Duration::ZERO).count() == 3
    }

    /// Returns whether a request of a cost above 0, which matches all rules, reports usage.
    fn reports(&self) -> bool {
        let is = |mode, usage| (0..3).any(|n| (self.modes[n], self.usages[n]) == (mode, usage));
        is(Mode::Enforce, Usage::Reported)
            || is(Mode::Shadow, Usage::Reported) && !is(Mode::Enforce, Usage::Requested)
    }

    /// One step with both.
    fn step(
        &self,
        rng: &mut Rng,
        step: ScriptStep,
        from_request: Option<&RequestLimit>,
        cost: u64,
    ) -> (Answered, Answered, String) {
        let plan = self.plan.lock().unwrap().clone();
        let rules = [0, 1, 2].map(|number| match (number, from_request, &plan) {
            (0 | 2, Some(from_request), _) => from_request.rules().next().unwrap(),
            (0, None, Some(plan)) => plan,
            _ => &self.own[number],
        });
        let keys = [0, 1, 2].map(|rule| format!("figures:{}:{rule}", self.number).into_bytes());
        let mut actual = rng.pick([0, cost / 2, cost, cost + 1]);
        if rules.iter().any(|rule| rule.is_unlimited()) {
            // A settlement under an unlimited rule may be about a permit, which comes back as a whole.
            actual = 0;
        }
        let reports = cost > 0 && self.reports();
        let script_step = match step {
            ScriptStep::Ask | ScriptStep::Decide if reports => ScriptStep::Report,
            step => step,
        };
        let limited = (0..3).filter_map(|number| {
            let looks = cost == 0 && self.usages[number] == Usage::Reported;
            let asks = if step == ScriptStep::Peek && (looks || reports) { 1 } else { cost };
            let one = ScriptLimiter::new(&keys[number], rules[number], asks)?.turned_out(actual);
            let takes = matches!(step, ScriptStep::Ask | ScriptStep::Decide);
            let one = if looks && takes { one.looking() } else { one };
            let one = if self.modes[number] == Mode::Enforce { one } else { one.shadow() };
            Some(match (number, from_request) {
                (1, _) => one,
                (_, Some(_)) => one.from_request(),
                (_, None) => one.looked_up(),
            })
        });
        let limited: Vec<_> = limited.collect();
        let descriptor = Descriptor::new(ENTRIES).cost(cost);
        let descriptors = [from_request.map_or(descriptor, |own| descriptor.limit(own))];
        let request = Request::new("default", &descriptors);
        let gate = &self.gate;
        let at = self.clock.now();
        let other = match step {
            ScriptStep::Ask => gate.check(&request),
            ScriptStep::Peek => gate.peek(&request),
            ScriptStep::Decide => {
                let answer = self.client.step(&limited, script_step, Some(at)).allowed;
                return ((answer, vec![]), (gate.admits(&request), vec![]), format!("{step:?}"));
            }
            _ => gate.settle(&request, None, &[actual]),
        };
        if step == ScriptStep::Settle && limited.len() < 3 && actual < cost {
            let unlimited = (0..3).filter(|number| rules[*number].is_unlimited());
            let surplus =
                |n: usize| Surplus { key: &keys[n], units: cost - actual, ..Surplus::default() };
            let unlimited: Vec<_> = unlimited.map(surplus).collect();
            let call = Call::giving_back(&unlimited, Some(at));
            let reply = self.client.ask(&call);
            call.given_back(&reply).unwrap();
        }
        let one = self.client.step(&limited, script_step, Some(at));
        let other_reported =
            other.matched().into_iter().map(|matched| *matched.decision()).collect();
        let context = format!("{step:?} {cost} ({actual}) at {at:?}; {:?}", rules.map(Rule::spec));
        ((one.allowed, one.decisions), (other.is_allowed(), other_reported), context)
    }
}

type Answered = (bool, Vec<Decision>);

const STEPS: [ScriptStep; 7] = [
    ScriptStep::Ask,
    ScriptStep::Ask,
    ScriptStep::Ask,
    ScriptStep::Ask,
    ScriptStep::Decide,
    ScriptStep::Peek,
    ScriptStep::Settle,
];

fn any(rng: &mut Rng, pool: &[Rule]) -> Rule {
    pool[rng.below(pool.len() as u64) as usize].clone()
}

#[test]
fn values_of_plans_and_requests_are_reported_as_in_memory() {
    let client = Client::start();
    for seed in 0..if long() { 600 } else { 60 } {
        let rng = &mut Rng::new(seed);
        let walk = Walk::new(&client, seed, rng);
        let (brings, mut latest) = (rng.pick([0, 30, 70]), Timestamp::EPOCH);
        for turn in 0..120 {
            if rng.chance(15) {
                let plan = match rng.below(5) {
                    0 => None,
                    1 => Some(Rule::new(Spec::unlimited(AlgorithmKind::TokenBucket)).unwrap()),
                    _ => Some(any(rng, &walk.pool)),
                };
                *walk.plan.lock().unwrap() = plan;
            }
            walk.pass(rng);
            let from_request = rng.chance(brings).then(|| RequestLimit::new(any(rng, &walk.pool)));
            let most = rng.pick([3, 50, 500]);
            let cost = rng.below(most);
            // Units given back while the clock runs late may make a limiter idle, as above.
            latest = latest.max(walk.clock.now());
            let is_behind = walk.clock.now() < latest;
            let step = rng.pick(STEPS);
            let step = if is_behind && step == ScriptStep::Settle { ScriptStep::Ask } else { step };
            let (one, other, context) = walk.step(rng, step, from_request.as_ref(), cost);
            assert_eq!(
                one,
                other,
                "seed {seed}, turn {turn}, from a request {}: {context}",
                from_request.is_some()
            );
        }
    }
    assert!(client.changed.get() > 100, "rules were found changed");
}
