//! A request asked again under its id: one table of cases for memory and for a store.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::collections::HashMap;

use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use tidegate::{
    Algorithm, Answer, Descriptor, Gate, Limit, Micros, Mode, OnStoreError, OverrideSpec, Policy,
    Request, RuleSpec, SharedReplay, Spec, Timestamp,
};

use crate::server::{Server, gate_over, rule, settings, until_lost};

const DEDUPE: Micros = Micros::from_secs(10);
/// No window of a day ends soon.
const BEGIN_US: u64 = 1_700_000_000_000_000;

fn remembering(algorithm: Algorithm, limit: u64) -> RuleSpec {
    rule(algorithm, limit).dedupe(DEDUPE)
}

/// A question: when, of which user, for how many units, under which id.
#[derive(Clone, Debug)]
struct Question {
    at_us: u64,
    user: &'static str,
    cost: u64,
    id: Option<String>,
}

fn ask(at_us: u64, id: &str) -> Question {
    Question { at_us, user: "ada", cost: 1, id: Some(id.to_owned()).filter(|id| !id.is_empty()) }
}

/// All that is told of an answer.
type Told = (bool, bool, Timestamp, Vec<tidegate::Decision>);

fn told(answer: &Answer<'_>) -> Told {
    let decisions = answer.matched().iter().map(|matched| *matched.decision());
    (answer.is_allowed(), answer.is_repeated(), answer.at(), decisions.collect())
}

/// What both stores tell, which is one thing.
struct Both {
    memory: Gate<Timestamp>,
    shared: SharedReplay,
}

impl Both {
    async fn over(server: &Server, rules: Vec<RuleSpec>) -> Self {
        let policy = Policy::new(rules).unwrap();
        let shared = SharedReplay::new(policy.clone(), settings(&server.url())).unwrap();
        shared.gate().connected().await.unwrap();
        Self { memory: Gate::with_clock(policy, Timestamp::EPOCH), shared }
    }

    async fn ask(&mut self, question: &Question) -> Told {
        let entries = [("user", question.user)];
        let descriptors = [Descriptor::new(&entries).cost(question.cost)];
        let mut request = Request::new("default", &descriptors);
        if let Some(id) = &question.id {
            request = request.with_id(id).unwrap();
        }
        let at = Timestamp::from_micros(BEGIN_US + question.at_us);
        let here = told(&self.memory.check_at(&request, at));
        let there = told(&self.shared.decide(&request, at).await.unwrap());
        // Of a clock gone back the store tells the instant that counts, memory the reading.
        assert_eq!((here.0, here.1, &here.3), (there.0, there.1, &there.3), "{question:?}");
        here
    }
}

#[tokio::test]
async fn the_same_id_takes_once_whatever_the_algorithm() {
    let server = Server::start(&[]);
    for algorithm in Algorithm::ALL {
        let mut both = Both::over(&server, vec![remembering(*algorithm, 3)]).await;
        let first = both.ask(&ask(0, "a")).await;
        assert!(first.0 && !first.1);
        for at_us in [0, 1, 9_999_999] {
            let again = both.ask(&ask(at_us, "a")).await;
            assert_eq!((again.0, again.1, again.2, &again.3), (true, true, first.2, &first.3));
        }
        let other = both.ask(&ask(9_999_999, "b")).await;
        let used = |told: &Told| told.3[0].limit - told.3[0].remaining;
        assert_eq!(used(&other), used(&first) + 1, "{algorithm}: one was taken in between");
        let late = both.ask(&ask(10_000_000, "a")).await;
        assert!(!late.1 && used(&late) == used(&other) + 1, "{algorithm}: counted anew");
    }
}

#[tokio::test]
async fn another_cost_or_key_is_another_request_and_no_id_is_none() {
    let server = Server::start(&[]);
    let mut both = Both::over(&server, vec![remembering(Algorithm::SlidingLog, 10)]).await;
    let cases = [
        (ask(0, "a"), 9),
        (Question { cost: 2, ..ask(1, "a") }, 7),
        (Question { user: "bob", ..ask(2, "a") }, 9),
        (ask(3, ""), 6),
        (ask(4, ""), 5),
        (ask(5, "a"), 9),
        (Question { cost: 0, ..ask(6, "a") }, 5),
        (ask(7, "b"), 4),
    ];
    for (question, remaining) in cases {
        assert_eq!(both.ask(&question).await.3[0].remaining, remaining, "{question:?}");
    }
}

