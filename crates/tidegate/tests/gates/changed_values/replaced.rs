//! Policies of a gate in memory that are replaced while it is in use: caps, memory, removed rules, and what belongs
//! to a rule by its name. Behaviours of every gate are in `tests/conformance/replaced.rs`.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

use super::{DAY, Still, admits, ask, log, per_day, policy, still};
use crate::packed::{TODAY_US, TestClock, long, together};
use std::time::Duration;
use tidegate::{
    AlgorithmKind, Answer, Ban, Descriptor, Gate, Micros, OnFull, Request, Rule, RuleSpec,
    RuleStatistics, Setup, Spec,
};

/// A rule with a limiter for each user.
fn each(name: &str, limit: u64) -> RuleSpec {
    RuleSpec::new(name, log(limit)).key(["user"])
}

fn replace(gate: &Still, rules: impl IntoIterator<Item = RuleSpec>) {
    gate.replace(policy(rules)).unwrap();
}

/// The units left by each rule that limits the user, with the rule's name.
fn left(gate: &Still, user: &str) -> Vec<(String, u64)> {
    let of = |answer: Answer<'_>| {
        let matched = answer.matched().into_iter();
        matched.map(|one| (one.rule().name().to_owned(), one.decision().remaining)).collect()
    };
    ask(user, 1, |request| of(gate.peek(request)))
}

fn known(left: &[(&str, u64)]) -> Vec<(String, u64)> {
    left.iter().map(|(name, left)| ((*name).to_owned(), *left)).collect()
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
fn a_rule_with_another_key_begins_as_new() {
    let gate = still([each("a", 10)]);
    assert!(admits(&gate, "ada", 6));
    let by_host = RuleSpec::new("a", log(10)).key(["host"]);
    replace(&gate, [by_host]);
    assert_eq!((left(&gate, "ada"), gate.counts().keys), (vec![], 0));
    replace(&gate, [each("a", 10)]);
    assert_eq!(left(&gate, "ada"), known(&[("a", 10)]));
}

#[test]
fn a_rule_with_limits_per_key_that_gets_another_key_leaves_no_limiter_counted() {
    let gate = still([each("a", 10).limit_from_request()]);
    assert!(["ada", "bob", "eve"].iter().all(|user| admits(&gate, user, 1)));
    assert_eq!(gate.counts().keys, 3);
    replace(&gate, [RuleSpec::new("a", log(10)).key(["host"]).limit_from_request()]);
    assert_eq!(gate.counts().keys, 0);
}

#[test]
fn what_a_rule_with_another_key_has_taken_is_not_given_back_to_others() {
    let by = |key: &str| RuleSpec::new("a", log(100)).key([key]);
    let gate = still([by("user")]);
    let entries = [("user", "ada"), ("host", "ada")];
    let of = |cost| [Descriptor::new(&entries).cost(cost)];
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
    assert_eq!((0..3).filter(|user| left(&gate, &user.to_string())[0].1 == 8).count(), 3);
    replace(&gate, [capped(10, OnFull::Share)]);
    assert_eq!(comes(&gate, 9_000, 9_100), 10, "they share one limiter");
    assert_eq!(comes(&gate, 0, 5_000), 5_000, "no key lost its limiter");
    let capped_all = policy([capped(9_000, OnFull::Refuse)]);
    let most = NonZeroUsize::new(5_002).unwrap();
    gate.replace(capped_all.with_max_keys(most)).unwrap();
    assert_eq!((comes(&gate, 20_000, 20_100), gate.counts().keys), (2, 5_002));
}

#[test]
fn a_policy_whose_limiters_would_not_fit_in_memory_changes_nothing() {
    let gate = still([each("a", 10), each("b", 10)]);
    (0..500_u64).for_each(|user| assert!(admits(&gate, &user.to_string(), 1 + user % 10)));
    let mut large = Spec::new(AlgorithmKind::SlidingWindow, 10, DAY);
    (large.buckets, large.max_memory) = (Some(1_000), Some(1_000_000));
    let next = policy([each("b", 99), RuleSpec::new("a", large).key(["user"])]);
    let message = gate.replace(next).unwrap_err().to_string();
    assert!(message.starts_with("rule 2 (`a`)") && message.contains("500 limiters"), "{message}");
    assert_eq!(gate.counts().keys, 1_000);
    assert!((0..500).all(|user| {
        let free = 9 - user % 10;
        left(&gate, &user.to_string()) == known(&[("a", free), ("b", free)])
    }));
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
        assert!((0..1_000).all(|user| left(&gate, &user.to_string())[0].1 == limit));
        let message = gate.replace(policy([rule(limit, 1_000 * bytes_each - 1)])).unwrap_err();
        assert!(message.to_string().contains("1000 limiters"), "{message}");
        assert_eq!(left(&gate, "7")[0].1, limit);
    }
}

