//! Properties of the models' own verbs under any traffic. The properties of answers are held by `tests/properties` of the
//! core, whose answers its `models.rs` holds equal to the models'.

mod verbs;

use testkit::model::{AlgorithmKind, Expected, Model, Policy};
use testkit::traffic::{self, Rng};

/// Random rules of each algorithm.
const POLICIES: usize = 60;
/// Requests made under each rule.
const STEPS: usize = 150;

/// Calls `check` with many random rules of every algorithm.
fn for_many_policies(seed: u64, mut check: impl FnMut(&mut Rng, Policy)) {
    let mut rng = Rng::new(seed);
    for algorithm in AlgorithmKind::ALL {
        for _ in 0..POLICIES {
            let policy = traffic::policy(&mut rng, algorithm);
            check(&mut rng, policy);
        }
    }
}

/// Calls `check` after each request of a forward trace, with the request and its answer.
fn for_many_answers(seed: u64, mut check: impl FnMut(&Model, u64, u64, Expected)) {
    for_many_policies(seed, |rng, policy| {
        let mut model = Model::new(policy.clone());
        for (at_us, cost) in traffic::trace(rng, &policy, STEPS) {
            let answer = model.step(at_us, cost);
            check(&model, at_us, cost, answer);
        }
    });
}

fn answers(policy: &Policy, requests: &[(u64, u64)]) -> Vec<Expected> {
    let mut model = Model::new(policy.clone());
    requests.iter().map(|(at_us, cost)| model.step(*at_us, *cost)).collect()
}
