//! Plans and request-supplied values at a gate: in bounded memory, with bans, ids and reservations. Walks are in
//! `tests/conformance/changed_values`.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use std::time::Duration;

use super::{admits, amend, ask, left, log, per_day, policy};
use crate::packed::{TODAY_US, TestClock};
use tidegate::{
    AlgorithmKind, Ban, Descriptor, Gate, OnFull, Policy, Request, RequestLimit, Rule, RuleSpec,
    Setup, Spec,
};

const USER: &str = "per-user";

fn own(spec: Spec) -> RequestLimit {
    RequestLimit::new(Rule::new(spec).unwrap())
}

/// Plans that a test changes.
#[derive(Clone, Default)]
struct Plans(Arc<Mutex<HashMap<String, Rule>>>);

impl Plans {
    fn set(&self, user: &str, spec: Spec) {
        let rule = Rule::new(spec).unwrap();
        self.0.lock().unwrap().insert(user.to_owned(), rule);
    }

    fn looked_up(&self) -> impl Fn(&Descriptor<'_>) -> Option<Rule> + Send + Sync + 'static {
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

#[test]
fn keys_without_space_share_a_limiter_under_what_the_rule_was_changed_to() {
    let each = RuleSpec::new(USER, log(10)).max_keys(1, OnFull::Share).limit_from_request();
    let (gate, _) = gate_of(each, 1_000);
    assert!(admits(&gate, "first", 1));
    assert!(admits(&gate, "one", 6));
    amend(&gate, USER, log(7));
    assert!(!admits(&gate, "other", 2), "6 of 7 are used");
    assert!(admits(&gate, "other", 1));
    amend(&gate, USER, log(9));
    let alone = ask("third", 3, |request| gate.check(request).is_allowed());
    assert!(!alone && admits(&gate, "third", 2));
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
