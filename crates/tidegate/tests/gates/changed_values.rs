//! Changes of a rule's values at gates in memory: caps, memory, and what belongs to a rule by its name. Walks, threads, and
//! behaviours of every gate are in `tests/conformance`.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use tidegate::{
    AlgorithmKind, AmendError, Ban, Clock, Descriptor, Gate, Limit, Micros, OnFull, OverrideSpec,
    Policy, Request, Rule, RuleSpec, RuleStatistics, Setup, Spec,
};

use crate::asks::{DAY, admits, ask, left, policy};
use crate::packed::{TODAY_US, TestClock};

/// A gate by a still clock, under which nothing flows back.
type Still = Gate<TestClock>;

/// Values that admit `limit` units immediately.
pub(crate) fn per_day(algorithm: AlgorithmKind, limit: u64) -> Spec {
    let mut spec = Spec::new(algorithm, limit, DAY);
    spec.capacity = (algorithm == AlgorithmKind::LeakyQueue && limit > 0).then(|| limit - 1);
    spec
}

pub(crate) fn log(limit: u64) -> Spec {
    per_day(AlgorithmKind::SlidingLog, limit)
}

fn still(rules: impl IntoIterator<Item = RuleSpec>) -> Still {
    Gate::with_clock(policy(rules), TestClock::at(TODAY_US))
}

fn amend<C: Clock>(gate: &Gate<C>, rule: &str, spec: Spec) {
    gate.amend("default", rule, spec).unwrap();
}

/// A rule with a limiter for each user.
fn each(name: &str, limit: u64) -> RuleSpec {
    RuleSpec::new(name, log(limit)).key(["user"])
}

fn replace(gate: &Still, rules: impl IntoIterator<Item = RuleSpec>) {
    gate.replace(policy(rules)).unwrap();
}

#[test]
fn an_invalid_change_is_reported_with_its_place_and_changes_nothing() {
    let mut vip = OverrideSpec::new("user", "vip");
    vip.window = Some(Duration::from_secs(1));
    let first = RuleSpec::new("first", per_day(AlgorithmKind::SlidingLog, 10));
    let rule = RuleSpec::new("each", per_day(AlgorithmKind::SlidingWindow, 10)).key(["user"]);
    let gate = still([first, rule.with_override(vip)]);
    assert!(admits(&gate, "ada", 4));
    let mut wrong = per_day(AlgorithmKind::SlidingWindow, 10);
    wrong.buckets = Some(999);
    let message = gate.amend("default", "each", wrong).unwrap_err().to_string();
    assert!(message.starts_with("rule 2 (`each`)") && message.contains("override 1"), "{message}");
    let mut initial = per_day(AlgorithmKind::TokenBucket, 10);
    initial.initial = Some(0);
    assert!(gate.amend("default", "each", initial).unwrap_err().to_string().contains("`initial`"));
    let message = gate.amend("default", "eech", initial).unwrap_err();
    assert!(matches!(message, AmendError::NoSuchRule(_)), "{message}");
    assert_eq!(left(&gate, "ada"), [6, 6]);
}

/// States that grow by the change must fit into the memory that the new values allow, together with the states of all
/// overrides; otherwise nothing changes.
#[test]
fn a_change_that_would_not_fit_in_memory_is_refused_and_loses_nothing() {
    let mut vip = OverrideSpec::new("kind", "vip");
    vip.limit = Some(Limit::Units(20));
    let rule = RuleSpec::new("each", per_day(AlgorithmKind::TokenBucket, 10)).key(["kind", "user"]);
    let gate = still([rule.with_override(vip)]);
    let used = |kind: &str, user: u64, cost: u64| {
        let user = user.to_string();
        let answer =
            gate.check(Descriptor::new(&[("kind", kind), ("user", user.as_str())]).cost(cost));
        assert!(answer.is_allowed());
        let one = answer.matched()[0].decision();
        one.limit - one.remaining
    };
    for user in 0..500 {
        assert_eq!(used("vip", user, 1 + user % 10), 1 + user % 10);
        assert_eq!(used("any", user, 1 + user % 10), 1 + user % 10);
    }
    let mut large = per_day(AlgorithmKind::SlidingWindow, 10);
    (large.buckets, large.max_memory) = (Some(1_000), Some(3_000_000));
    for _ in 0..2 {
        let message = gate.amend("default", "each", large).unwrap_err().to_string();
        assert!(message.contains("max_memory") && message.contains("1000 limiters"), "{message}");
        assert_eq!(gate.counts().keys, 1_000);
        assert!((0..500).all(|user| used("vip", user, 0) == 1 + user % 10));
        assert!((0..500).all(|user| used("any", user, 0) == 1 + user % 10));
    }
    large.max_memory = Some(20_000_000);
    gate.amend("default", "each", large).unwrap();
    assert_eq!((gate.counts().keys, used("vip", 7, 0), used("any", 9, 0)), (1_000, 8, 10));
}

