//! Refunds, debts and changes of the rule have exactly their defined effect.

use crate::{answers, for_many_answers, for_many_policies};
use testkit::model::{AlgorithmKind, Model, Policy};
use testkit::traffic::{self, Rng};

#[test]
fn giving_back_and_taking_more_change_what_is_used_by_just_that() {
    for_many_answers(18, |model, at_us, cost, _| {
        let algorithm = model.policy().algorithm;
        if algorithm == AlgorithmKind::SlidingCounter {
            return; // a unit of the window before counts less than a unit
        }
        let (mut less, mut more) = (model.clone(), model.clone());
        let used = less.used(at_us);
        less.settle(at_us, cost, 0);
        assert_eq!(less.used(at_us), used.saturating_sub(cost), "{model:?}");
        if algorithm == AlgorithmKind::Concurrency {
            return; // work that did cost more takes no permit
        }
        more.settle(at_us, 0, cost);
        let most = 2 * model.policy().decision_limit();
        assert_eq!(more.used(at_us), (used + cost).min(most.max(used)), "{model:?}");
    });
}

#[test]
fn a_changed_rule_changes_nothing_of_what_is_used() {
    let mut rng = Rng::new(19);
    for_many_answers(20, |model, at_us, _, _| {
        let old = model.policy();
        let algorithm = rng.pick([old.algorithm, rng.clone().pick(AlgorithmKind::ALL)]);
        let mut new = traffic::policy(&mut rng, algorithm);
        if rng.chance(10) {
            new.limit = 0;
            new.window_us *= rng.below(2);
        }
        if rng.chance(50) {
            new = Policy { limit: new.limit, capacity: new.capacity, ..old.clone() };
        }
        new.initial = None; // it would say that a part is missing from the start
        let mut amended = model.clone();
        let used = amended.used(at_us);
        amended.amend(at_us, new);
        assert_eq!(amended.used(at_us), used, "{model:?} {amended:?}");
    });
}

#[test]
fn a_forgotten_limiter_is_a_new_one() {
    for_many_policies(21, |rng, policy| {
        let mut model = Model::new(policy.clone());
        for (at_us, cost) in traffic::jumpy_trace(rng, &policy, 20) {
            model.step(at_us, cost);
        }
        model.forget();
        let requests = traffic::jumpy_trace(rng, &policy, 20);
        let again: Vec<_> = requests.iter().map(|(at, cost)| model.step(*at, *cost)).collect();
        assert_eq!(again, answers(&policy, &requests));
    });
}
