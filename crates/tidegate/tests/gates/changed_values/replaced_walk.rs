//! Whole policies that are replaced while a gate decides, on random walks compared with naive models: rules are
//! added, removed, added back, moved and given other values, and overrides come and go.
//!
//! `TIDEGATE_LONG=1` walks twenty times as many.

use std::collections::HashMap;

use super::{EIGHT_YEARS_US, over_traces};
use crate::packed::{TestClock, answered, long, spec_of};
use testkit::model::{self, Expected, Model};
use testkit::traffic::{self, Rng};
use tidegate::{Descriptor, Gate, Limit, OverrideSpec, Policy, Request, Rule, RuleSpec, Spec};

const USERS: [&str; 3] = ["ada", "bob", "vip"];

/// A rule as the models know it, in force or not.
struct Known {
    own: model::Policy,
    /// The limit of `vip`, if it has its own.
    vip: Option<u64>,
    in_force: bool,
    /// True if it had one when the rule was last put in force.
    had_vip: bool,
    is_forgotten: bool,
    /// After an override came or went, each limiter gets its new values only when it is next asked.
    follows_late: bool,
    limiters: HashMap<&'static str, Model>,
}

impl Known {
    fn new(own: model::Policy) -> Self {
        let (vip, in_force, had_vip) = (None, true, false);
        let (is_forgotten, follows_late, limiters) = (false, false, HashMap::new());
        Self { own, vip, in_force, had_vip, is_forgotten, follows_late, limiters }
    }

    fn values(&self, user: &str) -> model::Policy {
        let limit = self.vip.filter(|_| user == "vip").unwrap_or(self.own.limit);
        model::Policy { limit, ..self.own.clone() }
    }

    /// The limiter of a user, under the values in force.
    fn limiter(&mut self, at_us: u64, user: &'static str) -> &mut Model {
        let values = self.values(user);
        let limiter = self.limiters.entry(user).or_insert_with(|| Model::new(values.clone()));
        if limiter.policy() != &values {
            limiter.replace(at_us, values);
        }
        limiter
    }

    /// Puts its limiters under the values in force, unless they wait until they are asked.
    fn follow(&mut self, at_us: u64) {
        self.follows_late |= self.had_vip != self.vip.is_some() && !self.is_forgotten;
        self.is_forgotten = false;
        self.had_vip = self.vip.is_some();
        let users: Vec<_> = self.limiters.keys().copied().collect();
        if !self.follows_late {
            users.into_iter().for_each(|user| _ = self.limiter(at_us, user));
        }
    }

    /// Returns whether limiters that have rules of their own may remember when their rate changed, also while nothing is
    /// used. The gate then forgets the rule later than the models do.
    fn remembers_its_rate(&self) -> bool {
        use model::AlgorithmKind::{LeakyBucket, LeakyQueue, TokenBucket};
        let is_level = matches!(self.own.algorithm, TokenBucket | LeakyBucket | LeakyQueue);
        is_level && self.follows_late
    }

    /// Forgets a removed rule whose limiters are all idle, as if it had never existed.
    fn forget_if_idle(&mut self, at_us: u64) {
        let mut limiters = self.limiters.values_mut();
        if limiters.all(|limiter| limiter.gone_us(at_us) == 0) {
            self.limiters.clear();
            (self.follows_late, self.is_forgotten) = (false, true);
        }
    }

    fn rule(&self, name: usize) -> RuleSpec {
        let rule = RuleSpec::new(name.to_string(), spec_of(&self.own)).key(["user"]);
        self.vip.into_iter().fold(rule, |rule, limit| {
            let mut vip = OverrideSpec::new("user", "vip");
            vip.limit = Some(Limit::Units(limit));
            rule.with_override(vip)
        })
    }
}

struct Walk {
    rng: Rng,
    gate: Gate<TestClock>,
    /// By name; the rules in force have an order.
    known: Vec<Known>,
    order: Vec<usize>,
    at_us: u64,
}

/// Returns values of one algorithm, so that the models know to the unit what a change keeps of a limiter.
fn values(rng: &mut Rng) -> model::Policy {
    let algorithm = rng.pick(model::AlgorithmKind::ALL);
    // Without units in use, an `initial` would be ambiguous: the limiter may have been dropped.
    model::Policy { initial: None, ..traffic::policy(rng, algorithm) }
}