/// Plans, bans, ids and statistics belong to a rule by its name.
#[test]
fn what_belongs_to_a_rule_goes_on_wherever_it_stands() {
    let clock = TestClock::at(TODAY_US);
    let rules = || [each("banned", 2), each("planned", 5), each("once", 100).dedupe(DAY)];
    let loaded = policy(rules());
    let statistics = Arc::new(RuleStatistics::with_clock(clock.clone()));
    let plan = Arc::new(Rule::new(log(50)).unwrap());
    let plans =
        move |one: &Descriptor<'_>| (one.value("user") == Some("ada")).then(|| Arc::clone(&plan));
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
    assert_eq!(left(&gate, "ada"), known(&[("once", 99), ("planned", 49), ("banned", 1)]));
    assert!(once("ada"), "the same limiters under the same values");
    replace(&gate, [last, banned]);
    assert!(!once("ada"), "it meets others");
    let of_all = statistics.of(gate.policy().rules());
    let passed: Vec<_> = of_all.iter().map(|of_rule| of_rule.minute().pass).collect();
    assert_eq!(passed, [5, 4], "of `once` and `banned`");
}

const USERS: [&str; 4] = ["ada", "bob", "eve", "joe"];

/// One policy after another, each with higher limits, while threads take one unit at a time until the last policy
/// refuses: each user is admitted exactly the last limit. A rule that comes and goes next to it, and would admit
/// everything, changes nothing.
fn rising(algorithms: &[AlgorithmKind]) {
    const STEPS: u64 = 40;
    let rule =
        |name: &str, algorithm, limit| RuleSpec::new(name, per_day(algorithm, limit)).key(["user"]);
    let rules = |step: u64| {
        let algorithm = algorithms[step as usize % algorithms.len()];
        let open = rule("open", AlgorithmKind::FixedWindow, 1_000_000);
        let grows = rule("grows", algorithm, 10 * step);
        match step % 3 {
            0 => vec![grows, open],
            1 => vec![grows],
            _ => vec![open, grows],
        }
    };
    let gate = Gate::new(policy(rules(1)));
    let (taken, is_last) = ([(); 4].map(|()| AtomicU64::new(0)), AtomicBool::new(false));
    let step = AtomicU64::new(1);
    together(5, |thread, rng| {
        if thread == 4 {
            for next in 2..=STEPS {
                // All of what the previous policy promises can be taken while it lasts, or half of it.
                let promised = 4 * 10 * (next - 1) / (1 + next % 2);
                while taken.iter().map(|one| one.load(SeqCst)).sum::<u64>() < promised {
                    std::thread::yield_now();
                }
                step.store(next, SeqCst);
                gate.replace(policy(rules(next))).unwrap();
            }
            is_last.store(true, SeqCst);
            return;
        }
        loop {
            let was_last = is_last.load(SeqCst);
            let user = rng.below(4) as usize;
            let admitted = admits(&gate, USERS[user], 1);
            let taken = taken[user].fetch_add(u64::from(admitted), SeqCst) + u64::from(admitted);
            // A policy that is about to take effect may decide already, but no later one.
            assert!(taken <= 10 * step.load(SeqCst), "{taken} at once");
            if was_last
                && USERS
                    .iter()
                    .all(|user| ask(user, 1, |one| gate.peek(one).remaining()) == Some(0))
            {
                return;
            }
        }
    });
    assert_eq!(taken.map(AtomicU64::into_inner), [10 * STEPS; 4], "{algorithms:?}");
}

#[test]
fn limits_that_rise_while_threads_take_admit_just_what_they_promise() {
    for _ in 0..if long() { 10 } else { 1 } {
        for algorithm in AlgorithmKind::ALL.iter().copied() {
            rising(&[algorithm]);
        }
        rising(AlgorithmKind::ALL);
    }
}
