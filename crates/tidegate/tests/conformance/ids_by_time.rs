//! Requests with times of their own that are repeated under their id: which answers are remembered, and how long.

use std::collections::HashMap;
use std::time::Duration;

use testkit::traffic::Rng;
use tidegate::{
    AlgorithmKind, Answer, Descriptor, Micros, Mode, Request, RuleSpec, Spec, Timestamp,
};

use crate::kit::kit;
use crate::subjects::gates::ByTime;
use crate::subjects::{Case, Store};

// Gates that remember answers and whose clock may step back.
kit! {
    Store [sharded; redis]
    the_same_id_takes_once,
    another_cost_or_key_is_another_request_and_no_id_is_none,
    several_rules_have_one_answer_remembered_for_the_longest_time,
    the_order_of_descriptors_makes_no_other_request_and_each_limiter_keeps_its_values,
    a_rule_matched_at_no_cost_decides_nothing,
    a_rule_that_is_only_tried_remembers_where_no_other_is_met,
    a_clock_that_steps_back_makes_no_answer_last_longer_than_from_then_on,
    repeats_take_nothing_so_the_rest_of_a_trace_is_decided_as_without_them,
}

kit! {
    Store [sharded; redis] [TokenBucket] =>
    a_refusal_changes_no_later_decision_of_its_id_either
}

const DEDUPE: Duration = Duration::from_secs(10);
/// At this time, no window of a day ends soon.
const BEGIN_US: u64 = 1_700_000_000_000_000;

fn remembering(case: &Case<'_, dyn Store>, limit: u64) -> RuleSpec {
    case.rule("r", limit).key(["user"]).dedupe(DEDUPE)
}

/// A request: its time, user, cost and id.
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

/// The compared parts of an answer.
type Answered = (bool, bool, Timestamp, Vec<tidegate::Decision>);

fn answered(answer: &Answer<'_>) -> Answered {
    let decisions = answer.matched().into_iter().map(|matched| *matched.decision());
    (answer.is_allowed(), answer.is_repeated(), answer.at(), decisions.collect())
}

/// A gate of requests with times of their own.
struct Gate<'k>(Box<dyn ByTime + 'k>);

impl<'k> Gate<'k> {
    fn over(case: &Case<'k, dyn Store>, rules: Vec<RuleSpec>) -> Self {
        Self(case.kind.by_time(BEGIN_US, rules).unwrap())
    }

    fn ask(&mut self, question: &Question) -> Answered {
        let entries = [("user", question.user)];
        let mut request = Request::from(Descriptor::new(&entries).cost(question.cost));
        if let Some(id) = &question.id {
            request = request.with_id(id).unwrap();
        }
        self.decide(&request, question.at_us)
    }

    fn decide(&mut self, request: &Request<'_>, at_us: u64) -> Answered {
        answered(&self.0.decide(request, BEGIN_US + at_us))
    }
}

fn the_same_id_takes_once(case: &Case<'_, dyn Store>) {
    let mut gate = Gate::over(case, vec![remembering(case, 3)]);
    let first = gate.ask(&ask(0, "a"));
    assert!(first.0 && !first.1);
    for at_us in [0, 1, 9_999_999] {
        let again = gate.ask(&ask(at_us, "a"));
        assert_eq!((again.0, again.1, again.2, &again.3), (true, true, first.2, &first.3));
    }
    let other = gate.ask(&ask(9_999_999, "b"));
    let used = |decision: &Answered| decision.3[0].limit - decision.3[0].remaining;
    assert_eq!(used(&other), used(&first) + 1, "one was taken in between");
    let late = gate.ask(&ask(10_000_000, "a"));
    assert!(!late.1 && used(&late) == used(&other) + 1, "counted again");
}

fn another_cost_or_key_is_another_request_and_no_id_is_none(case: &Case<'_, dyn Store>) {
    let mut gate = Gate::over(case, vec![remembering(case, 10)]);
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
        assert_eq!(gate.ask(&question).3[0].remaining, remaining, "{question:?}");
    }
}

fn a_refusal_changes_no_later_decision_of_its_id_either(case: &Case<'_, dyn Store>) {
    let spec = Spec::new(AlgorithmKind::TokenBucket, 1, Duration::from_secs(1));
    let rules = vec![RuleSpec::new("all", spec).dedupe(DEDUPE)];
    let mut gate = Gate::over(case, rules);
    assert!(gate.ask(&ask(0, "a")).0);
    let refused = gate.ask(&ask(400_000, "b"));
    assert_eq!(refused.3[0].retry_after(), Some(Duration::from_millis(600)));
    assert!(!gate.ask(&ask(500_000, "b")).0);
    let admitted = gate.ask(&ask(1_000_000, "b"));
    assert!(
        admitted.0 && !admitted.1,
        "a request that comes back at that time is admitted under the same id"
    );
    assert!(gate.ask(&ask(1_000_001, "b")).1);
}

