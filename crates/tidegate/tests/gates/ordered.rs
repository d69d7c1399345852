//! Descriptors as ordered lists: several entries of one name, named by value or by place; and values of any bytes.

use tidegate::{Descriptor, Gate, Limit, OnNoRule, OverrideSpec, Policy, RuleSpec, key_text};

fn gate(rules: Vec<RuleSpec>) -> Gate {
    Gate::new(Policy::new(rules).unwrap())
}

/// The names of the rules that match these entries.
fn matching<'e>(gate: &Gate, entries: &[(&'e str, &'e str)]) -> Vec<String> {
    let answer = gate.peek(Descriptor::new(entries));
    answer.matched().iter().map(|one| one.rule().name().to_owned()).collect()
}

fn rule(name: &str) -> RuleSpec {
    RuleSpec::new(name, "3/h")
}

#[test]
fn entries_of_one_name_match_by_value_and_by_place() {
    let mut exact = rule("exact").when("g#1", "a").when("g#2", "b").key(["u"]);
    exact.exact = true;
    let gate = gate(vec![
        rule("value").when("g", "b"),
        rule("first").when("g#1", "b"),
        rule("second").when("g#2", "b"),
        rule("third").key(["g#3"]),
        rule("prefix").when("g#2", "b*"),
        exact,
        rule("whole").when("h#1", "x"),
    ]);
    for (entries, names) in [
        (&[("g", "a"), ("g", "b")][..], &["value", "second", "prefix"][..]),
        (&[("g", "b"), ("g", "a")], &["value", "first"]),
        (&[("g", "b")], &["value", "first"]),
        (&[("g", "a"), ("u", "x"), ("g", "bb")], &["prefix"]),
        (&[("g", "a"), ("g", "b"), ("u", "x")], &["value", "second", "prefix", "exact"]),
        (&[("g", "b"), ("g", "a"), ("u", "x")], &["value", "first"]),
        (&[("g", "a"), ("g", "c"), ("g", "b")], &["value", "third"]),
        (&[("h", "x")], &["whole"]),
        (&[("h#1", "x")], &["whole"]),
        (&[("g", "a")], &[]),
    ] {
        assert_eq!(matching(&gate, entries), names, "{entries:?}");
    }
}

#[test]
fn a_key_has_the_entry_that_when_accepts_and_another_one_before_it_is_no_way_round() {
    let gate =
        gate(vec![rule("paid").when("user", "paid-*").key(["user"]), rule("all").key(["user"])]);
    for number in 0..5 {
        let other = format!("other-{number}");
        let answer = gate.check(&[("user", &*other), ("user", "paid-ada")]);
        assert_eq!(answer.is_allowed(), number < 3, "{number}");
    }
    assert!(gate.check(&[("user", "other-0")]).is_allowed(), "a key of the other rule");
}

#[test]
fn an_override_names_an_entry_by_its_place() {
    let mut other = OverrideSpec::new("g#2", "b");
    other.limit = Some(Limit::Units(1));
    let gate = gate(vec![rule("two").key(["g", "g#2"]).with_override(other)]);
    let limit = |entries: &[(&str, &str)]| {
        gate.peek(Descriptor::new(entries)).matched()[0].decision().limit
    };
    assert_eq!(limit(&[("g", "a"), ("g", "b")]), 1);
    assert_eq!(limit(&[("g", "b"), ("g", "a")]), 3);
}

#[test]
fn a_value_that_looks_escaped_matches_as_its_bytes_do() {
    let gate = gate(vec![
        rule("prefix").when("user", r"C:\x8*"),
        rule("byte").when("user", r"\xff*"),
        rule("half").when("user", r"\xc3*"),
        rule("spelt").when("user", r"j\xc3\xbcrgen"),
    ]);
    let names = |user: &[u8]| matching(&gate, &[("user", &key_text(user))]);
    assert_eq!(names(br"C:\x80abc"), ["prefix"], "its text begins with C:\\x5c");
    assert_eq!(names(b"C:\x80"), [""; 0]);
    assert_eq!(names(b"\xffa"), ["byte"]);
    assert_eq!(names(br"\xffa"), [""; 0]);
    assert_eq!(names("é".as_bytes()), ["half"], "its first byte");
    assert_eq!(names("jürgen".as_bytes()), ["spelt"]);
}

#[test]
fn a_misspelt_entry_or_domain_is_admitted_unless_that_is_refused() {
    let rules = || {
        let off = rule("off").in_domain("pay").key(["off"]).mode(tidegate::Mode::Off);
        vec![rule("pay").in_domain("pay").key(["channel"]), off]
    };
    let policy = || Policy::new(rules()).unwrap();
    for (policy, [misspelt, unknown]) in [
        (policy(), [true, true]),
        (policy().with_on_no_rule(OnNoRule::Refuse), [false, false]),
        (policy().with_on_no_rule_in("pay", OnNoRule::Refuse), [false, true]),
        (
            policy().with_on_no_rule(OnNoRule::Refuse).with_on_no_rule_in("pay", OnNoRule::Admit),
            [true, false],
        ),
    ] {
        let gate = Gate::new(policy);
        for (domain, entry, allowed) in [
            ("pay", "channel", true),
            ("pay", "off", true),
            ("pay", "chanel", misspelt),
            ("biz", "channel", unknown),
        ] {
            let entries = [(entry, "a")];
            let answer = gate.check((domain, &entries));
            assert_eq!((answer.is_allowed(), answer.is_no_rule()), (allowed, !allowed));
            assert_eq!(gate.peek((domain, &entries)).is_allowed(), allowed);
            assert_eq!(gate.admits((domain, &entries)), allowed, "{domain} {entry}");
            assert_eq!(answer.retry_after().is_none(), !allowed, "no wait helps");
        }
        let (one, other) = ([("channel", "b")], [("chanel", "b")]);
        let both = [Descriptor::new(&one), Descriptor::new(&other)];
        assert!(gate.check(&tidegate::Request::new("pay", &both)).is_allowed(), "one is matched");
    }
}