#[tokio::test]
async fn a_refusal_changes_no_later_decision_of_its_id_either() {
    let server = Server::start(&[]);
    let spec = Spec::new(Algorithm::TokenBucket, 1, Micros::from_secs(1));
    let rules = vec![RuleSpec::new("all", spec).dedupe(DEDUPE)];
    let mut both = Both::over(&server, rules).await;
    assert!(both.ask(&ask(0, "a")).await.0);
    let refused = both.ask(&ask(400_000, "b")).await;
    assert_eq!(refused.3[0].retry_after(), Some(Micros::from_millis(600)));
    assert!(!both.ask(&ask(500_000, "b")).await.0);
    let admitted = both.ask(&ask(1_000_000, "b")).await;
    assert!(admitted.0 && !admitted.1, "who comes back when told so is let in under the same id");
    assert!(both.ask(&ask(1_000_001, "b")).await.1);
}

#[tokio::test]
async fn several_rules_have_one_answer_remembered_for_the_longest_time() {
    let server = Server::start(&[]);
    let day = Micros::from_secs(86_400);
    let of = |name: &str, limit| RuleSpec::new(name, Spec::new(Algorithm::TokenBucket, limit, day));
    let rules = vec![
        of("long", 10).dedupe(Micros::from_secs(20)),
        of("short", 10).key(["user"]).dedupe(Micros::from_millis(1)),
        of("never", 10),
        of("tried", 1).mode(Mode::Shadow).dedupe(day),
    ];
    let mut both = Both::over(&server, rules).await;
    let first = both.ask(&ask(0, "a")).await;
    let again = both.ask(&ask(19_999_999, "a")).await;
    assert_eq!((again.1, &again.3), (true, &first.3));
    // A rule in shadow mode has no say, and takes only what it would have admitted.
    let late = both.ask(&ask(20_000_000, "a")).await;
    let remaining: Vec<_> = late.3.iter().map(|decision| decision.remaining).collect();
    assert_eq!((late.1, remaining), (false, vec![8, 8, 8, 0]));
    assert!(!late.3[3].is_allowed());
}

#[tokio::test]
async fn a_rule_that_is_only_tried_remembers_where_no_other_is_met() {
    let server = Server::start(&[]);
    let rules = vec![remembering(Algorithm::FixedWindow, 1).mode(Mode::Shadow)];
    let mut both = Both::over(&server, rules).await;
    for repeated in [false, true] {
        assert_eq!(both.ask(&ask(0, "a")).await.1, repeated);
    }
}

#[tokio::test]
async fn a_clock_that_steps_back_makes_no_answer_last_longer_than_from_then_on() {
    let server = Server::start(&[]);
    let mut both = Both::over(&server, vec![remembering(Algorithm::TokenBucket, 10)]).await;
    let hour_us = 3_600_000_000;
    assert!(both.ask(&ask(hour_us, "a")).await.0);
    for (at_us, repeated) in
        [(hour_us - 10_000_000, true), (0, true), (9_999_999, true), (10_000_000, false)]
    {
        assert_eq!(both.ask(&ask(at_us, "a")).await.1, repeated, "at {at_us}");
    }
}

#[tokio::test]
async fn an_override_has_the_dedupe_of_its_rule_and_a_changed_rule_decides_anew() {
    let server = Server::start(&[]);
    let mut ada = OverrideSpec::new("user", "ada");
    ada.limit = Some(Limit::Units(20));
    let rules = vec![remembering(Algorithm::TokenBucket, 10).with_override(ada)];
    let (gate, _) = gate_over(&server.url(), rules).await;
    let (changed, _) =
        gate_over(&server.url(), vec![remembering(Algorithm::TokenBucket, 30)]).await;
    let descriptors = [Descriptor::new(&[("user", "ada")])];
    let request = Request::new("default", &descriptors).with_id("a").unwrap();
    let remaining = |answer: &Answer<'_>| answer.matched()[0].decision().remaining;
    assert_eq!(remaining(&gate.check(&request).await), 19);
    assert!(gate.check(&request).await.is_repeated());
    let anew = changed.check(&request).await;
    assert_eq!((anew.is_repeated(), remaining(&anew)), (false, 28));
}

