//! Rules whose usage is reported afterwards: the units they take, and their answers, also next to other rules.

use std::time::Duration;
use tidegate::{Answer, Descriptor, Mode, OnFull, Request, RuleSpec, Usage};

use crate::kit::every_gate_that_is_reported_to;
use crate::subjects::gates::{AnyGate, Ending, Entries, ask};
use crate::subjects::{Case, Store};

every_gate_that_is_reported_to! {
    a_report_that_reaches_the_limit_exactly_is_answered_that_nothing_is_left,
    a_report_beside_another_rule_is_taken_from_all_and_refused_by_none,
    a_look_beside_another_rule_charges_that_one_only_if_the_reported_one_would_admit,
    a_report_repeated_under_its_id_is_taken_once_and_answered_the_same_also_where_denied,
    a_rule_in_shadow_mode_makes_no_report_of_a_request_that_another_may_refuse,
    keys_without_space_report_to_the_limiter_they_share,
    work_that_is_held_for_a_look_is_settled_with_what_it_used,
}

const ADA: Entries<'_> = &[("user", "ada")];
const KIND: Entries<'_> = &[("kind", "request")];

impl Case<'_, dyn Store> {
    /// A rule of tokens for each user, with reported usage.
    fn tokens(&self, limit: u64) -> RuleSpec {
        self.rule("tokens", limit).key(["user"]).usage(Usage::Reported)
    }

    /// A rule of requests, counted before they run.
    fn requests(&self, limit: u64) -> RuleSpec {
        self.rule("requests", limit).when("kind", "request")
    }
}

