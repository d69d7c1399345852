//! A request asked again under its id: one table of cases for memory and for a store.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::collections::HashMap;

use proptest::prelude::*;
use proptest::test_runner::TestRunner;
use tidegate::{
    AlgorithmKind, Answer, Descriptor, Gate, Micros, Mode, Policy, Request, RuleSpec, SharedReplay,
    Spec, Timestamp,
};

use crate::server::{Server, rule, settings};

const DEDUPE: Micros = Micros::from_secs(10);
/// No window of a day ends soon.
const BEGIN_US: u64 = 1_700_000_000_000_000;

fn remembering(algorithm: AlgorithmKind, limit: u64) -> RuleSpec {
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
pub(super) type Told = (bool, bool, Timestamp, Vec<tidegate::Decision>);

fn told(answer: &Answer<'_>) -> Told {
    let decisions = answer.matched().into_iter().map(|matched| *matched.decision());
    (answer.is_allowed(), answer.is_repeated(), answer.at(), decisions.collect())
}

/// What both stores tell, which is one thing.
pub(super) struct Both {
    memory: Gate<Timestamp>,
    shared: SharedReplay,
}

impl Both {
    pub(super) async fn over(server: &Server, rules: Vec<RuleSpec>) -> Self {
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
        self.decide(&request, question.at_us).await
    }

    pub(super) async fn decide(&mut self, request: &Request<'_>, at_us: u64) -> Told {
        let at = Timestamp::from_micros(BEGIN_US + at_us);
        let here = told(&self.memory.check_at(request, at));
        let there = told(&self.shared.decide(request, at).await.unwrap());
        assert_eq!(here, there, "{request:?} at {at_us}");
        here
    }
}

#[tokio::test]
async fn the_same_id_takes_once_whatever_the_algorithm() {
    let server = Server::start(&[]);
    for algorithm in AlgorithmKind::ALL {
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
    let mut both = Both::over(&server, vec![remembering(AlgorithmKind::SlidingLog, 10)]).await;
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
    let spec = Spec::new(AlgorithmKind::TokenBucket, 1, Micros::from_secs(1));
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
    let of =
        |name: &str, limit| RuleSpec::new(name, Spec::new(AlgorithmKind::TokenBucket, limit, day));
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
async fn the_order_of_descriptors_makes_no_other_request_and_each_limiter_keeps_its_figures() {
    let server = Server::start(&[]);
    let mut both = Both::over(&server, vec![remembering(AlgorithmKind::TokenBucket, 10)]).await;
    let users = [[("user", "ada")], [("user", "bob")], [("user", "eve")]];
    let [ada, bob, eve] = [0, 1, 2].map(|user| Descriptor::new(&users[user]).cost(user as u64 + 1));
    for (number, order) in [[ada, bob, eve], [eve, ada, bob], [bob, eve, ada]].iter().enumerate() {
        let request = Request::new("default", order).with_id("a").unwrap();
        let told = both.decide(&request, number as u64).await;
        let remaining: Vec<_> = told.3.iter().map(|decision| decision.remaining).collect();
        let expected: Vec<_> = order.iter().map(|one| 10 - one.units()).collect();
        assert_eq!((told.1, remaining), (number > 0, expected));
    }
    let swapped = [ada.cost(2), bob.cost(1), eve];
    let request = Request::new("default", &swapped).with_id("a").unwrap();
    assert!(!both.decide(&request, 9).await.1, "other costs are another request");
}

#[tokio::test]
async fn a_rule_that_is_met_at_no_cost_has_no_say() {
    let server = Server::start(&[]);
    let of = |name| RuleSpec::new(name, Spec::new(AlgorithmKind::SlidingLog, 10, DEDUPE));
    let rules = vec![of("free").key(["user"]).dedupe(DEDUPE), of("other").when("b", "*")];
    let mut both = Both::over(&server, rules).await;
    let (free, other) = ([("user", "ada")], [("b", "x")]);
    let free = Descriptor::new(&free).cost(0);
    let descriptors = [free, Descriptor::new(&other)];
    let request = Request::new("default", &descriptors).with_id("a").unwrap();
    for _ in 0..2 {
        assert!(!both.decide(&request, 0).await.1, "the rule that can refuse does not remember");
    }
}

#[tokio::test]
async fn a_rule_that_is_only_tried_remembers_where_no_other_is_met() {
    let server = Server::start(&[]);
    let rules = vec![remembering(AlgorithmKind::FixedWindow, 1).mode(Mode::Shadow)];
    let mut both = Both::over(&server, rules).await;
    for repeated in [false, true] {
        assert_eq!(both.ask(&ask(0, "a")).await.1, repeated);
    }
}

#[tokio::test]
async fn a_clock_that_steps_back_makes_no_answer_last_longer_than_from_then_on() {
    let server = Server::start(&[]);
    let mut both = Both::over(&server, vec![remembering(AlgorithmKind::TokenBucket, 10)]).await;
    let hour_us = 3_600_000_000;
    assert!(both.ask(&ask(hour_us, "a")).await.0);
    for (at_us, repeated) in
        [(hour_us - 10_000_000, true), (0, true), (9_999_999, true), (10_000_000, false)]
    {
        assert_eq!(both.ask(&ask(at_us, "a")).await.1, repeated, "at {at_us}");
    }
}

/// A trace with repeats: each question asks anew, or one of the last again.
fn traces() -> impl Strategy<Value = (AlgorithmKind, u64, Vec<Question>)> {
    let users = prop::sample::select(vec!["ada", "bob"]);
    let step = (0..700_000_u64, users, 1..4_u64, prop::option::of(0..4_usize));
    let algorithms = prop::sample::select(AlgorithmKind::ALL.to_vec());
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
    let run = |(algorithm, limit, trace): (AlgorithmKind, u64, Vec<Question>)| {
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
