//! Every case table holds for the naive models.

#![allow(clippy::unwrap_used, reason = "a table that is not read is a test that fails")]

use testkit::cases::{Case, Step, Verb, parse};
use testkit::model::{AlgorithmKind, Expected, Model};

/// The paths of the tables, in their algorithms' folders.
const TABLES: [(AlgorithmKind, &str); 8] = [
    (
        AlgorithmKind::FixedWindow,
        include_str!("../../tidegate-core/src/algorithms/fixed_window/fixed_window.txt"),
    ),
    (
        AlgorithmKind::SlidingWindow,
        include_str!("../../tidegate-core/src/algorithms/sliding_window/sliding_window.txt"),
    ),
    (
        AlgorithmKind::SlidingCounter,
        include_str!("../../tidegate-core/src/algorithms/sliding_counter/sliding_counter.txt"),
    ),
    (
        AlgorithmKind::SlidingLog,
        include_str!("../../tidegate-core/src/algorithms/sliding_log/sliding_log.txt"),
    ),
    (
        AlgorithmKind::TokenBucket,
        include_str!("../../tidegate-core/src/algorithms/token_bucket/token_bucket.txt"),
    ),
    (
        AlgorithmKind::LeakyBucket,
        include_str!("../../tidegate-core/src/algorithms/token_bucket/leaky_bucket.txt"),
    ),
    (
        AlgorithmKind::LeakyQueue,
        include_str!("../../tidegate-core/src/algorithms/leaky_queue/leaky_queue.txt"),
    ),
    (
        AlgorithmKind::Concurrency,
        include_str!("../../tidegate-core/src/algorithms/concurrency/concurrency.txt"),
    ),
];

#[test]
fn every_table_holds_for_its_model() {
    let cases = |text| parse(text).unwrap();
    let wrong: Vec<String> = TABLES
        .into_iter()
        .flat_map(|(algorithm, text)| cases(text).into_iter().map(move |case| (algorithm, case)))
        .flat_map(|(algorithm, case)| run(algorithm, &case))
        .collect();
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn every_algorithm_has_a_table_of_its_own_rules() {
    assert_eq!(TABLES.map(|(algorithm, _)| algorithm), AlgorithmKind::ALL);
    for (algorithm, text) in TABLES {
        for case in parse(text).unwrap() {
            assert_eq!(case.policy().unwrap().algorithm, algorithm, "{}", case.title);
        }
    }
}

#[test]
fn every_request_of_a_table_is_answered() {
    for step in TABLES.iter().flat_map(|(_, text)| parse(text).unwrap()).flat_map(|c| c.steps) {
        let asks = matches!(step.verb, Verb::Ask(_) | Verb::Peek(_));
        assert_eq!(asks, step.expect.is_some(), "line {}", step.line);
    }
}

/// The errors of a case, one line for each value.
fn run(algorithm: AlgorithmKind, case: &Case) -> Vec<String> {
    let mut model = Model::new(case.policy().unwrap());
    let mut wrong = Vec::new();
    for step in &case.steps {
        let Some(decision) = apply(&mut model, step) else {
            continue;
        };
        for difference in step.expect.unwrap_or_default().differences(&decision) {
            let place = format!("{}.txt:{}", algorithm.name(), step.line);
            wrong.push(format!("{place}: {}: {difference}", case.title));
        }
    }
    wrong
}

fn apply(model: &mut Model, step: &Step) -> Option<Expected> {
    let at_us = step.at_us;
    match &step.verb {
        Verb::Ask(cost) => return Some(model.step(at_us, *cost)),
        Verb::Peek(cost) => return Some(model.peek(at_us, *cost)),
        Verb::Refund(units) => model.refund(at_us, *units),
        Verb::Settle { reserved, actual } => model.settle(at_us, *reserved, *actual),
        Verb::Return { units, token } => model.return_permit(at_us, *token, *units),
        Verb::Renew { token } => {
            model.renew(at_us, *token);
        }
        Verb::Reset => model.reset(at_us),
        Verb::Amend(fields) => {
            let mut policy = model.policy().clone();
            policy.apply_fields(fields).unwrap();
            model.amend(at_us, policy);
        }
    }
    None
}