fn check<'g>(gate: &'g dyn AnyGate, costs: &[(Entries<'_>, u64)]) -> Answer<'g> {
    ask(costs, |request| gate.check(request))
}

/// The units left by the rule with this name.
fn left_of(gate: &dyn AnyGate, name: &str) -> u64 {
    let answer = ask(&[(ADA, 1), (KIND, 1)], |request| gate.peek(request));
    let of_rule = answer.matched().into_iter().find(|matched| matched.rule().name() == name);
    of_rule.unwrap().decision().remaining
}

fn a_report_that_reaches_the_limit_exactly_is_answered_that_nothing_is_left(
    case: &Case<'_, dyn Store>,
) {
    let gate = case.gate(vec![case.tokens(10)]);
    assert!(check(gate.as_ref(), &[(ADA, 9)]).is_allowed());
    assert!(!check(gate.as_ref(), &[(ADA, 1)]).is_allowed());
    assert!(!check(gate.as_ref(), &[(ADA, 5)]).is_allowed(), "and taken beyond it all the same");
    let reset = gate.refund(&Request::new("default", &[Descriptor::new(ADA).cost(6)]));
    assert_eq!(reset.matched()[0].decision().remaining, 1, "9 of 15 are left of what was taken");
}

fn a_report_beside_another_rule_is_taken_from_all_and_refused_by_none(case: &Case<'_, dyn Store>) {
    let gate = case.gate(vec![case.tokens(100), case.requests(2)]);
    let report = check(gate.as_ref(), &[(ADA, 10), (KIND, 5)]);
    let decisions: Vec<_> =
        report.matched().into_iter().map(|one| one.decision().verdict()).collect();
    assert!(!report.is_allowed(), "the other rule stands beyond its limit");
    assert!(decisions[0].is_allowed() && !decisions[1].is_allowed());
    assert_eq!((left_of(gate.as_ref(), "tokens"), left_of(gate.as_ref(), "requests")), (90, 0));
    // A rule from which a request takes nothing does not decide it.
    assert!(check(gate.as_ref(), &[(ADA, 10), (KIND, 0)]).is_allowed());
    assert_eq!(left_of(gate.as_ref(), "tokens"), 80);
}

fn a_look_beside_another_rule_charges_that_one_only_if_the_reported_one_would_admit(
    case: &Case<'_, dyn Store>,
) {
    let gate = case.gate(vec![case.tokens(100), case.requests(2)]);
    let look = [(ADA, 0), (KIND, 1)];
    assert!(check(gate.as_ref(), &look).is_allowed());
    assert_eq!((left_of(gate.as_ref(), "tokens"), left_of(gate.as_ref(), "requests")), (100, 1));
    assert!(!check(gate.as_ref(), &[(ADA, 100), (KIND, 0)]).is_allowed());
    assert!(!check(gate.as_ref(), &look).is_allowed());
    assert_eq!(left_of(gate.as_ref(), "requests"), 1, "all admit, or none is charged");
}

fn a_report_repeated_under_its_id_is_taken_once_and_answered_the_same_also_where_denied(
    case: &Case<'_, dyn Store>,
) {
    let gate = case.gate(vec![case.tokens(100).dedupe(Duration::from_secs(60))]);
    for (id, cost, allowed, remaining) in [("a", 60, true, 40), ("b", 60, false, 0)] {
        let request = Request::from(Descriptor::new(ADA).cost(cost)).with_id(id).unwrap();
        let [first, again] = [gate.check(&request), gate.check(&request)];
        assert_eq!((first.is_allowed(), again.is_allowed()), (allowed, allowed));
        assert!(!first.is_repeated() && again.is_repeated());
        assert_eq!(left_of(gate.as_ref(), "tokens"), remaining);
        assert!(!gate.peek(&request).is_repeated(), "it reports the limiter as it is now");
    }
    let _ = gate.refund(&Request::new("default", &[Descriptor::new(ADA).cost(20)]));
    assert_eq!(left_of(gate.as_ref(), "tokens"), 0, "120 were taken, and 20 given back");
    // A peek reports the limiter as it is now, with any id.
    let look = Request::from(Descriptor::new(ADA).cost(0)).with_id("a").unwrap();
    assert!(!gate.check(&look).is_allowed() && !gate.check(&look).is_repeated());
}

fn a_rule_in_shadow_mode_makes_no_report_of_a_request_that_another_may_refuse(
    case: &Case<'_, dyn Store>,
) {
    let shadow = case.tokens(10).mode(Mode::Shadow);
    let gate = case.gate(vec![shadow, case.requests(1)]);
    assert!(check(gate.as_ref(), &[(ADA, 4), (KIND, 1)]).is_allowed());
    assert!(
        !check(gate.as_ref(), &[(ADA, 4), (KIND, 1)]).is_allowed(),
        "the other rule refuses as before"
    );
    assert_eq!(left_of(gate.as_ref(), "tokens"), 6, "and nothing is taken");
    assert!(check(gate.as_ref(), &[(ADA, 9)]).is_allowed(), "in shadow mode it never refuses");
    assert_eq!(left_of(gate.as_ref(), "tokens"), 0);
    assert!(check(gate.as_ref(), &[(ADA, 0)]).is_allowed());
}

fn keys_without_space_report_to_the_limiter_they_share(case: &Case<'_, dyn Store>) {
    let gate = case.gate(vec![case.tokens(100).max_keys(1, OnFull::Share)]);
    let of = |user, cost| check(gate.as_ref(), &[(&[("user", user)], cost)]);
    assert!(of("ada", 50).is_allowed());
    assert!(of("bob", 90).matched()[0].is_overflow());
    assert!(of("eve", 0).is_allowed());
    assert!(!of("eve", 90).is_allowed(), "it shares the limiter with bob");
    assert!(!of("bob", 0).is_allowed() && of("ada", 0).is_allowed());
}

fn work_that_is_held_for_a_look_is_settled_with_what_it_used(case: &Case<'_, dyn Store>) {
    let gate = case.gate(vec![case.tokens(100)]);
    let request = Request::from(Descriptor::new(ADA).cost(0));
    assert!(gate.hold(&request, Ending::Settled(130)).is_ok());
    assert_eq!(left_of(gate.as_ref(), "tokens"), 0);
    assert!(gate.hold(&request, Ending::Kept).is_err());
}
