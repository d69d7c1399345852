//! The plan of one seed: rules, nodes, requests and faults. Times are milliseconds.
//!
//! It is drawn from the seed before the run begins; the run follows it and the judges compare with it.

mod faults;

use std::num::NonZeroU32;
use std::time::Duration;

use testkit::traffic::Rng;
use tidegate_core::{AlgorithmKind, Anchor, Field, Rule, Spec};

pub(super) use faults::{LayersFault, PlannedOutage, Trouble, outages};

use crate::rules::{LeaseSpec, Mode, OnStoreError, Policy, RuleSpec};

/// The window of the first rule, which outlasts every run: nothing leaves it.
pub(super) const LONG_MS: u64 = 3_600_000;
/// The limiter of that rule, and the first limiter of the rule whose windows are short.
pub(super) const LONG: usize = 0;
pub(super) const SHORT: usize = 1;
/// The number of requests of a run, about.
const REQUESTS: u64 = 500;
/// The time after which nodes know their number, if that is late.
pub(super) const LATE_BEAT_MS: u64 = 1_000;
/// The longest time of a step.
pub(super) const TIMEOUT_MS: u64 = 20;

/// A node that lives for a while. A node that comes back is another node.
#[derive(Clone, Debug)]
pub(super) struct NodePlan {
    pub(super) joins: u64,
    pub(super) end: Option<(u64, End)>,
    /// The error of its wall clock in milliseconds, and of the clock's speed in parts per million.
    pub(super) clock: (i64, i64),
}

/// The end of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// It gives back the units that it holds.
    Leaves,
    /// It forgets everything, and no message of it reaches the store any more.
    Crashes,
}

/// A request at a node: for each of its limiters, by its number, the cost.
#[derive(Clone, Debug)]
pub(super) struct PlannedRequest {
    pub(super) at: u64,
    pub(super) node: usize,
    pub(super) parts: Vec<(usize, u64)>,
    pub(super) kind: RequestKind,
}

/// The wish of a caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RequestKind {
    Check,
    /// It waits in a queue: the store decides.
    Queued,
    Peek,
    /// The caller goes away after this time.
    Abandoned {
        after: u64,
    },
    /// The cost is settled after this time, for so many percent.
    Reserve {
        after: u64,
        percent: u64,
    },
    /// An operator resets the limiters.
    Reset,
    /// A job holds a permit.
    Hold(Job),
}

/// The course of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Job {
    /// The time that it works.
    pub(super) works: u64,
    pub(super) renews: bool,
    /// The number of times that it returns its permit.
    pub(super) returns: u64,
    /// It ends without returning its permit.
    pub(super) forgets: bool,
}

/// A run, before it begins.
#[derive(Clone, Debug)]
pub(super) struct LayersPlan {
    pub(super) seed: u64,
    pub(super) rules: Vec<RuleSpec>,
    /// The index of the rule of each limiter.
    pub(super) limiters: Vec<usize>,
    pub(super) nodes: Vec<NodePlan>,
    /// The maximum number of nodes that live at a time.
    pub(super) most_nodes: u64,
    /// After this time nodes know how many they are.
    pub(super) beat: u64,
    pub(super) requests: Vec<PlannedRequest>,
    pub(super) largest_cost: u64,
    pub(super) outages: Vec<PlannedOutage>,
    pub(super) faults: Vec<(u64, LayersFault)>,
    /// The rule that changes, and its second values.
    pub(super) changed: Option<(usize, Spec)>,
    /// True if nothing fails, all nodes live, know that and are asked alike for one limiter, and all have shares.
    pub(super) is_even: bool,
    /// The lost and the late messages of a hundred.
    pub(super) lost_percent: u64,
    pub(super) late_percent: u64,
    pub(super) has_slots: bool,
    pub(super) repeats_denials: bool,
    /// The chance, in percent, that the store tries to forget a limiter of permits after a step.
    pub(super) swept_percent: u64,
}

impl LayersPlan {
    /// The same run without leases and shares: the store decides every request.
    pub(super) fn exact(&self) -> Self {
        let mut exact = self.clone();
        for rule in &mut exact.rules {
            (rule.lease, rule.split) = (None, false);
        }
        exact
    }

