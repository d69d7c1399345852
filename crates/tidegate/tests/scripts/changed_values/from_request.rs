//! Values that requests supply, by examples: a refusal under them leaves the stored state as it was.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use tidegate::script::{ScriptLimiter, ScriptStep};
use tidegate::{
    AlgorithmKind, Clock, Decision, Descriptor, Gate, Layout, Micros, Policy, Request,
    RequestLimit, Rule, RuleSpec, Spec, Timestamp,
};

use super::values::{ENTRIES, Hand, minute};
use crate::server::Client;

#[test]
fn a_refused_request_or_a_look_leaves_what_is_stored_as_it_was() {
    let client = Client::start();
    let at =
        |seconds: u64| Some(Timestamp::from_micros(1_763_700_000_000_000 + seconds * 1_000_000));
    let full = minute(AlgorithmKind::FixedWindow, 1, None);
    for (algorithm, layout) in kinds() {
        let rule = minute(algorithm, 9, layout);
        let key = format!("stays:{algorithm:?}:{layout:?}").into_bytes();
        for second in 0..4 {
            let one = ScriptLimiter::new(&key, &rule, 1).unwrap();
            assert!(client.step(&[one], ScriptStep::Ask, at(second)).allowed);
        }
        let stored = || client.run(&[b"DUMP", &key]).unwrap();
        let before = stored();
        for other in [minute(algorithm, 7, layout), minute(AlgorithmKind::SlidingWindow, 5, None)] {
            let limiter = |cost| ScriptLimiter::new(&key, &other, cost).unwrap();
            let from_request = |cost| limiter(cost).from_request();
            let alone = |one: ScriptLimiter<'_>, step| client.step(&[one], step, at(5)).allowed;
            assert!(!alone(from_request(4), ScriptStep::Ask), "{algorithm:?}");
            assert!(!alone(from_request(4), ScriptStep::Decide));
            assert!(
                alone(from_request(0), ScriptStep::Ask)
                    && alone(limiter(0).looked_up(), ScriptStep::Ask)
            );
            assert!(
                alone(from_request(1), ScriptStep::Peek)
                    && alone(limiter(1).looked_up(), ScriptStep::Peek)
            );
            let refusing = ScriptLimiter::new(b"full", &full, 2).unwrap();
            let answer = client.step(&[from_request(1), refusing], ScriptStep::Ask, at(5));
            assert!(!answer.allowed && answer.decisions[0].is_allowed());
            assert_eq!(stored(), before, "{algorithm:?} {layout:?}");
        }
        // One whose rule was changed, or whose plan is another, follows when it is denied.
        let other = minute(AlgorithmKind::SlidingWindow, 5, None);
        let planned = ScriptLimiter::new(&key, &other, 4).unwrap().looked_up();
        assert!(!client.step(&[planned], ScriptStep::Ask, at(5)).allowed);
        let followed = stored();
        assert_ne!(followed, before);
        let changed = ScriptLimiter::new(&key, &rule, 8).unwrap();
        assert!(!client.step(&[changed], ScriptStep::Ask, at(5)).allowed);
        assert_ne!(stored(), followed);
    }
}

/// Each kind of limiter with what it is stored as.
fn kinds() -> impl Iterator<Item = (AlgorithmKind, Option<Layout>)> {
    let kinds = AlgorithmKind::ALL.iter().map(|algorithm| (*algorithm, None));
    kinds.chain([(AlgorithmKind::SlidingLog, Some(Layout::SortedSet))])
}

