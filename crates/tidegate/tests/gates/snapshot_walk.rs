//! Gates that are written and loaded again and again, on random walks: each decides as its twin that never stopped.
//!
//! `TIDEGATE_LONG=1` walks twenty times as many.

use std::time::Duration;

use crate::packed::{SteppingClock, TestClock, answered, long, spec_of};
use testkit::model::{self, Expected};
use testkit::traffic::{self, Rng};
use tidegate::{
    Answer, Ban, Clock, Descriptor, Gate, Limit, OverrideSpec, Policy, Request, RequestLimit, Rule,
    RuleSpec, Setup, Timestamp, Usage,
};

const USERS: [&str; 4] = ["ada", "bob", "eve", "vip"];
/// A clock that steps back turns an idle limiter into a limiter in use, unless it was dropped. Alone it is not dropped.
const ALONE: &[&str] = &["vip"];

/// The settings of a gate, from which it is built again.
struct World {
    rules: Vec<RuleSpec>,
    /// The plan of `ada` and `bob` for the rule `0`.
    plan: Option<[Rule; 2]>,
    /// The ban of the rule `0`.
    ban: Option<(u64, Duration, Duration)>,
}

impl World {
    fn new(rng: &mut Rng) -> Self {
        let rules = (0..rng.between(1, 3)).map(|name| rule(rng, name.to_string())).collect();
        let plan = rng.chance(25).then(|| [(); 2].map(|()| sound(rng)));
        let ban = rng.chance(25).then(|| {
            let [within, lasts] = [(); 2].map(|()| Duration::from_millis(rng.between(1, 90_000)));
            (rng.between(1, 4), within, lasts)
        });
        Self { rules, plan, ban }
    }

    fn policy(&self) -> Policy {
        Policy::new(self.rules.clone()).unwrap()
    }

    fn gate<C: Clock + Clone>(&self, clock: &C) -> Gate<C> {
        let mut setup = Setup::new(self.policy());
        if let Some([ada, bob]) = self.plan.clone() {
            let plans = move |descriptor: &Descriptor<'_>| match descriptor.value("user") {
                Some("ada") => Some(ada.clone()),
                Some("bob") => Some(bob.clone()),
                _ => None,
            };
            setup = setup.plans("default", "0", plans).unwrap();
        }
        if let Some((refusals, within, lasts)) = self.ban {
            let ban = Ban::with_clock(refusals, within, lasts, clock.clone()).unwrap();
            setup = setup.ban("default", "0", ban).unwrap();
        }
        Gate::with_clock(setup, clock.clone())
    }

    /// Changes one rule.
    fn change(&mut self, rng: &mut Rng) {
        let number = rng.below(self.rules.len() as u64) as usize;
        match rng.below(4) {
            0 => {
                let name = format!("added-{}", self.rules.len());
                self.rules.push(rule(rng, name));
            }
            1 => self.rules.rotate_left(1),
            2 if self.rules[number].overrides.is_empty() && !self.rules[number].key.is_empty() => {
                let mut vip = OverrideSpec::new("user", "vip");
                vip.limit = Some(Limit::Units(rng.skewed(1_000)));
                let changed = self.rules[number].clone().with_override(vip);
                if Policy::new(vec![changed.clone()]).is_ok() {
                    self.rules[number] = changed;
                }
            }
            _ => {
                let mut changed = rule(rng, self.rules[number].name.clone());
                changed.limit_from_request = self.rules[number].limit_from_request;
                changed.overrides.clear();
                changed.key.clone_from(&self.rules[number].key);
                // Without units in use it would be ambiguous: the limiter may have been dropped.
                changed.spec.initial = None;
                self.rules[number] = changed;
            }
        }
    }
}

fn values(rng: &mut Rng) -> model::Policy {
    let algorithm = rng.pick(model::AlgorithmKind::ALL);
    traffic::policy(rng, algorithm)
}

fn sound(rng: &mut Rng) -> Rule {
    Rule::new(spec_of(&model::Policy { initial: None, ..values(rng) })).unwrap()
}

fn rule(rng: &mut Rng, name: String) -> RuleSpec {
    let values = values(rng);
    let mut rule = match rng.chance(15) {
        true => RuleSpec::new(name, spec_of(&values)),
        false => {
            let values = model::Policy { initial: None, ..values };
            RuleSpec::new(name, spec_of(&values)).key(["user"])
        }
    };
    if rng.chance(30) && !rule.key.is_empty() {
        let mut vip = OverrideSpec::new("user", "vip");
        vip.limit = Some(Limit::Units(rng.skewed(1_000)));
        let with_vip = rule.clone().with_override(vip);
        rule = if Policy::new(vec![with_vip.clone()]).is_ok() { with_vip } else { rule };
    }
    rule.dedupe = rng.chance(40).then(|| Duration::from_millis(rng.between(1, 60_000)));
    rule.limit_from_request = rng.chance(25);
    let mut reported = rule.clone();
    reported.usage = Usage::Reported;
    // A queue cannot be reported to.
    let is_reported = rng.chance(20) && Policy::new(vec![reported.clone()]).is_ok();
    if is_reported { reported } else { rule }
}

