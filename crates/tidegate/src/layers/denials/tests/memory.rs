//! The denial memory against a gate in virtual time that takes the place of the store, with replies on their way.

use std::time::Duration;

use tidegate_core::{AlgorithmKind, Spec};
use tidegate_rules::shared::Share;

use super::super::*;
use crate::Gate;
use crate::answer::Answer;
use crate::clock::ManualClock;
use crate::layers::Local;
use crate::request::{Descriptor, Request};
use crate::rules::{Policy, RuleSpec};
use crate::step::AskKind;
use crate::store::fake::{self, host};
use testkit::traffic::Rng;

/// A clock error of one in 1,024 within the time that a denial is repeated, in microseconds.
const CLOCK_ERROR_US: u64 = 50;
const USERS: [&str; 3] = ["ada", "bob", "cyd"];

/// Two rules: of each user, and of all.
fn rules(algorithm: AlgorithmKind, limits: [u64; 2], window_ms: u64) -> Vec<RuleSpec> {
    let spec = |limit| Spec::new(algorithm, limit, Duration::from_millis(window_ms));
    vec![RuleSpec::new("own", spec(limits[0])).key(["user"]), RuleSpec::new("all", spec(limits[1]))]
}

fn asks(user: &str, asks: u64) -> Vec<KeyAsk> {
    let limiter = |rule: usize, key: String| fake::ask(rule, &key, asks);
    vec![limiter(0, format!("own:{user}")), limiter(1, "all".to_owned())]
}

fn generation_of(rules: Vec<RuleSpec>) -> Local {
    Local::new(Policy::new(rules).unwrap(), Share::of_rank(1, 0), host())
}

fn newest(fallback: &Local) -> Arc<Generation> {
    fallback.memory.newest().without_tables()
}

/// A request or a refund of this node on its way.
struct UnderWay {
    user: &'static str,
    cost: u64,
    is_refund: bool,
    sent: Timestamp,
    decided_at_us: u64,
    heard_at_us: u64,
    reply: Option<(bool, Timestamp, Vec<Decision>)>,
}

/// A node with a denial memory, and the store that it asks.
struct World {
    store: Gate<ManualClock>,
    now_us: u64,
    fallback: Local,
    memory: DenialMemory,
    /// Where the clock of the node began, and by how much it is faster than the store's, in parts of a million.
    begin_us: u64,
    faster_ppm: i64,
    under_way: Vec<UnderWay>,
    /// When units were last given back by another node.
    elsewhere_us: Option<u64>,
    repeated: u64,
    excused: u64,
}