fn several_rules_have_one_answer_remembered_for_the_longest_time(case: &Case<'_, dyn Store>) {
    let day = Duration::from_secs(86_400);
    let of = |name: &str, limit| case.rule(name, limit);
    let rules = vec![
        of("long", 10).dedupe(Duration::from_secs(20)),
        of("short", 10).key(["user"]).dedupe(Duration::from_millis(1)),
        of("never", 10),
        of("tried", 1).mode(Mode::Shadow).dedupe(day),
    ];
    let mut gate = Gate::over(case, rules);
    let first = gate.ask(&ask(0, "a"));
    let again = gate.ask(&ask(19_999_999, "a"));
    assert_eq!((again.1, &again.3), (true, &first.3));
    // A rule in shadow mode decides nothing, and takes only what it would have admitted.
    let late = gate.ask(&ask(20_000_000, "a"));
    let remaining: Vec<_> = late.3.iter().map(|decision| decision.remaining).collect();
    assert_eq!((late.1, remaining), (false, vec![8, 8, 8, 0]));
    assert!(!late.3[3].is_allowed());
}

fn the_order_of_descriptors_makes_no_other_request_and_each_limiter_keeps_its_values(
    case: &Case<'_, dyn Store>,
) {
    let mut gate = Gate::over(case, vec![remembering(case, 10)]);
    let users = [[("user", "ada")], [("user", "bob")], [("user", "eve")]];
    let [ada, bob, eve] = [0, 1, 2].map(|user| Descriptor::new(&users[user]).cost(user as u64 + 1));
    for (number, order) in [[ada, bob, eve], [eve, ada, bob], [bob, eve, ada]].iter().enumerate() {
        let request = Request::new("default", order).with_id("a").unwrap();
        let answer = gate.decide(&request, number as u64);
        let remaining: Vec<_> = answer.3.iter().map(|decision| decision.remaining).collect();
        let expected: Vec<_> = order.iter().map(|one| 10 - one.units()).collect();
        assert_eq!((answer.1, remaining), (number > 0, expected));
    }
    let swapped = [ada.cost(2), bob.cost(1), eve];
    let request = Request::new("default", &swapped).with_id("a").unwrap();
    assert!(!gate.decide(&request, 9).1, "other costs are another request");
}

fn a_rule_matched_at_no_cost_decides_nothing(case: &Case<'_, dyn Store>) {
    let of = |name| case.rule(name, 10);
    let rules = vec![of("free").key(["user"]).dedupe(DEDUPE), of("other").when("b", "*")];
    let mut gate = Gate::over(case, rules);
    let (free, other) = ([("user", "ada")], [("b", "x")]);
    let free = Descriptor::new(&free).cost(0);
    let descriptors = [free, Descriptor::new(&other)];
    let request = Request::new("default", &descriptors).with_id("a").unwrap();
    for _ in 0..2 {
        assert!(!gate.decide(&request, 0).1, "the rule that can refuse does not remember");
    }
}

fn a_rule_that_is_only_tried_remembers_where_no_other_is_met(case: &Case<'_, dyn Store>) {
    let rules = vec![remembering(case, 1).mode(Mode::Shadow)];
    let mut gate = Gate::over(case, rules);
    for repeated in [false, true] {
        assert_eq!(gate.ask(&ask(0, "a")).1, repeated);
    }
}

fn a_clock_that_steps_back_makes_no_answer_last_longer_than_from_then_on(
    case: &Case<'_, dyn Store>,
) {
    let mut gate = Gate::over(case, vec![remembering(case, 10)]);
    let hour_us = 3_600_000_000;
    assert!(gate.ask(&ask(hour_us, "a")).0);
    for (at_us, repeated) in
        [(hour_us - 10_000_000, true), (0, true), (9_999_999, true), (10_000_000, false)]
    {
        assert_eq!(gate.ask(&ask(at_us, "a")).1, repeated, "at {at_us}");
    }
}

/// A trace with repeats: each request is new, or repeats a recent one.
fn trace(rng: &mut Rng) -> Vec<Question> {
    let (mut at_us, mut all) = (0, Vec::<Question>::new());
    for number in 0..rng.between(1, 60) {
        at_us += rng.below(700_000);
        let earlier = all.iter().rev().nth(rng.below(8) as usize).filter(|_| rng.chance(50));
        let (user, cost) = (["ada", "bob"][(number % 2) as usize], 1 + number % 3);
        all.push(match earlier {
            Some(earlier) => Question { at_us, ..earlier.clone() },
            None => Question { at_us, user, cost, id: Some(number.to_string()) },
        });
    }
    all
}

fn repeats_take_nothing_so_the_rest_of_a_trace_is_decided_as_without_them(
    case: &Case<'_, dyn Store>,
) {
    let dedupe = Duration::from_millis(1_500);
    for seed in 0..case.kind.asks() / 8 {
        let rng = &mut Rng::new(seed);
        let spec = Spec::new(case.algorithm, rng.between(3, 11), Duration::from_secs(3));
        let rule = RuleSpec::new("r", spec).key(["user"]);
        let mut gate = Gate::over(case, vec![rule.clone().dedupe(dedupe)]);
        let mut without = Gate::over(case, vec![rule]);
        let mut since: HashMap<Option<String>, (u64, Answered)> = HashMap::new();
        for question in trace(rng) {
            let answer = gate.ask(&question);
            let first = since.get(&question.id);
            let first =
                first.filter(|(at, _)| question.at_us - at < Micros::from(dedupe).as_micros());
            assert_eq!(answer.1, first.is_some(), "seed {seed}: {question:?}");
            match first {
                Some((_, first)) => assert_eq!((answer.2, &answer.3), (first.2, &first.3)),
                None => assert_eq!(without.ask(&question), answer, "seed {seed}: {question:?}"),
            }
            if answer.0 && !answer.1 {
                since.insert(question.id.clone(), (question.at_us, answer));
            }
        }
    }
}
