//! Every field that differs is named, and nothing else.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fmt::Debug;
use std::num::{NonZeroU32, NonZeroUsize};
use std::time::Duration;

use tidegate::{
    AlgorithmKind, Anchor, Layout, LeaseSpec, Limit, Mode, OnExcess, OnFull, OnNoRule,
    OnStoreError, OverrideSpec, Policy, RuleSpec, Secret, Spec, StoreSettings, Usage,
};

use super::{Change, PolicyDiff, fields};

const MINUTE: Duration = Duration::from_secs(60);

fn rule(name: &str, limit: u64) -> RuleSpec {
    RuleSpec::new(name, Spec::new(AlgorithmKind::TokenBucket, limit, MINUTE)).key(["user"])
}

fn vip(limit: u64) -> OverrideSpec {
    named("vip", limit)
}

fn named(user: &str, limit: u64) -> OverrideSpec {
    let mut one = OverrideSpec::new("user", user);
    one.limit = Some(Limit::Units(limit));
    one
}

fn diff(old: Vec<RuleSpec>, new: Vec<RuleSpec>) -> PolicyDiff {
    PolicyDiff::between(&Policy::new(old).unwrap(), &Policy::new(new).unwrap())
}

#[test]
fn a_name_with_line_ends_forges_no_line_of_a_difference() {
    let forged = "web\n- rule default/per-user\u{1b}[2J\u{202e}";
    let new = rule("per-user", 1).in_domain(forged).key(["user\nno difference"]);
    let text = diff(vec![], vec![new]).to_string();
    assert_eq!(text.lines().count(), 2, "{text}");
    let line = r"+ rule web\n- rule default/per-user\u{1b}[2J\u{202e}/per-user (each user\nno difference):";
    assert!(text.starts_with(line), "{text}");
}

#[test]
fn the_change_of_each_rule_is_a_line_that_says_for_whom() {
    let (old, new) = (rule("per-user", 100), rule("per-user", 50).with_override(vip(500)));
    let login = rule("login", 5).when("path", "/login").mode(Mode::Shadow).in_domain("web");
    let found = diff(vec![old.clone(), rule("gone", 1)], vec![new.clone(), login]);
    let expected = "\
~ rule default/per-user (each user): limit 100/1m -> 50/1m; lower: usage carries over; a caller waits at most 1m because of it
~ rule default/per-user (each user): override user=vip added: limit 500
+ rule web/login (each user, if path=/login): token_bucket 5/1m, mode shadow; starts fresh
- rule default/gone (each user): token_bucket 1/1m; decides nothing, and is kept until it is idle
rules: 1 added, 1 changed, 1 removed";
    assert_eq!(found.to_string(), expected);
    let counts = [Change::Added, Change::Changed, Change::Removed].map(|c| found.count(c));
    assert_eq!((counts, found.is_empty()), ([1, 1, 1], false));
    let back = diff(vec![new], vec![old]).to_string();
    assert!(back.contains("higher: the difference is added immediately"), "{back}");
    assert!(back.contains("override user=vip removed, which was limit 500"), "{back}");
}

#[test]
fn equal_policies_have_no_difference_and_another_order_is_one() {
    let both = || vec![rule("a", 1), rule("b", 2)];
    let same = diff(both(), both());
    assert!(same.is_empty() && same.to_string() == "no difference");
    let other = diff(both(), both().into_iter().rev().collect());
    assert!(other.reordered && other.rules.is_empty() && !other.is_empty());
    let two = |[a, b]: [u64; 2]| {
        let mut other = vip(a);
        other.entries = vec![("user".to_owned(), "ada".to_owned())];
        let these = if a < b { [vip(b), other] } else { [other, vip(b)] };
        these.into_iter().fold(rule("a", 1), RuleSpec::with_override)
    };
    let mut turned = two([1, 2]);
    turned.overrides.reverse();
    let found = diff(vec![two([1, 2])], vec![turned]);
    assert_eq!(found.rules[0].fields[0].field, "the order of");
}

