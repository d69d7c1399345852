//! Rules that change while a gate decides, on random walks compared with naive models that change with them.
//!
//! Two or three rules of every algorithm, some unlimited for a while, some with an override. Limiters are packed if
//! the clock never steps back, else in shards. `TIDEGATE_LONG=1` walks twenty times as many.

use std::collections::HashMap;

use super::{EIGHT_YEARS_US, over_traces};
use crate::packed::{Unsteady, answered, long, spec_of};
use std::time::Duration;
use testkit::model::{self, Expected, Model};
use testkit::traffic::{self, Rng};
use tidegate::{
    AlgorithmKind, Answer, Clock, Descriptor, Gate, Limit, ManualClock, Mode, OverrideSpec, Policy,
    Request, Rule, RuleSpec, Spec,
};

const USERS: [&str; 3] = ["ada", "bob", "vip"];

/// One rule as the models know it; its values are `None` if it is unlimited.
struct Known {
    has_key: bool,
    mode: Mode,
    own: Option<model::Policy>,
    /// The values of `vip`, if it has an override.
    vip: Option<Option<model::Policy>>,
    limiters: HashMap<&'static str, Model>,
}

impl Known {
    fn values(&self, user: &str) -> Option<&model::Policy> {
        let vip = self.vip.as_ref().filter(|_| user == "vip" && self.has_key);
        vip.unwrap_or(&self.own).as_ref()
    }

    fn key(&self, user: &'static str) -> &'static str {
        if self.has_key { user } else { "" }
    }

    /// The limiter of a user, if the rule limits it.
    fn limiter(&mut self, user: &'static str) -> Option<&mut Model> {
        let values = self.values(user)?.clone();
        Some(self.limiters.entry(self.key(user)).or_insert_with(|| Model::new(values)))
    }

    /// Puts the limiters under the known values. While there is no limit they stay as they are.
    fn follow(&mut self, at_us: u64) {
        for (user, mut limiter) in std::mem::take(&mut self.limiters) {
            let changed = self.values(user).filter(|values| limiter.policy() != *values).cloned();
            changed.into_iter().for_each(|values| limiter.replace(at_us, values));
            self.limiters.insert(user, limiter);
        }
    }
}

/// Returns random values; sometimes `None`.
fn values(rng: &mut Rng) -> Option<model::Policy> {
    let algorithm = rng.pick(model::AlgorithmKind::ALL);
    // Without units in use, an `initial` would be ambiguous: the limiter may have been dropped.
    let policy = model::Policy { initial: None, ..traffic::policy(rng, algorithm) };
    (!rng.chance(10)).then_some(policy)
}

/// The two buckets are one algorithm with two sets of fields: a level passes unchanged between them, but the models
/// know two algorithms and would round it up to whole units.
fn in_one_vocabulary(old: Option<&model::Policy>, mut next: model::Policy) -> model::Policy {
    let buckets = [model::AlgorithmKind::TokenBucket, model::AlgorithmKind::LeakyBucket];
    let is_bucket = |policy: &&model::Policy| buckets.contains(&policy.algorithm);
    if let Some(old) = old.filter(is_bucket).filter(|_| is_bucket(&&next)) {
        next.algorithm = old.algorithm;
    }
    next
}

/// Returns the values with another limit, which sometimes does not fit its window.
fn nearby(rng: &mut Rng, policy: &model::Policy) -> model::Policy {
    let limit = if rng.chance(10) { 0 } else { rng.skewed(2 * policy.limit.max(1)) };
    model::Policy { limit, ..policy.clone() }
}

fn spec(values: Option<&model::Policy>) -> Spec {
    values.map_or(Spec::unlimited(AlgorithmKind::TokenBucket), spec_of)
}

fn vip(values: Option<&model::Policy>) -> OverrideSpec {
    let mut other = OverrideSpec::new("user", "vip");
    other.limit = Some(values.map_or(Limit::Unlimited, |values| Limit::Units(values.limit)));
    other
}

fn known(rng: &mut Rng) -> (Known, RuleSpec) {
    let has_key = rng.chance(70);
    let mode = rng.pick([Mode::Enforce, Mode::Enforce, Mode::Enforce, Mode::Shadow]);
    let own = values(rng);
    let mut rule = RuleSpec::new("unnamed", spec(own.as_ref())).mode(mode);
    rule.key = if has_key { vec!["user".to_owned()] } else { Vec::new() };
    let mut of_vip = None;
    if let Some(own) = own.as_ref().filter(|_| has_key && rng.chance(40)) {
        let other = nearby(rng, own);
        if Rule::new(spec_of(&other)).is_ok() {
            rule = rule.with_override(vip(Some(&other)));
            of_vip = Some(Some(other));
        }
    }
    (Known { has_key, mode, own, vip: of_vip, limiters: HashMap::new() }, rule)
}

struct Walk<C> {
    rng: Rng,
    gate: Gate<C>,
    known: Vec<Known>,
    at_us: u64,
}

impl<C: Clock> Walk<C> {
    fn new(mut rng: Rng, clock: C) -> Self {
        let count = rng.between(1, 3);
        let (mut all, mut rules) = (Vec::new(), Vec::new());
        for number in 0..count {
            let (known, mut rule) = known(&mut rng);
            rule.name = number.to_string();
            all.push(known);
            rules.push(rule);
        }
        let gate = Gate::with_clock(Policy::new(rules).unwrap(), clock);
        Self { rng, gate, known: all, at_us: 0 }
    }

