//! The rules of the walk of changed values, and the limiters of its requests, as the models know them.

use std::collections::HashMap;

use testkit::model::{self, AlgorithmKind as Kind};
use testkit::traffic::Rng;
use tidegate::{
    AlgorithmKind, Limit, Mode, OverrideSpec, RequestLimit, Rule, RuleSpec, Spec, Usage,
};

use crate::packed::spec_of;
use crate::subjects::gates::Plans;

/// The first has plans, and requests may supply values for the first and the last.
pub(super) const NAMES: [&str; 4] = [Plans::RULE, "plain", "other", "brought"];
pub(super) const VIP: &str = "vip";

/// A rule as the models know it. Its values are `None` without a limit.
pub(super) struct Known {
    pub(super) number: usize,
    pub(super) has_key: bool,
    pub(super) mode: Mode,
    pub(super) usage: Usage,
    pub(super) own: Option<model::Policy>,
    /// The limit of `vip`, if it has an override; `Some(None)` is unlimited.
    pub(super) vip: Option<Option<u64>>,
    pub(super) in_force: bool,
    /// Each limiter gets new values only when it is next asked.
    pub(super) follows_late: bool,
}

impl Known {
    pub(super) fn new(rng: &mut Rng, number: usize, mut own: model::Policy) -> Self {
        let cannot_be_reported = matches!(own.algorithm, Kind::LeakyQueue | Kind::Concurrency);
        let is_reported = !cannot_be_reported && rng.chance(20);
        if is_reported {
            own.max_debt = Some(u64::MAX);
        }
        Self {
            number,
            has_key: number == 0 || number < 3 && rng.chance(80),
            mode: rng.pick([Mode::Enforce, Mode::Enforce, Mode::Enforce, Mode::Shadow]),
            usage: if is_reported { Usage::Reported } else { Usage::Requested },
            own: Some(own),
            vip: None,
            in_force: true,
            follows_late: number == 0 || number == 3,
        }
    }

    pub(super) fn lets_requests_supply(&self) -> bool {
        self.number == 0 || self.number == 3
    }

    /// The values of a user without a plan.
    pub(super) fn values(&self, user: &str) -> Option<model::Policy> {
        let limit = match self.vip.filter(|_| user == VIP) {
            Some(limit) => limit?,
            None => self.own.as_ref()?.limit,
        };
        self.own.clone().map(|own| model::Policy { limit, ..own })
    }

    /// Returns whether these can be the values of the rule and of its override.
    pub(super) fn could_be(&self, own: Option<&model::Policy>, vip: Option<Option<u64>>) -> bool {
        let is_sound = |limit| {
            own.is_none_or(|own| {
                Rule::new(spec_of(&model::Policy { limit, ..own.clone() })).is_ok()
            })
        };
        let is_counted = own.is_none_or(|own| {
            !matches!(own.algorithm, Kind::LeakyQueue | Kind::Concurrency)
                || self.usage == Usage::Requested
        });
        // The limit of an override needs the window of its rule.
        let fits = vip.flatten().is_none_or(|limit| own.is_some() && is_sound(limit));
        is_counted && fits && own.is_none_or(|own| is_sound(own.limit))
    }

    pub(super) fn spec(&self) -> Spec {
        let mut spec =
            self.own.as_ref().map_or(Spec::unlimited(AlgorithmKind::TokenBucket), spec_of);
        if self.usage == Usage::Reported && self.own.is_some() {
            spec.max_debt = Some(u64::MAX);
        }
        spec
    }

    pub(super) fn rule(&self) -> RuleSpec {
        let mut rule =
            RuleSpec::new(NAMES[self.number], self.spec()).mode(self.mode).usage(self.usage);
        if self.has_key {
            rule = rule.key(["user"]);
        }
        if self.lets_requests_supply() {
            rule = rule.limit_from_request();
        }
        match self.vip {
            Some(limit) => rule.with_override(vip(limit)),
            None => rule,
        }
    }
}