/// A field with the change that a test makes to it.
type Changed = (&'static str, fn(&mut RuleSpec));

#[test]
fn each_field_of_a_rule_is_compared() {
    let changes: [Changed; 23] = [
        ("when", |rule| rule.when.push(("path".to_owned(), "/".to_owned()))),
        ("key", |rule| rule.key.push("path".to_owned())),
        ("match", |rule| rule.exact = true),
        ("mode", |rule| rule.mode = Mode::Off),
        ("limit", |rule| rule.spec.limit = Limit::Units(8)),
        ("limit", |rule| rule.spec.window = Some(Duration::from_secs(61))),
        ("capacity", |rule| rule.spec.capacity = Some(7)),
        ("max_debt", |rule| rule.spec.max_debt = Some(7)),
        ("algorithm", |rule| rule.spec.algorithm = AlgorithmKind::SlidingLog),
        ("max_keys", |rule| rule.max_keys = Some(3)),
        ("on_full", |rule| rule.on_full = OnFull::Refuse),
        ("on_excess", |rule| rule.on_excess = OnExcess::Wait { wait: MINUTE, max_waiters: 1 }),
        ("usage", |rule| rule.usage = Usage::Reported),
        ("on_store_error", |rule| rule.on_store_error = OnStoreError::Open),
        ("dedupe", |rule| rule.dedupe = Some(MINUTE)),
        ("max_life", |rule| rule.max_life = Some(MINUTE)),
        ("hash_tag", |rule| rule.hash_tag = Some("user".to_owned())),
        ("across_slots", |rule| rule.across_slots = true),
        ("lease", |rule| rule.lease = Some(LeaseSpec::default())),
        ("split", |rule| rule.split = true),
        ("limit_from_request", |rule| rule.limit_from_request = true),
        ("near", |rule| rule.near = "0.8".parse().ok()),
        ("hide_keys", |rule| rule.hide_keys = true),
    ];
    for (field, change) in changes {
        let mut other = rule("a", 9);
        change(&mut other);
        let found = diff(vec![rule("a", 9)], vec![other.clone()]);
        let fields: Vec<_> = found.rules[0].fields.iter().map(|one| one.field.as_str()).collect();
        assert_eq!(fields, [field], "{other:?}");
    }
    let of = |algorithm, change: fn(&mut Spec)| {
        let mut spec = Spec::new(algorithm, 9, MINUTE);
        let old = RuleSpec::new("a", spec);
        change(&mut spec);
        diff(vec![old], vec![RuleSpec::new("a", spec)]).rules[0].fields[0].field.clone()
    };
    let log = AlgorithmKind::SlidingLog;
    assert_eq!(of(AlgorithmKind::TokenBucket, |spec| spec.initial = Some(1)), "initial");
    assert_eq!(of(AlgorithmKind::SlidingWindow, |spec| spec.buckets = Some(3)), "buckets");
    assert_eq!(of(AlgorithmKind::SlidingWindow, |spec| spec.strict = Some(true)), "strict");
    let anchored = |spec: &mut Spec| spec.anchor = Some(Anchor::FirstRequest);
    assert_eq!(of(AlgorithmKind::FixedWindow, anchored), "anchor");
    assert_eq!(of(log, |spec| spec.resolution = Some(Duration::from_secs(1))), "resolution");
    assert_eq!(of(log, |spec| spec.layout = Some(Layout::SortedSet)), "layout");
    assert_eq!(of(log, |spec| spec.max_memory = Some(1 << 20)), "max_memory");
}

/// The fields of a struct, as `Debug` prints them.
fn fields_of(of: &impl Debug) -> Vec<String> {
    let text = format!("{of:#?}");
    let own = text.lines().filter_map(|line| line.strip_prefix("    ")?.split_once(':'));
    own.map(|(name, _)| name.to_owned()).filter(|name| !name.starts_with(' ')).collect()
}

#[test]
fn no_field_of_a_configuration_is_forgotten() {
    let store = StoreSettings::new("redis://127.0.0.1".parse().unwrap());
    let policy = Policy::new(vec![rule("a", 1)]).unwrap();
    let compared: Vec<_> =
        fields::fields(&rule("a", 1)).into_iter().map(|(name, _)| name).collect();
    let of_store = fields::STORE_FIELDS.map(|(name, _)| name);
    let of_policy = fields::POLICY_FIELDS.map(|(name, _)| name.trim_start_matches("[memory] "));
    // Fields that are compared by another name, make the identity of a rule, or are no setting.
    let of_rule = ["name", "domain", "exact", "spec", "unread", "overrides"];
    let other_names = ["rules", "by_domain", "store", "reset_field", "attached"];
    for (all, compared, others) in [
        (fields_of(&rule("a", 1)), &*compared, &of_rule[..]),
        (fields_of(&rule("a", 1).spec), &*compared, &["window"]),
        (fields_of(&vip(1)), &["entries", "limit", "window", "capacity"], &[]),
        (fields_of(&store), &of_store, &["direct"]),
        (fields_of(&policy), &of_policy, &other_names),
    ] {
        assert!(all.len() > 3, "{all:?}");
        let known = |name: &&String| [compared, others].concat().contains(&name.as_str());
        assert_eq!(all.iter().find(|name| !known(name)), None, "is not compared");
    }
}

#[test]
fn settings_beside_the_rules_are_named_and_no_password_is_shown() {
    let policy = || Policy::new(vec![rule("a", 1)]).unwrap();
    let over = |url: &str| policy().with_store(StoreSettings::new(url.parse().unwrap()));
    let old = over("redis://:sesame@127.0.0.1").with_revision(NonZeroU32::MIN);
    let new = over("redis://:other@127.0.0.1").with_max_keys(NonZeroUsize::MIN);
    let section = |port: &str| vec![("http".to_owned(), port.to_owned())];
    let mut values = [section("1"), section("2")];
    values[1].push(("log_level".to_owned(), "warn".to_owned()));
    let found =
        PolicyDiff::between(&old, &new)
            .with_section("server", [&values[0], &values[1]], |name| name != "log_level");
    assert_eq!(found.needing_restart(), ["[store] url", "[server] http"]);
    let text = found.to_string();
    assert!(!text.contains("sesame") && !text.contains("other"), "{text}");
    for line in [
        "~ revision: removed, which was 1\n",
        "~ [memory] max_keys: added: 1\n",
        "~ [server] http: 1 -> 2; needs a restart\n",
        "~ [server] log_level: added: warn\n",
    ] {
        assert!(text.contains(line), "{text}");
    }
    let refusing = policy().with_on_no_rule_in("pay", OnNoRule::Refuse);
    let text =
        PolicyDiff::between(&policy(), &refusing.with_on_no_rule(OnNoRule::Refuse)).to_string();
    assert!(text.starts_with("~ on_no_rule: added: pay refuse, * refuse\n"), "{text}");
    let store = PolicyDiff::between(&policy(), &over("redis://127.0.0.1"));
    let names: Vec<_> = store.settings.iter().map(|setting| setting.name.as_str()).collect();
    assert_eq!(names, ["[store] url"], "defaults are no change");
    let gone = PolicyDiff::between(&old, &policy());
    assert!(gone.needing_restart().contains(&"[store] url"), "{gone}");
}

#[test]
fn the_place_of_a_password_is_named_as_an_operator_reads_it() {
    let over = |password: Secret| {
        let mut store = StoreSettings::new("redis://127.0.0.1".parse().unwrap());
        store.password = Some(password.clone());
        store.sentinel_password = Some(password);
        Policy::new(vec![rule("a", 1)]).unwrap().with_store(store)
    };
    let old = over(Secret::Env("REDIS_PASSWORD".to_owned()));
    let text = PolicyDiff::between(&old, &over(Secret::File("/etc/shadow".into()))).to_string();
    for name in ["password", "sentinel_password"] {
        let line = format!(
            "~ [store] {name}: the environment variable REDIS_PASSWORD -> the file /etc/shadow; \
             needs a restart\n"
        );
        assert!(text.contains(&line), "{text}");
    }
    let given = over(Secret::Text("sesame".to_owned()));
    let text = PolicyDiff::between(&old, &given).to_string();
    assert!(text.contains("-> a text that is not shown;") && !text.contains("sesame"), "{text}");
}

/// A rule for whom many words are needed, with many overrides: each line of the difference says for whom it is.
#[test]
fn a_difference_of_large_configurations_is_bounded_and_counts_what_it_leaves_out() {
    const OVERRIDES: usize = 6_000;
    let large = |limit: u64| {
        let for_whom = rule("a", 9).when("path", "x".repeat(300_000)).in_domain("y".repeat(1_000));
        let one = |number: usize| {
            let mut other = vip(limit);
            other.entries = vec![("user".to_owned(), format!("{number}"))];
            other
        };
        (0..OVERRIDES).map(one).fold(for_whom, RuleSpec::with_override)
    };
    let found = diff(vec![large(1)], vec![large(2)]);
    let text = found.to_string();
    assert!(text.len() < 4 << 20, "{}", text.len());
    assert_eq!(found.rules[0].fields.len() + found.left_out, OVERRIDES);
    assert!(found.rules[0].fields.len() > 1_000);
    let left_out = format!("and {} more changes, which are not shown\n", found.left_out);
    assert!(text.contains(&left_out) && text.ends_with("0 added, 1 changed, 0 removed"));
    let many = |limit: u64| (0..20_000).map(|number| rule(&format!("r{number}"), limit)).collect();
    let found = diff(many(2), many(1));
    assert_eq!(found.count(Change::Changed), 20_000);
    assert!(found.rules.len() > 10_000 && found.rules.len() + found.left_out == 20_000);
    let none = found.without_rules();
    assert_eq!((none.left_out, none.is_empty(), none.rules.len()), (20_000, false, 0));
}

#[test]
fn the_longest_wait_that_a_change_causes_is_named_where_it_causes_one() {
    let wait = |change: fn(&mut RuleSpec)| {
        let old = rule("a", 9).with_override(vip(5));
        let mut new = old.clone();
        change(&mut new);
        let found = diff(vec![old], vec![new]);
        let waits: Vec<_> =
            found.rules[0].fields.iter().filter_map(|it| it.longest_wait_us).collect();
        assert_eq!(found.to_string().matches("a caller waits at most").count(), waits.len());
        waits
    };
    let minute = MINUTE.as_micros() as u64;
    assert_eq!(wait(|rule| rule.spec.limit = Limit::Units(8)), [minute]);
    assert_eq!(wait(|rule| rule.spec.window = Some(2 * MINUTE)), [2 * minute]);
    assert_eq!(wait(|rule| rule.spec.capacity = Some(7)), [minute]);
    assert_eq!(wait(|rule| rule.spec.algorithm = AlgorithmKind::SlidingLog), [minute]);
    // A unit of a counter weighs in the window after its own as well.
    let counter = wait(|rule| rule.spec.algorithm = AlgorithmKind::SlidingCounter);
    assert_eq!(counter, [minute + minute / 9 + 1]);
    assert_eq!(wait(|rule| rule.overrides[0].limit = Some(Limit::Units(4))), [minute]);
    assert_eq!(wait(|rule| rule.overrides[0].window = Some(3 * MINUTE)), [3 * minute]);
    assert!(wait(|rule| rule.overrides[0].limit = Some(Limit::Units(400))).is_empty());
    assert_eq!(wait(|rule| rule.overrides.push(named("bob", 8))), [minute]);
    assert!(wait(|rule| rule.overrides.push(named("bob", 10))).is_empty());
    let changes: [fn(&mut RuleSpec); 6] = [
        |rule| rule.spec.limit = Limit::Units(10),
        |rule| rule.spec.limit = Limit::Units(0),
        |rule| rule.spec.limit = Limit::Unlimited,
        |rule| rule.mode = Mode::Shadow,
        |rule| rule.overrides[0].limit = Some(Limit::Units(6)),
        |rule| {
            rule.key = vec!["path".to_owned()];
            rule.spec.limit = Limit::Units(8);
            rule.overrides.clear();
        },
    ];
    for change in changes {
        assert!(wait(change).is_empty());
    }
    let shadow = || rule("a", 9).mode(Mode::Shadow);
    let found = diff(vec![shadow()], vec![rule("a", 9)]);
    assert_eq!(found.rules[0].fields[0].longest_wait_us, Some(minute));
}

#[test]
fn a_revision_that_falls_is_warned_of() {
    let of = |revision: Option<u32>| {
        let policy = Policy::new(vec![rule("r", 1)]).unwrap();
        match revision.and_then(NonZeroU32::new) {
            Some(revision) => policy.with_revision(revision),
            None => policy,
        }
    };
    let warning = "over a store, keys that are in use keep the limits of 11; expected at least 11";
    for (old, new, expected) in [
        (Some(11), Some(10), Some("`revision` falls from 11 to 10")),
        (Some(11), None, Some("`revision` falls from 11 to none")),
        (Some(11), Some(11), None),
        (Some(11), Some(12), None),
        (None, Some(1), None),
        (None, None, None),
    ] {
        let found = PolicyDiff::between(&of(old), &of(new));
        let expected: Vec<_> =
            expected.map(|falls| format!("{falls}: {warning}")).into_iter().collect();
        assert_eq!(found.warnings, expected);
        let shown = found.to_string();
        assert!(expected.iter().all(|one| shown.contains(&format!("warning: {one}\n"))), "{shown}");
    }
}
