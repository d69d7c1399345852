//! The recorder: complete keys, bounded memory and time, and no hidden key in its lines.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};
use tidegate::{
    Clock, Descriptor, Gate, Limit, ManualClock, Policy, Recorder, Request, RequestLimit, Rule,
    RuleSpec, Setup, Spec,
};

const MIB: usize = 1 << 20;
const MINUTE: Duration = Duration::from_secs(60);

/// A gate with these rules, its clock, and its recorder of one minute.
fn recorded(
    rules: Vec<RuleSpec>,
    most_bytes: usize,
    one_in: u32,
) -> (Gate<ManualClock>, ManualClock, Arc<Recorder<ManualClock>>) {
    let clock = ManualClock::new();
    let recorder = Recorder::with_clock(MINUTE, most_bytes, clock.clone()).one_in(one_in);
    let recorder = Arc::new(recorder);
    let setup = Setup::new(Policy::new(rules).unwrap()).observer(recorder.clone());
    (Gate::with_clock(setup, clock.clone()), clock, recorder)
}

fn text<C: Clock>(recorder: &Recorder<C>) -> String {
    let lines = recorder.lines();
    String::from_utf8(lines.iter().flat_map(|block| block.iter().copied()).collect()).unwrap()
}

fn lines<C: Clock>(recorder: &Recorder<C>) -> Vec<Value> {
    text(recorder).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn per(name: &str) -> RuleSpec {
    RuleSpec::new(format!("per-{name}"), "5/h").key([name])
}

#[test]
fn a_line_has_the_time_the_descriptors_the_costs_the_limits_and_the_decision() {
    let own = per("tenant").limit_from_request();
    let (gate, clock, recorder) = recorded(vec![per("user"), own.in_domain("pay")], MIB, 1);
    let at = clock.now().as_micros();
    assert!(gate.admits(&[("user", "ada")]));
    clock.advance(Duration::from_micros(7));
    assert!(!gate.admits(Descriptor::new(&[("user", "ada"), ("path", "/\u{9b}é\"")]).cost(5)));
    let spec = Spec::new(tidegate::AlgorithmKind::TokenBucket, 30, MINUTE);
    let thirty = RequestLimit::new(Rule::new(spec).unwrap());
    let unlimited = Spec::unlimited(tidegate::AlgorithmKind::TokenBucket);
    let unlimited = RequestLimit::new(Rule::new(unlimited).unwrap());
    let (one, other) = ([("tenant", "a")], [("tenant", "b")]);
    let descriptors = [
        Descriptor::new(&one).cost(2).limit(&thirty),
        Descriptor::new(&other).limit(&unlimited),
        Descriptor::new(&[]),
    ];
    assert!(gate.admits(Request::new("pay", &descriptors)));
    // It meets no limiter.
    assert!(gate.admits(Request::new("pay", &[])));
    let expected = json!([
        {"at_us": at, "descriptor": {"user": "ada"}, "allowed": true},
        {"at_us": at + 7, "descriptor": {"user": "ada", "path": "/\u{9b}é\""}, "cost": 5, "allowed": false},
        {"at_us": at + 7, "domain": "pay", "descriptors": [
            {"descriptor": {"tenant": "a"}, "cost": 2, "limit": 30, "window_us": 60_000_000},
            {"descriptor": {"tenant": "b"}, "cost": 1, "limit": -1},
            {"descriptor": {}, "cost": 1},
        ], "allowed": true},
    ]);
    assert_eq!(Value::from(lines(&recorder)), expected);
    assert!(text(&recorder).contains(r"/\u009bé"), "nothing that a terminal obeys");
    assert_eq!(spec.limit, Limit::Units(30));
}

#[test]
fn all_requests_of_a_key_in_the_sample_are_recorded_and_of_one_rule_no_others() {
    let (gate, _, recorder) = recorded(vec![per("user")], MIB, 4);
    for number in 0..1_000 {
        let _ = gate.check(&[("user", &*format!("u{}", number % 200))]);
        // No key of a rule.
        let _ = gate.check(&[("other", "x")]);
    }
    let mut counts: HashMap<String, usize> = HashMap::new();
    for line in lines(&recorder) {
        *counts.entry(line["descriptor"]["user"].as_str().unwrap().to_owned()).or_default() += 1;
    }
    assert!((20..80).contains(&counts.len()), "{}", counts.len());
    assert!(counts.values().all(|count| *count == 5), "{counts:?}");
}

#[test]
fn of_several_rules_each_key_in_the_sample_is_complete_for_any_recorder() {
    let sampled = |number: usize| ([number % 50, number / 7 % 30], number);
    let mut before = None;
    for _ in 0..2 {
        let everyone = RuleSpec::new("everyone", "100/h");
        let (gate, _, recorder) = recorded(vec![everyone, per("user"), per("ip")], MIB, 5);
        for ([user, ip], _) in (0..2_000).map(sampled) {
            let (user, ip) = (format!("u{user}"), format!("i{ip}"));
            let _ = gate.check(&[("user", &*user), ("ip", &*ip)]);
        }
        let mut counts: HashMap<String, usize> = HashMap::new();
        let recorded = lines(&recorder);
        for line in &recorded {
            for name in ["user", "ip"] {
                let value = line["descriptor"][name].as_str().unwrap();
                *counts.entry(value.to_owned()).or_default() += 1;
            }
        }
        let mut asked: HashMap<String, usize> = HashMap::new();
        for ([user, ip], _) in (0..2_000).map(sampled) {
            *asked.entry(format!("u{user}")).or_default() += 1;
            *asked.entry(format!("i{ip}")).or_default() += 1;
        }
        let is_complete = |value: &Value| {
            let value = value.as_str().unwrap();
            counts.get(value) == asked.get(value)
        };
        let complete: HashSet<_> =
            asked.keys().filter(|key| counts.get(*key) == asked.get(*key)).cloned().collect();
        assert!((5..40).contains(&complete.len()), "{complete:?}");
        assert!(recorded.iter().all(|line| {
            is_complete(&line["descriptor"]["user"]) || is_complete(&line["descriptor"]["ip"])
        }));
        assert!(before.replace(complete.clone()).is_none_or(|before| before == complete));
    }
}

#[test]
fn a_flood_of_keys_stays_within_the_bytes_and_the_latest_are_kept() {
    for most_bytes in [64 << 10, MIB] {
        let (gate, _, recorder) = recorded(vec![per("user")], most_bytes, 1);
        for number in 0..40_000 {
            let value = format!("{number}-{}", "x".repeat(number * 31 % 300));
            let _ = gate.check(&[("user", value.as_str())]);
            assert!(recorder.counts().bytes <= most_bytes);
        }
        let (lines, counts) = (lines(&recorder), recorder.counts());
        let held: usize = recorder.lines().iter().map(|block| block.len()).sum();
        assert!(held <= counts.bytes && held > most_bytes / 2, "{held} of {most_bytes}");
        assert_eq!(counts.no_space + lines.len() as u64, 40_000);
        assert!(counts.no_space > 0 && counts.too_long == 0, "{counts:?}");
        let latest = lines.last().unwrap()["descriptor"]["user"].as_str().unwrap();
        assert!(latest.starts_with("39999-"), "{latest}");
    }
}

#[test]
fn a_request_that_is_too_long_is_counted_and_not_recorded() {
    let (gate, _, recorder) = recorded(vec![per("user")], 64 << 10, 1);
    // The second is shorter than its line.
    for value in ["x".repeat(9_000), "\u{1}".repeat(3_000)] {
        let _ = gate.check(&[("user", value.as_str())]);
    }
    let (_, counts) = (gate.check(&[("user", "ada")]), recorder.counts());
    assert_eq!((counts.too_long, lines(&recorder).len()), (2, 1));
}

#[test]
fn a_record_is_dropped_after_its_time_also_if_nothing_comes_after_it() {
    let (gate, clock, recorder) = recorded(vec![per("user")], MIB, 1);
    let began = clock.now().as_micros();
    for _ in 0..300 {
        let _ = gate.check(&[("user", "ada")]);
        clock.advance(Duration::from_secs(1));
    }
    let times: Vec<_> =
        lines(&recorder).iter().map(|line| line["at_us"].as_u64().unwrap() - began).collect();
    let now = 300_000_000;
    assert!(times.iter().all(|at| now - at <= 60_000_000), "{times:?}");
    assert!((57..=60).contains(&times.len()), "{}", times.len());
    assert_eq!(recorder.counts().no_space, 0, "this is no lack of space");
    clock.advance(MINUTE);
    assert_eq!(text(&recorder), "");
    assert_eq!(recorder.counts().bytes, 0);
}

#[test]
fn hidden_keys_never_occur_in_a_recording() {
    let card = RuleSpec::new("card", "9/h").key(["card", "account#2"]).hide_keys();
    let rules = vec![per("card"), card, per("card").in_domain("open")];
    let (gate, _, recorder) = recorded(rules, MIB, 1);
    let entries = [("card", "4111-s3cret"), ("account", "a-s3cret"), ("account", "b-s3cret")];
    let descriptors = [
        Descriptor::new(&[("user", "ada"), ("card", "4111-s3cret")]),
        Descriptor::new(&entries).cost(2),
    ];
    for _ in 0..2 {
        let _ = gate.check(&entries);
        let request = Request::new("default", &descriptors);
        let _ = gate.check(request.with_id("order-of-4111-s3cret").unwrap());
    }
    // The rule that hides is of another domain.
    let _ = gate.check(("open", &[("card", "of all")]));
    let text = text(&recorder);
    assert!(!text.contains("s3cret"), "{text}");
    let lines = lines(&recorder);
    let card = &lines[0]["descriptor"]["card"];
    assert_eq!(card.as_str().unwrap().len(), 16);
    for line in [&lines[1], &lines[3]] {
        assert_eq!(line["descriptors"][0]["descriptor"]["card"], *card);
        assert_eq!(line["descriptors"][1]["descriptor"]["card"], *card);
        assert_eq!(line["descriptors"][0]["descriptor"]["user"], "ada");
        assert_eq!(line["request_id"], lines[1]["request_id"]);
    }
    assert_eq!(lines[4]["descriptor"]["card"], "of all");
}

/// A policy that is put in force hides its keys from then on.
#[test]
fn keys_are_hidden_by_the_rules_in_force() {
    let (gate, _, recorder) = recorded(vec![per("user")], MIB, 1);
    let _ = gate.check(&[("user", "ada")]);
    gate.replace(Policy::new(vec![per("user").hide_keys()]).unwrap()).unwrap();
    let _ = gate.check(&[("user", "bob")]);
    let text = text(&recorder);
    assert!(text.contains("ada") && !text.contains("bob"), "{text}");
}

#[test]
fn requests_of_many_threads_are_whole_lines_while_they_are_read() {
    let (gate, _, recorder) = recorded(vec![per("user")], MIB, 1);
    thread::scope(|scope| {
        for thread in 0..4 {
            let gate = &gate;
            scope.spawn(move || {
                for number in 0..1_000 {
                    let _ = gate.check(&[("user", &*format!("{thread}-{number}"))]);
                }
            });
        }
        for _ in 0..50 {
            lines(&recorder);
        }
    });
    let users: HashSet<_> =
        lines(&recorder).iter().map(|line| line["descriptor"]["user"].to_string()).collect();
    assert_eq!(users.len(), 4_000);
}
