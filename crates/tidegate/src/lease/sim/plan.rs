//! The plan of one seed: rules, nodes, traffic, the network, and the failures.

use std::time::Duration;

use testkit::traffic::Rng;
use tidegate_core::{AlgorithmKind, Anchor, Limit, Micros, Rule, Spec};

use super::super::Terms;
use super::network::Network;

/// A step of the store's clock that is longer than every run and window.
const FAR: i64 = 3_600_000_000;

/// So many lives a run of [`RunKind::Lasting`] lasts, and so many requests it has, about.
const LASTING: u64 = 12;
const LASTING_REQUESTS: u64 = 2_000;

/// Something that happens to a node or the store, at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LeasesFault {
    /// The node stops and forgets everything, and begins again after this time.
    Crash { node: usize, again_after: u64 },
    /// The node stands still for this time. Its clock runs on; a clock that stops while the machine sleeps does not.
    Sleep { node: usize, time: u64 },
    /// The wall clock of the node steps by this many microseconds.
    Step { node: usize, by: i64 },
    /// The node drops the leases of a limiter, as after a reset.
    Drop { node: usize, key: usize },
    /// The store fails over to a replica: to the last copy of its data, or to none.
    Loss { to_copy: bool },
    /// The replica catches up.
    Copy,
    /// The node gives back all, leaves the list of nodes, and joins again after this time.
    Leave { node: usize, again_after: u64 },
    /// No message reaches the node or comes from it for this time.
    Cut { node: usize, time: u64 },
    /// The store stands still for this time. Messages that reach it during that time are answered late.
    Freeze { time: u64 },
    /// The store is away for this time, and comes back with its data. Messages sent during that time do not reach it.
    Restart { time: u64 },
    /// The store stands still, and after this time a replica that has all of its data is in its place. Later it goes on
    /// by itself with the messages that were sent to it before.
    Failover { time: u64 },
    /// The clock of the store steps by this many microseconds.
    StoreStep { by: i64 },
    /// The rule of a limiter gets its second limit. Nodes hear of it within this time.
    Change { key: usize, known_within: u64 },
}

/// The special properties of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RunKind {
    Any,
    /// Nothing fails, all nodes live, know that and are asked alike for one limiter, and all have shares.
    Even,
    /// Nothing leaves the window of the first limiter while the run lasts, and more is asked for than its limit. The
    /// second one has no leases, and refuses most requests.
    Lasting,
}

/// One limiter: its rule, and the rule after a change.
#[derive(Clone, Debug)]
pub(super) struct PlannedLimiter {
    pub(super) rules: [Rule; 2],
    /// The terms under both rules; nodes with even numbers have the first terms. The terms of other nodes have a
    /// shorter life, or are leases next to shares.
    terms: [[Option<Terms>; 2]; 2],
    pub(super) life: Micros,
}

impl PlannedLimiter {
    /// The terms of a node, under the rule that it knows.
    pub(super) fn terms(&self, node: usize, revision: usize) -> Option<Terms> {
        let terms = self.terms[node % 2][revision];
        terms.map(|terms| terms.of_version(revision as u64))
    }
}

/// A run, before it begins.
#[derive(Clone, Debug)]
pub(super) struct LeasesPlan {
    pub(super) seed: u64,
    /// The reading of the store's clock at the beginning.
    pub(super) origin: u64,
    pub(super) keys: Vec<PlannedLimiter>,
    /// The speed of each node's clock above the store's, in parts per million.
    pub(super) drifts: Vec<i64>,
    /// When each node joins.
    pub(super) joins: Vec<u64>,
    /// The longest time after which a node notices that others joined or left.
    pub(super) beat: u64,
    pub(super) kind: RunKind,
    /// The largest delay with which a node gives units back.
    pub(super) delayed: Vec<u64>,
    /// Mean time between two requests of a node, and how often that is twenty times as long.
    pub(super) pause: u64,
    pub(super) quiet_percent: u64,
    pub(super) length: u64,
    pub(super) largest_cost: u64,
    pub(super) faults: Vec<(u64, LeasesFault)>,
    pub(super) network: Network,
    pub(super) deadline: u64,
}