#[test]
fn a_common_cap_counts_the_limiters_of_changed_rules_once() {
    let rules = ["one", "two"].map(|name| {
        let spec = per_day(AlgorithmKind::FixedWindow, 10);
        RuleSpec::new(name, spec).key([name]).max_keys(60, OnFull::Refuse)
    });
    let most = NonZeroUsize::new(100).unwrap();
    let policy = Policy::new(rules.into()).unwrap().with_max_keys(most);
    let gate = Gate::with_clock(policy, TestClock::at(TODAY_US));
    let comes = |rule: &str, key: u64| {
        let key = key.to_string();
        let entries = [(rule, key.as_str())];
        gate.admits(&Request::new("default", &[Descriptor::new(&entries)]))
    };
    let how_many = |rule, keys: std::ops::Range<u64>| keys.filter(|key| comes(rule, *key)).count();
    assert_eq!((how_many("one", 0..80), gate.counts().keys), (60, 60));
    for algorithm in AlgorithmKind::ALL.iter().copied() {
        amend(&gate, "one", per_day(algorithm, 1_000));
        assert_eq!(gate.counts().keys, 60, "{algorithm}");
    }
    assert_eq!((how_many("two", 0..80), gate.counts().keys), (40, 100));
    assert_eq!(how_many("one", 100..200), 0, "no room, with any former tables");
    amend(&gate, "one", Spec::unlimited(AlgorithmKind::TokenBucket));
    assert_eq!((gate.counts().keys, how_many("two", 80..100)), (100, 0), "usage is known");
    amend(&gate, "one", per_day(AlgorithmKind::SlidingLog, 5));
    assert_eq!((how_many("one", 0..80), gate.counts().keys), (60, 100));
}

#[test]
fn the_limiter_shared_by_keys_without_space_is_carried_over() {
    for algorithm in AlgorithmKind::ALL.iter().copied() {
        let each = RuleSpec::new("each", per_day(algorithm, 10)).key(["user"]);
        for each in [each.clone(), each.limit_from_request()] {
            let all = RuleSpec::new("all", per_day(algorithm, 1_000));
            let gate = still([all, each.max_keys(1, OnFull::Share)]);
            assert!(admits(&gate, "own", 1) && admits(&gate, "beyond", 7));
            amend(&gate, "each", per_day(AlgorithmKind::FixedWindow, 10));
            assert_eq!((left(&gate, "another")[1], left(&gate, "own")[1]), (3, 9), "{algorithm}");
            assert!(!admits(&gate, "another", 4) && admits(&gate, "own", 4));
        }
    }
}

#[test]
fn a_ban_ends_where_its_rule_is_unlimited() {
    let clock = TestClock::at(TODAY_US);
    let spec = per_day(AlgorithmKind::FixedWindow, 1);
    let rules = vec![RuleSpec::new("each", spec).key(["user"])];
    let ban = Ban::with_clock(1, DAY, DAY, clock.clone()).unwrap();
    let setup = Setup::new(Policy::new(rules).unwrap()).ban("default", "each", ban).unwrap();
    let gate = Gate::with_clock(setup, clock);
    assert!(admits(&gate, "ada", 1) && !admits(&gate, "ada", 1));
    amend(&gate, "each", per_day(AlgorithmKind::FixedWindow, 10));
    assert!(!admits(&gate, "ada", 1), "banned still");
    amend(&gate, "each", Spec::unlimited(AlgorithmKind::FixedWindow));
    assert!(admits(&gate, "ada", 100));
}

