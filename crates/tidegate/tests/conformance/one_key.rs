//! Costs without a bound and limits of nothing, of every kind of limiter and under every algorithm. Walks compare all
//! verbs with models: `walk.rs` in memory, and `changed_values/walk.rs` over gates and their stores.

use tidegate::Outcome;

use crate::kit::every_subject;
use crate::subjects::{KindCase, Subject};

every_subject! {
    enormous_costs_are_never_admitted_and_harm_nobody,
    a_limit_of_zero_admits_only_what_costs_nothing,
}

/// The number of requests of one unit that are admitted before one is refused.
fn admitted(subject: &dyn Subject, key: &str) -> usize {
    (0..1_000).take_while(|_| subject.check(key, 1).is_allowed()).count()
}

/// One command with enormous numbers once killed the task that decides.
fn enormous_costs_are_never_admitted_and_harm_nobody(case: &KindCase<'_>) {
    let subject = case.of(10);
    for key in subject.keys() {
        for cost in [11, 2_000_000_000, 9_000_000_000_000_000_000, u64::MAX] {
            assert_eq!(subject.check(key, cost).outcome, Outcome::Never, "{cost}");
            assert_eq!(subject.peek(key, cost).outcome, Outcome::Never, "{cost}");
            assert_eq!(subject.reserve(key, cost).err().unwrap().outcome, Outcome::Never);
            assert_eq!(subject.refund(key, cost).remaining, 10, "{cost}");
        }
        assert_eq!(admitted(&*subject, key), 10, "it still decides");
    }
}

fn a_limit_of_zero_admits_only_what_costs_nothing(case: &KindCase<'_>) {
    let subject = case.of(0);
    for key in subject.keys() {
        assert_eq!(subject.check(key, 1).outcome, Outcome::Never);
        assert!(!subject.admits(key, u64::MAX) && subject.admits(key, 0));
        assert!(subject.check(key, 0).is_allowed());
        assert_eq!((subject.refund(key, 7).remaining, subject.available(key)), (0, 0));
    }
}