impl LeasesPlan {
    /// The same run without leases and shares: the store decides every request.
    pub(super) fn exact(&self) -> Self {
        let mut exact = self.clone();
        exact.kind = if self.kind == RunKind::Even { RunKind::Any } else { self.kind };
        exact.keys.iter_mut().for_each(|key| key.terms = [[None; 2]; 2]);
        exact
    }

    pub(super) fn of_seed(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let rng = &mut rng;
        let kind = match seed % 8 {
            7 => RunKind::Even,
            3 => RunKind::Lasting,
            _ => RunKind::Any,
        };
        let is_even = kind == RunKind::Even;
        let nodes = rng.between(1, 5) as usize;
        let mut pause = rng.between(300, 4_000);
        let per_second = nodes as u64 * 1_000_000 / pause;
        let keys: Vec<_> = match kind {
            RunKind::Any => (0..rng.between(1, 3)).map(|_| key(rng, per_second, false)).collect(),
            RunKind::Even => vec![key(rng, per_second, true)],
            RunKind::Lasting => lasting(rng),
        };
        let drifts = (0..nodes).map(|_| rng.pick([-950, 0, 950, rng_drift(seed)])).collect();
        let life = keys[0].life.as_micros();
        let late = |rng: &mut Rng| if is_even { 500 } else { life / rng.pick([1, 4, 8, 8]) + 1 };
        let delayed = (0..nodes).map(|_| late(rng)).collect();
        let longest = pause * 3_000 / nodes as u64;
        let mut length = (pause * 900 / nodes as u64).max(4 * life).min(longest);
        if kind == RunKind::Lasting {
            (length, pause) = (LASTING * life, nodes as u64 * LASTING * life / LASTING_REQUESTS);
        }
        // Units that are given back may count as taken one life earlier.
        let first = keys.iter().map(|key| key.life.as_micros()).max().unwrap_or_default();
        let length = first + length;
        let calm = rng.chance(40) || is_even;
        let late = |rng: &mut Rng| if calm || rng.chance(70) { 0 } else { rng.below(length / 2) };
        let joins = (0..nodes).map(|_| first + late(rng)).collect();
        let plan = Self {
            seed,
            origin: origin(rng, kind, &keys),
            drifts,
            joins,
            beat: if is_even { 1 } else { rng.pick([2_000, life, 3 * life, 100 * life]) },
            kind,
            delayed,
            pause,
            quiet_percent: if is_even { 0 } else { rng.pick([2, 2, 20]) },
            length,
            largest_cost: if is_even { 1 } else { rng.pick([1, 1, 3]) },
            faults: faults(rng, length, [nodes, keys.len()], calm, kind),
            keys,
            network: Network::new(rng, calm, is_even),
            deadline: rng.pick([30_000, 100_000, 3_000_000]),
        };
        plan.with_steps()
    }

    /// The plan with steps of the store's clock in some runs. The other runs stay as they are.
    fn with_steps(mut self) -> Self {
        let rng = &mut Rng::new(self.seed ^ 0x5e77_1e00);
        let life = self.keys[0].life.as_micros();
        let window = self.keys[0].rules[0].spec().window;
        let window = window.map_or(life, |window| Micros::from(window).as_micros()).cast_signed();
        if self.kind == RunKind::Even {
            return self;
        }
        if rng.chance(50) {
            self.largest_cost = rng.pick([3, 10]);
        }
        if rng.chance(40) {
            let is_lasting = self.kind == RunKind::Lasting;
            let back = 1 + rng.below(window.cast_unsigned()).cast_signed();
            let steps = [-back / 2, -back, -window - back, -FAR, back, 2 * window, FAR];
            let mut by = if is_lasting { -back / 4 } else { rng.pick(steps) };
            let mut at = rng.below(self.length);
            let is_loss =
                |(_, fault): &&(u64, LeasesFault)| matches!(fault, LeasesFault::Loss { .. });
            if let Some((loss, _)) = self.faults.iter().find(is_loss) {
                // Undone requests are the only units that come back to a store that does not know them.
                at = loss + rng.below(life / 8 + 1);
                by = rng.pick([-window - back, -FAR]);
                self.deadline = 30_000;
            }
            self.faults.push((at, LeasesFault::StoreStep { by }));
            if !is_lasting && rng.chance(50) {
                self.faults.push((rng.below(self.length), LeasesFault::StoreStep { by: -by }));
            }
        }
        self
    }

