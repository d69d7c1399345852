//! Plans and request-supplied values at a gate: in bounded memory, with bans, ids and reservations. Walks are in
//! `tests/conformance/changed_values`.

use std::collections::VecDeque;
use std::time::Duration;

use testkit::traffic::Rng;

use crate::asks::{left, policy};
use crate::changed_values::{log, per_day};
use crate::packed::{TODAY_US, TestClock};
use crate::plans::Plans;
use tidegate::{
    AlgorithmKind, Ban, Descriptor, Gate, OnFull, Policy, Request, RequestLimit, Rule, RuleSpec,
    Setup, Spec,
};

const USER: &str = Plans::RULE;

fn own(spec: Spec) -> RequestLimit {
    RequestLimit::new(Rule::new(spec).unwrap())
}

/// A gate with a rule for each user, with plans, and a rule for all of `all` units a day.
fn gate_of(per_user: RuleSpec, all: u64) -> (Gate<TestClock>, Plans) {
    let (setup, plans) = setup(per_user, all);
    (Gate::with_clock(setup, TestClock::at(TODAY_US)), plans)
}

fn setup(per_user: RuleSpec, all: u64) -> (Setup<TestClock>, Plans) {
    let plans = Plans::default();
    (plans.setup(vec![per_user.key(["user"]), RuleSpec::new("all", log(all))]), plans)
}

fn gate(per_user: u64, all: u64) -> (Gate<TestClock>, Plans) {
    gate_of(RuleSpec::new(USER, log(per_user)).limit_from_request(), all)
}