/// The limiters of a removed rule count among the limiters of all rules, and are dropped once they are idle.
#[test]
fn a_removed_rule_is_forgotten_when_it_is_idle() {
    let clock = TestClock::at(TODAY_US);
    let gate = Gate::with_clock(policy([each("a", 10), each("b", 10)]), clock.clone());
    assert!(ask("ada", 1, |request| gate.admits(request)));
    gate.replace(policy([each("b", 10)])).unwrap();
    assert_eq!(gate.counts().keys, 2);
    clock.set(TODAY_US + Micros::from(DAY).as_micros());
    gate.replace(policy([each("b", 10)])).unwrap();
    assert_eq!(
        gate.counts().keys,
        1,
        "the limiter of the rule in force is dropped when it is found"
    );
}

#[test]
fn a_rule_with_another_key_begins_as_new_and_leaves_no_limiter_counted() {
    for each in [each("a", 10), each("a", 10).limit_from_request()] {
        let gate = still([each.clone()]);
        assert!(["ada", "bob", "eve"].iter().all(|user| admits(&gate, user, 6)));
        assert_eq!(gate.counts().keys, 3);
        replace(&gate, [each.clone().key(["host"])]);
        assert_eq!((left(&gate, "ada"), gate.counts().keys), (vec![], 0));
        replace(&gate, [each]);
        assert_eq!(left(&gate, "ada"), [10]);
    }
}

#[test]
fn what_a_rule_with_another_key_has_taken_is_not_given_back_to_others() {
    let by = |key: &str| RuleSpec::new("a", log(100)).key([key]);
    let gate = still([by("user")]);
    let of = |cost| [Descriptor::new(&[("user", "ada"), ("host", "ada")]).cost(cost)];
    let first = of(50);
    let first = Request::new("default", &first);
    let charge = gate.hold(&first).unwrap();
    replace(&gate, [by("host")]);
    assert!(gate.admits(&Request::new("default", &of(60))));
    charge.release();
    assert_eq!(gate.peek(&Request::new("default", &of(1))).remaining(), Some(40));
}

#[test]
fn a_request_asked_again_under_its_id_takes_nothing_also_when_its_rule_was_away_meanwhile() {
    let clock = TestClock::at(TODAY_US);
    let brief = Spec::new(AlgorithmKind::SlidingLog, 10, Duration::from_secs(1));
    let mut rule = RuleSpec::new("a", brief).key(["user"]);
    rule.dedupe = Some(Duration::from_secs(3_600));
    let gate = Gate::with_clock(policy([rule.clone()]), clock.clone());
    let again =
        || ask("ada", 1, |request| gate.check(&request.with_id("x").unwrap()).is_repeated());
    assert!(!again());
    clock.set(TODAY_US + 2_000_000);
    replace(&gate, [each("b", 10)]);
    replace(&gate, [rule]);
    assert!(again());
}

#[test]
fn a_smaller_max_memory_holds_although_one_limiter_could_once_be_larger() {
    let with = |limit, max_memory| {
        let mut spec = log(limit);
        spec.max_memory = Some(max_memory);
        RuleSpec::new("a", spec).key(["user"]).max_keys(1_000_000, OnFull::Refuse)
    };
    let gate = still([with(1_000_000, 1 << 30)]);
    replace(&gate, [with(10, 100_000)]);
    let admitted = (0..20_000).filter(|user| admits(&gate, &user.to_string(), 1)).count();
    assert!(admitted < 5_000, "{admitted} limiters in 100 kB");
}

