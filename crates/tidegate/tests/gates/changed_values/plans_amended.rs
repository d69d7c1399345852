//! Rules that are changed, at a gate with another rule whose values come with each request.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use super::{Still, admits, amend, ask, left, log, policy};
use crate::packed::{TODAY_US, TestClock, together};
use tidegate::{
    AlgorithmKind, Descriptor, Gate, Limit, OnFull, RequestLimit, Rule, RuleSpec, Setup, Spec,
};

const EACH: &str = "each";

/// A gate with a rule for each user, "each", with a plan for ada; before and after it a rule for all.
fn gate(each: RuleSpec, plan: u64, all: u64) -> Still {
    let rules = vec![
        RuleSpec::new("before", log(all)),
        each.key(["user"]).limit_from_request(),
        RuleSpec::new("behind", log(all)),
    ];
    let plan = Arc::new(Rule::new(log(plan)).unwrap());
    let setup = Setup::new(policy(rules));
    let setup = setup.plans("default", EACH, move |descriptor| {
        (descriptor.value("user") == Some("ada")).then(|| Arc::clone(&plan))
    });
    Gate::with_clock(setup.unwrap(), TestClock::at(TODAY_US))
}

fn usual(limit: u64) -> RuleSpec {
    RuleSpec::new(EACH, log(limit))
}

#[test]
fn a_limiter_under_a_plan_is_as_it_was_when_a_rule_behind_it_turns_out_to_be_changed() {
    let gate = gate(usual(10), 40, 100);
    assert!(admits(&gate, "ada", 30));
    assert!(admits(&gate, "bob", 5));
    // From now on each step over all three rules finds the last limiter closed, with the others locked.
    amend(&gate, "behind", log(90));
    for _ in 0..3 {
        assert_eq!(left(&gate, "ada"), [65, 10, 55]);
        assert_eq!(left(&gate, "bob"), [65, 5, 55]);
        assert!(!admits(&gate, "ada", 11));
        assert!(!admits(&gate, "new", 11), "nor does one begin that is refused");
    }
    assert!(admits(&gate, "ada", 10));
    assert_eq!((left(&gate, "ada"), gate.counts().keys), (vec![55, 0, 45], 4));
    assert_eq!(ask("ada", 0, |request| gate.reset(request)), 3);
    assert_eq!(left(&gate, "ada"), [100, 40, 90]);
}

#[test]
fn a_changed_rule_decides_without_a_plan_and_without_supplied_values() {
    let gate = gate(usual(10), 40, 1_000);
    assert!(admits(&gate, "bob", 8));
    amend(&gate, EACH, log(12));
    assert_eq!((left(&gate, "bob")[1], left(&gate, "ada")[1]), (4, 40));
    let own = RequestLimit::new(Rule::new(log(20)).unwrap());
    let answer = gate.peek(Descriptor::new(&[("user", "bob")]).limit(&own));
    assert_eq!(answer.matched()[1].values().spec().limit, Limit::Units(20));
    ask("bob", 1, |request| {
        let answer = gate.check(request);
        let answered = answer.matched()[1].values().spec().limit;
        assert_eq!((answer.is_allowed(), answered), (true, Limit::Units(12)));
    });
    amend(&gate, EACH, log(5));
    assert!(!admits(&gate, "bob", 1), "9 of 5 are used");
    amend(&gate, EACH, Spec::unlimited(AlgorithmKind::SlidingLog));
    assert_eq!(left(&gate, "bob").len(), 2, "it does not match");
    assert!(admits(&gate, "bob", 100));
    amend(&gate, EACH, log(10));
    assert_eq!(left(&gate, "bob")[1], 1, "earlier usage carries over");
}

#[test]
fn keys_without_space_share_a_limiter_under_what_the_rule_was_changed_to() {
    let gate = gate(usual(10).max_keys(1, OnFull::Share), 40, 1_000);
    assert!(admits(&gate, "first", 1));
    assert!(admits(&gate, "one", 6));
    amend(&gate, EACH, log(7));
    assert!(!admits(&gate, "other", 2), "6 of 7 are used");
    assert!(admits(&gate, "other", 1));
    amend(&gate, EACH, log(9));
    let alone = ask("third", 3, |request| gate.check(request).is_allowed());
    assert!(!alone && admits(&gate, "third", 2));
}

#[test]
fn while_eight_threads_take_and_rules_move_all_are_charged_or_none() {
    let gate = gate(usual(5_000), 5_000, 3_000);
    let taken = AtomicU64::new(0);
    together(8, |thread, _| {
        let user = if thread % 2 == 0 { "ada" } else { "bob" };
        for round in 0..600 {
            if thread == 0 && round % 20 == 0 {
                amend(&gate, ["before", EACH, "behind"][round / 20 % 3], log(4_000));
            }
            taken.fetch_add(u64::from(admits(&gate, user, 1)), SeqCst);
        }
    });
    let taken = taken.into_inner();
    let used = |user: &str| left(&gate, user);
    let (ada, bob) = (used("ada"), used("bob"));
    assert_eq!((ada[0], ada[2]), (bob[0], bob[2]));
    assert_eq!(4_000 - ada[0], taken, "before");
    assert_eq!(4_000 - ada[2], taken, "behind");
    assert_eq!((5_000 - ada[1]) + (4_000 - bob[1]), taken, "each");
}
