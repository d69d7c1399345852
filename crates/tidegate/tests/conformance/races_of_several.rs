//! Concurrent callers whose requests match several limiters: charged together, or not at all.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use testkit::threads::together;
use tidegate::{AlgorithmKind, RuleSpec};

use crate::kit::every_gate_of_one_step;
use crate::subjects::gates::{AnyGate, Entries, ask, seen};
use crate::subjects::{Case, Store, per_day};

every_gate_of_one_step! {
    nobody_is_charged_for_a_refusal_of_three_rules_at_once,
    limiters_named_in_opposite_orders_are_charged_together_or_not_at_all,
    limiters_charged_and_forgotten_together_are_equal_at_any_time,
}

const ADA: Entries<'_> = &[("user", "ada")];
const BOB: Entries<'_> = &[("user", "bob")];

/// The units left by each rule, by its name.
fn by_name(gate: &dyn AnyGate, entries: &[(&str, &str)]) -> HashMap<String, u64> {
    let answer = ask(&[(entries, 1)], |request| gate.peek(request));
    let of = |m: tidegate::Matched<'_>| (m.rule().name().to_owned(), m.decision().remaining);
    answer.matched().into_iter().map(of).collect()
}

/// One limit for all, one for each user, one for each address: different requests match different limiters, and most
/// requests that one limit admits are refused by another. Addresses are new all the time, so that tables grow during
/// the test.
fn nobody_is_charged_for_a_refusal_of_three_rules_at_once(case: &Case<'_, dyn Store>) {
    let all = AlgorithmKind::ALL;
    let place = all.iter().position(|one| *one == case.algorithm).unwrap();
    for algorithms in
        [[0, 0, 0], [0, 1, 3]].map(|steps| steps.map(|n| all[(place + n) % all.len()]))
    {
        three_rules(case, algorithms);
    }
}

fn three_rules(case: &Case<'_, dyn Store>, algorithms: [AlgorithmKind; 3]) {
    let asks = case.kind.asks();
    let rule = |place: usize, name, limit| RuleSpec::new(name, per_day(algorithms[place], limit));
    let gate = case.gate([
        rule(0, "all", 5 * asks),
        rule(1, "user", 2 * asks).key(["user"]),
        rule(2, "ip", 20).key(["ip"]),
    ]);
    let (users, ips) = (["ada", "bob", "eve", "kim"], asks / 5);
    let charged: Mutex<HashMap<(&str, String), u64>> = Mutex::default();
    together(8, |_, rng| {
        for _ in 0..asks {
            let (user, ip) = (rng.pick(users), rng.below(ips).to_string());
            let (mut entries, cost) = ([("user", user), ("ip", ip.as_str())], rng.between(1, 3));
            if rng.chance(50) {
                entries.reverse();
            }
            if ask(&[(&entries, cost)], |request| gate.check(request).is_allowed()) {
                let mut charged = charged.lock().unwrap();
                for (name, key) in [("all", ""), ("user", user), ("ip", ip.as_str())] {
                    *charged.entry((name, key.to_owned())).or_default() += cost;
                }
            }
        }
    });
    let charged = charged.into_inner().unwrap();
    if let Some(keys) = gate.keys() {
        assert_eq!(keys, charged.len(), "a limiter for each that was charged, and for no other");
    }
    for user in users {
        for ip in (0..ips).map(|ip| ip.to_string()) {
            let after = by_name(gate.as_ref(), &[("user", user), ("ip", ip.as_str())]);
            for (name, key, limit) in
                [("all", "", 5 * asks), ("user", user, 2 * asks), ("ip", ip.as_str(), 20)]
            {
                let charged = charged.get(&(name, key.to_owned())).copied().unwrap_or(0);
                assert_eq!(after[name], limit - charged, "{name} {key}: {algorithms:?}");
            }
        }
    }
}

/// Neither caller waits for the other for ever.
fn limiters_named_in_opposite_orders_are_charged_together_or_not_at_all(
    case: &Case<'_, dyn Store>,
) {
    let asks = case.kind.asks();
    let gate = case.gate([case.rule("r", 2 * asks).key(["user"])]);
    let got = AtomicU64::new(0);
    together(8, |_, rng| {
        for _ in 0..asks {
            let mut both = [(ADA, 1), (BOB, 1)];
            if rng.chance(50) {
                both.reverse();
            }
            got.fetch_add(u64::from(ask(&both, |one| gate.check(one).is_allowed())), Relaxed);
        }
    });
    assert_eq!(got.into_inner(), 2 * asks);
    assert_eq!([seen(gate.as_ref(), ADA), seen(gate.as_ref(), BOB)], [[0], [0]]);
}

/// A reset of several limiters is one step: no request comes between two of them.
fn limiters_charged_and_forgotten_together_are_equal_at_any_time(case: &Case<'_, dyn Store>) {
    let rule = |name: &str| case.rule(name, 100_000).key(["user"]);
    let gate = case.gate([rule("a"), rule("b"), rule("c")]);
    together(4, |_, rng| {
        for _ in 0..case.kind.asks() {
            match rng.chance(40) {
                true => assert_eq!(ask(&[(ADA, 1)], |request| gate.reset(request)), 3),
                false => assert!(ask(&[(ADA, 1)], |request| gate.admits(request))),
            }
            let left = seen(gate.as_ref(), ADA);
            assert!(left.windows(2).all(|two| two[0] == two[1]), "{left:?}");
        }
    });
}