    fn ask<T>(&self, user: &str, cost: u64, ask: impl FnOnce(&Gate<C>, &Request<'_>) -> T) -> T {
        ask(&self.gate, &Request::from(Descriptor::new(&[("user", user)]).cost(cost)))
    }

    /// Returns whether the request is allowed, and the decision of each rule that limits it.
    fn said(&mut self, user: &'static str, cost: u64, takes: bool) -> (bool, Vec<Expected>) {
        let at_us = self.at_us;
        let mut allowed = true;
        for known in &mut self.known {
            let enforced = known.mode == Mode::Enforce;
            if let Some(model) = known.limiter(user) {
                if takes {
                    model.step(at_us, 0); // creates its state, with any outcome
                }
                allowed &= model.peek(at_us, cost).allowed || !enforced;
            }
        }
        let values = |known: &mut Known| {
            let model = known.limiter(user)?;
            let charged = takes && allowed;
            Some(if charged { model.step(at_us, cost) } else { model.peek(at_us, cost) })
        };
        (allowed, self.known.iter_mut().filter_map(values).collect())
    }

    fn compare(&mut self, user: &'static str, cost: u64, takes: bool) {
        let (allowed, said) = self.said(user, cost, takes);
        let answer = |answer: Answer<'_>| {
            let matched = answer.matched().into_iter();
            let each = matched.map(|one| (answered(one.decision()), *one.values().spec()));
            (answer.is_allowed(), each.collect::<Vec<_>>())
        };
        let (goes_on, each) = self.ask(user, cost, |gate, request| {
            answer(if takes { gate.check(request) } else { gate.peek(request) })
        });
        assert_eq!(each.iter().map(|(reported, _)| *reported).collect::<Vec<_>>(), said);
        assert_eq!(goes_on, allowed);
        let in_force = self.known.iter().filter_map(|known| known.values(user).map(spec_of));
        assert_eq!(
            each.iter().map(|(_, spec)| (spec.limit, spec.window)).collect::<Vec<_>>(),
            in_force.map(|spec| (spec.limit, spec.window)).collect::<Vec<_>>(),
            "the answer reports the values that decided"
        );
    }

    fn give_back(&mut self, user: &'static str, cost: u64) {
        let at_us = self.at_us;
        let models = |known: &mut Known| known.limiter(user).map(|model| model.refund(at_us, cost));
        self.known.iter_mut().for_each(|known| _ = models(known));
        let _ = self.ask(user, cost, |gate, request| gate.refund(request).is_allowed());
    }

    fn settle(&mut self, user: &'static str, cost: u64, actual: u64) {
        let at_us = self.at_us;
        for known in &mut self.known {
            if let Some(model) = known.limiter(user) {
                model.settle(at_us, cost, actual);
            }
        }
        let _ = self
            .ask(user, cost, |gate, request| gate.settle(request, None, &[actual]).is_allowed());
    }