    pub(super) fn of_seed(seed: u64) -> Self {
        // The order of the draws is a part of the seed: a draw in between makes another run of each seed.
        let rng = &mut Rng::new(seed);
        let most_nodes = rng.between(1, 4);
        let length = rng.pick([1_000, 2_000, 4_000]);
        let pause = (length * most_nodes / REQUESTS).max(1);
        let is_calm = rng.chance(40);
        let largest_cost = rng.pick([1, 1, 3]);
        // The demand for a limiter that every request asks: one request in a pause on average, of a mean cost.
        let per_second = 1_000 * most_nodes * (largest_cost + 1) / (2 * pause);
        let has_slots = rng.chance(40);
        let mut rules = vec![
            long_rule(rng, per_second * length / 1_000),
            short_rule(rng, per_second),
            RuleSpec::new("user", Spec::new(AlgorithmKind::FixedWindow, 3, ms(200))).key(["user"]),
        ];
        for rule in &mut rules {
            if has_slots && rng.chance(60) {
                (rule.lease, rule.split) = (None, false);
            }
            rule.across_slots = has_slots && !is_leased(rule);
            rule.on_store_error = rng.pick([
                OnStoreError::Local,
                OnStoreError::Local,
                OnStoreError::Closed,
                OnStoreError::Open,
            ]);
        }
        if rng.chance(20) {
            rules[2].mode = Mode::Shadow;
        }
        let limiters = vec![0, 1, 1, 2, 2];
        let nodes = nodes(rng, most_nodes, length, is_calm);
        let mut requests = requests(rng, &nodes, (pause, length), largest_cost);
        if rng.chance(15) {
            let (at, limiter) = (rng.below(length), rng.below(2) as usize);
            let kind = RequestKind::Reset;
            requests.push(PlannedRequest { at, node: 0, parts: vec![(limiter, 0)], kind });
        }
        requests.sort_by_key(|request| request.at);
        for request in requests.iter_mut().filter(|_| has_slots) {
            // A rule with leases takes nothing before a rule of another slot.
            let leased = request.parts.iter().find(|(one, _)| is_leased(&rules[limiters[*one]]));
            if let Some(leased) = leased.copied() {
                request.parts = vec![leased];
            }
        }
        let (lost, late) = (rng.pick([0, 0, 1, 4]), rng.pick([0, 0, 2, 8]));
        let mut plan = Self {
            seed,
            rules,
            limiters,
            most_nodes,
            beat: rng.pick([0, 20, LATE_BEAT_MS]),
            requests,
            largest_cost,
            outages: if is_calm { Vec::new() } else { outages(rng, length, &nodes, has_slots) },
            nodes,
            lost_percent: if is_calm { 0 } else { lost },
            late_percent: if is_calm { 0 } else { late },
            has_slots,
            repeats_denials: rng.chance(50),
            swept_percent: 0,
            faults: Vec::new(),
            changed: None,
            is_even: false,
        };
        if is_calm && !has_slots && seed.is_multiple_of(5) {
            plan.make_even(rng, (pause, length), per_second);
        }
        if !is_calm {
            plan.add_faults(rng, length);
        }
        plan
    }

    /// The policy before or after the change.
    pub(super) fn policy(&self, is_changed: bool) -> Policy {
        let mut rules = self.rules.clone();
        if let Some((rule, spec)) = self.changed.filter(|_| is_changed) {
            rules[rule].spec = spec;
        }
        let revision = NonZeroU32::MIN.saturating_add(u32::from(is_changed));
        Policy::new(rules).expect("a policy of a plan is valid").with_revision(revision)
    }

    /// Returns the second values of a limiter's rule, if it changes.
    pub(super) fn second_rule(&self, limiter: usize) -> Option<Rule> {
        let (rule, spec) = self.changed?;
        let rule = (rule == self.limiters[limiter]).then(|| Rule::new(spec))?;
        Some(rule.expect("a rule of a plan is valid"))
    }

    /// Returns the values of a limiter's rule.
    pub(super) fn rule(&self, limiter: usize) -> Rule {
        Rule::new(self.rules[self.limiters[limiter]].spec).expect("a rule of a plan is valid")
    }

    /// Returns whether units of a limiter drain one by one.
    pub(super) fn is_level(&self, limiter: usize) -> bool {
        let spec = &self.rules[self.limiters[limiter]].spec;
        spec.algorithm.fields().contains(&Field::Capacity)
    }

    /// Returns whether a limiter has leases or shares.
    pub(super) fn is_leased(&self, limiter: usize) -> bool {
        is_leased(&self.rules[self.limiters[limiter]])
    }

    /// Returns whether no node is lost and no limiter is reset, and no fault but messages changes what callers can have.
    pub(super) fn keeps_all(&self) -> bool {
        let crashes = |node: &NodePlan| matches!(node.end, Some((_, End::Crashes)));
        let resets = |request: &PlannedRequest| request.kind == RequestKind::Reset;
        let is_harmless = |(_, fault): &(u64, LayersFault)| {
            matches!(fault, LayersFault::NodeStep { .. } | LayersFault::Copy)
        };
        !self.nodes.iter().any(crashes)
            && !self.requests.iter().any(resets)
            && self.faults.iter().all(is_harmless)
    }

    /// Returns whether messages are quick, and none is lost.
    pub(super) fn is_calm(&self) -> bool {
        self.outages.is_empty()
            && self.faults.is_empty()
            && self.lost_percent + self.late_percent == 0
            && self.keeps_all()
    }
}

const fn is_leased(rule: &RuleSpec) -> bool {
    rule.lease.is_some() || rule.split
}

pub(super) const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

const ALGORITHMS: [AlgorithmKind; 7] = [
    AlgorithmKind::FixedWindow,
    AlgorithmKind::SlidingLog,
    AlgorithmKind::TokenBucket,
    AlgorithmKind::TokenBucket,
    AlgorithmKind::SlidingWindow,
    AlgorithmKind::SlidingCounter,
    AlgorithmKind::LeakyBucket,
];