    /// Returns whether the store or a node cannot be reached for a while.
    pub(super) fn has_outage(&self) -> bool {
        let is_outage = |fault: &LeasesFault| {
            matches!(
                fault,
                LeasesFault::Freeze { .. }
                    | LeasesFault::Restart { .. }
                    | LeasesFault::Failover { .. }
                    | LeasesFault::Cut { .. }
                    | LeasesFault::Sleep { .. }
            )
        };
        self.faults.iter().any(|(_, fault)| is_outage(fault))
    }

    /// Returns whether no node crashes, no data is lost, no rule changes and no step of the store's clock moves the
    /// instant that counts.
    pub(super) fn keeps_all(&self) -> bool {
        let loses = |fault: &LeasesFault| {
            matches!(
                fault,
                LeasesFault::Crash { .. } | LeasesFault::Loss { .. } | LeasesFault::Change { .. }
            )
        };
        let steps = |fault: &LeasesFault| matches!(fault, LeasesFault::StoreStep { .. });
        let is_any = self.kind != RunKind::Lasting;
        !self.faults.iter().any(|(_, fault)| loses(fault) || is_any && steps(fault))
    }
}

/// The reading of the store's clock at the beginning. Nothing leaves the window of a run that lasts: it begins with one.
fn origin(rng: &mut Rng, kind: RunKind, keys: &[PlannedLimiter]) -> u64 {
    let any = 1_000_000_000_000 + rng.below(10_000_000);
    let window = keys[0].rules[0].spec().window.unwrap_or_default().as_micros() as u64;
    if kind == RunKind::Lasting { any.next_multiple_of(window) } else { any }
}

const fn rng_drift(seed: u64) -> i64 {
    (seed % 1_900) as i64 - 950
}

/// A limiter that some part of `per_second` requests ask.
fn key(rng: &mut Rng, per_second: u64, is_even: bool) -> PlannedLimiter {
    let algorithms = [
        AlgorithmKind::FixedWindow,
        AlgorithmKind::SlidingWindow,
        AlgorithmKind::SlidingCounter,
        AlgorithmKind::SlidingLog,
        AlgorithmKind::TokenBucket,
        AlgorithmKind::TokenBucket,
        AlgorithmKind::LeakyBucket,
    ];
    let algorithm = rng.pick(algorithms);
    let window_ms = rng.pick([50, 200, 1_000, 2_000]);
    let limit = 5 + per_second * window_ms / 1_000 * rng.pick([10, 40, 80, 200]) / 100;
    let shortest = if is_even { 50 } else { 10 };
    let life = Micros::from_millis(rng.pick([shortest, 50, 200, 1_000]).min(window_ms));
    let mut spec = Spec::new(algorithm, limit, Duration::from_millis(window_ms));
    spec.max_debt = limit.is_multiple_of(2).then_some(limit / 10);
    match algorithm {
        AlgorithmKind::FixedWindow => spec.anchor = rng.chance(30).then_some(Anchor::FirstRequest),
        AlgorithmKind::SlidingWindow => {
            spec.strict = Some(rng.chance(50));
            spec.buckets = Some(rng.pick([2, 5, 10]));
        }
        AlgorithmKind::SlidingLog => {
            spec.resolution = Some(Duration::from_millis(window_ms / rng.pick([2, 5, 10])));
        }
        AlgorithmKind::TokenBucket => spec.capacity = rng.chance(50).then(|| limit / 2 + 3),
        _ => {}
    }
    let mut changed = spec;
    changed.limit = Limit::Units(rng.pick([0, limit / 3 + 1, limit * 3]));
    let rules = [spec, changed].map(|spec| Rule::new(spec).expect("a rule of the plan is valid"));
    let most = (limit * rng.pick([10, 30, 100]) / 100).max(2);
    let shorter = Micros::from_micros(life.as_micros() / rng.pick([1, 2, 5]));
    let leases = |own| rules.each_ref().map(|rule| Terms::of(rule, most, own, life));
    // Shares that drain live no longer than any lease.
    let shares = |own: Micros| {
        let twice = own.plus(own);
        rules.each_ref().map(|rule| Terms::of_share(rule, twice, life))
    };
    let terms = match rng.below(4) {
        _ if is_even => [shares(life), shares(life)],
        0 => [leases(life), leases(shorter)],
        1 => [shares(life), leases(shorter)],
        _ => [shares(life), shares(shorter)],
    };
    PlannedLimiter { rules, terms, life }
}

