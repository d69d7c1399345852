//! Caps on memory: a few keys get room, the others share or are refused, and no limited key is forgotten.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use tidegate::{
    AlgorithmKind, Answer, Clock, Descriptor, Gate, OnFull, Policy, Request, RuleSpec, Spec,
    Timestamp,
};

/// A clock that is moved by hand, and only forward, so that states are packed.
#[derive(Debug, Default)]
struct Hand(AtomicU64);

impl Clock for &Hand {
    fn now(&self) -> Timestamp {
        Timestamp::from_micros(self.0.load(Relaxed))
    }

    fn never_steps_back(&self) -> bool {
        true
    }
}

const SECOND_US: u64 = 1_000_000;
/// One kept in a word, and one kept whole.
const BOTH: [AlgorithmKind; 2] = [AlgorithmKind::FixedWindow, AlgorithmKind::SlidingLog];

/// One unit per second for each value of the entry of the rule's own name.
fn rule(name: &str, algorithm: AlgorithmKind) -> RuleSpec {
    RuleSpec::new(name, Spec::new(algorithm, 1, Duration::from_secs(1))).key([name])
}

fn ask<'g>(gate: &'g Gate<&Hand>, entries: &[(&str, &str)]) -> Answer<'g> {
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
        let hand = Hand::default();
        let spec = rule("user", algorithm).max_keys(1, OnFull::Refuse);
        let gate = Gate::with_clock(Policy::new(vec![spec]).unwrap(), &hand);
        for user in 0..200 {
            let answer = ask(&gate, &[("user", &user.to_string())]);
            assert_eq!(verdict(&answer), (true, false), "{algorithm}, {user}");
            hand.0.fetch_add(SECOND_US, Relaxed);
        }
    }
}

/// Tables that are not asked any more give back the memory that they do not need.
#[test]
fn a_rule_that_lies_idle_does_not_keep_the_space_of_the_others() {
    for [idle, busy] in [BOTH, [BOTH[1], BOTH[0]]] {
        let hand = Hand::default();
        let rules = ["ip", "user"].into_iter().zip([idle, busy]).map(|(n, a)| rule(n, a));
        let policy = Policy::new(rules.collect()).unwrap();
        let gate = Gate::with_clock(policy.with_max_keys(NonZeroUsize::new(50).unwrap()), &hand);
        (0..50).for_each(|n| _ = ask(&gate, &[("ip", &n.to_string())]));
        assert!(ask(&gate, &[("user", "a")]).is_overflow());
        assert_eq!(gate.counts().keys, 50, "all of them are still limited");
        hand.0.fetch_add(SECOND_US, Relaxed);
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
        let hand = Hand::default();
        let gate = Gate::with_clock(Policy::new(vec![rule("user", algorithm)]).unwrap(), &hand);
        let names: Vec<_> = (0..2_000).map(|n| n.to_string()).collect();
        for pair in names.windows(2) {
            let _ = ask(&gate, &[("user", &pair[0]), ("user", &pair[1])]);
            hand.0.fetch_add(2 * SECOND_US, Relaxed);
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