/// A rule of one limiter that is asked for so many units in the whole run, all in one window.
fn long_rule(rng: &mut Rng, demand: u64) -> RuleSpec {
    let algorithm = rng.pick(ALGORITHMS);
    let mut spec = Spec::new(algorithm, demand * rng.pick([30, 60, 200]) / 100 + 5, ms(LONG_MS));
    spec.resolution = (algorithm == AlgorithmKind::SlidingLog).then(|| ms(LONG_MS / 5));
    spec.max_debt = rng.chance(50).then_some(10);
    with_mode(rng, RuleSpec::new("long", spec).key(["long"]))
}

/// A rule whose window ends many times in a run.
fn short_rule(rng: &mut Rng, per_second: u64) -> RuleSpec {
    let (algorithm, window) = (rng.pick(ALGORITHMS), rng.pick([50, 200, 1_000]));
    let limit = per_second * window / 1_000 * rng.pick([10, 30, 100]) / 100 + 5;
    let mut spec = Spec::new(algorithm, limit, ms(window));
    spec.max_debt = rng.chance(50).then_some(3);
    match algorithm {
        AlgorithmKind::SlidingLog => spec.resolution = Some(ms(window / rng.pick([2, 5, 10]))),
        AlgorithmKind::SlidingWindow => {
            spec.strict = Some(rng.chance(50));
            spec.buckets = Some(rng.pick([2, 5, 10]));
        }
        AlgorithmKind::FixedWindow => spec.anchor = rng.chance(30).then_some(Anchor::FirstRequest),
        AlgorithmKind::TokenBucket => spec.capacity = rng.chance(50).then(|| limit / 2 + 3),
        _ => {}
    }
    with_mode(rng, RuleSpec::new("short", spec).key(["short"]))
}

/// Gives a rule leases or shares, or neither, as far as its values can be leased.
fn with_mode(rng: &mut Rng, mut rule: RuleSpec) -> RuleSpec {
    let other =
        LeaseSpec { max_percent: rng.pick([5, 20, 100]), life: ms(rng.pick([20, 50, 1_000])) };
    let mode = rng.below(5);
    let lease = if mode == 1 { LeaseSpec::default() } else { other };
    let values = Rule::new(rule.spec).expect("a rule of a plan is valid");
    let units = |life: Duration| values.leasable(life.into()).map_or(0, |lease| lease.units);
    match mode {
        0 => {}
        1 | 2 => rule.lease = (units(lease.life) >= 2).then_some(lease),
        _ => rule.split = units(ms(1)) > 0,
    }
    rule
}

pub(super) fn nodes(rng: &mut Rng, most: u64, length: u64, is_calm: bool) -> Vec<NodePlan> {
    let clock = |rng: &mut Rng| {
        let hours = rng.pick([-1, 0, 0, 1]);
        (hours * 3_600_000 + rng.below(500).cast_signed(), rng.pick([-950, 0, 950]))
    };
    let mut all = Vec::new();
    for _ in 0..most {
        let joins = if rng.chance(70) { 0 } else { rng.below(length / 2) };
        let mut node = NodePlan { joins, end: None, clock: clock(rng) };
        if rng.chance(25) {
            let ends = rng.between(joins + 1, length);
            let end = if is_calm || rng.chance(50) { End::Leaves } else { End::Crashes };
            node.end = Some((ends, end));
            if rng.chance(60) {
                let joins = ends + rng.below(500);
                all.push(NodePlan { joins, end: None, clock: clock(rng) });
            }
        }
        all.push(node);
    }
    all
}

fn requests(
    rng: &mut Rng,
    nodes: &[NodePlan],
    (pause, length): (u64, u64),
    largest_cost: u64,
) -> Vec<PlannedRequest> {
    let (reserves, longest) = (rng.pick([0, 20, 60]), rng.pick([30, 300, 1_500]));
    let mut all = Vec::new();
    for (node, lives) in nodes.iter().enumerate() {
        let mut at = lives.joins;
        loop {
            // Now and then a long pause, in which leases end unspent.
            at += rng.below(2 * pause + 1) * if rng.chance(2) { 20 } else { 1 };
            if at >= lives.end.map_or(length, |(ends, _)| ends.min(length)) {
                break;
            }
            // The first rule has limiter 0, the second 1 and 2, the third 3 and 4.
            let mut parts = Vec::new();
            if rng.chance(70) {
                parts.push(0);
            }
            if rng.chance(60) || parts.is_empty() {
                parts.push(1 + rng.below(2) as usize);
            }
            if rng.chance(25) {
                parts.push(3 + rng.below(2) as usize);
            }
            let parts = parts.into_iter().map(|one| (one, rng.between(1, largest_cost))).collect();
            let kind = match rng.below(100) {
                0..4 => RequestKind::Peek,
                4..7 => RequestKind::Queued,
                7..11 => RequestKind::Abandoned { after: rng.below(8) },
                roll if roll < 11 + reserves => RequestKind::Reserve {
                    after: rng.below(longest),
                    percent: rng.pick([0, 0, 40, 100, 200]),
                },
                _ => RequestKind::Check,
            };
            all.push(PlannedRequest { at, node, parts, kind });
        }
    }
    all
}