impl Walk {
    fn new(mut rng: Rng, clock: TestClock) -> Self {
        let known: Vec<_> = (0..rng.between(2, 4)).map(|_| Known::new(values(&mut rng))).collect();
        let order: Vec<_> = (0..known.len()).collect();
        let rules = known.iter().enumerate().map(|(name, known)| known.rule(name));
        let gate = Gate::with_clock(Policy::new(rules.collect()).unwrap(), clock);
        Self { rng, gate, known, order, at_us: 0 }
    }

    fn ask<T>(
        &self,
        user: &str,
        cost: u64,
        ask: impl FnOnce(&Gate<TestClock>, &Request<'_>) -> T,
    ) -> T {
        ask(&self.gate, &Request::from(Descriptor::new(&[("user", user)]).cost(cost)))
    }

    /// Changes one rule, and replaces the whole policy.
    fn replace(&mut self) {
        let name = self.rng.below(self.known.len() as u64) as usize;
        let known = &mut self.known[name];
        match self.rng.below(5) {
            0 => known.in_force = known.remembers_its_rate() || !known.in_force,
            1 => {
                let limit = self.rng.skewed(2 * known.own.limit.max(1));
                let other = model::Policy { limit, ..known.own.clone() };
                if Rule::new(spec_of(&other)).is_ok() {
                    known.vip = Some(limit).filter(|_| known.vip.is_none());
                }
            }
            2 => self.order.rotate_left(1),
            _ => {
                let limit = self.rng.skewed(2 * known.own.limit.max(1));
                let other = model::Policy { limit, ..known.own.clone() };
                let sound = |spec: Spec| Rule::new(spec).is_ok();
                let of_vip = known.vip.map(|limit| model::Policy { limit, ..other.clone() });
                if sound(spec_of(&other)) && of_vip.is_none_or(|vip| sound(spec_of(&vip))) {
                    known.own = other;
                }
            }
        }
        let in_force = self.order.iter().filter(|name| self.known[**name].in_force);
        let rules = in_force.map(|name| self.known[*name].rule(*name)).collect();
        self.gate.replace(Policy::new(rules).unwrap()).unwrap();
        let at_us = self.at_us;
        for known in &mut self.known {
            if known.in_force {
                known.follow(at_us);
            } else {
                known.forget_if_idle(at_us);
            }
        }
    }

    /// Returns whether the request is allowed, and the decision of each rule in force.
    fn said(&mut self, user: &'static str, cost: u64, takes: bool) -> (bool, Vec<Expected>) {
        let (at_us, mut allowed) = (self.at_us, true);
        let order: Vec<_> =
            self.order.iter().copied().filter(|name| self.known[*name].in_force).collect();
        for name in &order {
            let model = self.known[*name].limiter(at_us, user);
            if takes {
                model.step(at_us, 0);
            }
            allowed &= model.peek(at_us, cost).allowed;
        }
        let each = order.iter().map(|name| {
            let model = self.known[*name].limiter(at_us, user);
            if takes && allowed { model.step(at_us, cost) } else { model.peek(at_us, cost) }
        });
        (allowed, each.collect())
    }

    fn check(&mut self, user: &'static str, cost: u64) {
        let (allowed, said) = self.said(user, cost, true);
        let (goes_on, each) = self.ask(user, cost, |gate, request| {
            let answer = gate.check(request);
            let each =
                answer.matched().iter().map(|one| answered(one.decision())).collect::<Vec<_>>();
            (answer.is_allowed(), each)
        });
        assert_eq!((goes_on, each), (allowed, said));
    }

    fn step(&mut self, at_us: u64, cost: u64) {
        self.at_us = at_us;
        let user = self.rng.pick(USERS);
        match self.rng.below(20) {
            0..5 => self.replace(),
            5 => {
                let at_us = self.at_us;
                let in_force = self.known.iter_mut().filter(|known| known.in_force);
                in_force.for_each(|known| known.limiter(at_us, user).refund(at_us, cost));
                let _ = self.ask(user, cost, |gate, request| gate.refund(request).is_allowed());
            }
            _ => self.check(user, cost),
        }
    }
}

#[test]
fn replaced_policies_decide_as_models_that_are_changed() {
    let seeds = if long() { 6_000 } else { 300 };
    // A cost of 0 does not put a limiter under its new values.
    let step = |walk: &mut Walk, at_us, cost: u64| walk.step(at_us, cost.max(1));
    over_traces(seeds, EIGHT_YEARS_US, Walk::new, step);
}