pub(super) fn vip(limit: Option<u64>) -> OverrideSpec {
    let mut vip = OverrideSpec::new("user", VIP);
    vip.limit = Some(limit.map_or(Limit::Unlimited, Limit::Units));
    vip
}

/// A rule, and its key.
pub(super) type Id = (usize, String);

/// A limiter of a request: its cost, its values, and whether the request supplied them.
pub(super) struct AskOf {
    pub(super) id: Id,
    pub(super) cost: u64,
    /// The units that the rule decides about: 1 of a report.
    pub(super) asks: u64,
    pub(super) values: Option<model::Policy>,
    pub(super) supplied: bool,
}

/// One descriptor of a request.
pub(super) struct Asked {
    pub(super) user: &'static str,
    pub(super) cost: u64,
    pub(super) own: Option<(model::Policy, RequestLimit)>,
}

/// The rules of a gate, of which some are removed, in the order of the policy.
pub(super) struct Rules {
    pub(super) all: Vec<Known>,
    pub(super) order: Vec<usize>,
    /// The plans of users; `None` is unlimited.
    pub(super) planned: HashMap<&'static str, Option<model::Policy>>,
}

impl Rules {
    pub(super) fn new(rng: &mut Rng, pool: &[model::Policy]) -> Self {
        let mut all = Vec::new();
        for number in 0..NAMES.len() {
            let own = if number == 1 { 0 } else { rng.below(pool.len() as u64) as usize };
            all.push(Known::new(rng, number, pool[own].clone()));
        }
        Self { order: (0..all.len()).collect(), all, planned: HashMap::new() }
    }

    fn in_force(&self) -> impl Iterator<Item = &Known> {
        let ordered = self.order.iter().map(|number| &self.all[*number]);
        ordered.filter(|known| known.in_force)
    }

    pub(super) fn policy(&self) -> Vec<RuleSpec> {
        self.in_force().map(Known::rule).collect()
    }

    /// The limiters of a request, including unlimited ones.
    pub(super) fn asks(&self, asked: &[Asked]) -> Vec<AskOf> {
        let mut all: Vec<AskOf> = Vec::new();
        let in_force = self.in_force();
        for known in in_force {
            for one in asked {
                let key = if known.has_key { one.user.to_owned() } else { String::new() };
                let own = one.own.as_ref().filter(|_| known.lets_requests_supply());
                let own = own.map(|(policy, _)| policy.clone());
                let id = (known.number, key);
                if let Some(ask) = all.iter_mut().find(|ask| ask.id == id) {
                    ask.cost = ask.cost.saturating_add(one.cost);
                    if let (false, Some(own)) = (ask.supplied, own) {
                        (ask.supplied, ask.values) = (true, Some(own));
                    }
                    continue;
                }
                let plan = self.planned.get(one.user).filter(|_| known.number == 0);
                let plan = plan.cloned().unwrap_or_else(|| known.values(&id.1));
                let supplied = own.is_some();
                all.push(AskOf { id, cost: one.cost, asks: 0, values: own.or(plan), supplied });
            }
        }
        let reports = self.reports(&all);
        for ask in &mut all {
            let is_reported = self.all[ask.id.0].usage == Usage::Reported;
            let asks_for_one = if ask.cost > 0 { reports } else { is_reported };
            ask.asks = if asks_for_one { 1 } else { ask.cost };
        }
        all
    }

    /// Returns whether a request reports usage; for a rule in shadow mode only if no other rule could refuse it.
    pub(super) fn reports(&self, all: &[AskOf]) -> bool {
        let is = |ask: &AskOf| (self.all[ask.id.0].mode, self.all[ask.id.0].usage);
        let tells = |what| all.iter().any(|ask| ask.cost > 0 && is(ask) == what);
        tells((Mode::Enforce, Usage::Reported))
            || tells((Mode::Shadow, Usage::Reported)) && !tells((Mode::Enforce, Usage::Requested))
    }
}

/// The limiters that have a limit, with their values.
pub(super) fn limited(all: &[AskOf]) -> impl Iterator<Item = (&AskOf, &model::Policy)> {
    all.iter().filter_map(|ask| Some((ask, ask.values.as_ref()?)))
}