    fn amend(&mut self) {
        let number = self.rng.below(self.known.len() as u64) as usize;
        let name = number.to_string();
        let known = &mut self.known[number];
        let of_vip = known.vip.is_some() && self.rng.chance(40);
        let next = match &known.own {
            Some(own) if of_vip || self.rng.chance(50) => Some(nearby(&mut self.rng, own)),
            own => values(&mut self.rng).map(|next| in_one_vocabulary(own.as_ref(), next)),
        };
        // An override of 0 stays closed under an unlimited rule.
        let is_closed = matches!(&known.vip, Some(Some(vip)) if vip.limit == 0);
        if !of_vip && next.is_none() && is_closed {
            return;
        }
        if of_vip {
            let next = next.filter(|_| known.own.is_some() && !self.rng.chance(10));
            let is_sound = next.as_ref().is_none_or(|next| Rule::new(spec_of(next)).is_ok());
            let answer = self.gate.amend("default", &name, vip(next.as_ref()));
            assert_eq!(answer.is_ok(), is_sound, "{answer:?}");
            known.vip = if is_sound { Some(next) } else { known.vip.take() };
        } else {
            // An override keeps its limit, with the other values of the rule.
            let of_vip = known.vip.as_ref().map(|vip| {
                let limit = vip.as_ref()?.limit;
                next.as_ref().map(|next| model::Policy { limit, ..next.clone() })
            });
            let all = [next.as_ref(), of_vip.as_ref().and_then(Option::as_ref)];
            let is_sound = all.into_iter().flatten().all(|one| Rule::new(spec_of(one)).is_ok());
            // A limit needs a window, which an unlimited rule does not have.
            let is_sound = is_sound && !(next.is_none() && matches!(known.vip, Some(Some(_))));
            let answer = self.gate.amend("default", &name, spec(next.as_ref()));
            assert_eq!(answer.is_ok(), is_sound, "{answer:?}");
            if is_sound {
                (known.own, known.vip) = (next, of_vip);
            }
        }
        self.known[number].follow(self.at_us);
    }

    fn step(&mut self, at_us: u64, cost: u64) {
        self.at_us = at_us;
        let user = self.rng.pick(USERS);
        let what = self.rng.below(20);
        match what {
            0..3 => self.amend(),
            3 => self.give_back(user, cost),
            4 => {
                let actual = self.rng.skewed(2 * cost + 2) - 1;
                self.settle(user, cost, actual);
            }
            5 => {
                self.ask(user, cost, |gate, request| gate.reset(request));
                // A rule without a limit is not reset.
                let limited = self.known.iter_mut().filter(|known| known.values(user).is_some());
                limited.for_each(|known| _ = known.limiters.remove(known.key(user)));
            }
            6..9 => self.compare(user, cost, false),
            _ => self.compare(user, cost, true),
        }
    }
}

fn walks() -> u64 {
    if long() { 6_000 } else { 300 }
}

#[test]
fn changed_rules_decide_as_models_that_are_changed() {
    over_traces(walks(), EIGHT_YEARS_US, Walk::new, Walk::step);
}

#[test]
fn changed_rules_of_whole_states_decide_as_models_that_are_changed() {
    let begin = |rng, clock| Walk::new(rng, Unsteady(clock));
    over_traces(walks(), u64::MAX, begin, Walk::step);
}

/// A change settles time under the old values up to its own moment.
#[test]
fn a_change_comes_at_the_time_that_the_clock_reads() {
    let per_hour = |limit| Spec::new(AlgorithmKind::TokenBucket, limit, Duration::from_secs(3_600));
    let policy = Policy::new(vec![RuleSpec::new("all", per_hour(60))]).unwrap();
    let clock = ManualClock::new();
    let gate = Gate::with_clock(policy, clock.clone());
    let request = Request::from(Descriptor::new(&[]).cost(60));
    assert!(gate.check(&request).is_allowed());
    // Ten flowed in at one a minute; from now on it is one a second.
    clock.advance(Duration::from_secs(600));
    gate.amend("default", "all", per_hour(3_600)).unwrap();
    let answer = gate.check(&request);
    assert!(answer.is_allowed(), "3,600 - 60 + 10 are there");
    assert_eq!(answer.matched()[0].decision().remaining, 3_490);
}