/// Asks about users, each with a cost, with values supplied by the request or without.
fn ask_all<T>(
    users: &[(&str, u64)],
    own: Option<&RequestLimit>,
    ask: impl FnOnce(&Request<'_>) -> T,
) -> T {
    let entries: Vec<_> = users.iter().map(|(user, _)| [("user", *user)]).collect();
    let descriptors = entries.iter().zip(users).map(|(entries, (_, cost))| {
        let descriptor = Descriptor::new(entries).cost(*cost);
        own.map_or(descriptor, |own| descriptor.limit(own))
    });
    let descriptors: Vec<_> = descriptors.collect();
    ask(&Request::new("default", &descriptors))
}

#[test]
fn values_that_are_new_with_each_request_cost_no_memory() {
    let per_user = RuleSpec::new(USER, per_day(AlgorithmKind::FixedWindow, 1_000_000));
    let (gate, plans) = gate_of(per_user.limit_from_request(), 1_000_000);
    for number in 0..20_000_u64 {
        let spec = per_day(AlgorithmKind::FixedWindow, 1_000_000 + number);
        let supplied = own(spec);
        plans.set("bob", spec);
        let users = [("ada", 1), ("bob", 1)];
        assert!(ask_all(&users, Some(&supplied).filter(|_| number % 2 == 0), |r| gate.admits(r)));
    }
    assert_eq!(gate.counts().keys, 3);
    assert_eq!(left(&gate, "ada"), [980_000, 960_000], "usage carries over");
}

#[test]
fn a_charge_is_given_back_where_it_was_taken_though_the_plan_has_changed() {
    let (gate, plans) = gate(0, 50);
    plans.set("ada", log(10));
    let asked = [4, 5].map(|cost| [Descriptor::new(&[("user", "ada")]).cost(cost)]);
    let [released, settled] =
        [0, 1].map(|n: usize| gate.hold(&Request::new("default", &asked[n])).unwrap());
    plans.set("ada", Spec::unlimited(AlgorithmKind::SlidingLog));
    released.release();
    assert_eq!(left(&gate, "ada"), [45]);
    plans.set("ada", log(20));
    assert_eq!(left(&gate, "ada"), [15, 45], "under no limit it was given back as well");
    settled.settle(7);
    assert_eq!(left(&gate, "ada"), [13, 43]);
    assert_eq!(ask_all(&[("ada", 1)], None, |request| gate.reset(request)), 2);
    assert_eq!(left(&gate, "ada"), [20, 50]);
}

#[test]
fn under_another_plan_the_same_id_is_another_request() {
    let per_user = RuleSpec::new(USER, log(2)).dedupe(Duration::from_secs(60));
    let (gate, plans) = gate_of(per_user, 50);
    plans.set("ada", log(10));
    let once = || {
        ask_all(&[("ada", 1)], None, |request| {
            let request = request.with_id("order-1").unwrap();
            let answer = gate.check(&request);
            (answer.is_repeated(), answer.matched()[0].decision().remaining)
        })
    };
    assert_eq!([once(), once()], [(false, 9), (true, 9)]);
    plans.set("ada", log(20));
    assert_eq!([once(), once()], [(false, 18), (true, 18)]);
}

#[test]
fn a_ban_counts_what_a_plan_refuses() {
    let clock = TestClock::at(TODAY_US);
    let (setup, plans) = setup(RuleSpec::new(USER, log(9)), 50);
    let hour = Duration::from_secs(3_600);
    let ban = Ban::with_clock(2, hour, hour, clock.clone()).unwrap();
    let gate = Gate::with_clock(setup.ban("default", USER, ban).unwrap(), clock);
    plans.set("ada", log(1));
    let asked = [(); 4].map(|()| ask_all(&[("ada", 1)], None, |request| gate.admits(request)));
    assert_eq!(asked, [true, false, false, false]);
    plans.set("ada", log(100));
    let refused = ask_all(&[("ada", 1)], None, |request| gate.check(request).retry_after());
    assert_eq!(refused, Some(hour), "a larger plan lifts no ban");
}

#[test]
fn a_key_without_space_shares_under_the_rules_own_values_or_is_refused() {
    for (on_full, admitted) in [(OnFull::Share, 3), (OnFull::Refuse, 0)] {
        let per_user = RuleSpec::new(USER, log(3)).max_keys(1, on_full).limit_from_request();
        let (gate, plans) = gate_of(per_user, 1_000);
        assert!(ask_all(&[("ada", 1)], None, |request| gate.admits(request)));
        plans.set("bob", log(100));
        let (mut went_on, mut marked) = (0, 0);
        for number in 0..8 {
            let user = ["bob", "eve"][number % 2];
            ask_all(&[(user, 1)], None, |request| {
                let answer = gate.check(request);
                went_on += u64::from(answer.is_allowed());
                marked += u64::from(answer.is_overflow());
            });
        }
        assert_eq!((went_on, marked, gate.counts().keys), (admitted, 8, 2), "{on_full:?}");
        assert_eq!(left(&gate, "ada"), [2, 1_000 - 1 - admitted]);
    }
}

#[test]
fn all_rules_together_keep_no_more_than_the_common_cap() {
    let rules = vec![
        RuleSpec::new(USER, log(5)).key(["user"]).limit_from_request(),
        RuleSpec::new("again", log(5)).key(["user"]),
    ];
    let policy = policy(rules).with_max_keys(3.try_into().unwrap());
    let gate = Gate::with_clock(policy, TestClock::at(TODAY_US));
    for user in ["a", "b", "c", "d"] {
        assert!(ask_all(&[(user, 1)], None, |request| gate.check(request).matched().len() == 2));
        assert!(gate.counts().keys <= 3, "{user}");
    }
    assert_eq!(gate.counts().keys, 3);
}

#[test]
fn a_rule_that_there_is_not_has_no_plans() {
    let rules =
        || vec![RuleSpec::new("all", log(1)), RuleSpec::new("per-ip", log(1)).in_domain("web")];
    let message = |domain, rule| {
        let setup = Setup::<TestClock>::new(Policy::new(rules()).unwrap());
        setup.plans(domain, rule, |_| None).unwrap_err().to_string()
    };
    let such_as = "expected the domain and the name of a rule of the policy, such as";
    assert_eq!(
        message("web", "all"),
        format!("no rule \"all\" in domain \"web\": {such_as} (\"web\", \"per-ip\")")
    );
    assert_eq!(
        message("other", "all"),
        format!(
            "no rule \"all\" in domain \"other\": {such_as} (\"default\", \"all\"), (\"web\", \"per-ip\")"
        )
    );
}

#[cfg(feature = "headers")]
#[test]
fn header_fields_report_the_values_that_decided() {
    let (gate, plans) = gate(2, 50);
    plans.set("ada", Spec::new(AlgorithmKind::TokenBucket, 30, Duration::from_secs(60)));
    let field = |own: Option<&RequestLimit>| {
        let fields =
            ask_all(&[("ada", 1)], own, |request| tidegate::headers::of(&gate.peek(request)));
        fields.into_iter().find(|(name, _)| *name == "RateLimit-Policy").unwrap().1
    };
    assert_eq!(field(None), r#""planned";q=30;w=60, "all";q=50;w=86400"#);
    let supplied = own(Spec::new(AlgorithmKind::FixedWindow, 7, Duration::from_secs(5)));
    assert_eq!(field(Some(&supplied)), r#""planned";q=7;w=5, "all";q=50;w=86400"#);
}

/// A caller who may choose between values asks under each of them in turn, for all available units: a window admits no
/// more than it would under the largest of them alone.
#[test]
fn a_caller_who_chooses_between_values_by_turns_is_admitted_no_more_than_the_largest_allow() {
    const MINUTE_US: u64 = 60_000_000;
    let values = |algorithm, limit| Spec::new(algorithm, limit, Duration::from_secs(60));
    for algorithm in AlgorithmKind::ALL.iter().filter(|one| !one.holds_permits()) {
        for seed in 0..20 {
            let (mut rng, mut got) = (Rng::new(seed), VecDeque::new());
            let clock = TestClock::at(TODAY_US);
            let per_user = RuleSpec::new(USER, values(*algorithm, 1_000)).limit_from_request();
            let (setup, plans) = setup(per_user, 1_000_000);
            let gate = Gate::with_clock(setup, clock.clone());
            let (mut chooses, mut total) = (rng.pick([0, 30, 80]), 0);
            for _ in 0..400 {
                clock.pass(rng.pick([0, 1, 1_000, 500_000, 3_000_000, 20_000_000, 61_000_000]));
                if rng.chance(20) {
                    plans.set("ada", values(*algorithm, rng.pick([1, 7, 60, 300, 1_000])));
                }
                if rng.chance(2) {
                    chooses = rng.pick([0, 30, 80]);
                }
                let supplied = rng
                    .chance(chooses)
                    .then(|| own(values(*algorithm, rng.pick([1, 60, 500, 1_000]))));
                let there = ask_all(&[("ada", 0)], supplied.as_ref(), |request| {
                    gate.peek(request).matched()[0].decision().remaining
                });
                let cost = if rng.chance(30) { 1 } else { there.max(1) };
                if ask_all(&[("ada", cost)], supplied.as_ref(), |request| gate.admits(request)) {
                    got.push_back((clock.now_us(), cost));
                    total += cost;
                }
                while got.front().is_some_and(|(at, _)| at + MINUTE_US <= clock.now_us()) {
                    got.pop_front();
                }
                let inside: u64 = got.iter().map(|(_, cost)| cost).sum();
                assert!(inside <= 2_001, "{algorithm} {seed}: {inside} in a minute");
                let passed = (clock.now_us() - TODAY_US).div_ceil(MINUTE_US);
                let most = 1_001 + 1_000 * (passed + 1);
                assert!(total <= most, "{algorithm} {seed}: {total} in {passed} minutes");
            }
        }
    }
}
