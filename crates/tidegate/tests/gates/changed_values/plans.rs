//! Plans and request-supplied values at a gate: all or nothing, exact under threads, in bounded memory.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

use super::{DAY, left, log, per_day, policy};
use crate::packed::{TODAY_US, TestClock, long, together};
use std::time::Duration;
use tidegate::{
    AlgorithmKind, Ban, Descriptor, Gate, Limit, Micros, Mode, OnFull, Policy, Request,
    RequestLimit, Rule, RuleSpec, Setup, Spec,
};

const USER: &str = "per-user";

fn own(spec: Spec) -> RequestLimit {
    RequestLimit::new(Rule::new(spec).unwrap())
}

/// Plans that a test changes.
#[derive(Clone, Default)]
struct Plans(Arc<Mutex<HashMap<String, Arc<Rule>>>>);

impl Plans {
    fn set(&self, user: &str, spec: Spec) {
        let rule = Arc::new(Rule::new(spec).unwrap());
        self.0.lock().unwrap().insert(user.to_owned(), rule);
    }

    fn looked_up(&self) -> impl Fn(&Descriptor<'_>) -> Option<Arc<Rule>> + Send + Sync + 'static {
        let plans = self.clone();
        move |descriptor| plans.0.lock().unwrap().get(descriptor.value("user")?).cloned()
    }
}

/// A gate with a rule for each user, with plans, and a rule for all of `all` units a day.
fn gate_of(per_user: RuleSpec, all: u64) -> (Gate<TestClock>, Plans) {
    gate_by(TestClock::at(TODAY_US), per_user, all)
}

fn gate_by(clock: TestClock, per_user: RuleSpec, all: u64) -> (Gate<TestClock>, Plans) {
    let (setup, plans) = setup(per_user, all);
    (Gate::with_clock(setup, clock), plans)
}

fn setup(per_user: RuleSpec, all: u64) -> (Setup<TestClock>, Plans) {
    let plans = Plans::default();
    let rules = vec![per_user.key(["user"]), RuleSpec::new("all", log(all))];
    let setup = Setup::new(policy(rules));
    (setup.plans("default", USER, plans.looked_up()).unwrap(), plans)
}

fn gate(per_user: u64, all: u64) -> (Gate<TestClock>, Plans) {
    gate_of(RuleSpec::new(USER, log(per_user)).limit_from_request(), all)
}

/// The `limit` of the tightest limiter of a request.
fn least_limit(gate: &Gate<TestClock>, request: &Request<'_>) -> u64 {
    let answer = gate.peek(request);
    answer.matched().iter().map(|one| one.decision().limit).min().unwrap()
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
fn a_plan_is_one_of_the_rules_of_a_request_all_or_nothing() {
    let (gate, plans) = gate(2, 50);
    plans.set("ada", log(40));
    assert!(ask_all(&[("ada", 30)], None, |request| gate.admits(request)));
    assert_eq!((left(&gate, "ada"), left(&gate, "bob")), (vec![10, 20], vec![2, 20]));
    assert!(!ask_all(&[("ada", 1), ("bob", 3)], None, |request| gate.admits(request)), "bob has 2");
    assert!(!ask_all(&[("ada", 11)], None, |request| gate.admits(request)), "ada has 10");
    assert_eq!(left(&gate, "ada"), [10, 20], "no limiter was charged");
    plans.set("ada", log(100));
    assert!(!ask_all(&[("ada", 21)], None, |request| gate.admits(request)), "all have 20");
    assert_eq!(left(&gate, "ada"), [70, 20]);
    plans.set("ada", Spec::unlimited(AlgorithmKind::SlidingLog));
    assert_eq!(left(&gate, "ada"), [20], "the rule does not match");
    plans.set("ada", log(30));
    assert_eq!(left(&gate, "ada"), [0, 20], "usage carries over");
    assert_eq!(ask_all(&[("ada", 1)], None, |request| least_limit(&gate, request)), 30);
    assert_eq!(ask_all(&[("ada", 1)], None, |request| gate.peek(request).remaining()), Some(0));
}

#[test]
fn supplied_values_go_before_the_plan_and_only_if_the_rule_lets_them() {
    let (gate, plans) = gate(2, 1_000);
    plans.set("ada", log(10));
    let (seven, answer) = (own(log(7)), |request: &Request<'_>| least_limit(&gate, request));
    let limits = [None, Some(&seven)].map(|own| ask_all(&[("ada", 1)], own, answer));
    assert_eq!(limits, [10, 7], "and the rule for all has its own");
    let closed = gate_of(RuleSpec::new(USER, log(2)), 1_000).0;
    assert_eq!(ask_all(&[("ada", 1)], Some(&seven), |request| least_limit(&closed, request)), 2);
}

/// Two descriptors of one request have the same limiter: their costs are summed under the first values.
#[test]
fn of_two_descriptors_with_one_limiter_the_first_that_supplies_values_decides() {
    let (gate, _) = gate(2, 1_000);
    let (nine, five) = (own(log(9)), own(log(5)));
    let entries = [("user", "ada")];
    let plain = Descriptor::new(&entries).cost(3);
    let asked = [plain, plain.limit(&nine), plain.limit(&five)];
    let answer = gate.check(&Request::new("default", &asked));
    let per_user = &answer.matched()[0];
    assert_eq!((per_user.cost(), per_user.decision().limit), (9, 9));
    assert_eq!(per_user.values().spec().limit, Limit::Units(9));
    assert!(answer.is_allowed());
}

/// Without the rule for all, the request would be admitted, and its values would take effect.
#[test]
fn a_refused_request_does_not_put_its_supplied_values_in_force() {
    let short = Spec::new(AlgorithmKind::SlidingLog, 10, Duration::from_secs(1));
    let clock = TestClock::at(TODAY_US);
    let per_user = RuleSpec::new(USER, log(10)).limit_from_request();
    let (gate, _) = gate_by(clock.clone(), per_user, 15);
    assert!(ask_all(&[("ada", 8)], None, |request| gate.admits(request)));
    let supplied = own(short);
    let refused = ask_all(&[("ada", 2), ("bob", 10)], Some(&supplied), |request| {
        let answer = gate.check(request);
        answer.matched().iter().map(|m| m.decision().is_allowed()).collect::<Vec<_>>()
    });
    assert_eq!(refused, [true, true, false]);
    // Under the short window, nothing would be used any more a second later.
    clock.pass(2_000_000);
    assert_eq!(left(&gate, "ada"), [2, 7]);
    let denied =
        ask_all(&[("ada", 5)], Some(&supplied), |request| gate.check(request).retry_after());
    assert_eq!(denied, Some(Duration::from_micros(Micros::from(DAY).as_micros() - 2_000_000)));
    assert_eq!(left(&gate, "ada"), [2, 7]);
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

/// Eight threads ask for two users in either order, under a plan, request-supplied values, and the rule's own values.
/// The rule for all is used up to the unit, and users are charged for what was admitted.
#[test]
fn eight_threads_on_requests_of_three_rules_admit_the_limit_and_not_one_unit_more() {
    for algorithm in AlgorithmKind::ALL.iter().copied() {
        for round in 0..if long() { 40 } else { 3 } {
            let per_user = RuleSpec::new(USER, per_day(algorithm, 500)).limit_from_request();
            let (gate, plans) = gate_of(per_user, 301);
            plans.set("ada", per_day(algorithm, 600));
            let admitted = AtomicU64::new(0);
            together(8, |thread, rng| {
                let supplied = own(per_day(algorithm, 700 + thread));
                let mut refused = 0;
                while refused < 10 {
                    let mut users = [("ada", 1), ("bob", 1)];
                    if rng.chance(50) {
                        users.reverse();
                    }
                    let supplied = Some(&supplied).filter(|_| rng.chance(30));
                    let goes_on = ask_all(&users, supplied, |request| gate.admits(request));
                    admitted.fetch_add(u64::from(goes_on), SeqCst);
                    refused += u64::from(!goes_on);
                    ask_all(&[("bob", 1)], None, |request| drop(gate.peek(request)));
                }
            });
            let admitted = admitted.into_inner();
            assert_eq!(admitted, 150, "{algorithm}, round {round}: two units each");
            let largest = own(per_day(algorithm, 1_000));
            let left = ask_all(&[("ada", 0), ("bob", 0)], Some(&largest), |request| {
                let answer = gate.peek(request);
                answer.matched().iter().map(|m| m.decision().remaining).collect::<Vec<_>>()
            });
            assert_eq!(left, [850, 850, 1], "{algorithm}, round {round}");
        }
    }
}

#[test]
fn a_charge_is_given_back_where_it_was_taken_though_the_plan_has_changed() {
    let (gate, plans) = gate(0, 50);
    plans.set("ada", log(10));
    let entries = [("user", "ada")];
    let asked = [4, 5].map(|cost| [Descriptor::new(&entries).cost(cost)]);
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
fn a_rule_in_shadow_mode_has_plans_and_refuses_nobody() {
    let (gate, plans) = gate_of(RuleSpec::new(USER, log(2)).mode(Mode::Shadow), 50);
    plans.set("ada", log(1));
    let answers = [(); 3].map(|()| {
        ask_all(&[("ada", 1)], None, |request| {
            let answer = gate.check(request);
            (answer.is_allowed(), answer.matched()[0].decision().is_allowed())
        })
    });
    assert_eq!(answers, [(true, true), (true, false), (true, false)]);
}

/// Keys without room share one limiter under the rule's own values, or are refused.
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
    assert_eq!(field(None), r#""per-user";q=30;w=60, "all";q=50;w=86400"#);
    let supplied = own(Spec::new(AlgorithmKind::FixedWindow, 7, Duration::from_secs(5)));
    assert_eq!(field(Some(&supplied)), r#""per-user";q=7;w=5, "all";q=50;w=86400"#);
}