/// Everything that an answer says.
fn said(answer: &Answer<'_>) -> (bool, bool, Timestamp, Vec<(String, Expected, bool)>) {
    let matched = answer.matched();
    let each = matched
        .iter()
        .map(|one| (one.rule().name().to_owned(), answered(one.decision()), one.is_overflow()));
    (answer.is_allowed(), answer.is_repeated(), answer.at(), each.collect())
}

struct Walk<C> {
    rng: Rng,
    users: &'static [&'static str],
    world: World,
    clock: C,
    gate: Gate<C>,
    /// Never stopped.
    twin: Gate<C>,
}

impl<C: Clock + Clone> Walk<C> {
    fn new(mut rng: Rng, clock: C, users: &'static [&'static str]) -> Self {
        let world = World::new(&mut rng);
        let (gate, twin) = (world.gate(&clock), world.gate(&clock));
        Self { rng, users, world, clock, gate, twin }
    }

    /// Stops the gate, and goes on in a new gate.
    fn restart(&mut self) {
        let mut file = Vec::new();
        let written = self.gate.write_snapshot(&mut file).unwrap();
        assert_eq!(written.bytes, file.len() as u64);
        let (gate, loaded) = self.world.gate(&self.clock).with_snapshot(&file[..]).unwrap();
        assert_eq!(loaded.dropped + loaded.without_space, 0, "{loaded:?}");
        assert_eq!(loaded.limiters + loaded.idle, written.limiters, "{loaded:?}");
        self.gate = gate;
    }

    fn step(&mut self, cost: u64) {
        let user = self.users[self.rng.below(self.users.len() as u64) as usize];
        let own = self.rng.chance(30).then(|| RequestLimit::new(sound(&mut self.rng)));
        // A clock that steps back makes an expired answer valid again, unless it was dropped.
        let has_id = self.users.len() > 1 && self.rng.chance(40);
        let id = has_id.then(|| self.rng.below(4).to_string());
        let entries = [("user", user)];
        let mut descriptor = Descriptor::new(&entries).cost(cost);
        if let Some(own) = &own {
            descriptor = descriptor.limit(own);
        }
        let mut request = Request::from(descriptor);
        if let Some(id) = &id {
            request = request.with_id(id).unwrap();
        }
        let both = [&self.gate, &self.twin];
        match self.rng.below(20) {
            0..3 => self.restart(),
            3 => {
                self.world.change(&mut self.rng);
                self.twin.replace(self.world.policy()).unwrap();
                self.restart();
            }
            4 => {
                let [gate, twin] = both.map(|gate| said(&gate.refund(&request)));
                assert_eq!(gate, twin);
            }
            5 => {
                let actual = self.rng.pick([0, cost / 2, cost, 3 * cost.min(1 << 40), u64::MAX]);
                let [gate, twin] = both.map(|gate| said(&gate.settle(&request, None, &[actual])));
                assert_eq!(gate, twin);
            }
            6 => assert_eq!(self.gate.reset(&request), self.twin.reset(&request)),
            7 => {
                let [gate, twin] = both.map(|gate| said(&gate.peek(&request)));
                assert_eq!(gate, twin);
            }
            _ => {
                let [gate, twin] = both.map(|gate| said(&gate.check(&request)));
                assert_eq!(gate, twin);
            }
        }
    }
}

fn walks<C: Clock + Clone>(
    users: &'static [&'static str],
    clock: impl Fn(u64) -> C,
    set: impl Fn(&C, u64),
    trace: impl Fn(&mut Rng, &model::Policy, usize) -> Vec<(u64, u64)>,
) {
    for seed in 0..if long() { 12_000 } else { 600 } {
        let mut rng = Rng::new(seed);
        let policy = values(&mut rng);
        let trace = trace(&mut rng, &policy, 80);
        let begin_us = trace[0].0;
        let mut walk = Walk::new(rng, clock(begin_us), users);
        for (at_us, cost) in trace {
            // Packed times reach nine years.
            if at_us > begin_us + 8 * 366 * 86_400_000_000 {
                break;
            }
            set(&walk.clock, at_us);
            let failed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| walk.step(cost)));
            assert!(failed.is_ok(), "seed {seed}, at {at_us}");
        }
    }
}

#[test]
fn a_gate_that_is_restarted_decides_as_one_that_was_not() {
    walks(&USERS, TestClock::at, |clock, at_us| clock.set(at_us), traffic::trace);
}

#[test]
fn a_gate_that_is_restarted_decides_as_one_that_was_not_under_a_clock_that_steps_back() {
    walks(ALONE, SteppingClock::at, |clock, at_us| clock.set(at_us), traffic::jumpy_trace);
}