fn with<T>(user: &str, cost: u64, run: impl FnOnce(&Request<'_>) -> T) -> T {
    let entries = [("user", user)];
    run(&Request::new(Request::DEFAULT_DOMAIN, &[Descriptor::new(&entries).cost(cost)]))
}

fn decisions(answer: &Answer<'_>) -> Vec<Decision> {
    answer.all().map(|matched| *matched.decision()).collect()
}

impl World {
    fn new(rng: &mut Rng, rules: Vec<RuleSpec>) -> Self {
        let begin_us = 1_000_000_000;
        Self {
            store: Gate::with_clock(
                Policy::new(rules.clone()).unwrap(),
                ManualClock::starting_at(Timestamp::from_micros(begin_us)),
            ),
            now_us: begin_us,
            fallback: generation_of(rules),
            memory: DenialMemory::new(),
            begin_us: rng.between(1, 2_000_000_000),
            faster_ppm: rng.between(0, 1_800) as i64 - 900,
            under_way: Vec::new(),
            elsewhere_us: None,
            repeated: 0,
            excused: 0,
        }
    }

    /// The time by the clock of the node.
    fn here(&self) -> Timestamp {
        let passed = self.now_us - 1_000_000_000;
        let error = passed as i64 * self.faster_ppm / 1_000_000;
        Timestamp::from_micros(self.begin_us + passed.saturating_add_signed(error))
    }

    /// Advances to this time; decides the requests and hears the replies that are under way by then.
    fn go_on(&mut self, until_us: u64) {
        loop {
            let next = |one: &UnderWay| match one.reply {
                None => one.decided_at_us,
                Some(_) => one.heard_at_us,
            };
            let due = self.under_way.iter().enumerate().min_by_key(|(_, one)| next(one));
            let due = due.map(|(place, one)| (place, next(one)));
            let Some((place, at_us)) = due.filter(|(_, at_us)| *at_us <= until_us) else { break };
            self.move_to(at_us);
            if self.under_way[place].reply.is_none() {
                self.decide(place);
            } else {
                self.hear(place);
            }
        }
        self.move_to(until_us);
    }

    fn move_to(&mut self, at_us: u64) {
        self.now_us = at_us;
        self.store.clock.advance_to(Timestamp::from_micros(at_us));
    }

    fn decide(&mut self, place: usize) {
        let one = &mut self.under_way[place];
        let answer = with(one.user, one.cost, |request| match one.is_refund {
            true => self.store.refund(request),
            false => self.store.check(request),
        });
        one.reply = Some((answer.is_allowed(), answer.at(), decisions(&answer)));
    }

    fn hear(&mut self, place: usize) {
        let UnderWay { user, cost, is_refund, sent, reply, .. } = self.under_way.swap_remove(place);
        let (allowed, at, decisions) = reply.unwrap();
        let (asks, now) = (asks(user, cost), self.here());
        if is_refund {
            self.memory.forget(&asks, now);
            assert!(self.memory.refuse(&newest(&self.fallback), &asks, now).is_none());
        } else if !allowed {
            let reply_of = |place: usize| decisions.get(place).copied();
            self.memory.note(&newest(&self.fallback), &asks, (sent, now), at, reply_of);
        }
    }

    /// Asks as a node does: the memory first, then the store.
    fn asks(&mut self, rng: &mut Rng, user: &'static str, cost: u64) {
        let now = self.here();
        match self.memory.refuse(&newest(&self.fallback), &asks(user, cost), now) {
            Some(done) => self.judge(user, cost, &done),
            None => self.send(rng, user, cost, false),
        }
    }

    fn send(&mut self, rng: &mut Rng, user: &'static str, cost: u64, is_refund: bool) {
        let decided_at_us = self.now_us + rng.skewed(8_000);
        self.under_way.push(UnderWay {
            user,
            cost,
            is_refund,
            sent: self.here(),
            decided_at_us,
            heard_at_us: decided_at_us + rng.skewed(8_000),
            reply: None,
        });
    }

    /// Compares a refusal of the memory with the store.
    fn judge(&mut self, user: &str, cost: u64, done: &Done<Option<Decided>>) {
        assert!(!done.allowed);
        self.repeated += 1;
        let truth = with(user, cost, |request| self.store.peek(request));
        let lately =
            self.elsewhere_us.is_some_and(|at_us| self.now_us - at_us < 50_000 + CLOCK_ERROR_US);
        // A refund of this node that the store has done and this node has not heard of.
        let unheard = self.under_way.iter().any(|one| one.is_refund && one.reply.is_some());
        if lately || unheard {
            self.excused += u64::from(truth.is_allowed());
            return;
        }
        assert!(!truth.is_allowed(), "refused what the store admits: {truth:?} {done:?}");
    }

    fn step(&mut self, rng: &mut Rng) {
        let until_us = self.now_us + rng.skewed(6_000);
        self.go_on(until_us);
        let (user, cost) = (rng.pick(USERS), rng.between(1, 3));
        match rng.below(100) {
            0..70 => self.asks(rng, user, cost),
            70..85 => drop(with(user, cost, |request| self.store.check(request))),
            85..90 => self.send(rng, user, cost, true),
            90 => {
                with(user, cost, |request| drop(self.store.refund(request)));
                self.elsewhere_us = Some(self.now_us);
            }
            91 => {
                with(user, cost, |request| self.store.reset(request));
                self.elsewhere_us = Some(self.now_us);
            }
            _ => {}
        }
    }
}

#[test]
fn nothing_is_refused_that_the_store_would_admit_but_for_50_ms_after_units_came_back_elsewhere() {
    for algorithm in AlgorithmKind::ALL {
        let (mut repeated, mut excused) = (0, 0);
        for seed in 0..40 {
            let mut rng = Rng::new(seed);
            let limits = [rng.between(1, 4), rng.between(2, 12)];
            let window_ms = rng.pick([20, 100, 400]);
            let mut world = World::new(&mut rng, rules(*algorithm, limits, window_ms));
            for _ in 0..400 {
                world.step(&mut rng);
            }
            (repeated, excused) = (repeated + world.repeated, excused + world.excused);
        }
        assert!(repeated > 1_000 && excused > 0, "{algorithm}: {repeated} {excused}");
    }
}

const fn at(us: u64) -> Timestamp {
    Timestamp::from_micros(us)
}

const fn denied(retry_after_us: u64) -> Decision {
    let outcome = Outcome::Deny { retry_after: Micros::from_micros(retry_after_us) };
    Decision { outcome, limit: 5, remaining: 0, reset_after: Micros::from_micros(retry_after_us) }
}

/// A memory with a denial of `cost` units that was sent at 1,000 and heard at 2,000.
fn denying(fallback: &Local, cost: u64, decision: Decision) -> DenialMemory {
    let memory = DenialMemory::new();
    let reply_of = |place| (place == 0).then_some(decision);
    let asked = asks("ada", cost);
    memory.note(&newest(fallback), &asked, (at(1_000), at(2_000)), at(77), reply_of);
    memory
}

#[test]
fn a_denial_holds_for_its_cost_and_more_for_50_ms_after_it_was_sent_at_most() {
    let fallback = generation_of(rules(AlgorithmKind::TokenBucket, [5, 9], 1_000));
    let generation = newest(&fallback);
    let memory = denying(&fallback, 2, denied(900_000));
    let asked = |cost, us| memory.refuse(&generation, &asks("ada", cost), at(us));
    assert!(asked(1, 2_000).is_none() && asked(0, 2_000).is_none());
    assert!(memory.refuse(&generation, &asks("bob", 2), at(2_000)).is_none());
    let done = asked(2, 12_000).unwrap();
    assert_eq!(
        (done.at, done.decisions[0].as_ref().unwrap().decision),
        (at(10_077), denied(890_000))
    );
    assert!(done.decisions[1].is_none(), "the store said nothing about the other limiter");
    let never = asked(6, 12_000).unwrap().decisions[0].as_ref().unwrap().decision.outcome;
    assert_eq!(never, Outcome::Never);
    assert!(asked(5, 50_999).is_some() && asked(5, 51_000).is_none());
    // A shorter wait ends it earlier, with a margin for clocks of other speeds.
    let memory = denying(&fallback, 2, denied(10_240));
    let asked = |us| memory.refuse(&generation, &asks("ada", 2), at(us)).is_some();
    assert_eq!([asked(2_000), asked(11_228), asked(11_229)], [true, true, false]);
}

#[test]
fn other_values_a_report_and_a_rule_that_only_watches_are_not_refused() {
    let fallback = generation_of(rules(AlgorithmKind::TokenBucket, [5, 9], 1_000));
    let memory = denying(&fallback, 2, denied(900_000));
    let generation = newest(&fallback);
    let is_refused = |change: fn(&mut KeyAsk)| {
        let mut asks = asks("ada", 2);
        change(&mut asks[0]);
        memory.refuse(&generation, &asks, at(3_000)).is_some()
    };
    assert!(is_refused(|_| {}));
    assert!(!is_refused(|ask| ask.kind = AskKind::Report));
    assert!(!is_refused(|ask| ask.enforced = false));
    assert!(!is_refused(|ask| {
        let spec = Spec::new(AlgorithmKind::TokenBucket, 6, Duration::from_secs(1));
        ask.values.own = Some(Rule::new(spec).unwrap());
    }));
    let other = Policy::new(rules(AlgorithmKind::TokenBucket, [6, 9], 1_000)).unwrap();
    fallback.change(|_| Ok::<_, crate::PolicyErrors>(other), |_| {}).unwrap();
    assert!(memory.refuse(&newest(&fallback), &asks("ada", 2), at(3_000)).is_none());
}

#[test]
fn a_reply_that_was_sent_before_units_came_back_here_is_not_kept() {
    let fallback = generation_of(rules(AlgorithmKind::TokenBucket, [5, 9], 1_000));
    let generation = newest(&fallback);
    let memory = denying(&fallback, 2, denied(900_000));
    let reply_of = |place| (place == 0).then_some(denied(900_000));
    let asked = asks("ada", 2);
    memory.forget(&asked, at(3_000));
    memory.note(&generation, &asked, (at(2_999), at(4_000)), at(77), reply_of);
    assert!(memory.refuse(&generation, &asked, at(4_000)).is_none());
    memory.note(&generation, &asked, (at(3_001), at(4_000)), at(77), reply_of);
    assert!(memory.refuse(&generation, &asked, at(4_000)).is_some());
}
