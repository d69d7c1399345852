//! Every table of worked examples, through the algorithms.

mod common;

use tidegate_core::AlgorithmKind;

#[test]
fn every_table_holds() {
    for algorithm in AlgorithmKind::ALL {
        let cases = testkit::cases::parse(algorithm.cases())
            .unwrap_or_else(|e| panic!("{algorithm}: {e:?}"));
        assert!(!cases.is_empty(), "{algorithm} has no cases");
        for case in cases {
            let mut policy = case.policy().unwrap();
            let mut limiter = common::limiter(&policy);
            for step in &case.steps {
                let (next, decision) = common::run(limiter, &mut policy, step.at_us, &step.verb);
                limiter = next;
                let (Some(decision), Some(expect)) = (decision, &step.expect) else {
                    continue;
                };
                let differences = expect.differences(&decision);
                assert!(
                    differences.is_empty(),
                    "{algorithm}, {}, line {}: {differences:?}",
                    case.title,
                    step.line
                );
            }
        }
    }
}