#[tokio::test]
async fn a_look_tells_what_is_remembered_and_a_reset_forgets_units_only() {
    let server = Server::start(&[]);
    let (gate, _) = gate_over(&server.url(), vec![remembering(Algorithm::SlidingWindow, 2)]).await;
    let descriptors = [Descriptor::new(&[("user", "ada")])];
    let plain = Request::new("default", &descriptors);
    let request = plain.with_id("a").unwrap();
    assert!(!gate.peek(&request).await.is_repeated());
    let first = gate.check(&request).await;
    let _ = gate.check(&plain).await;
    assert!(!gate.peek(&plain).await.is_allowed());
    let looked = gate.peek(&request).await;
    assert!(looked.is_allowed() && looked.is_repeated());
    assert_eq!(looked.matched()[0].decision(), first.matched()[0].decision());
    gate.reset(&plain).await.unwrap();
    assert!(gate.check(&request).await.is_repeated());
    assert_eq!(gate.peek(&plain).await.matched()[0].decision().remaining, 2);
}

#[tokio::test]
async fn what_is_remembered_expires_by_itself() {
    let server = Server::start(&[]);
    let (gate, _) = gate_over(&server.url(), vec![remembering(Algorithm::TokenBucket, 10)]).await;
    let descriptors = [Descriptor::new(&[("user", "ada")])];
    let request = Request::new("default", &descriptors).with_id("a").unwrap();
    let _ = gate.check(&request).await;
    let keys: Vec<String> = server.run(&["KEYS", "tidegate:{*}[?]*"]);
    let [key] = keys.as_slice() else { panic!("{keys:?}") };
    let left_ms: u64 = server.run(&["PTTL", key]);
    assert!((1..=10_001).contains(&left_ms), "{left_ms}");
    // As if its time were over: what is then asked is decided anew.
    server.run::<()>(&["DEL", key]);
    assert!(!gate.check(&request).await.is_repeated());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_many_that_ask_at_once_under_one_id_one_takes() {
    let server = Server::start(&[]);
    let rules = || vec![remembering(Algorithm::SlidingLog, 100)];
    let (one, _) = gate_over(&server.url(), rules()).await;
    let (two, _) = gate_over(&server.url(), rules()).await;
    let memory = Gate::new(Policy::new(rules()).unwrap());
    let descriptors = [Descriptor::new(&[("user", "ada")])];
    let plain = Request::new("default", &descriptors);
    let mut repeated = 0;
    for round in 0..20 {
        let id = format!("round {round}");
        let request = plain.with_id(&id).unwrap();
        let (a, b, c) = tokio::join!(one.check(&request), two.check(&request), one.check(&request));
        repeated += [a, b, c].iter().filter(|answer| answer.is_repeated()).count();
        std::thread::scope(|scope| {
            (0..3).for_each(|_| assert!(scope.spawn(|| memory.admits(&request)).join().is_ok()));
            let both = [0, 1].map(|_| scope.spawn(|| memory.check(&request).is_allowed()));
            assert!(both.into_iter().all(|one| one.join().unwrap()));
        });
    }
    let remaining = |answer: Answer<'_>| answer.matched()[0].decision().remaining;
    assert_eq!((repeated, remaining(one.peek(&plain).await)), (40, 80));
    assert_eq!(remaining(memory.peek(&plain)), 80);
}

#[tokio::test]
async fn memory_keeps_so_many_answers_and_says_what_it_forgot() {
    let policy = Policy::new(vec![remembering(Algorithm::TokenBucket, 100_000)]).unwrap();
    let gate = Gate::with_clock(policy, Timestamp::EPOCH).with_max_remembered(6_400);
    let descriptors = [Descriptor::new(&[("user", "ada")])];
    let check = |id: u64, at_us| {
        let id = id.to_string();
        let request = Request::new("default", &descriptors).with_id(&id).unwrap();
        let answer = gate.check_at(&request, Timestamp::from_micros(BEGIN_US + at_us));
        assert!(answer.is_allowed());
        answer.is_repeated()
    };
    (0..20_000).for_each(|id| assert!(!check(id, id)));
    assert!(gate.remembered() <= 6_400 && gate.forgotten() >= 13_600);
    assert!(check(19_999, 20_000), "the last is there");
    let forgotten = gate.forgotten();
    (20_000..20_064).for_each(|id| assert!(!check(id, 20_000_000)));
    assert_eq!(
        gate.forgotten(),
        forgotten,
        "those whose time is over make room, and are not missed"
    );
}

#[tokio::test]
async fn while_the_store_is_away_a_local_rule_remembers_in_process() {
    let mut server = Server::start(&[]);
    let rules = vec![remembering(Algorithm::TokenBucket, 5).on_store_error(OnStoreError::Local)];
    let (gate, events) = gate_over(&server.url(), rules).await;
    server.kill();
    until_lost(&gate, &events).await;
    let descriptors = [Descriptor::new(&[("user", "ada")])];
    let plain = Request::new("default", &descriptors);
    let request = plain.with_id("a").unwrap();
    for repeated in [false, true, true] {
        let answer = gate.check(&request).await;
        assert!(answer.is_degraded() && answer.is_repeated() == repeated);
    }
    assert_eq!(gate.peek(&plain).await.matched()[0].decision().remaining, 4);
}

/// A trace with repeats: each question asks anew, or one of the last again.
fn traces() -> impl Strategy<Value = (Algorithm, u64, Vec<Question>)> {
    let users = prop::sample::select(vec!["ada", "bob"]);
    let step = (0..700_000_u64, users, 1..4_u64, prop::option::of(0..4_usize));
    let algorithms = prop::sample::select(Algorithm::ALL.to_vec());
    (algorithms, 3..12_u64, prop::collection::vec(step, 1..60)).prop_map(
        |(algorithm, limit, steps)| {
            let (mut at_us, mut all) = (0, Vec::<Question>::new());
            for (number, (pause_us, user, cost, again)) in steps.into_iter().enumerate() {
                at_us += pause_us;
                let earlier = again.and_then(|back| all.iter().rev().nth(back)).cloned();
                let anew = Question { at_us, user, cost, id: Some(number.to_string()) };
                all.push(earlier.map_or(anew, |earlier| Question { at_us, ..earlier }));
            }
            (algorithm, limit, all)
        },
    )
}

#[test]
fn repeats_take_nothing_so_the_rest_of_a_trace_is_decided_as_without_them() {
    let server = Server::start(&[]);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let dedupe = Micros::from_millis(1_500);
    let mut runner = TestRunner::new(ProptestConfig { cases: 48, ..ProptestConfig::default() });
    let run = |(algorithm, limit, trace): (Algorithm, u64, Vec<Question>)| {
        let spec = Spec::new(algorithm, limit, Micros::from_secs(3));
        let rules = vec![RuleSpec::new("r", spec).key(["user"]).dedupe(dedupe)];
        let kept = runtime.block_on(async {
            let mut both = Both::over(&server, rules).await;
            let (mut kept, mut since) = (Vec::new(), HashMap::new());
            for question in &trace {
                let told = both.ask(question).await;
                let first: Option<&(u64, Told)> = since.get(&question.id);
                let first = first.filter(|(at, _)| question.at_us - at < dedupe.as_micros());
                assert_eq!(told.1, first.is_some(), "{question:?}");
                match first {
                    Some((_, first)) => assert_eq!((told.2, &told.3), (first.2, &first.3)),
                    None => kept.push((question.clone(), told.clone())),
                }
                if told.0 && !told.1 {
                    since.insert(question.id.clone(), (question.at_us, told));
                }
            }
            both.shared.end().await.unwrap();
            kept
        });
        let rules = vec![RuleSpec::new("r", spec).key(["user"])];
        let without = Gate::with_clock(Policy::new(rules).unwrap(), Timestamp::EPOCH);
        for (question, with_repeats) in kept {
            let entries = [("user", question.user)];
            let descriptors = [Descriptor::new(&entries).cost(question.cost)];
            let at = Timestamp::from_micros(BEGIN_US + question.at_us);
            let answer = without.check_at(&Request::new("default", &descriptors), at);
            assert_eq!(told(&answer), with_repeats, "{question:?}");
        }
        Ok(())
    };
    runner.run(&traces(), run).unwrap();
    let left: Vec<String> = server.run(&["KEYS", "*"]);
    assert!(left.iter().all(|key| key.ends_with('?')), "{left:?}");
}
