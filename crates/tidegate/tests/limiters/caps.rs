//! Caps on memory: a few keys get room, the others share or are refused, and no limited key is forgotten.

use std::num::NonZeroUsize;
use std::time::Duration;

use tidegate::{AlgorithmKind, Answer, Descriptor, Gate, OnFull, Policy, Request, RuleSpec, Spec};

use crate::packed::{TODAY_US, TestClock};

const SECOND_US: u64 = 1_000_000;
/// One kept in a word, and one kept whole.
const BOTH: [AlgorithmKind; 2] = [AlgorithmKind::FixedWindow, AlgorithmKind::SlidingLog];

/// One unit per second for each value of the entry of the rule's own name.
fn rule(name: &str, algorithm: AlgorithmKind) -> RuleSpec {
    RuleSpec::new(name, Spec::new(algorithm, 1, Duration::from_secs(1))).key([name])
}

fn ask<'g>(gate: &'g Gate<TestClock>, entries: &[(&str, &str)]) -> Answer<'g> {
    let descriptors: Vec<_> = entries.chunks(1).map(Descriptor::new).collect();
    gate.check(&Request::new(Request::DEFAULT_DOMAIN, &descriptors))
}

/// Allowed, and reported as overflow.
fn verdict(answer: &Answer<'_>) -> (bool, bool) {
    (answer.is_allowed(), answer.is_overflow())
}

/// The limiter in the way is idle after its window: room is found wherever it lies.
#[test]
fn space_is_had_as_soon_as_a_limiter_is_as_good_as_new() {
    for algorithm in BOTH {
        let clock = TestClock::at(0);
        let spec = rule("user", algorithm).max_keys(1, OnFull::Refuse);
        let gate = Gate::with_clock(Policy::new(vec![spec]).unwrap(), clock.clone());
        for user in 0..200 {
            let answer = ask(&gate, &[("user", &user.to_string())]);
            assert_eq!(verdict(&answer), (true, false), "{algorithm}, {user}");
            clock.pass(SECOND_US);
        }
    }
}

/// Tables that are not asked any more give back the memory that they do not need.
#[test]
fn a_rule_that_lies_idle_does_not_keep_the_space_of_the_others() {
    for [idle, busy] in [BOTH, [BOTH[1], BOTH[0]]] {
        let clock = TestClock::at(0);
        let rules = ["ip", "user"].into_iter().zip([idle, busy]).map(|(n, a)| rule(n, a));
        let policy = Policy::new(rules.collect()).unwrap();
        let gate =
            Gate::with_clock(policy.with_max_keys(NonZeroUsize::new(50).unwrap()), clock.clone());
        (0..50).for_each(|n| _ = ask(&gate, &[("ip", &n.to_string())]));
        assert!(ask(&gate, &[("user", "a")]).is_overflow());
        assert_eq!(gate.counts().keys, 50, "all of them are still limited");
        clock.pass(SECOND_US);
        let overflow = (0..100)
            .filter(|n| ask(&gate, &[("user", &n.to_string())]).is_overflow() && *n < 50)
            .count();
        assert!(overflow < 10, "{overflow} of 50 found no room next to an idle rule");
    }
}

/// Limiters that a step has in hand are not taken for empty places by its own search for room.
#[test]
fn limiters_of_one_request_that_lie_side_by_side_are_each_counted_once() {
    for algorithm in BOTH {
        let clock = TestClock::at(0);
        let gate =
            Gate::with_clock(Policy::new(vec![rule("user", algorithm)]).unwrap(), clock.clone());
        let names: Vec<_> = (0..2_000).map(|n| n.to_string()).collect();
        for pair in names.windows(2) {
            let _ = ask(&gate, &[("user", &pair[0]), ("user", &pair[1])]);
            clock.pass(2 * SECOND_US);
        }
        assert!(gate.counts().keys <= 2_000, "{algorithm}: {}", gate.counts().keys);
        for name in &names {
            gate.reset(Descriptor::new(&[("user", name.as_str())]));
        }
        assert_eq!(gate.counts().keys, 0, "{algorithm}");
    }
}

#[test]
fn a_cap_of_no_keys_is_refused_with_a_hint() {
    for (max_keys, hint) in [(0, "`limit = 0`"), (1_000_000_001, "from 1 to 1000000000")] {
        let spec = rule("user", AlgorithmKind::FixedWindow).max_keys(max_keys, OnFull::Share);
        let message = Policy::new(vec![spec]).unwrap_err().to_string();
        assert!(
            message.contains(&format!("`max_keys` is {max_keys}")) && message.contains(hint),
            "{message}"
        );
    }
}

/// A paid debt leaves no memory in use: the key goes when its units have left.
#[test]
fn a_key_whose_debt_has_left_is_dropped_and_begins_again() {
    for algorithm in [AlgorithmKind::FixedWindow, AlgorithmKind::SlidingCounter] {
        let clock = TestClock::at(TODAY_US);
        let spec = Spec::new(algorithm, 10, Duration::from_secs(1));
        let rules = vec![RuleSpec::new("own", spec).key(["user"]).max_keys(1, OnFull::Refuse)];
        let gate = Gate::with_clock(Policy::new(rules).unwrap(), clock.clone());
        for user in ["ada", "bob", "eve"] {
            let entries = [("user", user)];
            let request = Request::from(Descriptor::new(&entries).cost(1));
            assert!(gate.check(&request).is_allowed(), "{algorithm}: {user} finds room");
            assert_eq!(gate.settle(&request, None, &[1 << 45]).remaining(), Some(0));
            assert_eq!(gate.counts().keys, 1);
            clock.pass(2 * SECOND_US);
        }
        let request = Request::from(Descriptor::new(&[("user", "eve")]).cost(10));
        assert!(gate.check(&request).is_allowed(), "{algorithm}: the debt has left");
        assert_eq!(gate.reset(&request), 1);
        assert!(gate.check(&request).is_allowed() && !gate.check(&request).is_allowed());
    }
}
