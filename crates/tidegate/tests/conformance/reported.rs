//! Rules whose usage is reported afterwards, under an id, by keys without space and by held work. Reports next to other
//! rules are in `several_walk.rs`.

use std::time::Duration;
use tidegate::{Descriptor, OnFull, Request, RuleSpec, Usage};

use crate::kit::every_gate_that_is_reported_to;
use crate::subjects::GateCase;
use crate::subjects::gates::{Ending, Entries, ask, seen};

every_gate_that_is_reported_to! {
    a_report_repeated_under_its_id_is_taken_once_and_answered_the_same_also_where_denied,
    keys_without_space_report_to_the_limiter_they_share,
    work_that_is_held_for_a_look_is_settled_with_what_it_used,
}

const ADA: Entries<'_> = &[("user", "ada")];

impl GateCase<'_> {
    /// A rule of tokens for each user, with reported usage.
    fn tokens(&self, limit: u64) -> RuleSpec {
        self.rule("tokens", limit).key(["user"]).usage(Usage::Reported)
    }
}

fn a_report_repeated_under_its_id_is_taken_once_and_answered_the_same_also_where_denied(
    case: &GateCase<'_>,
) {
    let gate = case.gate(vec![case.tokens(100).dedupe(Duration::from_secs(60))]);
    for (id, cost, allowed, remaining) in [("a", 60, true, 40), ("b", 60, false, 0)] {
        let request = Request::from(Descriptor::new(ADA).cost(cost)).with_id(id).unwrap();
        let [first, again] = [gate.check(&request), gate.check(&request)];
        assert_eq!((first.is_allowed(), again.is_allowed()), (allowed, allowed));
        assert!(!first.is_repeated() && again.is_repeated());
        assert_eq!(seen(&*gate, ADA), [remaining]);
        assert!(!gate.peek(&request).is_repeated(), "it reports the limiter as it is now");
    }
    let _ = gate.refund(&Request::new("default", &[Descriptor::new(ADA).cost(20)]));
    assert_eq!(seen(&*gate, ADA), [0], "120 were taken, and 20 given back");
    // A peek reports the limiter as it is now, with any id.
    let look = Request::from(Descriptor::new(ADA).cost(0)).with_id("a").unwrap();
    assert!(!gate.check(&look).is_allowed() && !gate.check(&look).is_repeated());
}

fn keys_without_space_report_to_the_limiter_they_share(case: &GateCase<'_>) {
    let gate = case.gate(vec![case.tokens(100).max_keys(1, OnFull::Share)]);
    let of = |user, cost| ask(&[(&[("user", user)], cost)], |request| gate.check(request));
    assert!(of("ada", 50).is_allowed());
    assert!(of("bob", 90).matched()[0].is_overflow());
    assert!(of("eve", 0).is_allowed());
    assert!(!of("eve", 90).is_allowed(), "it shares the limiter with bob");
    assert!(!of("bob", 0).is_allowed() && of("ada", 0).is_allowed());
}

fn work_that_is_held_for_a_look_is_settled_with_what_it_used(case: &GateCase<'_>) {
    let gate = case.gate(vec![case.tokens(100)]);
    let request = Request::from(Descriptor::new(ADA).cost(0));
    assert!(gate.hold(&request, Ending::Settled(130)).is_ok());
    assert_eq!(seen(&*gate, ADA), [0]);
    assert!(gate.hold(&request, Ending::Kept).is_err());
}