#[test]
fn a_refused_request_leaves_values_as_they_were_where_the_clock_went_back_by_more_than_the_window()
{
    let client = Client::start();
    let clock = Hand(Arc::default());
    for (algorithm, layout) in kinds() {
        let rule = minute(algorithm, 9, layout);
        let spec = RuleSpec::new("each", *rule.spec()).key(["user"]).limit_from_request();
        let policy = Policy::new(vec![spec]).unwrap();
        let gate = Gate::with_clock(policy, clock.clone());
        let put = |seconds: u64| clock.0.store(1_763_700_000_000_000 + seconds * 1_000_000, SeqCst);
        let ask = |user: &str, from_request: Option<&Rule>, cost, step| {
            let key = format!("back:{algorithm:?}:{layout:?}:{user}").into_bytes();
            let limiter = ScriptLimiter::new(&key, from_request.unwrap_or(&rule), cost).unwrap();
            let limiter = if from_request.is_some() { limiter.from_request() } else { limiter };
            let there = client.step(&[limiter], step, Some(clock.now()));
            let own = from_request.map(|rule| RequestLimit::new(rule.clone()));
            let entries = [("user", user)];
            let descriptor = Descriptor::new(&entries).cost(cost);
            let descriptor = [own.as_ref().map_or(descriptor, |own| descriptor.limit(own))];
            let request = Request::new("default", &descriptor);
            let here =
                if step == ScriptStep::Ask { gate.check(&request) } else { gate.peek(&request) };
            assert_eq!(there.decisions, [*here.matched()[0].decision()], "{algorithm:?}");
            there.decisions[0]
        };
        for other in [minute(algorithm, 7, layout), minute(AlgorithmKind::SlidingWindow, 5, None)] {
            for step in [ScriptStep::Ask, ScriptStep::Peek] {
                let [asked, beside] =
                    ["asked", "beside"].map(|name| format!("{name}:{other:?}:{step:?}"));
                for (user, second) in (1_000..1_008).flat_map(|at| [(&asked, at), (&beside, at)]) {
                    put(second);
                    assert!(ask(user, None, 1, ScriptStep::Ask).is_allowed());
                }
                put(800);
                let wait = ask(&asked, Some(&other), 4, step).retry_after().unwrap();
                let _ = ask(&beside, None, 4, ScriptStep::Peek);
                for second in [800, 801, 820, 845] {
                    put(second);
                    assert_eq!(
                        ask(&asked, None, 9, ScriptStep::Peek),
                        ask(&beside, None, 9, ScriptStep::Peek),
                        "{algorithm:?} {layout:?} then {other:?}"
                    );
                }
                put(800);
                clock.0.fetch_add(Micros::from(wait).as_micros() - 1, SeqCst);
                assert!(!ask(&asked, Some(&other), 4, ScriptStep::Peek).is_allowed());
                clock.0.fetch_add(1, SeqCst);
                assert!(ask(&asked, Some(&other), 4, ScriptStep::Ask).is_allowed());
            }
        }
    }
}

#[test]
fn what_a_clock_that_went_back_has_moved_expires_by_the_time_of_the_server() {
    let client = Client::start();
    let now = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_micros() as u64;
    let ahead = Timestamp::from_micros(now + 2 * 3_600_000_000);
    for (algorithm, layout) in kinds() {
        let (rule, other) = (minute(algorithm, 9, layout), minute(algorithm, 7, layout));
        for (name, from_request, step) in [
            ("brought", true, ScriptStep::Ask),
            ("verdict", true, ScriptStep::Decide),
            ("looked up", false, ScriptStep::Peek),
        ] {
            let key = format!("ahead:{algorithm:?}:{layout:?}:{name}").into_bytes();
            let used = ScriptLimiter::new(&key, &rule, 8).unwrap();
            assert!(client.step(&[used], ScriptStep::Ask, Some(ahead)).allowed);
            let asked = ScriptLimiter::new(&key, &other, 4).unwrap();
            let asked = if from_request { asked.from_request() } else { asked.looked_up() };
            assert!(!client.step(&[asked], step, None).allowed);
            let redis::Value::Int(lives_ms) = client.run(&[b"PTTL", &key]).unwrap() else {
                panic!("PTTL tells a number")
            };
            assert!(
                (1..=120_000).contains(&lives_ms),
                "{algorithm:?} {layout:?} {name}: {lives_ms}"
            );
            let after =
                client.step(&[ScriptLimiter::new(&key, &rule, 1).unwrap()], ScriptStep::Peek, None);
            let Decision { limit, remaining, .. } = after.decisions[0];
            assert!((limit, remaining <= 2) == (9, true), "{algorithm:?} {layout:?}: {after:?}");
        }
    }
}

#[test]
fn a_bucket_that_begins_with_too_few_tokens_begins_when_it_is_denied() {
    let client = Client::start();
    let window = minute(AlgorithmKind::FixedWindow, 10, None);
    let mut spec = Spec::new(AlgorithmKind::TokenBucket, 10, Duration::from_secs(10));
    spec.initial = Some(1);
    let bucket = Rule::new(spec).unwrap();
    let own = RequestLimit::new(bucket.clone());
    let clock = Hand(Arc::new(AtomicU64::new(1_763_700_000_000_000)));
    let rule = RuleSpec::new("all", *window.spec()).limit_from_request();
    let gate = Gate::with_clock(Policy::new(vec![rule]).unwrap(), clock.clone());
    for (rule, cost, seconds) in
        [(&window, 3, 0), (&bucket, 5, 1), (&bucket, 5, 7), (&bucket, 5, 1)]
    {
        clock.0.fetch_add(seconds * 1_000_000, SeqCst);
        let descriptor = Descriptor::new(ENTRIES).cost(cost);
        let brings = rule == &bucket;
        let descriptors = [if brings { descriptor.limit(&own) } else { descriptor }];
        let here = gate.check(&Request::new("default", &descriptors));
        let limiter = ScriptLimiter::new(b"begins", rule, cost).unwrap();
        let limiter = if brings { limiter.from_request() } else { limiter };
        let there = client.step(&[limiter], ScriptStep::Ask, Some(clock.now()));
        assert_eq!(there.decisions, [*here.matched()[0].decision()]);
        assert_eq!(there.allowed, here.is_allowed(), "it fills from when it was denied");
    }
}