#[test]
fn caps_that_change_count_the_limiters_there_are() {
    let capped = |most, on_full| each("a", 10).max_keys(most, on_full);
    let gate = still([capped(3, OnFull::Refuse)]);
    let comes = |gate: &Still, from: u64, to: u64| {
        (from..to).filter(|user| admits(gate, &user.to_string(), 1)).count()
    };
    assert_eq!(comes(&gate, 0, 10), 3);
    replace(&gate, [capped(5_000, OnFull::Refuse)]);
    assert_eq!((comes(&gate, 0, 9_000), gate.counts().keys), (5_000, 5_000));
    assert_eq!((0..3).filter(|user| left(&gate, &user.to_string())[0] == 8).count(), 3);
    replace(&gate, [capped(10, OnFull::Share)]);
    assert_eq!(comes(&gate, 9_000, 9_100), 10, "they share one limiter");
    assert_eq!(comes(&gate, 0, 5_000), 5_000, "no key lost its limiter");
    let capped_all = policy([capped(9_000, OnFull::Refuse)]);
    let most = NonZeroUsize::new(5_002).unwrap();
    gate.replace(capped_all.with_max_keys(most)).unwrap();
    assert_eq!((comes(&gate, 20_000, 20_100), gate.counts().keys), (2, 5_002));
}

/// Packed they take half of the bytes that they would take in shards.
#[test]
fn packed_limiters_stay_under_a_changed_rule_if_they_fit_in_memory_as_they_are_packed() {
    for (limit, bytes_each) in [(100, 48), (900_000_000, 96)] {
        let rule = |limit, max_memory| {
            let mut spec = Spec::new(AlgorithmKind::SlidingWindow, limit, DAY);
            spec.max_memory = Some(max_memory);
            RuleSpec::new("a", spec).key(["user"]).max_keys(1_000_000, OnFull::Refuse)
        };
        let gate = still([rule(limit, 1 << 20)]);
        assert!((0..1_000).all(|user| admits(&gate, &user.to_string(), 1)));
        replace(&gate, [rule(limit + 1, 1_000 * bytes_each)]);
        assert_eq!(gate.counts().keys, 1_000);
        assert!((0..1_000).all(|user| left(&gate, &user.to_string())[0] == limit));
        let message = gate.replace(policy([rule(limit, 1_000 * bytes_each - 1)])).unwrap_err();
        assert!(message.to_string().contains("1000 limiters"), "{message}");
        assert_eq!(left(&gate, "7")[0], limit);
    }
}

/// Plans, bans, ids and statistics belong to a rule by its name.
#[test]
fn what_belongs_to_a_rule_goes_on_wherever_it_stands() {
    let clock = TestClock::at(TODAY_US);
    let rules = || [each("banned", 2), each("planned", 5), each("once", 100).dedupe(DAY)];
    let loaded = policy(rules());
    let statistics = Arc::new(RuleStatistics::with_clock(clock.clone()));
    let plan = Rule::new(log(50)).unwrap();
    let plans =
        move |one: &Descriptor<'_>| (one.value("user") == Some("ada")).then(|| plan.clone());
    let ban = Ban::with_clock(1, DAY, DAY, clock.clone()).unwrap();
    let setup = Setup::new(loaded)
        .observer(statistics.clone())
        .plans("default", "planned", plans)
        .unwrap()
        .ban("default", "banned", ban)
        .unwrap();
    let gate = Gate::with_clock(setup, clock);
    let once = |user: &str| {
        ask(user, 1, |request| gate.check(&request.with_id("an id").unwrap()).is_repeated())
    };
    assert!(admits(&gate, "bob", 2) && !admits(&gate, "bob", 1));
    assert_eq!([once("ada"), once("ada")], [false, true]);
    let [banned, planned, last] = rules();
    replace(&gate, [last.clone(), planned]);
    assert!(admits(&gate, "bob", 1), "the rule that banned is gone");
    replace(&gate, rules().into_iter().rev());
    assert!(!admits(&gate, "bob", 1), "banned still");
    assert_eq!(left(&gate, "ada"), [99, 49, 1]);
    assert!(once("ada"), "the same limiters under the same values");
    replace(&gate, [last, banned]);
    assert!(!once("ada"), "it meets others");
    let of_all = statistics.of(gate.policy().rules());
    let passed: Vec<_> = of_all.iter().map(|of_rule| of_rule.minute().pass).collect();
    assert_eq!(passed, [5, 4], "of `once` and `banned`");
}