/// The first limiter of a run that lasts, and a limiter of a caller who asks too much.
fn lasting(rng: &mut Rng) -> Vec<PlannedLimiter> {
    let algorithms = [
        AlgorithmKind::FixedWindow,
        AlgorithmKind::SlidingWindow,
        AlgorithmKind::SlidingCounter,
        AlgorithmKind::SlidingLog,
        AlgorithmKind::TokenBucket,
        AlgorithmKind::LeakyBucket,
    ];
    let algorithm = rng.pick(algorithms);
    let life = Micros::from_millis(rng.pick([20, 50, 200]));
    let window = Duration::from_micros(life.as_micros() * LASTING * 100);
    let mut spec = Spec::new(algorithm, LASTING_REQUESTS * rng.pick([20, 40]) / 100, window);
    spec.resolution = (algorithm == AlgorithmKind::SlidingLog).then_some(window / 5);
    let rule = Rule::new(spec).expect("a rule of the plan is valid");
    let Limit::Units(limit) = spec.limit else { return Vec::new() };
    let leases = Terms::of(&rule, limit / 10, life, life);
    let shares = Terms::of_share(&rule, life.plus(life), life);
    let terms = match rng.below(3) {
        0 => [[leases; 2]; 2],
        1 => [[shares; 2], [leases; 2]],
        _ => [[shares; 2]; 2],
    };
    let first = PlannedLimiter { rules: [rule.clone(), rule], terms, life };
    let own = Spec::new(AlgorithmKind::FixedWindow, 3, Duration::from_micros(life.as_micros()));
    let own = Rule::new(own).expect("a rule of the plan is valid");
    let own = PlannedLimiter { rules: [own.clone(), own], terms: [[None; 2]; 2], life };
    if rng.chance(50) { vec![first, own] } else { vec![first] }
}

fn faults(
    rng: &mut Rng,
    length: u64,
    [nodes, keys]: [usize; 2],
    calm: bool,
    kind: RunKind,
) -> Vec<(u64, LeasesFault)> {
    let mut all = Vec::new();
    let times = if calm { 0 } else { rng.between(0, 8) };
    for _ in 0..times {
        let node = rng.below(nodes as u64) as usize;
        let time = rng.between(1, length / 3 + 2);
        let fault = match rng.below(8) {
            0 => LeasesFault::Crash { node, again_after: time },
            1 => LeasesFault::Sleep { node, time },
            2 => LeasesFault::Step {
                node,
                by: rng.pick([-3_600_000_000, -100_000, 100_000, 3_600_000_000]),
            },
            3 => LeasesFault::Leave { node, again_after: time },
            4 => LeasesFault::Cut { node, time },
            _ => LeasesFault::Drop { node, key: rng.below(keys as u64) as usize },
        };
        all.push((rng.below(length), fault));
    }
    if kind == RunKind::Lasting {
        let keeps = |(_, fault): &(u64, LeasesFault)| !matches!(fault, LeasesFault::Crash { .. });
        all.retain(keeps);
        let time = rng.between(1, length / 3);
        let outages = [
            LeasesFault::Freeze { time },
            LeasesFault::Restart { time },
            LeasesFault::Failover { time },
        ];
        let outage = rng.pick(outages);
        if rng.chance(70) {
            // A node that sleeps may wait for a store that was replaced, and take a write that is lost for an answer.
            let waits = |fault: &LeasesFault| matches!(fault, LeasesFault::Sleep { .. });
            let is_replaced = matches!(outage, LeasesFault::Failover { .. });
            all.retain(|(_, fault)| !(is_replaced && waits(fault)));
            all.push((rng.below(length), outage));
        }
        return all;
    }
    if !calm && rng.chance(35) {
        let at = rng.below(length);
        all.push((rng.below(at + 1), LeasesFault::Copy));
        all.push((at, LeasesFault::Loss { to_copy: rng.chance(50) }));
    }
    if kind == RunKind::Any && rng.chance(30) {
        let change = LeasesFault::Change {
            key: rng.below(keys as u64) as usize,
            known_within: length / 4 + 1,
        };
        all.push((rng.below(length), change));
    }
    all
}
