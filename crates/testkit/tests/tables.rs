//! Every case table holds for the naive models.

#![allow(clippy::unwrap_used, reason = "a table that is not read is a test that fails")]

use std::collections::HashSet;

use testkit::cases::{Case, Step, Verb, parse};
use testkit::model::{AlgorithmKind, Expected, Model};

/// The cases of the table of each algorithm, in its folder. The folder of the token bucket has two tables.
fn tables() -> impl Iterator<Item = (AlgorithmKind, Case)> {
    AlgorithmKind::ALL.into_iter().flat_map(|algorithm| {
        let name = algorithm.name();
        let folder = if name == "leaky_bucket" { "token_bucket" } else { name };
        let file = format!("../tidegate-core/src/algorithms/{folder}/{name}.txt");
        let text = std::fs::read_to_string(file).unwrap();
        parse(&text).unwrap().into_iter().map(move |case| (algorithm, case))
    })
}

#[test]
fn every_table_holds_for_its_model() {
    let wrong: Vec<String> = tables().flat_map(|(algorithm, case)| run(algorithm, &case)).collect();
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn every_algorithm_has_a_table_of_its_own_rules() {
    for (algorithm, case) in tables() {
        assert_eq!(case.policy().unwrap().algorithm, algorithm, "{}", case.title);
    }
    let algorithms: HashSet<_> = tables().map(|(algorithm, _)| algorithm.name()).collect();
    assert_eq!(algorithms.len(), AlgorithmKind::ALL.len());
}

#[test]
fn every_request_of_a_table_is_answered() {
    for step in tables().flat_map(|(_, case)| case.steps) {
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
